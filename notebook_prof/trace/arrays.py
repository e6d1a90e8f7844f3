"""Types of common arrays, and the numbering of distinct rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Times in nanoseconds, row numbers, counts, bytes."""
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
"""A mask of rows."""
CodeArray: TypeAlias = npt.NDArray[np.int32]
"""Codes of interned strings; -1 if missing."""
TextArray: TypeAlias = npt.NDArray[np.object_]


def number_rows(*columns: npt.ArrayLike | pd.Series) -> tuple[IntArray, pd.MultiIndex]:
    """Number the distinct rows of columns in order of appearance; return codes and the distinct rows."""
    import pandas as pd

    rows = pd.MultiIndex.from_arrays(columns)
    if not len(rows):  # pandas 2 cannot number zero rows
        return np.empty(0, np.int64), rows
    codes, distinct = pd.factorize(rows)
    return codes.astype(np.int64), distinct
