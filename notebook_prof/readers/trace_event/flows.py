"""Flow events: arrows between slices, written as separate events (s t f) or as marks on slices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import bounded_repr
from ...trace.arrays import BoolArray, IntArray, number_rows
from ...trace.builder import TraceBuilder
from ...trace.nesting import nest
from ...trace.strings import Coded
from ..codec.columns import groups
from ..events import lanes, match
from .events import EventColumns, Tracks, texts
from .slices import CollectedArguments, Placed

# Asynchronous events, nestable (b n e) and old (S T p F), on separate lanes.

_BEGIN, _END, _POINT = "bS", "eF", "nTp"
_HOUR_NS = 3_600_000_000_000


def add_asyncs(
    events: EventColumns, tracks: Tracks, arguments: CollectedArguments, builder: TraceBuilder
) -> None:
    """Add asynchronous events to `builder` as annotations."""
    # Events with the same id belong together, whichever threads wrote them. The events of a process and
    # category share lanes: tracks of kind ``process``, as few as their overlaps allow. A begin without an end
    # lasts until the end of the trace.
    rows = events.where(_BEGIN + _END + _POINT)
    elsewhere = _on_another_clock(events, rows)
    builder.report.add_where(
        "another-clock",
        "loss",
        elsewhere,
        lambda i: bounded_repr(events.rows[rows[i]].name),
        "asynchronous events are hours away from all others, as on another clock; left out",
        "open the file at ui.perfetto.dev to see them",
    )
    rows = rows[~elsewhere]
    if not len(rows):
        return
    phase, ts = events.phase[rows], events.ts[rows]
    tree = _trees(events, rows)
    opens = np.isin(phase, list(_BEGIN))
    marks = np.flatnonzero(~np.isin(phase, list(_POINT)))
    pairs = match(tree[marks], np.asarray(events.name.codes[rows[marks]], np.int64), ts[marks], opens[marks])
    last = int((events.ts + np.maximum(events.dur, 0)).max(initial=0))
    points = np.flatnonzero(np.isin(phase, list(_POINT)))
    begin, lasting = pairs.spans(ts[marks], last)
    unclosed = marks[pairs.unclosed]
    at = np.concatenate([marks[begin], points])
    dur = np.concatenate([lasting, np.zeros(len(points), np.int64)])
    for code, lost, effect in (
        ("unclosed-async", rows[unclosed], "kept until the end of the trace"),
        ("async-end-without-begin", rows[marks[pairs.unopened]], "ignored"),
    ):
        builder.report.add_where(code, "loss", lost, lambda i: bounded_repr(events.rows[i].name), effect)
    shut = np.concatenate([rows[marks[pairs.end]], np.full(len(unclosed) + len(points), -1, np.int64)])
    order = np.argsort(at, kind="stable")
    at, dur, shut = at[order], dur[order], shut[order]
    track = _tracks(events, tracks, rows[at], tree[at], ts[at], ts[at] + dur, builder)
    name = Coded(events.name.codes[rows[at]], events.name.values)
    builder.slices(ts=ts[at], dur=dur, track=track, name=name, category="annotation")
    arguments.add(events, rows[at], shut, track, name, dur)


def _on_another_clock(events: EventColumns, rows: IntArray) -> BoolArray:
    """Return which events use another clock: an hour, and 100 times both spans, away from all others."""
    others = np.setdiff1d(events.where("XBEiIRC"), rows)
    own = events.ts[rows]
    if not len(rows) or not len(others):
        return np.zeros(len(rows), bool)
    first, last = events.ts[others].min(), (events.ts[others] + np.maximum(events.dur[others], 0)).max()
    apart = np.maximum(own - last, first - own)
    far = apart > _HOUR_NS
    near = np.concatenate([[first, last], own[~far]])
    if not far.any() or apart[far].min() <= 100 * (np.ptp(own[far]) + np.ptp(near)):
        return np.zeros(len(rows), bool)
    return np.asarray(far, bool)


def _trees(events: EventColumns, rows: IntArray) -> IntArray:
    """Group events by category and id, old events also by name, and local ids also by process."""
    chosen = [events.rows[i] for i in rows.tolist()]
    ids = texts(
        f"{row.scope}/{row.id}" if row.id2 is None else f"{row.scope}//{row.id2}" for row in chosen
    ).codes
    local = np.array([isinstance(row.id2, dict) and "local" in row.id2 for row in chosen], bool)
    old = np.isin(events.phase[rows], list("STpF"))
    process = texts(events.thread_ids[code][0] for code in events.thread_code[rows].tolist()).codes
    names = np.where(old, events.name.codes[rows], -1)
    return groups(ids, events.cat.codes[rows], names, np.where(local, process, -1))[0]


def _tracks(
    events: EventColumns,
    tracks: Tracks,
    rows: IntArray,
    tree: IntArray,
    ts: IntArray,
    end: IntArray,
    builder: TraceBuilder,
) -> IntArray:
    """Return the track of each event: one per lane of a process and category. A tree stays on one lane."""
    code, trees = pd.factorize(tree)
    spans = pd.DataFrame({"first": ts, "last": end}).groupby(code)
    first, last = spans["first"].min().to_numpy(), spans["last"].max().to_numpy()
    home = np.unique(code, return_index=True)[1]
    # the process and category of the first event in the tree
    process = [tracks.process(thread) for thread in events.thread_code[rows[home]].tolist()]
    label = [events.cat.values[c] or "async" for c in events.cat.codes[rows[home]].tolist()]
    group, distinct = number_rows([str(pid) for pid, _ in process], [name for _, name in process], label)
    result = np.empty(len(trees), np.int64)
    for number in range(len(distinct)):
        of_process = np.flatnonzero(group == number)
        lane = lanes(first[of_process], last[of_process])
        pid, process_name = process[of_process[0]]
        before = f"{process_name} · " if pid is None and process_name else ""
        name = f"{before}{label[of_process[0]]} (async)"
        names = (name + (f" {i + 1}" if i else "") for i in range(int(lane.max()) + 1))
        numbers = np.array([builder.track(own, "process", pid=pid) for own in names], np.int64)
        result[of_process] = numbers[lane]
    return np.asarray(result[code])


_SOURCE, _BETWEEN, _TARGET = range(3)


def add_flows(events: EventColumns, tracks: Tracks, placed: Placed, builder: TraceBuilder) -> None:
    """Add arrows to `builder` as flows of the kind ``link``."""
    # An event belongs to the innermost open slice of its thread. A final event without ``bp: "e"`` belongs to
    # the next slice that begins on its thread. Events with the same category, name and id are connected in
    # order of time.
    parts = [_written(events, tracks, placed), _marked(events, placed)]
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
    events: EventColumns, tracks: Tracks, placed: Placed
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    rows = events.where("stf")
    chosen = [events.rows[i] for i in rows.tolist()]
    ids = texts(f"{row.id}" if row.id2 is None else f"//{row.id2}" for row in chosen).codes
    group, _ = groups(ids, events.cat.codes[rows], events.name.codes[rows])
    phase = events.phase[rows]
    role = np.select([phase == "s", phase == "t"], [_SOURCE, _BETWEEN], _TARGET)
    around = np.array([row.bp == "e" for row in chosen], bool) | (phase != "f")
    track, ts = tracks.of(rows), events.ts[rows]
    home = np.where(around, _enclosing(placed, track, ts), _following(placed, track, ts))
    return group, ts, role.astype(np.int64), home


def _marked(events: EventColumns, placed: Placed) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return groups (negative), times, roles and positions of slices with ``bind_id`` and a direction."""
    rows = [events.rows[i] for i in placed.row.tolist()]
    at = np.array([i for i, row in enumerate(rows) if row.bind_id is not None], np.int64)
    into = np.array([rows[i].flow_in is True for i in at.tolist()], bool)
    out = np.array([rows[i].flow_out is True for i in at.tolist()], bool)
    group = -1 - texts(rows[i].bind_id for i in at.tolist()).codes
    role = np.select([into & out, out], [_BETWEEN, _SOURCE], _TARGET)
    used: npt.NDArray[np.bool_] = into | out
    return group[used], placed.ts[at][used], role[used].astype(np.int64), at[used]


def _enclosing(placed: Placed, track: IntArray, ts: IntArray) -> IntArray:
    """Return the position of the innermost slice that is open at each instant; -1 for none."""
    n = len(placed.row)
    parent = nest(
        np.concatenate([placed.track, track]),
        np.concatenate([placed.ts, ts]),
        np.concatenate([placed.dur, np.zeros(len(ts), np.int64)]),
    ).parent[n:]
    # another instant at the same time may have become the parent
    return np.where(parent < n, parent, -1)


def _following(placed: Placed, track: IntArray, ts: IntArray) -> IntArray:
    """Return the position of the next slice that begins on the track; -1 for none."""
    if not len(ts):  # as in most files
        return ts
    starts = pd.DataFrame({"ts": placed.ts, "track": placed.track, "at": np.arange(len(placed.row))})
    order = np.argsort(ts, kind="stable")
    ends = pd.DataFrame({"ts": ts[order], "track": track[order]})
    starts = starts.sort_values("ts", kind="stable")
    next_starts = pd.merge_asof(ends, starts, on="ts", by="track", direction="forward")
    result = np.empty(len(ts), np.int64)
    result[order] = next_starts["at"].fillna(-1)
    return result
