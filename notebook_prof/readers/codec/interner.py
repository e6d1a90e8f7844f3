"""Numbers for distinct values, as columns of codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .numbers import packed


class Interner(dict[Any, int]):
    """Number every distinct value, in order of appearance.

    Examples
    --------
    >>> interner = Interner()
    >>> interner.column(["a", "b", "a"]).tolist(), list(interner)
    ([0, 1, 0], ['a', 'b'])
    """

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code

    def column(self, values: Iterable[Any]) -> npt.NDArray[np.int32]:
        """Return the codes of many values."""
        return packed(tuple(map(self.__getitem__, values)), np.int32)
