"""Stacks of all threads are read safely, and as if nobody had."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import pytest

from notebook_prof.collectors.python.thread_stacks import walk

_IS_ON = iter(gc.isenabled, None).__next__
"""A clock that tells whether the collector is on."""


def test_stacks_of_all_threads_are_read() -> None:
    begun, done = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        done.wait(60)

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait(60)
    walked = walk(time.time_ns, sys._getframe().f_back)
    done.set()
    thread.join()
    names = {
        ident: [code.co_name for code in codes]
        for ident, codes in zip(walked.idents, walked.codes, strict=True)
    }
    assert names[threading.get_ident()] == ["walk", "test_stacks_of_all_threads_are_read"]
    assert names[thread.ident or 0][-1] == "_bootstrap"
    assert "wait" in names[thread.ident or 0]
    assert list(map(len, walked.instructions)) == list(map(len, walked.codes))


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_off_meanwhile_and_then_as_it_was(on: bool) -> None:
    was_on = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        meanwhile = walk(_IS_ON).ts
        assert gc.isenabled() == on
        with pytest.raises(ZeroDivisionError):
            walk(partial(divmod, 1, 0))  # type: ignore[arg-type]
        with pytest.raises(IndexError):
            walk(iter([]).__next__)
        assert gc.isenabled() == on
    finally:
        (gc.enable if was_on else gc.disable)()
    assert meanwhile == (on and sys.version_info >= (3, 12))


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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
