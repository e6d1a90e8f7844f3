"""Workers of ranks end with the process that started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

PROGRAM = """
from notebook_prof.ranks.files import RankFile
from notebook_prof.ranks.reduction import run_here
from notebook_prof.trace import ImportReport

def work(file):
    import time
    time.sleep(600 if file.rank else 0)
    from notebook_prof.ranks.one_rank import Reduction
    return Reduction(file.rank, read=False)

if __name__ == "__main__":
    for one in run_here([RankFile(rank, "x") for rank in range(3)], work, 2, ImportReport()):
        print("ready", flush=True)  # both workers have begun, one works and one may wait
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_leaves_no_workers(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, env=env)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=120)
        assert alive == []
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
