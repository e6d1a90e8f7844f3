"""What events were annotated with: numbers by name, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...readers.codec.columns import coded_contents
from ...readers.codec.protobuf import Span, WireError, fields, float64, signed, text
from ...readers.codec.protobuf_columns import Fields, text_column
from ...trace.arrays import IntArray
from ...trace.strings import Coded
from .packets import ANNOTATION_NAMES, ANNOTATION_STRINGS, Interned, Packets, either

_BOOL, _UINT, _INT, _DOUBLE, _TEXT, _POINTER, _NESTED, _JSON = 2, 3, 4, 5, 6, 7, 8, 9
_ENTRIES, _ARRAY, _STRING_IID = 11, 12, 17
_DEEPEST: Final = 12


class Annotations:
    """Debug annotations of track events, each with its name and the position of its event."""

    def __init__(self, packets: Packets, events: Fields, epoch: IntArray) -> None:
        every = events.occurrences(4)
        self._every = every if (every.begin >= 0).all() else every.where(every.begin >= 0)
        self._events, self._packets = events, packets
        self.event: IntArray = self._every.owner
        self._fields = events.inside(self._every)
        self._epoch = epoch[self.event]
        interned = packets.interned(ANNOTATION_NAMES).names(self._epoch, self._fields.ints(1, 0))
        self.names = either(text_column(self._fields, 10), interned)

    def rows_named(self, name: str) -> IntArray:
        """Return the annotations with this name."""
        codes = [code for code, value in enumerate(self.names.values) if value == name]
        return np.flatnonzero(np.isin(self.names.codes, codes))

    def ints(self, name: str, missing: int = -1) -> IntArray:
        """Return a whole number of each event."""
        result = np.full(self._events.count, missing, np.int64)
        rows = self.rows_named(name)
        unset = np.iinfo(np.int64).min
        kinds = (self._fields.ints(kind, unset)[rows] for kind in (_INT, _UINT, _POINTER))
        value = np.maximum.reduce(list(kinds))
        has = value != unset
        result[self.event[rows[has]]] = value[has]
        return result

    def texts(self, name: str) -> Coded:
        """Return a text of each event, interned or not; code -1 for none."""
        rows = self.rows_named(name)
        interned = self._packets.interned(ANNOTATION_STRINGS)
        numbers = self._fields.ints(_STRING_IID, 0)
        texts = either(text_column(self._fields, _TEXT), interned.names(self._epoch, numbers))
        codes = np.full(self._events.count, -1, np.int64)
        codes[self.event[rows]] = texts.codes[rows]
        return Coded(codes, texts.values)

    def values(self, name: str) -> tuple[IntArray, list[Any]]:
        """Return the values of each event by code, -1 for none; each distinct one is decoded once."""
        rows = self.rows_named(name)
        codes, values = self._decoded(rows)
        result = np.full(self._events.count, -1, np.int64)
        result[self.event[rows]] = codes
        return result, values

    def json(self, only: Collection[str] | None = None) -> Coded | None:
        """Return the annotations of each event as a JSON object; None where there are none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        every = range(-1, len(self.names.values))
        chosen = [i for i in every if only is None or (i >= 0 and self.names.values[i] in only)]
        rows = np.flatnonzero(np.isin(self.names.codes, chosen))
        if not len(rows):
            return None
        keys = pa.array([msgspec.json.encode(name).decode() for name in [*self.names.values, "?"]])
        named = self.names.codes[rows]
        key = keys.take(pa.array(np.where(named < 0, len(self.names.values), named)))
        unset = np.iinfo(np.int64).min
        number = np.maximum(self._fields.ints(_INT, unset), self._fields.ints(_UINT, unset))[rows]
        whole = number != unset
        values = pa.array(number).cast(pa.string())
        others = np.flatnonzero(~whole)
        if len(others):
            codes, decoded = self._decoded(rows[others])
            distinct = pa.array([msgspec.json.encode(value).decode() for value in decoded], pa.string())
            picked = np.zeros(len(whole), np.int64)
            picked[others] = codes
            values = pc.if_else(pa.array(whole), values, distinct.take(pa.array(picked)))
        members = pc.binary_join_element_wise(key, values, ":")
        counts = np.bincount(self.event[rows], minlength=self._events.count)
        lists = pa.ListArray.from_arrays(
            pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)), members
        )
        objects = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
        encoded = objects.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return Coded(np.where(counts > 0, codes, -1), encoded.dictionary.to_pylist())

    def _decoded(self, rows: IntArray) -> tuple[IntArray, list[Any]]:
        begin, length = self._every.begin[rows], self._every.end[rows] - self._every.begin[rows]
        codes, first = coded_contents(self._events.data, begin, length)
        # texts may be interned, whose numbers mean something in their epoch only
        pair = codes
        strings = self._packets.interned(ANNOTATION_STRINGS)
        if len(strings.texts.codes):
            pair, _ = pd.factorize(codes * (int(self._epoch.max(initial=0)) + 1) + self._epoch[rows])
            pair = pair.astype(np.int64)
            first = np.unique(pair, return_index=True)[1]
        values = []
        memo: dict[tuple[bytes, int, int], Any] = {}
        for i in first.tolist():
            raw = self._events.data[begin[i] : begin[i] + length[i]].tobytes()
            values.append(_value(raw, int(self._epoch[rows[i]]), strings, _DEEPEST, memo))
        return pair, values


def _value(
    raw: bytes, epoch: int, strings: Interned, depth: int, memo: dict[tuple[bytes, int, int], Any]
) -> Any:
    """Return the value of one annotation; None where it has none or is damaged."""
    entries: dict[str, Any] = {}
    items: list[Any] = []
    result: Any = None
    if depth == 0:
        return None
    try:
        for number, value in fields(raw, (0, len(raw))):
            if number in (_ENTRIES, _ARRAY) and isinstance(value, tuple):
                # sizes and the like are the same in many annotations: each is decoded once
                key = raw[value[0] : value[1]], epoch, depth
                if key not in memo:
                    memo[key] = _value(key[0], epoch, strings, depth - 1, memo)
                if number == _ARRAY:
                    items.append(memo[key])
                else:
                    entries[_name(raw, value)] = memo[key]
            elif isinstance(value, tuple):
                result = text(raw, value) if number in (_TEXT, _JSON) else result
            elif number == _BOOL:
                result = value == 1
            elif number in (_UINT, _POINTER):
                result = value
            elif number == _INT:
                result = signed(value)
            elif number == _DOUBLE:
                result = float64(value)
            elif number == _STRING_IID:
                string = strings.names(np.array([epoch]), np.array([value]))
                result = [*string.values, None][int(string.codes[0])]
    except WireError:
        return result
    return items or entries or result


def _name(raw: bytes, span: Span) -> str:
    return next((text(raw, value) for number, value in fields(raw, span) if number == 10), "")
