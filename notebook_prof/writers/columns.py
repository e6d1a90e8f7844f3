"""Columns of a DataFrame as Arrow arrays, with the information to rebuild them exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from .values import ValueEncoder

_MASKED: Final = frozenset(
    [
        *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
        "Float32",
        "Float64",
        "boolean",
    ]
)
_TEXT: Final = ("object", "str", "string")


@dataclass(frozen=True, slots=True)
class Encoded:
    """One column; `how` has ``kind``, ``dtype`` and details of the kind, for ``metadata.json``."""

    array: Any
    how: dict[str, Any]


def encode_column(column: pd.Series[Any], values: ValueEncoder) -> Encoded:
    """Encode a column as what is stored and how it is described."""
    # Of the kinds, `words` is a categorical of text, a dictionary with all categories in order, also unused
    # ones; `codes` is any other categorical, with the categories in the description; `masked` and `text` are
    # null where missing; `ticks` are dates and durations as int64; `values` is JSON for each value.
    import pyarrow as pa

    dtype = column.dtype
    how: dict[str, Any] = {"kind": "plain", "dtype": str(dtype)}
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(column, how, values)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8:
        stored = column.to_numpy()
        # Parquet has no half floats in older versions
        return Encoded(pa.array(stored.astype(np.float32) if dtype == np.float16 else stored), how)
    if isinstance(dtype, np.dtype) and dtype.kind in "mM":
        return Encoded(pa.array(column.to_numpy().view(np.int64)), {**how, "kind": "ticks"})
    inner = getattr(dtype, "numpy_dtype", None)
    if how["dtype"] in _MASKED and isinstance(inner, np.dtype):
        missing = column.isna().to_numpy()
        plain = column.array.to_numpy(dtype=inner, na_value=inner.type(0))
        return Encoded(pa.array(plain, mask=missing), {**how, "kind": "masked"})
    if how["dtype"].startswith(_TEXT) and (array := _text(column)) is not None:
        return Encoded(array, {**how, "kind": "text"})
    texts = [json.dumps(values.encode(value, f"column {column.name!r}")) for value in column.array]
    return Encoded(pa.array(texts, type=pa.string()), {**how, "kind": "values"})


def _categorical(column: pd.Series[Any], how: dict[str, Any], values: ValueEncoder) -> Encoded:
    import pyarrow as pa

    categories = column.cat.categories
    codes = column.cat.codes.to_numpy().astype(np.int32)
    how |= {"kind": "words", "ordered": bool(column.cat.ordered), "index_dtype": str(categories.dtype)}
    how["categories"] = len(categories)
    # an unused dictionary would not be written
    words = _text(categories.to_series()) if (codes >= 0).any() else None
    if words is not None and not words.null_count:
        return Encoded(pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words), how)
    listed = [values.encode(value, f"column {column.name!r}") for value in categories]
    return Encoded(pa.array(codes), {**how, "kind": "codes", "categories": listed})


def _text(column: pd.Series[Any]) -> Any:
    """Return the strings, or None if some are not strings, not valid Unicode, or missing in another way."""
    import pyarrow as pa

    strings = column.astype(object).to_numpy(copy=True)
    if any(type(value) is not str for value in strings):
        missing = column.isna().to_numpy()
        unlike = [value for value in strings[missing] if value is not None] if column.dtype == object else []
        if unlike or any(type(value) is not str for value in strings[~missing]):
            return None
        strings[missing] = None
    try:
        array = pa.array(strings, type=pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        return None
    return array if isinstance(array, pa.Array) else None
