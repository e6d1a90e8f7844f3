"""Array types, numbering of rows, and the constants that the native format's writer and reader share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Array of times in nanoseconds, row numbers, counts or bytes."""
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
"""A mask of rows."""
CodeArray: TypeAlias = npt.NDArray[np.int32]
"""Codes of interned strings; -1 if missing."""
H = TypeVar("H", bound=Hashable)
TextArray: TypeAlias = npt.NDArray[np.object_]


def consecutive(first: IntArray, count: IntArray) -> IntArray:
    """Concatenate the ranges ``first[i] … first[i] + count[i] - 1``.

    >>> consecutive(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    return np.arange(int(count.sum())) + np.repeat(first - np.cumsum(count) + count, count)


def numbered(values: Iterable[H]) -> tuple[IntArray, list[H]]:
    """Number distinct values in order of appearance. Returns codes and distinct values.

    >>> numbered("abca")[0].tolist(), numbered("abca")[1]
    ([0, 1, 2, 0], ['a', 'b', 'c'])
    """
    code_of: dict[H, int] = {}
    return np.array([code_of.setdefault(value, len(code_of)) for value in values], np.int64), list(code_of)


def number_rows(*columns: npt.ArrayLike | pd.Series) -> tuple[IntArray, pd.MultiIndex]:
    """Number the distinct rows of columns in order of appearance. Returns codes and distinct rows."""
    import pandas as pd

    rows = pd.MultiIndex.from_arrays(columns)
    if not len(rows):  # pandas 2 cannot number zero rows
        return np.empty(0, np.int64), rows
    codes, distinct = pd.factorize(rows)
    return codes.astype(np.int64), distinct


def positions(keys: IntArray, sought: IntArray) -> IntArray:
    """Return the last position of each number in `keys`; -1 for absent and negative ones.

    >>> positions(np.array([5, 7, 5]), np.array([5, 6, -1])).tolist()
    [2, -1, -1]
    """
    if not len(keys):
        return np.full(len(sought), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], sought, side="right") - 1
    at = order[np.maximum(at, 0)]
    return np.asarray(np.where((keys[at] == sought) & (sought >= 0), at, -1))


def optional(values: npt.ArrayLike, dtype: str = "Int64") -> pd.arrays.IntegerArray:
    """Return integers as a nullable pandas array; negative ones become missing."""
    import pandas as pd

    numbers = np.asarray(values, dtype.lower())
    return pd.arrays.IntegerArray(numbers, numbers < 0)


_PART: Final = 1 << 17
_ENTRIES_A_CODE: Final = 4


def sums_by_code(codes: npt.NDArray[np.integer], size: int, *columns: IntArray) -> list[IntArray]:
    """Return the number of entries for every code, then the sums of each column by code."""
    # Chunks stay in the processor's cache after NumPy has converted them. Sums of whole nanoseconds over a
    # chunk are exact in float64 below 2**53 (104 days).
    out = [np.zeros(size, np.int64) for _ in range(1 + len(columns))]
    step = max(_PART, _ENTRIES_A_CODE * size)
    for first in range(0, len(codes), step):
        part = slice(first, first + step)
        some = codes[part].astype(np.intp)
        out[0] += np.bincount(some, minlength=size)
        for total, column in zip(out[1:], columns, strict=True):
            total += np.bincount(some, column[part], minlength=size).astype(np.int64)
    return out


def distinct_paths(key: IntArray, above: IntArray, depth: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Number the distinct paths of keys: each row's path, and each path's parent and first row.

    `above` is the row that each row continues, or -1. Paths are numbered by depth, then as they appear.

    >>> [c.tolist() for c in distinct_paths(*np.array([[7, 8, 7, 8], [-1, 0, -1, 2], [0, 1, 0, 1]]))]
    [[0, 1, 0, 1], [-1, 0], [0, 1]]
    """
    import pandas as pd

    node = np.full(len(key), -1, np.int64)
    width = int(key.max(initial=0)) + 1
    order = np.argsort(depth, kind="stable")
    bounds = np.flatnonzero(np.diff(depth[order], prepend=-1, append=np.iinfo(np.int64).max))
    tables, count = [np.empty((2, 0), np.int64)], 0
    for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[lo:hi]
        parents = np.where(above[rows] >= 0, node[above[rows]], -1)
        code, paths = pd.factorize((parents + 1) * width + key[rows])
        first = rows[np.unique(code, return_index=True)[1]]
        tables.append(np.stack([np.asarray(paths, np.int64) // width - 1, first]))
        node[rows] = count + code
        count += len(paths)
    parent, first = np.concatenate(tables, axis=1)
    return node, parent, first


FORMAT: Final = "notebook_prof"
SCHEMA: Final = 2
"""Version of the schema, increased with every change that an older reader would misread."""

OLDEST_SCHEMA: Final = 2
"""The oldest schema that is still read."""

FIRST: Final = "format.json"
"""File that is written first, and identifies the format even if everything else is missing."""

LAST: Final = "metadata.json"
"""File that is written last, with the sizes and checksums of all others. It marks a complete recording."""

TABLE_SUFFIX: Final = ".parquet"

TAG: Final = "$"
"""Key that marks a JSON object as a value of a type that JSON lacks."""

MAX_NESTING: Final = 64
"""Deepest allowed nesting of metadata. Deeper values become text."""
