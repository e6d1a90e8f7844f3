"""Processes of ours beside a user's handlers of SIGCHLD, waits for children, and forks."""

import sys
from collections.abc import Iterator

import pytest

from .conftest import Kernel, new_kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="we start processes on Linux only")

SPIN = """
    import time
    def spin(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end: sum(range(1000))
"""


@pytest.fixture(scope="module")
def own_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that waits for py-spy long enough even on a loaded machine."""
    for made in new_kernel(tmp_path_factory.mktemp("ipython")):
        made.must("from notebook_prof.collectors.python import py_spy_engine")
        made.must("py_spy_engine.PATIENCE_S = 120")
        yield made


def test_a_handler_of_sigchld_hears_of_the_users_children_alone(own_kernel: Kernel) -> None:
    kernel = own_kernel
    kernel.must(SPIN)
    kernel.must("""
        import os, signal, threading
        heard, reaped = [], []
        def hear(number, frame):
            heard.append(number)
            while True:
                try: pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError: return
                if not pid: return
                reaped.append(pid)
        signal.signal(signal.SIGCHLD, hear)
    """)
    kernel.must("""
        %%profile p --quiet --engine py-spy
        mine = []
        for turn in range(3):
            if (pid := os.fork()) == 0: os._exit(0)
            mine.append(pid)
            spin(0.05)
    """)
    found = kernel.value("(sorted(reaped) == sorted(mine), p.trace.metadata['python_engine'])")
    assert found == [True, "py-spy"]
    kernel.must("heard.clear()")
    for _ in range(2):
        kernel.must("%%profile p --quiet --engine py-spy\nspin(0.1)")
        kernel.must("p.verdict")
    kernel.must("""
        from pathlib import Path
        from notebook_prof.runs.identity import is_dirty
        is_dirty(Path.cwd())
        while attachment._alive: spin(0.01)
    """)
    assert kernel.value("heard") == []
    kernel.must("signal.signal(signal.SIGCHLD, signal.SIG_DFL)")


@pytest.mark.parametrize("disposition", ["SIG_DFL", "SIG_IGN"])
def test_a_wait_for_any_child_meets_none_of_ours(own_kernel: Kernel, disposition: str) -> None:
    kernel = own_kernel
    kernel.must(SPIN)
    kernel.must(f"""
        import os, signal, threading
        signal.signal(signal.SIGCHLD, signal.{disposition})
        met, done = [], threading.Event()
        def wait():
            while not done.is_set():
                try: met.append(os.wait())
                except ChildProcessError: time.sleep(0.0001)
        waiter = threading.Thread(target=wait)
        waiter.start()
    """)
    for _ in range(2):
        kernel.must("%%profile p --quiet --engine py-spy\nspin(0.3)")
        assert kernel.value("p.trace.metadata['python_engine']") == "py-spy"
    kernel.must("done.set(); waiter.join(); signal.signal(signal.SIGCHLD, signal.SIG_DFL)")
    assert kernel.value("met") == []
