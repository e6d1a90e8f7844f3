"""From JSON with tags back to the values of the metadata."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...trace.layout import MAX_NESTING, TAG

DTYPE: Final = re.compile(r"[<>|=]?([biuf]\d|[mM]8\[\w{1,2}\])")
_FLOATS: Final = ("nan", "inf", "-inf")


class ValueDecoder:
    """Undoes `writers.values.ValueEncoder`.

    Parameters
    ----------
    frame : callable
        Reads the DataFrame of a name.
    """

    def __init__(self, frame: Callable[[str], pd.DataFrame]) -> None:
        self._frame = frame

    def decode(self, value: Any, depth: int = 0) -> Any:
        """Make the value again.

        Raises
        ------
        FormatError
            For a tag or a content that the writer never writes.
        """
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
    """Return the numpy dtype of this name; only numbers and times."""
    if not isinstance(text, str) or not DTYPE.fullmatch(text):
        raise FormatError(f"no column has the dtype {str(text)[:40]!r}")
    return np.dtype(text)
