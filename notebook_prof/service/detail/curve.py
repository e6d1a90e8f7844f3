"""A step curve (memory over time) with its minima and maxima, at any zoom."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray

_FAN: Final = 8
_SMALLEST: Final = 1024


class StepCurve:
    """Values that each hold from one instant (ns, ascending) to the next."""

    def __init__(self, ts: IntArray, value: npt.NDArray[np.generic]) -> None:
        self.ts: IntArray = np.asarray(ts, np.int64)
        self.value: npt.NDArray[np.float64] = np.asarray(value, np.float64)
        self._levels: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]] = []
        low = high = self.value
        while len(low) > _SMALLEST:
            heads = np.arange(0, len(low), _FAN)
            low, high = np.minimum.reduceat(low, heads), np.maximum.reduceat(high, heads)
            self._levels.append((low, high))

    def sample(
        self, start: float, end: float, width_px: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the curve in a window as at most about eight points per pixel, from `start` to `end`."""
        first = int(np.searchsorted(self.ts, int(start), "right")) - 1
        stop = int(np.searchsorted(self.ts, int(end), "left"))
        i = max(first, 0)
        if stop <= i:
            return np.empty(0), np.empty(0)
        if stop - i <= 4 * width_px:
            ts, value = self.ts[i:stop].astype(np.float64), self.value[i:stop]
        else:
            ts, value = self._extremes(i, stop, start, end, width_px)
        ts = np.maximum(ts, start)
        return np.append(ts, max(end, ts[-1])), np.append(value, self.value[stop - 1])

    def _extremes(
        self, i: int, stop: int, start: float, end: float, width_px: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        level, size = 0, 1
        while level < len(self._levels) and (stop - i) / (size * _FAN) >= 2 * width_px:
            level, size = level + 1, size * _FAN
        low, high = self._levels[level - 1] if level else (self.value, self.value)
        b0, b1 = i // size, -(-stop // size)
        at = self.ts[np.arange(b0, b1) * size].astype(np.float64)
        column = np.clip((at - start) / (end - start) * width_px, 0, width_px - 1).astype(np.int64)
        heads = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
        stops = np.minimum((b0 + np.append(heads[1:], len(column))) * size, stop)
        value = np.empty(3 * len(heads))
        value[0::3] = np.minimum.reduceat(low[b0:b1], heads)
        value[1::3] = np.maximum.reduceat(high[b0:b1], heads)
        value[2::3] = self.value[stops - 1]  # holds until the next change, however far away
        return np.repeat(at[heads], 3), value
