"""Asynchronous events, nestable (b n e) and of the old kind (S T p F), on lanes of their own."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from ...errors import bounded_repr
from ...trace.arrays import IntArray, number_rows
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from ..matching import lanes, match
from .arguments import Arguments
from .events import Events, texts
from .tracks import Tracks

_BEGIN, _END, _POINT = "bS", "eF", "nTp"


def add_asyncs(events: Events, tracks: Tracks, arguments: Arguments, builder: TraceBuilder) -> None:
    """Put asynchronous events into `builder`, as annotations.

    Events of one id belong together, wherever they were written. Those of a process and category share
    lanes: tracks of kind ``process``, as few as their overlaps allow. A begin without an end lasts until
    the end of the trace.
    """
    rows = events.where(_BEGIN + _END + _POINT)
    if not len(rows):
        return
    phase, ts = events.phase[rows], events.ts[rows]
    tree = _trees(events, rows)
    opens = np.isin(phase, list(_BEGIN))
    marks = np.flatnonzero(~np.isin(phase, list(_POINT)))
    pairs = match(tree[marks], np.asarray(events.name.codes[rows[marks]], np.int64), ts[marks], opens[marks])
    last = int((events.ts + np.maximum(events.dur, 0)).max(initial=0))
    points = np.flatnonzero(np.isin(phase, list(_POINT)))
    begin, unclosed = marks[pairs.begin], marks[pairs.unclosed]
    at = np.concatenate([begin, unclosed, points])
    dur = np.concatenate(
        [ts[marks[pairs.end]] - ts[begin], last - ts[unclosed], np.zeros(len(points), np.int64)]
    )
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


def _trees(events: Events, rows: IntArray) -> IntArray:
    """Tell which events have one id: by category and id, the old kind by its name too, and local ids."""
    chosen = [events.rows[i] for i in rows.tolist()]
    ids = texts(
        f"{row.scope}/{row.id}" if row.id2 is None else f"{row.scope}//{row.id2}" for row in chosen
    ).codes
    local = np.array([isinstance(row.id2, dict) and "local" in row.id2 for row in chosen], bool)
    old = np.isin(events.phase[rows], list("STpF"))
    process = texts(events.thread_ids[code][0] for code in events.thread_code[rows].tolist()).codes
    key = np.stack(
        [
            ids,
            events.cat.codes[rows],
            np.where(old, events.name.codes[rows], -1),
            np.where(local, process, -1),
        ]
    )
    return np.unique(key, axis=1, return_inverse=True)[1].ravel().astype(np.int64)


def _tracks(
    events: Events,
    tracks: Tracks,
    rows: IntArray,
    tree: IntArray,
    ts: IntArray,
    end: IntArray,
    builder: TraceBuilder,
) -> IntArray:
    """Return a track for each lane of each process and category; a tree stays on one lane."""
    code, trees = pd.factorize(tree)
    first = np.full(len(trees), np.iinfo(np.int64).max)
    last = np.full(len(trees), np.iinfo(np.int64).min)
    np.minimum.at(first, code, ts)
    np.maximum.at(last, code, end)
    home = np.unique(code, return_index=True)[1]
    # the place and category where the tree was first seen
    process = [tracks.process(thread) for thread in events.thread_code[rows[home]].tolist()]
    label = [events.cat.values[c] or "async" for c in events.cat.codes[rows[home]].tolist()]
    group, groups = number_rows([str(pid) for pid, _ in process], [name for _, name in process], label)
    result = np.empty(len(trees), np.int64)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(groups) + 1))
    for lo, hi in itertools.pairwise(bounds):
        of_process = order[lo:hi]
        lane = lanes(first[of_process], last[of_process])
        pid, process_name = process[of_process[0]]
        names = [
            f"{label[of_process[0]]} (async)" + (f" {i + 1}" if i else "") for i in range(int(lane.max()) + 1)
        ]
        if pid is None and process_name:
            names = [f"{process_name} · {name}" for name in names]
        numbers = np.array([builder.track(name, "process", pid=pid) for name in names], np.int64)
        result[of_process] = numbers[lane]
    return np.asarray(result[code])
