"""What a run of the tests starts ends with it, also after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.conftest import REPOSITORY
from tests.run_processes import RUN

ONE_TEST = """
import pathlib, subprocess, sys, tempfile, time
def test_it():
    # a kernel has a session of its own too, so Ctrl-C in a terminal does not reach it
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    started = pathlib.Path(__file__).with_name("started")
    started.with_suffix(".new").write_text(f"{{child.pid}} {{tempfile.mkdtemp()}}")
    started.with_suffix(".new").rename(started)
    if {waits}:
        child.wait()
"""


def run_tests(folder: Path, *options: str, interrupted: bool) -> tuple[int, str]:
    """The pid of a process that a run left behind, and what the run printed; its temporary folder is gone."""
    file, started = folder / "test_it.py", folder / "started"
    file.write_text(ONE_TEST.format(waits=interrupted))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        *options,
        str(file),
    ]
    env = {
        name: value for name, value in os.environ.items() if name != RUN and not name.startswith("PYTEST_")
    }
    run = subprocess.Popen(
        command, cwd=REPOSITORY, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if interrupted:
        while not started.exists() and run.poll() is None:
            time.sleep(0.05)  # between two looks
        run.send_signal(signal.SIGINT)
    printed, _ = run.communicate(timeout=240)
    assert started.exists(), printed
    pid, temporary = started.read_text().split()
    assert not Path(temporary).exists(), temporary
    return int(pid), printed


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    pid, printed = run_tests(tmp_path, "--numprocesses", "1", interrupted=True)
    assert not psutil.pid_exists(pid), printed
