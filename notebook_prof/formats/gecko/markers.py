"""Markers of the Firefox Profiler: annotations that lie beside the samples of their thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...readers.matching import match
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from .tables import NO_TIME, GeckoTable, ms_to_ns, to_floats

_INSTANT, _INTERVAL, _START, _END = 0, 1, 2, 3
_NAMED: Final = ("Text", "UserTiming")
"""Types of markers whose name is in their arguments."""


def add_markers(
    builder: TraceBuilder,
    track_name: str,  # of the track beside the thread
    pid: int | None,
    # has ``phase startTime endTime``, or the older ``time``, whose arguments contain these
    table: GeckoTable,
    strings: Sequence[str],
    base: int,  # where the times of the table begin, in absolute ns
) -> None:
    """Put the markers of a thread into `builder`, and count those that are no markers."""
    if not table.count:
        return
    data = [value if isinstance(value, dict) else {} for value in table.values("data")]
    start, end, phase = _times(table, data)
    code = table.integers("name")
    ok = (code >= 0) & (code < len(strings)) & np.where(phase == _END, end != NO_TIME, start != NO_TIME)
    ok &= (phase != _INTERVAL) | (end != NO_TIME)
    builder.report.add_where(
        "broken-row", "loss", ~ok, lambda i: f"marker {i} of {track_name}", "these are left out"
    )
    names = [
        f"{strings[i]} {one['name']}" if one.get("type") in _NAMED and one.get("name") else strings[i]
        for i, one, good in zip(code.tolist(), data, ok.tolist(), strict=True)
        if good
    ]
    builder.report.add(
        "arguments-not-kept",
        "info",
        sum(len(one) > ("type" in one) for one in data),
        example=next((f"{track_name}: {', '.join(map(str, one))}"[:120] for one in data if len(one) > 1), ""),
        effect="markers have their names and times; what else they tell is left out",
    )
    if not names:
        return
    start, end, phase = start[ok], end[ok], phase[ok]
    begin, stop, row = _spans(builder, names, start, end, phase)
    builder.slices(
        ts=begin + base,
        dur=np.maximum(stop - begin, 0),
        track=builder.track(track_name, "process", pid=pid),
        name=[names[i] for i in row.tolist()],
        category="annotation",
    )


def _times(table: GeckoTable, data: list[dict[str, Any]]) -> tuple[IntArray, IntArray, IntArray]:
    """Return start, end and phase of each marker."""
    if "phase" in table:
        phase = table.integers("phase", _INSTANT)
        return (
            table.ns("startTime"),
            table.ns("endTime"),
            np.where((phase < 0) | (phase > _END), _INSTANT, phase),
        )
    start = table.ns("time")
    begin, end = (ms_to_ns(to_floats([one.get(key) for one in data])) for key in ("startTime", "endTime"))
    spans = (begin != NO_TIME) & (end != NO_TIME)
    sides = [one.get("interval") for one in data]
    opens, closes = (np.array([side == word for side in sides], bool) for word in ("start", "end"))
    phase = np.select([spans, opens, closes], [_INTERVAL, _START, _END], _INSTANT)
    return np.where(spans, begin, start), np.where(spans, end, start), phase.astype(np.int64)


def _spans(
    builder: TraceBuilder, names: list[str], start: IntArray, end: IntArray, phase: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return begin and end of each span, and the row of its name."""
    whole: BoolArray = (phase == _INSTANT) | (phase == _INTERVAL)
    rows = np.flatnonzero(whole)
    begin, stop = start[rows], np.where(phase[rows] == _INTERVAL, end[rows], start[rows])
    sides = np.flatnonzero(~whole)
    at = np.where(phase[sides] == _END, end[sides], start[sides])
    order = np.argsort(at, kind="stable")
    sides, at = sides[order], at[order]
    code_of: dict[str, int] = {}
    codes = np.array([code_of.setdefault(names[i], len(code_of)) for i in sides.tolist()], np.int64)
    pairs = match(np.zeros(len(sides), np.int64), codes, at, phase[sides] != _END)
    last = int(max(at.max(initial=NO_TIME), stop.max(initial=NO_TIME)))
    for issue, lost, effect in (
        ("unclosed-begin", pairs.unclosed, "kept until the last marker of its thread"),
        ("end-without-begin", pairs.unopened, "ignored"),
    ):
        builder.report.add_where(issue, "loss", lost, lambda i: names[sides[i]], effect)
    return (
        np.concatenate([begin, at[pairs.begin], at[pairs.unclosed]]),
        np.concatenate([stop, at[pairs.end], np.full(len(pairs.unclosed), last, np.int64)]),
        np.concatenate([rows, sides[pairs.begin], sides[pairs.unclosed]]),
    )
