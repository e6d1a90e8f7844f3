"""Long work in a thread of its own that leaves the interpreter to the user's code.

Python runs one thread at a time. Work that does not stop by itself keeps it for 5 ms whenever the user's code
gives it up, as every small operator does: a training step would take ten times as long. So the work calls
`checkpoint` often, and between two of them it rests: for eight times as long as it has worked where other
threads compute, and hardly at all where nobody does, or where somebody waits for the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PIECE_S: Final = 0.001
"""Shorter pieces of work are not worth a rest; where nobody computes, four times as long ones."""
SHARE: Final = 8.0
"""How many times as long as it has worked it rests beside code that computes."""
BUSY: Final = 0.1
"""CPU time of other threads, as a share of the time by the clock, from which on they compute."""
_BREATH_S: Final = 0.0002
_LOOK_S: Final = 0.02


class Cancelled(BaseException):
    """Ends work that nobody wants any more; no Exception, so that no handler takes it for a failure."""


class Pace:
    """How one thread works in the background.

    Parameters
    ----------
    hold : callable, optional
        While it gives True, nothing is done, unless somebody waits.

    Examples
    --------
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
        """Let `checkpoint` in this thread keep this pace."""
        _local.pace = self
        self._last_times, self._resumed = _times(), time.perf_counter()
        try:
            yield
        finally:
            del _local.pace

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Do not rest meanwhile: this thread waits for the result."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    def cancel(self) -> None:
        """Let the next `checkpoint` raise `Cancelled`."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def pause(self, ahead_s: float) -> None:
        """Do what `checkpoint` does."""
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
        waited_s = 0.0
        while waited_s < ahead_s * SHARE and not self._waiting:
            self._look()
            self._wait(_LOOK_S)
            self._look()
            if not self._others_compute:
                break
            waited_s += _LOOK_S
        self._resumed = time.perf_counter()

    def _wait(self, seconds: float) -> None:
        with self._changed:
            if not self._waiting and not self._cancelled:
                self._changed.wait(seconds)
        if self._cancelled:
            raise Cancelled

    def _look(self) -> None:
        """Note whether other threads have computed since the last look, which was before a rest."""
        (since, before), self._last_times = self._last_times, _times()
        self._others_compute = self._last_times[1] - before > BUSY * (self._last_times[0] - since)


_local = threading.local()


def start_thread(work: Callable[[], object], name: str) -> threading.Thread | None:
    """Start a thread that does not keep the process alive.

    Parameters
    ----------
    work : callable
    name : str

    Returns
    -------
    Thread or None
        None where there are no threads: in a browser's Python (Pyodide), and in a process that ends.

    Examples
    --------
    >>> thread = start_thread(lambda: None, "nothing")
    >>> thread is None or thread.name
    'nothing'
    """
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def checkpoint(ahead_s: float = 0.0) -> None:
    """Let other threads run, if this one works in the background; elsewhere this does nothing.

    Parameters
    ----------
    ahead_s : float
        How long the next piece of work will keep the interpreter to itself. It waits for a moment in which
        nobody computes, or until others have had eight times as long.

    Raises
    ------
    Cancelled
        If the work is to end.
    """
    pace = getattr(_local, "pace", None)
    if pace is not None:
        pace.pause(ahead_s)


def _times() -> tuple[float, float]:
    """Return the clock, and the CPU time of all other threads, in seconds."""
    return time.perf_counter(), time.process_time() - time.thread_time()
