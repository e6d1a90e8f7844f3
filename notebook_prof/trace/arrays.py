"""Names of the arrays that nearly every module is about."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Times in nanoseconds, row numbers, counts, bytes."""
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
"""A mask of rows."""
CodeArray: TypeAlias = npt.NDArray[np.int32]
"""Codes of interned strings; -1 where there is none."""
TextArray: TypeAlias = npt.NDArray[np.object_]
