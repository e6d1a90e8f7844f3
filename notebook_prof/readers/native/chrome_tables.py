"""The tables of the metadata, from JSON beside the events."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import FormatError
from .chrome_rows import ColumnPart, TablePart
from .columns import text_dtype
from .values import ValueDecoder

_NUMBERS: Final = frozenset(
    ["bool", "float16", "float32", "float64", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))]
)
_MASKED: Final = frozenset(
    [*(f"{s}Int{b}" for s in ("", "U") for b in (8, 16, 32, 64)), "Float32", "Float64", "boolean"]
)
_BROKEN: Final = (TypeError, ValueError, KeyError, OverflowError, AttributeError, RecursionError)


def _no_frame(name: str) -> pd.DataFrame:
    raise FormatError(f"no table lies beside a Chrome trace, but one names {name!r}")


_DECODER: Final = ValueDecoder(_no_frame)


def value_of(part: TablePart) -> Any:
    """A value that is no table of columns.

    Raises
    ------
    FormatError
        If it is damaged.
    """
    return _DECODER.decode(part.value)


def frame_of(columns: list[ColumnPart]) -> pd.DataFrame:
    """The table with these columns.

    Raises
    ------
    FormatError
        If a column is damaged, or columns differ in length.
    """
    try:
        return pd.DataFrame({part.name: _column(part) for part in columns})
    except _BROKEN as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"a table of the metadata is damaged: {error}") from error


def typed(values: list[Any], dtype: str, categories: list[Any] | None = None) -> Any:
    """Values as a column of this dtype; with `categories`, they are codes of these.

    Raises
    ------
    FormatError
        If there is no such dtype.
    ValueError, TypeError, OverflowError
        If they are none of it.
    """
    if dtype == "category":
        if categories is None:
            return pd.Series(values, dtype=object).astype("category")
        words = [_DECODER.decode(word) for word in categories]
        return pd.Series(pd.Categorical.from_codes(np.asarray(values, np.int64), categories=words))
    if dtype in _NUMBERS and not dtype.startswith("float"):
        return pd.Series(np.asarray(values, dtype=dtype))
    if dtype in _MASKED:
        return pd.Series(pd.array(values, dtype=dtype))
    plain: npt.NDArray[np.object_] = np.empty(len(values), dtype=object)
    plain[:] = [_DECODER.decode(value) for value in values]
    if dtype in _NUMBERS:
        return pd.Series(np.array([np.nan if value is None else value for value in plain], dtype=dtype))
    if dtype == "object":
        return pd.Series(plain, dtype=object)
    if dtype.startswith(("datetime64[", "timedelta64[")):
        return pd.Series(plain).astype(dtype)
    if (text := text_dtype(dtype)) != dtype:
        raise FormatError(f"no column has the dtype {dtype[:40]!r}")
    return pd.Series(pd.array(plain, dtype=text))


def _column(part: ColumnPart) -> Any:
    return typed(part.values, part.dtype, part.categories if part.dtype == "category" else None)
