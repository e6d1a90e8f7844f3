"""A step curve (memory over time), at any zoom."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray


class StepCurve:
    """Values that each hold from one instant (ns, ascending) to the next."""

    def __init__(self, ts: IntArray, value: npt.NDArray[np.generic]) -> None:
        self.ts: IntArray = np.asarray(ts, np.int64)
        self.value: npt.NDArray[np.float64] = np.asarray(value, np.float64)

    def sample(
        self, start: float, end: float, width_px: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the curve in a window, from `start` to `end`, as at most about four points per pixel."""
        i = max(int(np.searchsorted(self.ts, int(start), "right")) - 1, 0)
        stop = int(np.searchsorted(self.ts, int(end), "left"))
        if stop <= i:
            return np.empty(0), np.empty(0)
        heads, value = np.arange(i, stop), self.value[i:stop]
        if len(heads) > 4 * width_px:
            # every pixel keeps its lowest value, its highest, and its last, which holds until the next change
            pixels = np.linspace(start, end, width_px, endpoint=False)
            first = np.searchsorted(self.ts, np.ceil(pixels).astype(np.int64))
            first[0] = i
            first = np.unique(first[first < stop])
            last = np.append(first[1:], stop) - 1
            ends = (kind.reduceat(value, first - i) for kind in (np.minimum, np.maximum))
            heads, value = np.repeat(first, 3), np.column_stack([*ends, self.value[last]]).ravel()
        ts = np.maximum(self.ts[heads].astype(np.float64), start)
        return np.append(ts, max(end, ts[-1])), np.append(value, self.value[stop - 1])
