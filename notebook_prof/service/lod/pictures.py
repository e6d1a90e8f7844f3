"""The last pictures, kept whole: another selection changes only which parts of them are bright."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from .density import Density
from .rows import IntArray, RowIndex

_REMEMBERED: Final = 6


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn of some rows in a window, whatever is selected.

    Attributes
    ----------
    index : RowIndex
    total : int
        Slices in the window.
    at : ndarray of int64
        Positions of those drawn one by one, ascending.
    density : Density or None
        Of all, where not every slice is drawn by itself.
    """

    index: RowIndex
    total: int
    at: IntArray
    density: Density | None


class Pictures:
    """Remembers six pictures by where they are.

    Examples
    --------
    >>> import numpy as np
    >>> index = RowIndex(np.array([0]), np.array([5]), np.array([0]), 1)
    >>> pictures = Pictures()
    >>> one, _ = pictures.get((0, 9), index, lambda: Picture(index, 1, np.array([0]), None))
    >>> again, _ = pictures.get((0, 9), index, lambda: Picture(index, 1, np.array([0]), None))
    >>> one == again
    True
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[int, Picture]] = OrderedDict()
        self._made = 0
        self._lock = threading.Lock()

    def get(self, where: Hashable, index: RowIndex, make: Callable[[], Picture]) -> tuple[int, Picture]:
        """The picture at a place and its number; one of another index is made anew, under another number."""
        with self._lock:
            found = self._kept.get(where)
            if found is None or found[1].index is not index:
                self._made += 1
                found = self._kept[where] = (self._made, make())
            self._kept.move_to_end(where)
            while len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)
            return found
