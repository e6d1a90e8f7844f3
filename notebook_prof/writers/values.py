"""Values of any kind as JSON: an object with a tag for types that JSON lacks."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from ..trace.layout import MAX_NESTING, TAG

_INT64: Final = 1 << 63


class ValueEncoder:
    """Turns metadata into JSON for `readers.native.values`; `put` stores a DataFrame and returns its name.

    >>> ValueEncoder(lambda frame: "").encode({"shape": (2, 3)})
    {'shape': {'$': 'tuple', 'v': [2, 3]}}
    """

    # `lost` names values that can only be kept as text
    def __init__(self, put: Callable[[pd.DataFrame], str]) -> None:
        self._put = put
        self.lost: list[str] = []

    def encode(self, value: Any, where: str = "metadata", depth: int = 0) -> Any:
        """Encode a value as JSON; `where` names it in `lost`."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if (encoded := _scalar(value)) is not None:
            return encoded
        if depth < MAX_NESTING and (encoded := self._container(value, where, depth)) is not None:
            return encoded
        self.lost.append(f"{where}: {type(value).__name__}")
        return _tagged("text", str(value))

    def _container(self, value: Any, where: str, depth: int) -> Any:
        def inner(part: Any, at: str = "") -> Any:
            return self.encode(part, f"{where}{at}", depth + 1)

        if isinstance(value, Mapping):
            if all(type(key) is str for key in value) and TAG not in value:
                return {key: inner(part, f"[{key!r}]") for key, part in value.items()}
            return _tagged("dict", [[inner(key), inner(part, f"[{key!r}]")] for key, part in value.items()])
        if isinstance(value, list):
            return [inner(part) for part in value]
        for kind in (tuple, set, frozenset):
            if isinstance(value, kind):
                return _tagged(kind.__name__, [inner(part) for part in value])
        if isinstance(value, pd.DataFrame):
            return _tagged("frame", self._put(value))
        if isinstance(value, pd.Series):
            return {**_tagged("series", self._put(value.to_frame(name="values"))), "name": inner(value.name)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufmM":
            flat = pd.DataFrame({"values": value.ravel()})
            return {**_tagged("array", self._put(flat)), "shape": list(value.shape)}
        return None


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return {**_tagged("numpy", _scalar(value.item())), "dtype": value.dtype.str}
    if isinstance(value, bool | int):
        return (
            value
            if type(value) is bool
            else int(value)
            if -_INT64 <= value < _INT64
            else _tagged("int", hex(value))
        )
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _tagged("float", repr(float(value)))
    if isinstance(value, bytes):
        return _tagged("bytes", base64.b64encode(value).decode("ascii"))
    if value is pd.NA or value is pd.NaT:
        return _tagged("missing", str(value))
    if isinstance(value, pd.Timestamp | pd.Timedelta):
        return _tagged(type(value).__name__, value.isoformat())
    return None


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {TAG: kind, "v": value}
