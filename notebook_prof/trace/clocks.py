"""One clock for everything: Unix nanoseconds (CLOCK_REALTIME), as in Kineto."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .arrays import IntArray
from .intervals import as_ints


@dataclass(frozen=True, slots=True)
class ClockPair:
    """The same instant on both clocks, in ns. `error_ns` bounds the time between the two readings."""

    wall_ns: int
    monotonic_ns: int
    error_ns: int


class Clock:
    """The recording's clock; converts monotonic readings to it."""

    # A pair of readings is taken at the start and at the end of a recording; monotonic times between them are
    # converted along the straight line through both, which removes an offset and a slow drift (NTP slewing).

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.now_ns = wall
        self._monotonic = monotonic
        self._pairs: list[ClockPair] = []

    def mark(self, tries: int = 8) -> ClockPair:
        """Take and store a pair of readings: the tightest of `tries` attempts."""
        pairs = []
        for _ in range(tries):
            before = self._monotonic()
            wall = self.now_ns()
            after = self._monotonic()
            pairs.append(ClockPair(wall, (before + after) // 2, (after - before + 1) // 2))
        best = min(pairs, key=lambda pair: pair.error_ns)
        self._pairs.append(best)
        return best

    @property
    def drift_ns(self) -> int:
        """How far the clocks drifted apart between the first and last pair; 0 with fewer than two pairs."""
        if len(self._pairs) < 2:
            return 0
        first, last = self._pairs[0], self._pairs[-1]
        return (last.wall_ns - first.wall_ns) - (last.monotonic_ns - first.monotonic_ns)

    @property
    def span_ns(self) -> int:
        """Monotonic time between the first and last pair; 0 with fewer than two pairs."""
        return self._pairs[-1].monotonic_ns - self._pairs[0].monotonic_ns if self._pairs else 0

    def from_monotonic(self, monotonic_ns: npt.ArrayLike) -> IntArray:
        """Convert `time.perf_counter_ns` readings to Unix nanoseconds."""
        # A first pair is taken if `mark` was never called.
        if not self._pairs:
            self.mark()
        first, last = self._pairs[0], self._pairs[-1]
        since = as_ints(monotonic_ns) - first.monotonic_ns
        span = last.monotonic_ns - first.monotonic_ns
        slew = np.rint(since * (self.drift_ns / span)).astype(np.int64) if span > 0 else 0
        return np.asarray(first.wall_ns + since + slew, dtype=np.int64)
