"""The tables beside the slices, from what their events tell."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...trace.builder import TraceBuilder
from ...trace.event_tables import ARGUMENTS, DEVICE_TABLES
from ...trace.intervals import IntArray
from ...trace.strings import Coded
from ..event_arguments import argument_rows, argument_table
from .rows import NOTHING, UNDECODABLE, SliceArguments

_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


class Told:
    """Collects what slices were called and launched with."""

    def __init__(self) -> None:
        self._arguments: list[pd.DataFrame] = []
        self._attributes: dict[str, list[tuple[dict[str, Any], bytes]]] = {name: [] for name in DEVICE_TABLES}

    def take(
        self,
        args: list[SliceArguments],
        track: IntArray,
        ts: IntArray,
        dur: IntArray,
        name: Coded,
        numbers: Mapping[str, IntArray],
    ) -> None:
        """Take that of some slices, with their Unix times, and their devices, streams and correlations."""
        texts: dict[bytes, int] = {}
        codes = np.full(len(args), -1, np.int64)
        for i, each in enumerate(args):
            if each.arguments is not NOTHING:
                codes[i] = texts.setdefault(bytes(each.arguments), len(texts))
        if texts:
            words = [text.decode(errors="replace") for text in texts]
            self._arguments.append(argument_rows(track, ts, dur, name, Coded(codes, words)))
        for table, when in DEVICE_TABLES.items():
            told = attrgetter(table)
            for i in [i for i, each in enumerate(args) if told(each) is not NOTHING]:
                place: dict[str, Any] = {key: int(numbers[key][i]) for key in ("device", "stream")}
                place |= {when: int(ts[i]), "correlation": int(numbers["correlation"][i])}
                place["name"] = name.values[name.codes[i]]
                self._attributes[table].append((place, bytes(told(args[i]))))

    def put(self, builder: TraceBuilder) -> None:
        """Put the tables into the metadata of `builder`."""
        found = {ARGUMENTS: argument_table(self._arguments)}
        found |= {name: self._table(name, builder) for name in DEVICE_TABLES}
        if known := {name: table for name, table in found.items() if table is not None}:
            builder.metadata.setdefault("tables", {}).update(known)

    def _table(self, name: str, builder: TraceBuilder) -> pd.DataFrame | None:
        distinct: dict[bytes, dict[str, Any] | None] = {}
        rows = []
        for place, text in self._attributes[name]:
            if text not in distinct:
                distinct[text] = _decoded(text)
            facts = distinct[text]
            if facts is None:
                builder.report.add(
                    "broken-arguments", "loss", example=name, effect="these rows of the table are left out"
                )
            else:
                rows.append({**place, **facts})
        if not rows:
            return None
        table = pd.DataFrame(rows, dtype=object)
        if name == "collectives":
            table = table.drop(columns=["name", "correlation"])
        return table.astype({column: _dtype(table[column]) for column in table})


def _decoded(text: bytes) -> dict[str, Any] | None:
    try:
        return _DECODER.decode(text)
    except UNDECODABLE:
        return None


def _dtype(column: pd.Series[Any]) -> str:
    known = column.dropna()
    kinds = set(map(type, known))
    if column.name in ("device", "stream", "correlation", *DEVICE_TABLES.values()):
        return "int64" if kinds == {int} and len(known) == len(column) else "object"
    if kinds <= {int} and all(abs(value) < 1 << 63 for value in known):
        return "Int64"
    if kinds <= {int, float}:
        return "float64"
    return "category" if kinds == {str} else "object"
