"""Turns Arrow arrays back into exactly the columns that were written."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...trace.arrays import MAX_NESTING, TAG

# Turns JSON with tags back into the values of the metadata.

DTYPE: Final = re.compile(r"[<>|=]?([biuf]\d|[mM]8\[\w{1,2}\])")
_FLOATS: Final = ("nan", "inf", "-inf")


class ValueDecoder:
    """Reverses `writers.values.ValueEncoder`; `frame` reads the DataFrame with a given name."""

    def __init__(self, frame: Callable[[str], pd.DataFrame]) -> None:
        self._frame = frame

    def decode(self, value: Any, depth: int = 0) -> Any:
        """Decode a value; FormatError for a tag or content that the writer never writes."""
        if depth > 4 * MAX_NESTING:
            raise FormatError("the metadata is nested deeper than any that is written")
        if isinstance(value, list):
            return [self.decode(part, depth + 1) for part in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: self.decode(part, depth + 1) for key, part in value.items()}
        try:
            return self._tagged(value[TAG], value.get("v"), value, depth + 1)
        except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"the metadata is damaged: {str(value)[:80]} ({error})") from error

    def _tagged(self, kind: Any, v: Any, value: dict[str, Any], depth: int) -> Any:
        if kind in ("tuple", "set", "frozenset"):
            parts = [self.decode(part, depth) for part in v]
            return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](parts)
        if kind == "dict":
            return {self.decode(key, depth): self.decode(part, depth) for key, part in v}
        if kind == "int":
            return int(v, 16)
        if kind == "float" and v in _FLOATS:
            return float(v)
        if kind == "text":
            return str(v)
        if kind == "bytes":
            return base64.b64decode(v)
        if kind == "numpy":
            return dtype_of(value["dtype"]).type(self.decode(v, depth))
        if kind == "missing":
            return pd.NaT if v == "NaT" else pd.NA
        if kind in ("Timestamp", "Timedelta"):
            return {"Timestamp": pd.Timestamp, "Timedelta": pd.Timedelta}[kind](v)
        if kind == "frame":
            return self._frame(v)
        if kind == "series":
            series = self._frame(v)["values"]
            series.name = self.decode(value["name"], depth)
            return series
        if kind == "array":
            return self._frame(v)["values"].to_numpy().reshape(value["shape"])
        raise FormatError(f"the metadata holds a {kind!r}, which is not known")


def dtype_of(text: Any) -> np.dtype[Any]:
    """Return the numpy dtype with this name. Only numbers and times are allowed."""
    if not isinstance(text, str) or not DTYPE.fullmatch(text):
        raise FormatError(f"no column has the dtype {str(text)[:40]!r}")
    return np.dtype(text)


_MASKED: Final = {
    **{
        f"{sign}Int{bits}": (f"{sign}Int{bits}".lower(), pd.arrays.IntegerArray)
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    },
    **{f"Float{bits}": (f"float{bits}", pd.arrays.FloatingArray) for bits in (32, 64)},
    "boolean": ("bool", pd.arrays.BooleanArray),
}
_PLAIN: Final = frozenset(
    ["bool", "float16", "float32", "float64", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))]
)
_TEXT: Final = ("object", "str", "string")


def decode_column(array: Any, how: dict[str, Any], values: ValueDecoder) -> Any:
    """Return a column as a numpy or pandas array; FormatError if it does not match its description."""
    # `how` is the description by `writers.columns.encode_column`.
    kind, dtype = how.get("kind"), str(how.get("dtype"))
    try:
        if kind == "plain" and dtype in _PLAIN:
            return array.to_numpy().astype(dtype, copy=False)
        if kind == "masked" and dtype in _MASKED:
            return _masked(array, dtype)
        if kind == "ticks":
            return array.to_numpy().astype(np.int64, copy=False).view(_time(dtype))
        if kind in ("words", "codes"):
            return _categorical(array, how, values)
        if kind == "text" and dtype.startswith(_TEXT):
            return _text(array, dtype)
        if kind == "values":
            decoded = [values.decode(json.loads(text)) for text in array.to_pylist()]
            return _object(decoded) if dtype == "object" else pd.array(decoded, dtype=dtype)
    except (TypeError, ValueError, KeyError, RecursionError, OverflowError, AttributeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the column {how.get('field')!r} is damaged: {error}") from error
    raise FormatError(f"the column {how.get('field')!r} is a {kind!r} of {dtype!r}, which is not known")


def _masked(array: Any, dtype: str) -> Any:
    import pyarrow as pa

    plain, make = _MASKED[dtype]
    mask = np.zeros(len(array), bool)
    if array.null_count:
        mask = array.is_null().to_numpy()
        zero = pa.scalar(False if plain == "bool" else 0, type=array.type)
        array = array.fill_null(zero)
    data = np.array(array.to_numpy().astype(plain, copy=False))
    return make(data, mask)


def _categorical(array: Any, how: dict[str, Any], values: ValueDecoder) -> pd.Categorical:
    ordered = bool(how.get("ordered"))
    if how["kind"] == "codes":
        words = [values.decode(value) for value in how["categories"]]
        index = pd.Index(words) if how["index_dtype"] != "object" else pd.Index(words, dtype=object)
        if how["index_dtype"] != str(index.dtype):
            index = index.astype(how["index_dtype"])
        return pd.Categorical.from_codes(array.to_numpy(), categories=index, ordered=ordered)
    whole = array.unify_dictionaries().combine_chunks()
    dictionary = whole.dictionary
    if len(dictionary) != how["categories"]:
        raise FormatError(
            f"the column {how['field']!r} is damaged: {len(dictionary)} categories instead of "
            f"{how['categories']}"
        )
    codes = whole.indices.fill_null(-1).to_numpy()
    words = pd.Index(dictionary.to_pylist(), dtype=text_dtype(how["index_dtype"]))
    return pd.Categorical.from_codes(codes, categories=words, ordered=ordered)


def _text(array: Any, dtype: str) -> Any:
    words = array.to_pylist()
    return _object(words) if dtype == "object" else pd.array(words, dtype=text_dtype(dtype))


def text_dtype(dtype: Any) -> Any:
    """Return the text dtype with this name; ``object`` if there is none."""
    return dtype if isinstance(dtype, str) and dtype.startswith(_TEXT) and len(dtype) < 30 else "object"


def _object(items: list[Any]) -> Any:
    """Return a one-dimensional array of objects, even if they are lists of equal length."""
    out = np.empty(len(items), dtype=object)
    out[:] = items if not items or not isinstance(items[0], list | tuple | np.ndarray) else None
    for i, item in enumerate(items if len(items) and out[0] is None else ()):
        out[i] = item
    return out


def _time(dtype: str) -> np.dtype[Any]:
    result = (
        np.dtype(dtype) if dtype.startswith(("datetime64[", "timedelta64[")) and len(dtype) < 20 else None
    )
    if result is None:
        raise FormatError(f"no column has the dtype {dtype[:40]!r}")
    return result
