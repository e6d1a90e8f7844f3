"""Recorded steps, the loops that ran, and the rules that end a recording early.

While PyTorch's profiler records, its number of events cannot be read, and only the recorded thread may stop
it. So a background thread watches the process's memory, and the main thread counts the events.
"""

from __future__ import annotations

import _thread
import bisect
import ctypes
import sys
import threading
import time
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, Literal

import numpy as np

from ..collectors.system.polling import resident_bytes

_FIRST_LOOK: Final = 16
_GROWTH: Final = 1.1
"""Growth of the number of steps between two computations of the interval. Each sorts all steps; the first is
after 16."""


@dataclass
class StepRecords:
    """The recorded steps of one cycle, numbered consecutively from ``first``. Times are Unix nanoseconds."""

    first: int = 0
    ts: array[int] = field(default_factory=lambda: array("q"))
    dur: array[int] = field(default_factory=lambda: array("q"))
    loop: array[int] = field(default_factory=lambda: array("i"))
    partial: set[int] = field(default_factory=set)
    halted: set[int] = field(default_factory=set)  # partial steps in which PyTorch's profiler was halted

    def __len__(self) -> int:
        return len(self.ts)

    def add(self, ts: int, dur: int, loop: int) -> None:
        """Append a step. `ts` goes last, so an incomplete step after an interrupt can be recognised."""
        self.whole()
        self.dur.append(dur)
        self.loop.append(loop)
        self.ts.append(ts)

    def whole(self) -> StepRecords:
        """Drop an incomplete step left by an interrupt, and return these records."""
        del self.dur[len(self.ts) :], self.loop[len(self.ts) :]
        return self

    def cut(self, halts: Sequence[tuple[int, int]]) -> None:
        """Cut the steps in which PyTorch's profiler was halted, and keep the longer part of each."""
        for begin, end in halts:
            at = bisect.bisect_right(self.ts, begin) - 1
            if at < 0 or (step_end := self.ts[at] + self.dur[at]) <= begin:
                continue
            before, after = begin - self.ts[at], max(0, step_end - end)
            if after > before:
                self.ts[at] = end
            self.dur[at] = max(before, after)
            self.halted.add(self.first + at)
            self.partial.add(self.first + at)

    def drop_from(self, begin_ns: int) -> int:
        """Drop the steps that started at `begin_ns` or later. Returns how many were dropped."""
        kept = bisect.bisect_left(self.ts, begin_ns)
        gone = len(self.ts) - kept
        for column in (self.ts, self.dur, self.loop):
            del column[kept:]
        self.partial = {number for number in self.partial if number < self.first + kept}
        return gone


@dataclass(slots=True, eq=False)
class Run:
    """One run of a loop, from its start to its last tick."""

    key: Hashable  # equal for runs of the same loop
    # line in the cell of the loop, or of the statement that runs it; -1 if unknown
    line: int
    text: str  # its head
    begin_ns: int  # Unix ns
    end_ns: int = 0  # Unix ns of the last tick
    loop: int = -1  # number of the loop, assigned with the first tick that counts
    # (Unix ns, count): the number of unrecorded steps that ended up to that time
    unrecorded: list[tuple[int, int]] = field(default_factory=list)
    given_up: bool = False  # whether it continued without ticks
    first: int = 0  # number of steps that ended before its first one


class EarlyEnd:
    """Decides after each step whether to end the recording early."""

    # If `until` is set, the recording ends when half the width of the median step's 95 % interval is at most
    # this fraction of the median. `reason` is empty until then. If the size is the reason, `events` is the
    # number of events kept by PyTorch's profiler, and `end_ns` the instant at which its stop began.
    # `interval` is the median of the counted steps and the bounds of its interval, in ns, at the last look.
    # Only the width of the interval decides, never its position: results would be wrong more often than the
    # interval promises if a recording ended as soon as a difference looks significant. When recordings ended
    # at a fixed width, 4.8 % of 250 simulated comparisons of equal sides were called different.
    def __init__(self, until: float | None = None) -> None:
        self.until = until
        self.reason: Literal["", "asked", "known", "size"] = ""
        self.step = self.events = self.end_ns = 0
        self.interval: tuple[float, float, float] | None = None
        self.looks = 0
        self._asked = False
        self._next_look = _FIRST_LOOK

    def ask(self) -> None:
        """End the recording after the current step. Any thread may call this."""
        self._asked = True

    def reached(self, recorded: StepRecords, step: int) -> bool:
        """Return whether the recording ends here, after `step` steps, some of which are in `recorded`."""
        if self.reason:
            return True
        if self._asked:
            self.reason, self.step = "asked", step
        elif self.until is not None and len(recorded) >= self._next_look:
            self.looks += 1
            self._next_look = int(max(self._next_look * _GROWTH, self._next_look + 1))
            if self.half_width(recorded) <= self.until:
                self.reason, self.step = "known", step
        return bool(self.reason)

    def half_width(self, recorded: StepRecords) -> float:
        """Return half the width of the interval of the running loop's median step, as a share; else inf."""
        from ..statistics import median_interval

        times, loop = np.asarray(recorded.dur, np.float64), np.asarray(recorded.loop, np.int64)
        size = min(len(times), len(loop))
        times = times[:size][loop[:size] == (loop[size - 1] if size else 0)]
        self.interval = median, low, high = median_interval(times)
        return max(high - median, median - low) / median if median > 0 else float("inf")


GROWN_BYTES: Final = 156 * 2**20
"""Growth of the process at which the number of events is checked. While torch records, an event takes 265
bytes (smallest operators) to 945 (transformers), so these are 170,000 to 600,000. Stopping and reading takes
another 3 kB per event."""
INTERVAL_S: Final = 0.09
FIRST_S: Final = 0.75
LATER: Final = 1.25
"""Factor by which the time between two checks of the growth increases."""
PARTS: Final = 8
_RETRY_S: Final = 0.02
_MOST_RETRIES: Final = 50
_NEVER_IN: Final = (f"{__package__}.window", f"{__package__.rpartition('.')[0]}.collectors")
_RATHER_NOT_IN: Final = (*_NEVER_IN, "torch.")
"""Modules whose code `look` should not interrupt: while torch's code runs, ranges of modules, optimizers or
loaders are open."""


def steady_growth(levels: list[int]) -> int:
    """Return the median growth over equal parts of a curve, times their number; bursts count little.

    >>> steady_growth([0, 1, 2, 3, 4, 5, 6, 7, 8]), steady_growth([0, 99, 99, 99, 99, 99, 99, 99, 99])
    (8, 0)
    """
    edges = np.asarray(levels, np.int64)[np.linspace(0, len(levels) - 1, PARTS + 1).astype(int)]
    return int(np.median(np.diff(edges)) * PARTS)


class _Curve:
    """Resident bytes of the process, less what it grew by while modules were imported."""

    # The first optimizer imports hundreds of modules of torch, 200 MiB, at an even pace.
    def __init__(self) -> None:
        self.levels = [resident_bytes()]
        self._modules, self._imported = len(sys.modules), 0

    def add(self) -> None:
        """Append the level now."""
        modules, level = len(sys.modules), resident_bytes() - self._imported
        if modules != self._modules:
            self._imported += level - self.levels[-1]
            level = self.levels[-1]
        self.levels.append(level)
        self._modules = modules


class SizeWatch:
    """A thread that calls `look` in the main thread when the process has grown steadily."""

    # `look` returns whether to keep watching. It runs between two instructions of the user's code, never
    # inside code of the window or of a collector.
    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._quit, self._ran = threading.Event(), threading.Event()
        self._goes_on, self._looked, self._interrupted, self._tries = True, False, False, 0
        self._thread = threading.Thread(target=self._run, name="notebook_prof size", daemon=True)

    def start(self) -> None:
        """Start watching. Does nothing outside the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._thread.start()

    def stop(self) -> None:
        """Stop watching. `look` is not called afterwards, but may itself call this."""
        global _waiting
        self._quit.set()
        self._ran.set()
        if _waiting is self:
            _waiting = None
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        began, due, curve = time.monotonic(), FIRST_S, _Curve()
        while not self._quit.wait(INTERVAL_S):
            curve.add()
            passed = time.monotonic() - began
            if passed < due:
                continue
            due = passed * LATER
            if steady_growth(curve.levels) >= GROWN_BYTES:
                self._ask()
                if not self._goes_on:
                    return
                began, due, curve = time.monotonic(), FIRST_S, _Curve()

    def _ask(self) -> None:
        """Call `look` in the main thread, and wait for it."""
        global _waiting
        self._looked, self._tries = False, 0
        while not self._looked and not self._quit.wait(_RETRY_S):
            self._ran.clear()
            _waiting = self
            # runs in the main thread, between two instructions. Unlike a signal, it interrupts no system call
            if ctypes.pythonapi.Py_AddPendingCall(_CALL, None) == 0:
                self._ran.wait()
                if self._interrupted:
                    self._quit.wait(_RETRY_S)  # an interrupt raised inside the pending call would be lost
                    _thread.interrupt_main()
                    return

    def run(self) -> None:
        """Call `look`, unless the interrupted code should not be disturbed. Then the thread asks again."""
        try:
            self._tries += 1
            avoided = _RATHER_NOT_IN if self._tries < _MOST_RETRIES else _NEVER_IN
            if not _runs(sys._getframe(2), avoided):
                self._looked = True
                self._goes_on = self._look()
        except KeyboardInterrupt:
            self._interrupted = True
            self._goes_on = False
        finally:
            self._ran.set()


_waiting: SizeWatch | None = None


def _pending(_: object) -> int:
    global _waiting
    watch, _waiting = _waiting, None
    if watch is not None:
        watch.run()
    return 0


_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_pending)
"""The pending call. The module keeps it alive, since the interpreter may call it after a watch has ended."""


def _runs(frame: FrameType | None, modules: tuple[str, ...]) -> bool:
    """Return whether the frame or any of its callers belongs to these modules."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(modules):
            return True
        frame = frame.f_back
    return False
