"""Interpreters of this machine: on PATH, from pyenv and from uv."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

VERSIONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.14t")
"""All that are supported; the last is free-threaded."""
_ASK: Final = (
    "import ensurepip, sqlite3, ssl, sys, sysconfig, venv;"
    "print('%d.%d' % sys.version_info[:2] + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
)


def interpreters() -> dict[str, Path]:
    """Return an interpreter for each version of which one works here and can make an environment."""
    return {version: path for version in VERSIONS if (path := interpreter(version)) is not None}


def interpreter(version: str) -> Path | None:
    """Return an interpreter of a version; None if there is none that works."""
    return next((path for path in _candidates(version) if version_of(path) == version), None)


def version_of(path: Path) -> str:
    """Return the version of an interpreter, as ``3.14t``; empty if it does not run or lacks modules."""
    try:
        done = subprocess.run(
            [path, "-c", _ASK], capture_output=True, text=True, check=False, timeout=60, cwd=path.parent
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _candidates(version: str) -> list[Path]:
    """Return where an interpreter may lie, the likeliest first; a shim of pyenv may lead to none."""
    name = f"python{version}"
    paths = [shutil.which(name)]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    paths += sorted(map(str, versions.glob(f"{version.rstrip('t')}.*/bin/{name}")), reverse=True)
    if uv := shutil.which("uv"):
        done = subprocess.run(
            [uv, "python", "find", "--offline", version], capture_output=True, text=True, check=False
        )
        paths.append(done.stdout.strip())
    return [Path(path) for path in dict.fromkeys(paths) if path]
