"""The sampling way to record Python: which lines run, a thousand times a second."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

import numpy as np

from ...trace.builder import TraceBuilder
from ...trace.clocks import Clock
from ...trace.intervals import IntArray
from ...trace.report import ImportReport
from ..journal import Edges
from . import alarm, latecomer
from .alarm import AlarmTicker
from .assemble import Timed, put
from .frames import Stacks, cell_runner, context_of, decode, trim
from .latecomer import Latecomer
from .poll import PollTicker
from .samples import Samples

LATE_NS: Final = 3_000_000
"""After so long without a tick, another thread looks at the main thread."""


class Sampler:
    """Samples the thread that starts it.

    The alarm timer ticks each millisecond in the main thread; elsewhere, and where the alarm is in
    use, a thread looks every 5 ms.

    Parameters
    ----------
    report : ImportReport
        Where limits and failures are told.
    """

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._clock = Clock()
        self._parts: list[Samples] = []
        self._late: Samples | None = None
        self._context = Samples()
        self._ticker: AlarmTicker | PollTicker | None = None
        self._latecomer: Latecomer | None = None
        self._prepared = False
        self._start_ns = 0
        self._target = threading.current_thread()
        self._below: FrameType | None = None

    def prepare(self, clock: Clock) -> None:
        """Make what takes time to make: the thread that looks at late ticks."""
        atexit.register(self.stop)  # a timer that outlives the interpreter's handlers kills the process
        self._clock = clock
        self._prepared = True
        if not alarm.refusal() and latecomer.supported():
            self._latecomer = Latecomer(clock.now_ns, LATE_NS)
            self._latecomer.prepare()

    def start(self, clock: Clock) -> None:
        """Begin to tick."""
        if not self._prepared:
            self.prepare(clock)
        self._target = threading.current_thread()
        self._context.add(0, sys._getframe())
        self._below = cell_runner(sys._getframe())
        self._start_ns = clock.now_ns()
        refusal = alarm.refusal() or ("" if self._latecomer else "this system has no timerfd")
        if refusal:
            self._poll(refusal)
        else:
            self._alarm()

    def stop(self) -> None:
        """End; nothing stays behind. Safe to repeat."""
        if self._ticker is not None:
            self._ticker.stop()
        if self._latecomer is not None:
            self._latecomer.stop()
        self._below = None
        for samples in (*self._parts, *([self._late] if self._late is not None else [])):
            samples.let_go()
        atexit.unregister(self.stop)

    def result(self, builder: TraceBuilder, track: int, edges: Callable[[int], Edges] | None) -> None:
        """Add slices to `track`."""
        self._tell()
        samples, stacks = self._joined()
        if len(samples.ts):
            cuts = edges(self._target.native_id or -1) if edges is not None else Edges.none()
            put(builder, track, samples, stacks, cuts)

    @property
    def thread(self) -> threading.Thread:
        """The thread that is sampled."""
        return self._target

    def _alarm(self) -> None:
        ticks = Samples(self._below)
        late = Samples(self._below)
        assert self._latecomer is not None
        self._parts.append(ticks)
        self._late = late
        postpone = self._latecomer.postpone

        def each_tick(now: int) -> None:
            postpone()

        ticker = AlarmTicker(ticks, self._clock.now_ns, each_tick, self._yielded)
        self._ticker = ticker
        self._latecomer.watch(late, self._target.ident or 0)
        ticker.start()

    def _poll(self, why: str) -> None:
        self._report.add(
            "coarse-sampling",
            "info",
            example=why,
            effect="lines are sampled every 5 ms instead of every 1 ms",
        )
        samples = Samples(self._below)
        self._parts.append(samples)
        ticker = PollTicker(samples, self._target.ident or 0, self._clock.now_ns, lambda now: None)
        self._ticker = ticker
        ticker.start()

    def _yielded(self, asked: str) -> None:
        if self._latecomer is not None:
            self._latecomer.stop()
        self._poll(f"the cell uses the alarm itself (signal.{asked})")

    def _joined(self) -> tuple[Timed, Stacks]:
        """All samples in order of time, and their trimmed stacks."""
        parts = [*self._parts, *([self._late] if self._late is not None else [])]
        packed = [key for part in parts for key in part.packed]
        codes = {number: code for part in parts for number, code in part.codes.items()}
        firsts = np.cumsum([0, *(len(part.packed) for part in parts)])
        ts = np.concatenate([part.ts for part in parts])
        stack = np.concatenate([part.stack + first for part, first in zip(parts, firsts, strict=False)])
        late = np.concatenate([np.full(len(part), part is self._late) for part in parts])
        order = np.argsort(ts, kind="stable")
        stack = credit_late(stack[order], late[order])
        context = context_of(decode(self._context.packed, self._context.codes))
        samples = Timed(ts[order], stack, self._start_ns)
        return samples, trim(decode(packed, codes), context)

    def _tell(self) -> None:
        if self._ticker is None:
            return
        for failure in self._ticker.failures:
            self._report.add("ticks-failed", "loss", example=repr(failure), effect="samples are missing")
        if isinstance(self._ticker, AlarmTicker) and self._ticker.lost:
            self._report.add(
                "alarm-taken",
                "loss",
                example="at the end SIGALRM or its timer was in other hands",
                effect="lines that ran after it was taken are missing",
            )
        if self._ticker.interval_ns > round(alarm.INTERVAL_S * 1e9) and isinstance(self._ticker, AlarmTicker):
            self._report.add(
                "sampling-thinned",
                "info",
                example=f"every {self._ticker.interval_ns / 1e6:g} ms at the end",
                effect="late parts of a long recording are coarser",
            )


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
