"""Counter events: each series of each counter is a track."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from ...trace.builder import TraceBuilder
from .events import Events, texts
from .rows import Row
from .tracks import Tracks


def add_counters(events: Events, tracks: Tracks, builder: TraceBuilder) -> None:
    """Put counters into `builder`; values that are no numbers are counted.

    A counter with the single series ``value``, or one called like itself, has its own name; otherwise
    the series follows after a dot. An id follows in brackets.
    """
    rows = events.where("C")
    if not len(rows):
        return
    values_of_row = _arguments([events.rows[i] for i in rows.tolist()])
    counts = np.fromiter(map(len, values_of_row), np.int64, len(values_of_row))
    builder.report.add_where(
        "empty-counter", "loss", counts == 0, lambda i: events.rows[rows[i]].name, "no value, left out"
    )
    row = np.repeat(np.arange(len(rows)), counts)
    series = texts(chain.from_iterable(values_of_row))
    value, ok = _numbers(list(chain.from_iterable(each.values() for each in values_of_row)))
    builder.report.add_where(
        "counter-not-a-number",
        "loss",
        ~ok,
        lambda i: events.rows[rows[row[i]]].name,
        "these values are left out",
    )
    ids = texts("" if events.rows[i].id is None else events.rows[i].id for i in rows.tolist())
    process = texts(events.thread_ids[thread][0] for thread in events.thread_code[rows].tolist())
    key = np.stack([process.codes[row], events.name.codes[rows[row]], ids.codes[row], series.codes])
    if not key.shape[1]:
        return
    distinct, first, code = np.unique(key, axis=1, return_index=True, return_inverse=True)
    track = np.empty(distinct.shape[1], np.int64)
    for number, (_, name, own, word) in enumerate(distinct.T.tolist()):
        text = _label(events.name.values[name], ids.values[own], series.values[word])
        pid, process_name = tracks.process(int(events.thread_code[rows[row[first[number]]]]))
        if pid is None and process_name:
            text = f"{process_name} · {text}"
        track[number] = builder.track(text, "counter", pid=pid)
    keep = np.flatnonzero(ok)
    builder.counter(track[code.ravel()[keep]], events.ts[rows[row[keep]]], value[keep])


def _label(name: str, own: str, series: str) -> str:
    label = f"{name}[{own}]" if own else name
    return label if series in ("value", name, "") else f"{label}.{series}"


def _arguments(rows: list[Row]) -> list[dict[str, Any]]:
    try:
        decoded = msgspec.json.decode(b"[" + b",".join(row.args or b"null" for row in rows) + b"]")
    except (msgspec.DecodeError, RecursionError):
        decoded = [_decode_value(bytes(row.args)) for row in rows]
    return [value if isinstance(value, dict) else {} for value in decoded]


def _decode_value(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _numbers(
    values: list[Any],
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.bool_]]]:
    plain = [value if isinstance(value, int | float | str) else None for value in values]
    number = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").to_numpy(np.float64)
    return number, np.isfinite(number)
