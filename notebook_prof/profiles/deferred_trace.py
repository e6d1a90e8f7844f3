"""A Trace that is made beside what the user does next, and that who asks for it waits for."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

from ..background import Cancelled, Pace
from ..errors import NotRecordedError
from ..own_processes import at_exit
from ..trace.trace import Trace

THREAD: Final = "notebook_prof trace"
_LEAVES_S: Final = 2.0
"""How long a process that ends waits for the work to notice it."""


class DeferredTrace:
    """Makes a Trace once, in a thread that leaves the interpreter to others, unless somebody waits.

    Parameters
    ----------
    build : callable
        Makes the Trace. It should call `notebook_prof.background.checkpoint` every millisecond or so.

    Notes
    -----
    The work is never done in the thread that asks, so an interrupt there ends the waiting only. While a
    recording runs in this process, nothing is done unless somebody waits. What nobody can ask for any more,
    since a cell was run again, is not made: its work ends at the next `checkpoint`.

    Examples
    --------
    >>> from notebook_prof.trace import TraceBuilder
    >>> deferred = DeferredTrace(TraceBuilder().seal)
    >>> len(deferred.get().slices), deferred.ready
    (0, True)
    """

    def __init__(self, build: Callable[[], Trace], hold: Callable[[], bool] = bool) -> None:
        self._work = _Work(build, hold)
        # the thread has the work alone: where this object goes, nobody is left who could ask
        weakref.finalize(self, self._work.pace.cancel).atexit = False

    @property
    def ready(self) -> bool:
        """Whether `get` would not wait."""
        return self._work.done.is_set()

    def start(self) -> None:
        """Begin to make it, unless that has been done."""
        self._work.start()

    def get(self) -> Trace:
        """Wait for the Trace, and give it.

        Raises
        ------
        NotRecordedError
            If it cannot be made any more, since the process was forked or is about to end.
        Exception
            What `build` raised, to everybody who asks.
        """
        work = self._work
        if not work.done.is_set():
            with work.pace.hurried():
                work.start()
                work.done.wait()
        if work.error is not None:
            raise work.error
        assert work.trace is not None
        return work.trace

    def wait(self, seconds: float | None = None) -> bool:
        """Wait without hurrying it; whether it is there."""
        return self._work.done.wait(seconds)


class _Work:
    """What the thread of a `DeferredTrace` does."""

    def __init__(self, build: Callable[[], Trace], hold: Callable[[], bool]) -> None:
        self.done = threading.Event()
        self.pace = Pace(hold=hold)
        self.trace: Trace | None = None
        self.error: BaseException | None = None
        self._build: Callable[[], Trace] | None = build
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Do it in a thread of its own, once."""
        with self._lock:
            if self._build is None:
                return
            build, self._build = self._build, None
            self._thread = threading.Thread(target=self._run, args=(build,), name=THREAD, daemon=True)
            _unfinished.add(self)
            at_exit(_leave)
            try:
                self._thread.start()
                return
            except RuntimeError:  # a process that ends starts no threads
                self._thread = None
        self._run(build)

    def _run(self, build: Callable[[], Trace]) -> None:
        try:
            with self.pace.kept():
                self.trace = build()
        except Cancelled:
            self.error = NotRecordedError("the recording was not put together: the process is about to end")
        except Exception as error:
            self.error = error
        finally:
            _unfinished.discard(self)
            self.done.set()

    def leave(self) -> None:
        """Let it end where it is."""
        self.pace.cancel()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_LEAVES_S)

    def lose_in_fork(self) -> None:
        """Give up in the child of a fork: the thread stayed with the parent."""
        self.error = NotRecordedError(
            "the recording is put together in the process that was forked: ask there"
        )
        self.pace, self.done = Pace(), threading.Event()
        self.done.set()


_unfinished: set[_Work] = set()


def _leave() -> None:
    # a thread that computes while the interpreter is taken down would be ended inside of C code
    for work in list(_unfinished):
        work.leave()


def _lose_in_fork() -> None:
    for work in list(_unfinished):
        work.lose_in_fork()
    _unfinished.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lose_in_fork)
