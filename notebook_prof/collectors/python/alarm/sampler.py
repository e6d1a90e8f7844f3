"""The engine in the process: which lines run, a thousand times a second, by the alarm or by a thread."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Final

import numpy as np

from ....trace.arrays import IntArray
from ....trace.clocks import Clock
from ....trace.report import ImportReport
from ..engine import Recorded, ThreadSamples, join, with_gaps
from ..frames import cell_runner, context_of, decode
from ..thread_stacks import ObservedThread, ThreadStacks
from . import delayed_tick, poll, timer
from .delayed_tick import DelayedTickWatcher
from .poll import PollTicker
from .samples import Samples
from .tick_attribution import LATE_INTERVALS, TickAttribution
from .timer import AlarmTicker

OTHERS_EVERY: Final = 5
"""The other threads are looked at in every fifth tick."""

LATE_NS: Final = 3_000_000
"""After so long without a tick, another thread looks at the main thread."""


class Sampler:
    """Samples the thread that starts it, and all others more coarsely.

    The alarm timer ticks each millisecond in the main thread; elsewhere, and where the alarm is in
    use, a thread looks every 5 ms.

    Parameters
    ----------
    report : ImportReport
        Where limits and failures are told.
    """

    name = "alarm"

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._clock = Clock()
        self._parts: list[_Part] = []
        self._context = Samples()
        self._ticker: AlarmTicker | PollTicker | None = None
        self._tick_watcher: DelayedTickWatcher | None = None
        self._ticks = 0
        self._interval_ns = round(timer.INTERVAL_S * 1e9)
        self._target = threading.current_thread()
        self._below: FrameType | None = None

    def prepare(self, clock: Clock) -> None:
        """Make what takes time to make: the thread that looks at late ticks."""
        atexit.register(self.stop)  # a timer that outlives the interpreter's handlers kills the process
        self._clock = clock
        if not timer.refusal() and not delayed_tick.refusal():
            self._tick_watcher = DelayedTickWatcher(clock.now_ns, LATE_NS)
            self._tick_watcher.prepare()

    def start(self, clock: Clock) -> None:
        """Begin to tick."""
        if self._clock is not clock:
            self.prepare(clock)
        self.note_thread()
        self._interval_ns = round(timer.INTERVAL_S * 1e9)
        refusal = timer.refusal() or ("" if self._tick_watcher else delayed_tick.refusal())
        if refusal:
            self._poll(refusal)
        else:
            self._alarm()

    def note_thread(self) -> None:
        """Remember this thread as the one whose cell is recorded, and where in it the recording began."""
        self._target = threading.current_thread()
        self._context.add(0, sys._getframe())
        self._below = cell_runner(sys._getframe())

    def by_hand(self, clock: Clock, interval_ns: int) -> Callable[[], None]:
        """Take samples only when what is returned is called, about every `interval_ns`, by another thread."""
        self._clock = clock
        self._interval_ns = interval_ns
        self.note_thread()
        return self._thread_stacks().look

    def take_over(self) -> None:
        """Tick by a thread of its own from now on, after `by_hand`; called in any thread."""
        atexit.register(self.stop)
        self._poll("")

    def stop(self) -> None:
        """End; nothing stays behind. Safe to repeat."""
        if self._ticker is not None:
            self._ticker.stop()
        if self._tick_watcher is not None:
            self._tick_watcher.stop()
        self._below = None
        for part in self._parts:
            part.let_go()
        atexit.unregister(self.stop)

    def abandon(self) -> None:
        """End without a result."""
        self.stop()
        self._parts.clear()

    def recorded(self) -> Recorded:
        """Return what was seen, whole stacks of all threads."""
        self._tell()
        context = context_of(decode(self._context.packed, self._context.codes))
        interval_ns = self._interval_ns
        parts = [Recorded.nothing(interval_ns), *(part.recorded() for part in self._parts)]
        whole = join(parts)
        return Recorded(whole.threads, whole.stacks, interval_ns, context)

    @property
    def ticks(self) -> int:
        """How often the thread was sampled by the alarm."""
        return self._ticks

    @property
    def look_ns(self) -> IntArray:
        """When all threads were looked at."""
        looks = [looks.ts for part in self._parts for looks in part.looks]
        return np.sort(np.concatenate([np.empty(0, np.int64), *looks]))

    @property
    def all_threads(self) -> list[ObservedThread]:
        """All threads that these looks saw, the kernel's and ours without stacks."""
        return [thread for part in self._parts for looks in part.looks for thread in looks.all_threads]

    def _alarm(self) -> None:
        assert self._tick_watcher is not None
        ident, now_ns = self._target.ident or 0, self._clock.now_ns
        part = _Part(now_ns(), self._target, self._below)
        part.looks = [ThreadStacks(now_ns, without=(ident,)) for _ in range(2)]
        in_tick, in_watcher = (looks.look for looks in part.looks)
        self._parts.append(part)
        postpone = self._tick_watcher.postpone

        def each_tick(now: int) -> None:
            postpone()
            self._ticks += 1
            if self._ticks % OTHERS_EVERY == 0:
                in_tick()

        ticker = AlarmTicker(part.ticks, now_ns, each_tick, self._alarm_lost)
        self._ticker = ticker
        self._tick_watcher.watch(part.late, ident, in_watcher)
        ticker.start()

    def _poll(self, why: str) -> None:
        if why:
            self._report.add(
                "coarse-sampling",
                "info",
                example=why,
                effect="lines are sampled every 5 ms instead of every 1 ms",
            )
        self._interval_ns = max(self._interval_ns, round(poll.INTERVAL_S * 1e9))
        ticker = PollTicker(self._thread_stacks().look)
        self._ticker = ticker
        ticker.start()

    def _thread_stacks(self) -> ThreadStacks:
        part = _Part(self._clock.now_ns(), self._target, None)
        looks = ThreadStacks(self._clock.now_ns, below=(self._target.ident or 0, self._below))
        part.looks = [looks]
        self._parts.append(part)
        return looks

    def _alarm_lost(self, called: str) -> None:
        if self._tick_watcher is not None:
            self._tick_watcher.stop()
        self._poll(f"the cell uses the alarm itself ({called})")

    def _tell(self) -> None:
        if self._ticker is None:
            return
        late = self._tick_watcher.failures if self._tick_watcher is not None else []
        for failure in (*self._ticker.failures, *late):
            self._report.add("ticks-failed", "loss", example=repr(failure), effect="samples are missing")
        if isinstance(self._ticker, AlarmTicker) and self._ticker.lost:
            self._report.add(
                "alarm-taken",
                "loss",
                example="at the end SIGALRM or its timer was in other hands",
                effect="lines that ran after it was taken are missing",
            )
        if self._ticker.interval_ns > round(timer.INTERVAL_S * 1e9) and isinstance(self._ticker, AlarmTicker):
            self._report.add(
                "sampling-thinned",
                "info",
                example=f"every {self._ticker.interval_ns / 1e6:g} ms at the end",
                effect="late parts of a long recording are coarser",
            )


class _Part:
    """Samples from one ticker: ticks and late looks at the recorded thread, and looks at the others."""

    def __init__(self, start_ns: int, target: threading.Thread, below: FrameType | None) -> None:
        self.start_ns = start_ns
        self.target = target
        self.ticks = Samples(below)
        self.late = Samples(below)
        self.looks: list[ThreadStacks] = []

    def let_go(self) -> None:
        """Forget frames of the user."""
        self.ticks.let_go()
        self.late.let_go()
        for looks in self.looks:
            looks.let_go()

    def recorded(self) -> Recorded:
        """Return what was seen of every thread."""
        codes = self.ticks.codes | self.late.codes
        for looks in self.looks:
            codes |= looks.codes
        ts, stack, packed = _recorded_thread(self.ticks, self.late, codes)
        threads = []
        if len(ts):
            bounds = np.maximum.accumulate(np.concatenate([[self.start_ns], ts]).astype(np.int64))
            tid = self.target.native_id or 0
            threads.append(ThreadSamples(os.getpid(), tid, self.target.name, "", bounds, stack))
        look_ns = np.sort(np.concatenate([looks.ts for looks in self.looks]))
        by_tid: dict[int, list[ObservedThread]] = {}
        for looks in self.looks:
            for one in looks.threads:
                by_tid.setdefault(one.tid, []).append(one)
        for seens in by_tid.values():
            threads.append(self._thread(seens, look_ns, len(packed)))
            packed += [key for one in seens for key in one.samples.packed]
        return Recorded(threads, decode(packed, codes), 0)

    def _thread(self, seens: Sequence[ObservedThread], look_ns: IntArray, first: int) -> ThreadSamples:
        """Return one thread; a sample stands for the time since the look before, if seen at that too."""
        shifts = np.cumsum([first, *(len(one.samples.packed) for one in seens)])
        ts = np.concatenate([one.samples.ts for one in seens])
        stack = np.concatenate([one.samples.stack + shift for one, shift in zip(seens, shifts, strict=False)])
        order = np.argsort(ts, kind="stable")
        ts, stack = ts[order], stack[order]
        at = np.searchsorted(look_ns, ts)
        begin = np.where(at > 0, look_ns[np.maximum(at, 1) - 1], self.start_ns)
        begin = np.maximum(begin, np.concatenate([begin[:1], ts[:-1]]))
        bounds, stack = with_gaps(begin, ts, stack)
        return ThreadSamples(os.getpid(), seens[0].tid, seens[0].name, "", bounds, stack)


def _recorded_thread(
    ticks: Samples, late: Samples, codes: dict[int, CodeType]
) -> tuple[IntArray, IntArray, list[bytes]]:
    """Return samples of the recorded thread in order of time, late ticks charged to what ran before them."""
    packed = [*ticks.packed, *late.packed]
    ts = np.concatenate([ticks.ts, late.ts])
    stack = np.concatenate([ticks.stack, late.stack + len(ticks.packed)])
    order = np.argsort(ts, kind="stable")
    ts, stack = ts[order], stack[order]
    is_late = np.repeat([False, True], [len(ticks), len(late)])[order]
    charge = TickAttribution(codes)
    waited = np.array([charge.in_handler(key) for key in packed], dtype=bool)[stack] & is_late
    interval = timer.INTERVAL_S * 1e9 * 2.0 ** (np.cumsum(~is_late) // timer.THIN_AFTER)
    due = np.where(is_late, LATE_NS + timer.INTERVAL_S * 1e9, LATE_INTERVALS * interval)
    gap = np.diff(ts, prepend=ts[:1])
    delayed = (gap > due) | waited  # the latecomer too, where it had to wait for the GIL
    delayed &= is_late | ~np.concatenate([[False], is_late[:-1]])[: len(ts)]
    numbers: dict[bytes, int] = {}
    plain = np.array([numbers.setdefault(key, len(numbers)) for key in packed], dtype=np.int64)
    charged = plain.copy()
    for i in np.unique(stack[delayed]).tolist():
        charged[i] = numbers.setdefault(charge.charged(packed[i]), len(numbers))
    stack = np.where(delayed, charged[stack], plain[stack])
    return ts, credit_late(stack, is_late), list(numbers)


def credit_late(stack: IntArray, late: IntArray) -> IntArray:
    """Give the tick that ends a delay the stack that was seen during the delay.

    Parameters
    ----------
    stack : ndarray of int64, shape (n,)
        Stack of every sample, in order of time.
    late : ndarray of bool, shape (n,)
        Whether the sample was taken by the latecomer.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> credit_late(np.array([1, 2, 3, 3]), np.array([False, True, False, False])).tolist()
    [1, 2, 2, 3]
    """
    result = stack.copy()
    after = np.flatnonzero(~late[1:].astype(bool) & late[:-1].astype(bool)) + 1
    result[after] = stack[after - 1]
    return result
