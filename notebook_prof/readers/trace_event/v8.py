"""Profiles of V8 inside of a trace, as Chrome's DevTools and Node.js write them: Profile and ProfileChunk."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ..call_tree import Frame, sample_durations
from ..stack_tree import add_tree_samples, stack_tree
from .events import Events, Tracks, texts

NAMES: Final = ("Profile", "ProfileChunk")
_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_LARGEST: Final = 2.0**52
_IDLE: Final = "(idle)"


class _Place(Struct):
    function: str = field(name="functionName", default="")
    url: str = ""
    line: int = field(name="lineNumber", default=-1)


class _Node(Struct):
    id: int
    parent: int = -1
    place: _Place = field(name="callFrame", default_factory=_Place)


class _Profile(Struct):
    nodes: list[_Node] = []
    samples: list[int] = []


class _Data(Struct):
    start: int | float | None = field(name="startTime", default=None)
    profile: _Profile = field(name="cpuProfile", default_factory=_Profile)
    deltas: list[int | float] = field(name="timeDeltas", default_factory=list)


class _Arguments(Struct):
    data: _Data = field(default_factory=_Data)


def add_v8_profiles(events: Events, tracks: Tracks, base_ns: int, builder: TraceBuilder) -> None:
    """Add the samples of each profile, whose events share a process and an id, to the thread it is of."""
    # How much time a sample represents is decided by `sample_durations`; idle ones become ``sync``. Arguments
    # of events that were read are consumed.
    rows = np.array([i for i in events.where("P").tolist() if events.rows[i].name in NAMES], np.int64)
    profile = texts(f"{events.rows[i].pid}/{events.rows[i].id}" for i in rows.tolist()).codes
    order = np.argsort(profile, kind="stable")
    for own in np.split(rows[order], np.flatnonzero(np.diff(profile[order])) + 1):
        if len(own):
            _add(events, own, tracks, base_ns, builder)


def _add(events: Events, rows: IntArray, tracks: Tracks, base_ns: int, builder: TraceBuilder) -> None:
    parts = {i: part for i in rows.tolist() if (part := _decoded(events, i, builder)) is not None}
    # the sampled thread writes the first event, and the sampler's thread the chunks
    head = min(parts, key=lambda i: (events.rows[i].name != NAMES[0], i), default=-1)
    chunks = sorted(parts, key=lambda i: int(events.ts[i]))
    nodes = [node for i in chunks for node in parts[i].profile.nodes]
    pairs = [pair for i in chunks for pair in zip(parts[i].profile.samples, parts[i].deltas, strict=False)]
    builder.report.add(
        "sample-without-time",
        "loss",
        sum(len(part.profile.samples) for part in parts.values()) - len(pairs),
        effect="these samples are left out",
    )
    if not nodes or not pairs:
        return
    number = pd.Index([node.id for node in nodes])
    number = number[~number.duplicated()]
    first = number.get_indexer_for([node.id for node in nodes])
    parent = np.full(len(number), -1, np.int64)
    parent[first[::-1]] = number.get_indexer_for([node.parent for node in nodes])[::-1]
    parent = np.where(parent < np.arange(len(number)), parent, -1)
    node_of = dict(zip(reversed(first.tolist()), reversed(nodes), strict=True))
    frames = [_frame(node_of[i].place) for i in range(len(number))]
    idle = np.array([frame.function == _IDLE for frame in frames], bool)
    tree, node = stack_tree(parent, np.arange(len(number)), frames, builder.report, idle)
    leaf = np.asarray(number.get_indexer_for([sample for sample, _ in pairs]), np.int64)
    start = parts[head].start
    begin = int(events.ts[head]) if start is None else round(start * 1000) + base_ns
    deltas = np.array([float(delta) for _, delta in pairs])
    ts = begin + np.rint(np.cumsum(np.where(np.abs(deltas) < _LARGEST, deltas, 0)) * 1000).astype(np.int64)
    known = np.flatnonzero(leaf >= 0)
    builder.report.add("sample-without-stack", "loss", len(leaf) - len(known), effect="left out")
    known = known[np.argsort(ts[known], kind="stable")]
    ts, leaf = ts[known], leaf[known]
    track = int(tracks.of(np.array([head], np.int64))[0])
    add_tree_samples(builder, track, ts, sample_durations(ts), node[leaf], tree)


def _decoded(events: Events, row: int, builder: TraceBuilder) -> _Data | None:
    text: Any = events.rows[row].args
    try:
        data = msgspec.json.decode(text, type=_Arguments).data
    except _BROKEN as error:
        builder.report.add("broken-samples", "loss", example=str(error)[:80], effect="left out")
        return None
    if data.start is not None and not abs(data.start) < _LARGEST:
        data.start = None
    events.rows[row].args = Raw(b"")
    return data


def _frame(place: _Place) -> Frame:
    line = place.line + 1 if 0 <= place.line < 2**31 - 1 else 0
    return Frame(place.function or "(anonymous)", place.url, line)
