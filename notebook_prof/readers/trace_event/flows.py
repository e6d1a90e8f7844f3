"""Flow events: arrows from slice to slice, as events of their own (s t f) or as marks on slices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.nesting import nest
from .events import Events, texts
from .slices import Placed
from .tracks import Tracks

_SOURCE, _BETWEEN, _TARGET = range(3)


def add_flows(events: Events, tracks: Tracks, placed: Placed, builder: TraceBuilder) -> None:
    """Put arrows into `builder`, as flows of the kind ``link``.

    An event binds to the slice that is open around it on its thread, a final one without ``bp: "e"`` to
    the next slice that begins there. Events of one category, name and id are joined in the order of
    time.
    """
    parts = [_written(events, tracks, placed, builder), _marked(events, placed)]
    group, ts, role, home = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((role != _SOURCE, ts, group))
    group, role, home = group[order], role[order], home[order]
    row = np.arange(len(order))
    sources = np.where(role != _TARGET, row, -1)
    # the latest source before each target, within its group
    before = np.maximum.accumulate(np.concatenate([[-1], sources]))[:-1] if len(row) else row
    target = (role != _SOURCE) & (before >= 0)
    target &= group[before] == group
    src, dst = home[before[target]], home[row[target]]
    drawn = (src >= 0) & (dst >= 0) & (src != dst)
    builder.report.add(
        "flow-without-source", "info", int(((role != _SOURCE) & ~target).sum()), effect="no arrow"
    )
    builder.report.add("flow-without-slice", "info", int(((src < 0) | (dst < 0)).sum()), effect="no arrow")
    builder.flows("link", placed.handle[src[drawn]], placed.handle[dst[drawn]])


def _written(
    events: Events, tracks: Tracks, placed: Placed, builder: TraceBuilder
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    rows = events.where("stf")
    chosen = [events.rows[i] for i in rows.tolist()]
    ids = texts(f"{row.id}" if row.id2 is None else f"//{row.id2}" for row in chosen).codes
    key = np.stack([ids, events.cat.codes[rows], events.name.codes[rows]])
    group = np.unique(key, axis=1, return_inverse=True)[1].ravel() if len(rows) else np.empty(0, np.int64)
    phase = events.phase[rows]
    role = np.select([phase == "s", phase == "t"], [_SOURCE, _BETWEEN], _TARGET)
    around = np.array([row.bp == "e" for row in chosen], bool) | (phase != "f")
    track, ts = tracks.of(rows), events.ts[rows]
    home = np.where(around, _enclosing(placed, track, ts), _following(placed, track, ts))
    return group.astype(np.int64), ts, role.astype(np.int64), home


def _marked(events: Events, placed: Placed) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return slices with ``bind_id`` and ``flow_in`` or ``flow_out``; groups are negative."""
    rows = [events.rows[i] for i in placed.row.tolist()]
    at = np.array([i for i, row in enumerate(rows) if row.bind_id is not None], np.int64)
    into = np.array([rows[i].flow_in is True for i in at.tolist()], bool)
    out = np.array([rows[i].flow_out is True for i in at.tolist()], bool)
    group = -1 - texts(rows[i].bind_id for i in at.tolist()).codes
    role = np.select([into & out, out], [_BETWEEN, _SOURCE], _TARGET)
    used: npt.NDArray[np.bool_] = into | out
    return group[used], placed.ts[at][used], role[used].astype(np.int64), at[used]


def _enclosing(placed: Placed, track: IntArray, ts: IntArray) -> IntArray:
    """Return the position of the innermost slice that is open at each instant, -1 for none."""
    n = len(placed.row)
    parent = nest(
        np.concatenate([placed.track, track]),
        np.concatenate([placed.ts, ts]),
        np.concatenate([placed.dur, np.zeros(len(ts), np.int64)]),
    ).parent[n:]
    # an instant of the same moment may have become the parent
    return np.where(parent < n, parent, -1)


def _following(placed: Placed, track: IntArray, ts: IntArray) -> IntArray:
    """Return the position of the next slice that begins on the track, -1 for none."""
    n = len(placed.row)
    both_track, both_ts = np.concatenate([placed.track, track]), np.concatenate([placed.ts, ts])
    is_slice = np.concatenate([np.ones(n, bool), np.zeros(len(ts), bool)])
    # instants before the slices that begin with them, then read from the end
    order = np.lexsort((is_slice, both_ts, both_track))[::-1]
    latest = np.maximum.accumulate(np.where(is_slice[order], np.arange(len(order)), -1))
    following = np.full(n + len(ts), -1, np.int64)
    following[order] = np.where(latest >= 0, order[np.maximum(latest, 0)], -1)
    result = following[n:]
    same = (result >= 0) & (placed.track[np.minimum(result, n - 1)] == track) if n else result >= 0
    return np.where(same, result, -1)
