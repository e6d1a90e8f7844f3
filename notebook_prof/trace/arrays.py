"""Names of the arrays that nearly every module is about, and how rows of several are numbered."""

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
"""Codes of interned strings; -1 where there is none."""
TextArray: TypeAlias = npt.NDArray[np.object_]


def number_rows(*columns: npt.ArrayLike | pd.Series) -> tuple[IntArray, pd.MultiIndex]:
    """Number the distinct rows of some columns in the order in which they come.

    Parameters
    ----------
    *columns : array_like, shape (n,)

    Returns
    -------
    codes : ndarray of int64, shape (n,)
    distinct : pandas.MultiIndex

    Examples
    --------
    >>> codes, distinct = number_rows([7, 7, 5], [1, 1, 0])
    >>> codes.tolist(), distinct.tolist()
    ([0, 0, 1], [(7, 1), (5, 0)])
    """
    import pandas as pd

    rows = pd.MultiIndex.from_arrays(columns)
    if not len(rows):  # pandas 2 cannot number no rows
        return np.empty(0, np.int64), rows
    codes, distinct = pd.factorize(rows)
    return codes.astype(np.int64), distinct
