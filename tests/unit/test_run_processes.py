"""What a run of the tests starts ends with it, whatever ends the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import REPOSITORY
from tests.run_processes import RUN

ONE_TEST = """
import pathlib, subprocess, sys, tempfile, time
def test_it():
    # a kernel has a session of its own too, so Ctrl-C in a terminal does not reach it
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    started = pathlib.Path(__file__).with_name("started")
    started.with_suffix(".new").write_text(f"{child.pid} {tempfile.mkdtemp()}")
    started.with_suffix(".new").rename(started)
    child.wait()
"""


@pytest.mark.parametrize(
    ("ending", "options"),
    [(signal.SIGINT, ["--numprocesses", "1"]), (signal.SIGTERM, []), (signal.SIGKILL, [])],
)
def test_a_run_that_ends_leaves_nothing(tmp_path: Path, ending: signal.Signals, options: list[str]) -> None:
    """SIGKILL stands for whatever lets the run end nothing itself, such as the time limit of a test."""
    file, started = tmp_path / "test_it.py", tmp_path / "started"
    file.write_text(ONE_TEST)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *options]
    env = {
        name: value for name, value in os.environ.items() if name != RUN and not name.startswith("PYTEST_")
    }
    with (tmp_path / "printed").open("w") as log:
        run = subprocess.Popen([*command, str(file)], cwd=REPOSITORY, env=env, stdout=log, stderr=log)
        while not started.exists() and run.poll() is None:
            time.sleep(0.05)  # between two looks
        run.send_signal(ending)
        run.wait(240)
    printed = (tmp_path / "printed").read_text()
    assert started.exists(), printed
    pid, temporary = started.read_text().split()
    until = time.monotonic() + 240
    while (psutil.pid_exists(int(pid)) or Path(temporary).exists()) and time.monotonic() < until:
        time.sleep(0.05)  # between two looks
    assert not psutil.pid_exists(int(pid)), printed
    assert not Path(temporary).exists(), temporary
    # unless killed, the run ends the child itself and does not leave it to the guard
    assert (f"\n  {pid} " in printed) == (ending != signal.SIGKILL), printed
