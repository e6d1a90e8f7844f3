"""The arguments of events, as a table beside the slices."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw

from ...trace.arrays import IntArray
from ...trace.strings import Coded
from .events import Events

_NOTHING: Final = Raw(b"")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Arguments:
    """Collects the arguments of events that become slices."""

    def __init__(self) -> None:
        self.count = 0  # events whose arguments were collected
        self._codes: dict[tuple[bytes, bytes], int] = {}
        self._texts: dict[str, int] = {}
        self._parts: list[pd.DataFrame] = []

    def add(
        self, events: Events, begin: IntArray, end: IntArray, track: IntArray, name: Coded, dur: IntArray
    ) -> None:
        """Add the arguments of the events that began and ended some slices."""
        # `end` is -1 if no other event ended the slice. Negative durations become 0, as in the slices.
        has_arguments = np.fromiter((len(row.arguments()) > 2 for row in events.rows), bool, len(events.rows))
        late = (end >= 0) & has_arguments[end]
        has = np.flatnonzero(has_arguments[begin] | late)
        if not len(has):
            return
        rows = events.rows
        code = np.fromiter(
            (
                self._code(rows[b].arguments(), rows[e].arguments() if e >= 0 else _NOTHING)
                for b, e in zip(begin[has].tolist(), end[has].tolist(), strict=True)
            ),
            np.int64,
            len(has),
        )
        self.count += int(has_arguments[begin].sum() + late.sum())
        has, code = has[code >= 0], code[code >= 0]
        words = np.array(name.values, dtype=object)[name.codes[has]]
        columns = {
            "track": track[has].astype(np.int32),
            "start_unix_ns": events.ts[begin[has]],
            "dur_ns": np.maximum(dur[has], 0),
            "name": words,
        }
        self._parts.append(pd.DataFrame({**columns, "arguments": code}))

    def table(self) -> pd.DataFrame | None:
        """Make the table ``event_arguments`` of the metadata, in the order of `add`; None without rows."""
        # ``track`` (int32), ``start_unix_ns``, ``dur_ns`` (int64) and ``name`` (category) identify the slice;
        # ``arguments`` is a category of JSON objects as text.
        if not any(map(len, self._parts)):
            return None
        table = pd.concat(self._parts, ignore_index=True)
        texts = pd.Index(list(self._texts), dtype="object")
        categorical = pd.Categorical.from_codes(table["arguments"].to_numpy(), categories=texts)
        return table.assign(name=table["name"].astype("category"), arguments=categorical)

    def _code(self, begin: Raw, end: Raw) -> int:
        key = bytes(begin), bytes(end)
        if (code := self._codes.get(key)) is None:
            text = _merged(*key)
            code = -1 if text is None else self._texts.setdefault(text, len(self._texts))
            self._codes[key] = code
        return code


def _merged(begin: bytes, end: bytes) -> str | None:
    """Merge the arguments of a begin and its end (which wins) into compact JSON; None if there are none.

    >>> _merged(b'{"a": 1, "b": 2}', b'{"b": 3.50}'), _merged(b"{}", b"null")
    ('{"a":1,"b":3.50}', None)
    """
    merged: dict[str, Raw] = {}
    for text in (begin, end):
        if len(text) <= 2 or text == b"null":
            continue
        try:
            plain = msgspec.json.format(text, indent=-1)
            merged |= _OBJECT.decode(plain) if plain.startswith(b"{") else {"args": Raw(plain)}
        except _UNDECODABLE:
            continue
    return msgspec.json.encode(merged).decode(errors="replace") if merged else None
