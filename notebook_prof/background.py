"""Background work that runs while the kernel is idle or somebody waits for its result.

A background thread that computes delays the user's code by up to 5 ms each time it holds the interpreter. So
the work calls `checkpoint` every few milliseconds, which waits until the kernel is idle: at most two seconds
in total if a page shows the result, since the next cell may run for an hour, and at most a minute otherwise.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

PATIENCE_S: Final = 2.0
"""Total time that work waits for an idle kernel if a page shows its result."""
UNSEEN_S: Final = 60.0
"""The same for all other work."""
_LOOK_S: Final = 0.02
_LOOKS: Final = 2
"""Checks in a row that must find the kernel idle, because *Run All* pauses for milliseconds."""
_OFTEN_S: Final = 0.001
_BREATH_S: Final = 0.0002
_TURN_S: Final = 0.2
"""Longest wait for a turn. The thread that has the turn may be waiting for a lock that this thread holds."""
_EVENT_LOOPS: Final = frozenset({"selectors", "asyncio", "tornado"})


class Cancelled(BaseException):
    """Ends cancelled work. It is not an Exception, so that no handler treats it as a failure."""


class IdleTime:
    """Lets background threads work, one at a time, while the kernel is idle or after `patience_s` has passed.

    The work pauses while `hold` returns True, unless somebody waits for it or `is_urgent` returns True."""

    def __init__(
        self,
        hold: Callable[[], bool] = lambda: False,
        patience_s: float = PATIENCE_S,
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        self._hold, self._is_urgent, self._patience_s = hold, is_urgent, patience_s
        self._changed = threading.Condition()
        self._waiting = 0
        self._cancelled = self._has_turn = False
        self._main_at: tuple[int, int] | None = None
        self._looked, self._left_s = 0.0, patience_s

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make `checkpoint` wait in this block. The block must not wait for another thread's block."""
        _local.idle, self._looked, self._left_s = self, 0.0, self._patience_s
        try:
            yield
        finally:
            del _local.idle
            self._give_turn()

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Let the work run without pauses while this thread waits for its result."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    @property
    def is_hurried(self) -> bool:
        """Whether somebody waits for the result, or it is urgent."""
        return self._waiting > 0 or self._is_urgent()

    def cancel(self) -> None:
        """Make the next `checkpoint` raise `Cancelled`."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until this thread may work; see `checkpoint`."""
        if self.is_hurried:
            self._give_turn()
        elif time.perf_counter() - self._looked > _OFTEN_S:
            self._give_turn()
            time.sleep(_BREATH_S)  # lets waiting threads take the interpreter at once, not after 5 ms
            looks = _LOOKS - 1 if self._looked else 0
            until = time.perf_counter() + _TURN_S
            while not self._cancelled and not self.is_hurried and looks < _LOOKS:
                held = self._hold()
                if not held and (self._left_s <= 0 or self._sees_idle_kernel()):
                    looks = looks + 1 if self._take_turn() or time.perf_counter() > until else 0
                else:
                    looks = 0
                    self._give_turn()
                if looks < _LOOKS:
                    self._rest(is_paid=not held and looks == 0)
            self._looked = time.perf_counter()
        if self._cancelled:
            raise Cancelled

    def _sees_idle_kernel(self) -> bool:
        before, self._main_at = self._main_at, _main_at()
        # a main thread that uses no CPU is sleeping, or is waiting for a lock that this thread may hold
        return self._main_at == before or kernel_is_idle()

    def _take_turn(self) -> bool:
        # with n threads that compute, a message of the kernel waits up to n times 5 ms for the interpreter
        self._has_turn = self._has_turn or _turn.acquire(timeout=_LOOK_S)
        return self._has_turn

    def _give_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            _turn.release()

    def _rest(self, is_paid: bool) -> None:
        begun = time.perf_counter()
        with self._changed:
            if not self._waiting and not self._cancelled:
                self._changed.wait(_LOOK_S)
        if is_paid:
            self._left_s -= time.perf_counter() - begun


_local = threading.local()
_turn = threading.Lock()


def _forget() -> None:
    global _turn
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def at_once() -> Iterator[None]:
    """Make `checkpoint` return at once in this block, because other threads wait for it."""
    idle, _local.idle = getattr(_local, "idle", None), None
    try:
        yield
    finally:
        _local.idle = idle


def _main_at() -> tuple[int, int]:
    """Return the main thread's CPU time in ms or, if unavailable, its current instruction."""
    main = threading.main_thread().ident or 0
    if hasattr(time, "pthread_getcpuclockid"):
        with suppress(OSError):  # it has ended
            return 0, time.clock_gettime_ns(time.pthread_getcpuclockid(main)) // 1_000_000
    frame = sys._current_frames().get(main)
    return id(frame), 0 if frame is None else frame.f_lasti


def kernel_is_idle() -> bool:
    """Return whether the main thread is waiting in an event loop, as a kernel does between cells."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in _EVENT_LOOPS


# Python 3.14 calls the second one when a filter changes.
_MUTATED: Final = ("_filters_mutated", "_filters_mutated_lock_held")
_mutating = threading.Lock()
_found: dict[str, Any] = {}
_keeping = 0


@contextmanager
def keeping_warnings() -> Iterator[None]:
    """Let changes of warning filters in this thread and block not count. They must end with the block."""
    # Python shows a warning once for each line until a filter changes, and pandas changes filters some 700
    # times for a verdict: a cell that warned in a loop printed its warning 33 times. So the function that
    # makes Python forget what it has shown is replaced while any thread is in such a block.
    global _keeping
    with _mutating:
        _keeping += 1
        if _keeping == 1:
            for name in _MUTATED:
                if (found := getattr(warnings, name, None)) is not None:
                    _found[name] = found
                    setattr(warnings, name, _counted(found))
    before, _local.keeps_warnings = getattr(_local, "keeps_warnings", False), True
    try:
        yield
    finally:
        _local.keeps_warnings = before
        with _mutating:
            _keeping -= 1
            if not _keeping:
                for name, found in _found.items():
                    setattr(warnings, name, found)
                _found.clear()


def _counted(found: Any) -> Any:
    def changed() -> None:
        if not getattr(_local, "keeps_warnings", False):
            found()

    return changed


def start_thread(work: Callable[[], object], name: str) -> threading.Thread | None:
    """Start a daemon thread; None where threads cannot start: in Pyodide, or in a process that ends."""

    def run() -> None:
        with keeping_warnings():
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


class JobQueue:
    """Runs jobs one at a time, in a thread that ends when none is left."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._runs = False

    @property
    def left(self) -> int:
        """Number of jobs that have not ended."""
        with self._changed:
            return len(self._waiting) + self._runs

    def put(self, job: Callable[[], object]) -> None:
        """Add a job. Where threads cannot be started, it runs before this returns."""
        with self._changed:
            self._waiting.append(job)
            if not self._runs:
                self._runs = start_thread(self._run, self._name) is not None
            if self._runs:
                return
            self._waiting.clear()
        job()

    def wait(self, seconds: float | None) -> bool:
        """Wait until no job is left. Returns whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._runs = False
                    self._changed.notify_all()
                    return
                job = self._waiting.popleft()
            job()
            del job  # otherwise what it holds would live until the next job


def checkpoint() -> None:
    """Pause a background thread until it may work. Raises `Cancelled` if its work was cancelled."""
    idle = getattr(_local, "idle", None)
    if idle is not None:
        idle.wait()
