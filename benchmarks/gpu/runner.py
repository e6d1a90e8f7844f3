"""Jobs one after another, each in a process of its own and killed at its limit; none stops the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from . import ROOT
from .outcomes import Outcome, judge
from .plan import Job

OnOutcome = Callable[[Outcome], None]
_QUIET: Final = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1", "NBP_GPU_ALONE": "1"}
"""JAX takes three quarters of the card's memory otherwise; tests know that they are alone already."""
_SHORTEST_S: Final = 20.0


def run_all(
    jobs: Iterable[Job],
    folder: Path,
    environment: Mapping[str, str],
    *,
    device: str = "cuda",
    end_s: float,
    on_outcome: OnOutcome,
) -> list[Outcome]:
    """Run the jobs; those for which no time is left are outcomes too.

    Parameters
    ----------
    jobs : iterable of Job
    folder : Path
        For recordings.
    environment : mapping
    device : str
        torch's name of it.
    end_s : float
        When all has to be over, as of `time.monotonic`.
    on_outcome : callable
        Gets each outcome at once.
    """
    outcomes = []
    for job in jobs:
        left = min(job.limit_s, end_s - time.monotonic())
        if left < min(_SHORTEST_S, job.limit_s):
            outcome = Outcome(job.name, "not started", 0.0, "no time was left")
        else:
            outcome = _one(job, folder, left, environment, device)
        outcomes.append(outcome)
        on_outcome(outcome)
    return outcomes


def environment_with(site: Path) -> dict[str, str]:
    """Return the environment variables that a job needs to import this checkout and the wheels."""
    paths = [str(ROOT), str(site), os.environ.get("PYTHONPATH", "")]
    if not entry_points(group="notebook_prof.writers"):
        _register(site)
    return os.environ | _QUIET | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def collect(environment: Mapping[str, str]) -> list[str]:
    """Names of the tests in ``tests/gpu``; empty, and said, where pytest cannot find them."""
    command = [sys.executable, "-m", "pytest", "tests/gpu", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=dict(environment))
    if done.returncode:
        print(f"tests cannot be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
    return done.stdout.splitlines()


def _one(job: Job, folder: Path, limit_s: float, environment: Mapping[str, str], device: str) -> Outcome:
    kept = [] if job.name.startswith("test/") else ["--folder", str(folder.resolve())]
    begun = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as out,
        tempfile.TemporaryFile("w+", errors="replace") as err,
    ):
        try:
            process = subprocess.Popen(
                [*job.command(device), *kept],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            return Outcome(job.name, "failed", 0.0, str(error))
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
            _kill(process)
        out.seek(0)
        err.seek(0)
        return judge(job.name, code, time.monotonic() - begun, out.read(), err.read())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and its children; one that hangs in the driver may stay, and is not waited for."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass


def _register(site: Path) -> None:
    """Where the package is not installed, let child processes find its entry points all the same."""
    info = site / "notebook_prof-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: notebook-prof\nVersion: 0\n", encoding="utf-8"
    )
    groups = _entry_points_of((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (info / "entry_points.txt").write_text(groups, encoding="utf-8")


def _entry_points_of(project: str) -> str:
    """The tables ``[project.entry-points."group"]`` as an ``entry_points.txt``: both have ``name = text``."""
    lines, inside = [], False
    for line in map(str.strip, project.splitlines()):
        if line.startswith("["):
            inside = line.startswith("[project.entry-points.")
            if inside:
                lines.append(f"[{line.partition('entry-points.')[2].strip(']').strip(chr(34))}]")
        elif inside and "=" in line:
            lines.append(line.replace('"', ""))
    return "\n".join(lines) + "\n"
