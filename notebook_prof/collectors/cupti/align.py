"""CUPTI's clock against the recording's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray

TRIES = 32


@dataclass(frozen=True, slots=True)
class Reading:
    """The same instant on both clocks, in ns; `error_ns` bounds how far apart the two were read."""

    wall_ns: int
    device_ns: int
    error_ns: int


def read(wall: Callable[[], int], device: Callable[[], int], tries: int = TRIES) -> Reading:
    """Return the tightest of `tries` brackets wall – device – wall."""
    readings = []
    for _ in range(tries):
        before = wall()
        between = device()
        after = wall()
        readings.append(Reading((before + after) // 2, between, max(after - before + 1, 0) // 2))
    return min(readings, key=lambda reading: reading.error_ns)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The straight line through a reading at the start and one at the end.

    Where the two agree within their errors, no drift was seen: then all times move by the same whole number
    of nanoseconds, and durations and delays stay exactly what CUPTI measured.

    Examples
    --------
    >>> line = Alignment(Reading(1_000, 0, 3), Reading(3_000, 1_000, 5))
    >>> line.to_wall(np.array([0, 500, 1_000], np.uint64)).tolist(), line.residual_ns
    ([1000, 2000, 3000], 5)
    >>> line = Alignment(Reading(1_000, 0, 3), Reading(2_006, 1_000, 5))
    >>> line.steady, line.to_wall(np.array([0, 500, 1_000], np.uint64)).tolist()
    (True, [1002, 1502, 2002])
    """

    first: Reading
    last: Reading

    @property
    def offset_ns(self) -> int:
        """The recording's clock minus CUPTI's, at the start."""
        return self.first.wall_ns - self.first.device_ns

    @property
    def drift_ns(self) -> int:
        """How far the clocks moved apart during the recording; unless `steady`, the line takes it out."""
        return self.last.wall_ns - self.last.device_ns - self.offset_ns

    @property
    def steady(self) -> bool:
        """Whether the drift is within what the readings can tell."""
        return abs(self.drift_ns) <= self.first.error_ns + self.last.error_ns

    @property
    def residual_ns(self) -> int:
        """How wrong a time can be by the reading of the clocks; their rate may still vary between."""
        return max(self.first.error_ns, self.last.error_ns)

    def to_wall(self, device_ns: npt.NDArray[np.uint64]) -> IntArray:
        """Convert times of records to ns of the recording's clock."""
        since = device_ns.astype(np.int64) - self.first.device_ns
        if self.steady:
            return np.asarray(self.first.wall_ns + since + self._middle() - self.offset_ns, dtype=np.int64)
        span = self.last.device_ns - self.first.device_ns
        slew = np.rint(since * (self.drift_ns / span)).astype(np.int64) if span > 0 else 0
        return np.asarray(self.first.wall_ns + since + slew, dtype=np.int64)

    def _middle(self) -> int:
        """Return the offset in the middle of those that both readings allow."""
        offsets = [
            (self.offset_ns, self.first.error_ns),
            (self.offset_ns + self.drift_ns, self.last.error_ns),
        ]
        least, most = max(at - error for at, error in offsets), min(at + error for at, error in offsets)
        return (least + most) // 2
