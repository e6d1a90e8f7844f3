"""Stacks of all threads are read safely, and as if nobody had."""

from __future__ import annotations

from ..new_process import run_python


def test_a_thread_that_recurses_may_be_looked_at() -> None:
    """On Python 3.11 a loop over `f_back` ends this by SIGSEGV within seconds."""
    program = """
        import faulthandler, gc, sys, threading, time
        from notebook_prof.collectors.python.thread_stacks import walk
        faulthandler.enable()
        sys.setrecursionlimit(10_000)
        gc.callbacks.append(lambda phase, info: time.sleep(0))
        until, looks = time.monotonic() + 1.5, 0

        def look():
            global looks
            while time.monotonic() < until or looks < 20:
                time.sleep(0.001)
                walk(time.time_ns)
                looks += 1

        def deep(n):
            return 0 if n == 0 else 1 + deep(n - 1)

        thread = threading.Thread(target=look)
        thread.start()
        while thread.is_alive():
            deep(3_000)
            assert gc.isenabled()
    """
    assert run_python(program).stderr == ""
