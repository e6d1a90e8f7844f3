"""Long background work that yields the interpreter to the user's code.

CPython's switch interval is 5 ms, so a busy background thread delays every small operator by up to 5 ms: a
training step would take ten times as long. So the work calls `checkpoint` often, which rests: eight times as
long as the work took while other threads compute, and hardly at all while none does or while somebody waits
for the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PIECE_S: Final = 0.001
"""Shorter pieces of work need no rest. Pieces up to four times as long need none while nobody computes."""
SHARE: Final = 8.0
"""How many times longer it rests than works while other code computes."""
BUSY: Final = 0.1
"""Other threads count as computing if their CPU time is at least this share of wall time."""
_BREATH_S: Final = 0.0002
_LOOK_S: Final = 0.02
_IDLE_LOOKS: Final = 5
"""Looks in a row at which nobody computes before a long piece begins: *Run All* pauses between cells."""


class Cancelled(BaseException):
    """Ends cancelled work. It is not an Exception, so that no handler treats it as a failure."""


class Pace:
    """The pace of one background thread. While `hold` returns True, the thread pauses unless somebody waits.

    >>> pace = Pace()
    >>> with pace.kept():
    ...     for number in range(3):
    ...         checkpoint()
    """

    def __init__(self, hold: Callable[[], bool] = lambda: False) -> None:
        self._hold = hold
        self._changed = threading.Condition()
        self._waiting = 0
        self._cancelled = False
        self._others_compute = False
        self._resumed = 0.0
        self._last_times = (0.0, 0.0)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Make `checkpoint` keep this pace in this thread."""
        _local.pace = self
        self._last_times, self._resumed = _times(), time.perf_counter()
        try:
            yield
        finally:
            del _local.pace

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Suspend the rests while this thread waits for the result."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    def cancel(self) -> None:
        """Make the next `checkpoint` raise `Cancelled`."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def pause(self, ahead_s: float) -> None:
        """Do what `checkpoint` does, for this thread."""
        if self._cancelled:
            raise Cancelled
        worked = time.perf_counter() - self._resumed
        least = PIECE_S if self._others_compute else 4 * PIECE_S
        if self._waiting or (worked < least and ahead_s < PIECE_S):
            return
        while self._hold() and not self._waiting:
            self._wait(_LOOK_S)
        self._look()
        self._wait(worked * SHARE if self._others_compute else _BREATH_S)
        waited_s, idle_looks = 0.0, 0
        while waited_s < ahead_s * SHARE and idle_looks < _IDLE_LOOKS and not self._waiting:
            self._look()
            self._wait(_LOOK_S)
            self._look()
            idle_looks = 0 if self._others_compute else idle_looks + 1
            waited_s += _LOOK_S
        self._resumed = time.perf_counter()

    def _wait(self, seconds: float) -> None:
        with self._changed:
            if not self._waiting and not self._cancelled:
                self._changed.wait(seconds)
        if self._cancelled:
            raise Cancelled

    def _look(self) -> None:
        """Note whether other threads have computed since the last call, which preceded a rest."""
        (since, before), self._last_times = self._last_times, _times()
        self._others_compute = self._last_times[1] - before > BUSY * (self._last_times[0] - since)


_local = threading.local()


def start_thread(work: Callable[[], object], name: str) -> threading.Thread | None:
    """Start a daemon thread. Returns None if threads cannot be started, as in Pyodide or in an exiting
    process."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def checkpoint(ahead_s: float = 0.0) -> None:
    """Let other threads run, if this is a background thread. Raises `Cancelled` to end the work."""
    # `ahead_s` is how long the next piece of work will hold the interpreter. That piece waits until nobody
    # computes, or until others have run for eight times as long.
    pace = getattr(_local, "pace", None)
    if pace is not None:
        pace.pause(ahead_s)


def _times() -> tuple[float, float]:
    """Return wall time, and the CPU time of all other threads, in seconds."""
    return time.perf_counter(), time.process_time() - time.thread_time()
