"""One clock for everything: Unix nanoseconds (CLOCK_REALTIME), as in Kineto."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .arrays import IntArray
from .intervals import as_ints


class Clock:
    """The recording's clock; converts monotonic readings to it."""

    # A pair of readings is taken at the start and at the end of a recording; monotonic times between them are
    # converted along the straight line through both, which removes an offset and a slow drift (NTP slewing).

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.now_ns = wall
        self._monotonic = monotonic
        self._pairs: list[tuple[int, int]] = []  # readings of both at one instant: wall, monotonic

    def mark(self) -> None:
        """Take and store a pair of readings: the tightest of eight attempts."""
        readings = [(self._monotonic(), self.now_ns(), self._monotonic()) for _ in range(8)]
        before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])
        self._pairs.append((wall, (before + after) // 2))

    @property
    def drift_ns(self) -> int:
        """How far the clocks drifted apart between the first and last pair; 0 with fewer than two pairs."""
        if len(self._pairs) < 2:
            return 0
        (first_wall, first), (last_wall, last) = self._pairs[0], self._pairs[-1]
        return (last_wall - first_wall) - (last - first)

    @property
    def span_ns(self) -> int:
        """Monotonic time between the first and last pair; 0 with fewer than two pairs."""
        return self._pairs[-1][1] - self._pairs[0][1] if self._pairs else 0

    def from_monotonic(self, monotonic_ns: npt.ArrayLike) -> IntArray:
        """Convert `time.perf_counter_ns` readings to Unix nanoseconds."""
        # A first pair is taken if `mark` was never called.
        if not self._pairs:
            self.mark()
        wall, first = self._pairs[0]
        since, span = as_ints(monotonic_ns) - first, self.span_ns
        slew = np.rint(since * (self.drift_ns / span)).astype(np.int64) if span > 0 else 0
        return np.asarray(wall + since + slew, dtype=np.int64)
