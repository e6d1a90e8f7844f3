"""Ctrl-C while our own code runs: it is delayed until that code has ended, or at least counted."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, Final, TypeVar

PATIENCE_S: Final = 10.0
"""Seconds an interrupt waits at most: after that, another one is raised at once, in case our code hangs."""


_Counting = TypeVar("_Counting", bound="CountedInterrupts")


class CountedInterrupts:
    """Counts the interrupts within a block, and passes each of them on.

    >>> with CountedInterrupts() as interrupts:
    ...     try:
    ...         signal.raise_signal(signal.SIGINT)
    ...     except KeyboardInterrupt:
    ...         pass
    >>> interrupts.count
    1
    """

    # Python drops a `KeyboardInterrupt` raised in a finalizer, for example during a garbage collection, and
    # user code may catch one. The count includes both. Only the main thread gets interrupts, so elsewhere it
    # stays 0.
    def __init__(self) -> None:
        self.count = 0
        self.before: Any = None

    def __enter__(self: _Counting) -> _Counting:
        __tracebackhide__ = True
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            # a handler that is not a Python function raises nothing here
            if callable(before) and not isinstance(getattr(before, "__self__", None), DelayedInterrupt):
                self.before = before
                try:
                    signal.signal(signal.SIGINT, self._note)
                except ValueError:  # not the main interpreter
                    self.before = None
        return self

    def __exit__(self, *_: object) -> None:
        __tracebackhide__ = True
        before, self.before = self.before, None
        # otherwise the user has set another handler
        if before is not None and signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        self.count += 1
        if self.before is not None:
            self.before(number, frame)


class DelayedInterrupt(CountedInterrupts):
    """Delays interrupts until the block has ended."""

    # Starting and stopping collectors takes milliseconds and must not be left half done: a second Ctrl-C
    # during a stop left PyTorch's profiler on. Only the main thread gets interrupts, so this does nothing in
    # other threads, nor when nested. With `deliver`, an interrupt is handled at the end of the block, usually
    # by raising `KeyboardInterrupt` there; otherwise it only increases `count`.
    def __init__(self, *, deliver: bool = True) -> None:
        super().__init__()
        self._first_s = 0.0
        self._deliver = deliver

    def __exit__(self, *_: object) -> None:
        __tracebackhide__ = True
        before, self.before = self.before, None
        if before is None:
            return
        signal.signal(signal.SIGINT, before)
        counted = getattr(before, "__self__", None)
        if not self._deliver and isinstance(counted, CountedInterrupts):
            counted.count += self.count
            before = counted.before
        if self.count and (self._deliver or before is not signal.default_int_handler):
            before(signal.SIGINT, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        self.count += 1
        now_s = time.monotonic()
        if self.count == 1:
            self._first_s = now_s
        elif self.before is not None and now_s - self._first_s > PATIENCE_S:
            self.before(number, frame)
