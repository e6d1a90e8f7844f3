"""What belongs to a run of the tests: kernels, servers, browsers and temporary files may not outlive it."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

RUN: Final = "NBP_TEST_RUN"
"""Environment variable that every process started by a run inherits; its value names the run."""


def mark() -> str:
    """Name this run, and its temporary files, for all that it starts; empty inside of another run."""
    if RUN in os.environ:
        return ""
    os.environ[RUN] = f"{os.getpid()}-{time.time_ns()}"
    # pytest's own folders stay where they are: it keeps those of the last three runs
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="nbp-tests-")
    # at exit, after multiprocessing, which is imported later and removes a folder of its own in it
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    return os.environ[RUN]


def start_guard(run: str) -> None:
    """Start a process that ends what this one leaves behind when killed or at a test's time limit."""
    words = [sys.executable, "-m", __name__, run, str(os.getpid()), os.environ["TMPDIR"]]
    env = {name: value for name, value in os.environ.items() if name != RUN}
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    home = Path(__file__).parents[1]
    subprocess.run(words, cwd=home, env=env, start_new_session=True, check=True, **silent)


def _guard(run: str, watched: int, folder: str) -> None:
    if os.fork():
        return  # the guard must not be a child: tests look at their own children
    while _is_there(watched):
        time.sleep(1)  # between two looks: nothing tells of the end of a process that is no child
    end_marked(run)
    shutil.rmtree(folder, ignore_errors=True)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def end_marked(run: str, patience_s: float = 10.0) -> list[str]:
    """End every process of a run, first by SIGTERM; gives their command lines."""
    try:
        import psutil
    except ImportError:  # a bare machine with a card has none
        return []
    left = [
        process
        for process in psutil.process_iter()
        if _mark_of(process) == run and process.pid != os.getpid()
    ]
    commands = [_command(process) for process in left]
    for process in left:
        _quietly(process.terminate)
    for process in psutil.wait_procs(left, timeout=patience_s)[1]:
        _quietly(process.kill)
    return commands


def _mark_of(process: Any) -> str:
    return str(_quietly(lambda: process.environ().get(RUN)))


def _command(process: Any) -> str:
    return f"{process.pid} {' '.join(_quietly(process.cmdline) or ['(ended)'])[:160]}"


def _quietly(ask: Callable[[], Any]) -> Any:
    import psutil

    try:
        return ask()
    except (psutil.Error, OSError):  # it has just ended, or belongs to somebody else
        return None


if __name__ == "__main__":
    _guard(sys.argv[1], int(sys.argv[2]), sys.argv[3])
