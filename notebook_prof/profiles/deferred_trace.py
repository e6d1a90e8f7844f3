"""A Trace built in the background; `get` blocks until it is ready."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

from ..background import Cancelled, IdleTime, JobQueue, checkpoint, start_thread
from ..errors import NotRecordedError
from ..own_processes import at_exit
from ..trace.trace import Trace

THREAD: Final = "notebook_prof trace"
_LEAVES_S: Final = 2.0
"""Maximum time that an exiting process waits for the build to stop."""


class DeferredTrace:
    """Builds a Trace once, in a background thread, while the kernel is idle or somebody waits."""

    # The work never runs in the requesting thread, so Ctrl-C stops the wait, not the build. While a recording
    # runs in this process, the work pauses unless somebody is waiting. If nobody can request the Trace any
    # more, for example because its cell was run again, the work ends at the next `checkpoint`, which `build`
    # should call every millisecond or so.
    def __init__(self, build: Callable[[], Trace], hold: Callable[[], bool] = bool) -> None:
        self._work = _TraceBuild(build, hold)
        # the thread refers only to the work, not to this object: once this object is deleted, nobody can
        # request the Trace
        weakref.finalize(self, self._work.idle.cancel).atexit = False

    @property
    def ready(self) -> bool:
        """Whether `get` would not block."""
        return self._work.done.is_set()

    def start(self) -> None:
        """Queue the build behind those that were started before, unless it has begun already."""
        self._work.start(later=True)

    def get(self) -> Trace:
        """Wait for the Trace. Raises the error of `build`; NotRecordedError after a fork or at exit."""
        work = self._work
        if not work.done.is_set():
            with work.idle.hurried():
                work.start()
                work.done.wait()
        if work.error is not None:
            raise work.error
        assert work.trace is not None
        return work.trace

    def wait(self, seconds: float | None = None) -> bool:
        """Wait without hurrying the build. Returns whether it is ready."""
        return self._work.done.wait(seconds)


class _TraceBuild:
    """The work of a `DeferredTrace`, done in a thread."""

    def __init__(self, build: Callable[[], Trace], hold: Callable[[], bool]) -> None:
        self.done = threading.Event()
        self.idle = IdleTime(hold)
        self.trace: Trace | None = None
        self.error: BaseException | None = None
        self._build: Callable[[], Trace] | None = build
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, later: bool = False) -> None:
        """Start the build, unless it has begun, in a new thread or (`later`) in that of queued builds."""
        with self._lock:
            if self._build is None or self._thread is not None:
                return
            _unfinished.add(self)
            at_exit(_leave)
            if not later:
                self._thread = start_thread(self.run, THREAD)
                if self._thread is not None:
                    return
        _queue.put(self.run) if later else self.run()

    def run(self) -> None:
        """Build the Trace, unless another thread has begun to."""
        with self._lock:
            build, self._build = self._build, None
            if build is None:
                return
            self._thread = threading.current_thread()
        try:
            with self.idle.used():
                checkpoint()
                self.trace = build()
        except Cancelled:
            self.error = NotRecordedError("the recording was not assembled: the process is about to end")
        except Exception as error:
            self.error = error
        finally:
            _unfinished.discard(self)
            self.done.set()

    def leave(self) -> None:
        """Wait until the cancelled build has ended."""
        with self._lock:  # until `start` has started it
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_LEAVES_S)

    def lose_in_fork(self) -> None:
        """Give up in a forked child, since the thread stayed with the parent."""
        self.error = NotRecordedError("the recording is assembled in the parent process: use it there")
        self.idle, self.done = IdleTime(), threading.Event()
        self.done.set()


# With a thread for each, all of them would compete with the cell that runs after *Run All*.
_queue = JobQueue(THREAD)
_unfinished: set[_TraceBuild] = set()


def _leave() -> None:
    # a thread that still computes when the interpreter shuts down would be killed inside C code
    unfinished = list(_unfinished)
    for work in unfinished:
        work.idle.cancel()
    for work in unfinished:
        work.leave()


at_exit(_leave)  # now, so that it runs after the history's own, which waits for rows and their Traces


def _lose_in_fork() -> None:
    global _queue
    _queue = JobQueue(THREAD)
    for work in list(_unfinished):
        work.lose_in_fork()
    _unfinished.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lose_in_fork)
