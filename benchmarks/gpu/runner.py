"""Jobs one after another, each in a process of its own and killed at its limit; none stops the others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from . import ROOT, jobs
from .outcomes import Outcome, judge

_SHORTEST_S: Final = 20.0
_PRETENDED: Final = ROOT / "tests" / "pretended"
_ALWAYS: Final = {
    "NBP_GPU_ALONE": "1",  # tests need no further processes
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the machine's plugins, which no test here needs
    "PYTHONDONTWRITEBYTECODE": "",  # otherwise each job would compile the unpacked wheels anew
    "PYTHONUNBUFFERED": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # by default JAX takes three quarters of the card's memory
}
_REHEARSAL: Final = {"NBP_GPU_REHEARSAL": "1", "NUMBA_ENABLE_CUDASIM": "1", "TRITON_INTERPRET": "1"}


def run_all(
    names: Iterable[str], folder: Path, environment: Mapping[str, str], end_s: float, device: str = "cuda"
) -> Iterator[Outcome]:
    """Run jobs until `end_s` of `time.monotonic`; jobs left without time get an outcome, too."""
    for name in names:
        left = min(jobs.limit_s(name), end_s - time.monotonic())
        if left < min(_SHORTEST_S, jobs.limit_s(name)):
            yield Outcome(name, "not started", 0.0, "no time was left")
        else:
            yield _one(name, jobs.command(name, folder, device), left, environment)


def environment_of(site: Path, rehearse: bool = False) -> dict[str, str]:
    """Return the environment variables that let jobs import this checkout and the wheels in `site`.

    In a rehearsal CuPy, NVML, ``cupti-python`` and CUDA's driver are replaced by stand-ins.
    """
    if not entry_points(group="notebook_prof.writers"):
        _register(site)
    paths = [ROOT, site, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    variables = os.environ | _ALWAYS
    if rehearse:
        paths.insert(0, _PRETENDED)
        library = ["-o", site / "libcuda.so.1", _PRETENDED / "cuda.c"]
        subprocess.run(["cc", "-shared", "-fPIC", *library], check=True)
        variables |= _REHEARSAL | {"LD_LIBRARY_PATH": str(site)}
    return variables | {"PYTHONPATH": os.pathsep.join(map(str, paths))}


def collect(environment: Mapping[str, str]) -> list[str]:
    """Return pytest's names for the tests in ``tests/gpu``; if it finds none, print its reason."""
    command = [sys.executable, "-m", "pytest", "tests/gpu", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=dict(environment))
    if done.returncode:
        print(f"tests cannot be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
    return done.stdout.splitlines()


def _one(name: str, command: list[str], limit_s: float, environment: Mapping[str, str]) -> Outcome:
    begun = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as out,
        tempfile.TemporaryFile("w+", errors="replace") as err,
        open(os.devnull) as nothing,
    ):
        process = subprocess.Popen(
            command, stdin=nothing, stdout=out, stderr=err, cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
            # including its children; do not wait for one that hangs in the driver
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
        seconds = time.monotonic() - begun
        out.seek(0)
        err.seek(0)
        return judge(name, code, seconds, out.read(), err.read())


def _register(site: Path) -> None:
    """Let jobs find the package's entry points even if it is not installed."""
    info = site / "notebook_prof-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook-prof\nVersion: 0\n")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    groups = re.findall(r'^\[project\.entry-points\."?([\w.]+)"?\]\n((?:\w.*\n)+)', project, re.M)
    text = "\n".join(f"[{group}]\n{entries}" for group, entries in groups)
    (info / "entry_points.txt").write_text(text.replace('"', ""))
