"""The file's call stacks, and samples that refer to them (Hermes, V8, phase P)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...trace.arrays import IntArray, numbered
from ...trace.builder import TraceBuilder
from ..call_tree import (
    MAX_DEPTH,
    CallFrame,
    Sampled,
    add_samples,
    add_tree_samples,
    count_samples,
    depth_limit,
    sample_durations,
    stack_tree,
)
from ..codec.tolerant_json import UNDECODABLE, decoded
from .events import EventColumns, EventRow, Tracks, atom, texts

# Profiles of V8 inside a trace, as Chrome's DevTools and Node.js write them: Profile and ProfileChunk.

V8_NAMES: Final = ("Profile", "ProfileChunk")
_LARGEST: Final = 2.0**52
_IDLE: Final = "(idle)"


class _Place(Struct):
    function: str = field(name="functionName", default="")
    url: str = ""
    line: int = field(name="lineNumber", default=-1)


class _V8Node(Struct):
    id: int
    parent: int = -1
    place: _Place = field(name="callFrame", default_factory=_Place)


class _V8Profile(Struct):
    nodes: list[_V8Node] = []
    samples: list[int] = []


class _Data(Struct):
    start: int | float | None = field(name="startTime", default=None)
    profile: _V8Profile = field(name="cpuProfile", default_factory=_V8Profile)
    deltas: list[int | float] = field(name="timeDeltas", default_factory=list)


class _Arguments(Struct):
    data: _Data = field(default_factory=_Data)


def add_v8_profiles(events: EventColumns, tracks: Tracks, base_ns: int, builder: TraceBuilder) -> None:
    """Add the samples of each profile, whose events share a process and an id, to the sampled thread."""
    # `sample_durations` decides how much time a sample represents; idle ones become ``sync``. Arguments
    # of events that were read are consumed.
    rows = np.array([i for i in events.where("P").tolist() if events.rows[i].name in V8_NAMES], np.int64)
    profile = texts(f"{events.rows[i].pid}/{events.rows[i].id}" for i in rows.tolist()).codes
    order = np.argsort(profile, kind="stable")
    for own in np.split(rows[order], np.flatnonzero(np.diff(profile[order])) + 1):
        if len(own):
            _add(events, own, tracks, base_ns, builder)


def _add(events: EventColumns, rows: IntArray, tracks: Tracks, base_ns: int, builder: TraceBuilder) -> None:
    parts = {i: part for i in rows.tolist() if (part := _decoded(events, i, builder)) is not None}
    # the sampled thread writes the first event, and the sampler's thread the chunks
    head = min(parts, key=lambda i: (events.rows[i].name != V8_NAMES[0], i), default=-1)
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
    count_samples(builder, track, len(ts))
    add_tree_samples(builder, track, ts, sample_durations(ts), node[leaf], tree)


def _decoded(events: EventColumns, row: int, builder: TraceBuilder) -> _Data | None:
    text: Any = events.rows[row].args
    try:
        data = msgspec.json.decode(text, type=_Arguments).data
    except UNDECODABLE as error:
        builder.report.add("broken-samples", "loss", example=str(error)[:80], effect="left out")
        return None
    if data.start is not None and not abs(data.start) < _LARGEST:
        data.start = None
    events.rows[row].args = Raw(b"")
    return data


def _frame(place: _Place) -> CallFrame:
    line = place.line + 1 if 0 <= place.line < 2**31 - 1 else 0
    return CallFrame(place.function or "(anonymous)", place.url, line)


_MAX_PATHS: Final = 5_000_000


class FileStacks:
    """The table ``stackFrames``: frames by id, each with its parent."""

    def __init__(self, table: Any) -> None:
        entries = table if isinstance(table, dict) else {}
        self._entries = {key: entry for key, entry in entries.items() if isinstance(entry, dict)}
        self._number = {key: i for i, key in enumerate(self._entries)}
        self.frames = [
            CallFrame(str(entry.get("name", "(unnamed)")), str(entry.get("file", "")), 0)
            for entry in self._entries.values()
        ]

    def path(self, leaf: Any) -> list[int]:
        """Return a leaf's stack as positions in `frames`, root first; cut if a frame is its own ancestor."""
        positions: dict[int, None] = {}
        key = str(leaf)
        while (number := self._number.get(key)) is not None and number not in positions:
            positions[number] = None
            if len(positions) >= MAX_DEPTH:
                break
            key = str(self._entries[key].get("parent"))
        return list(positions)[::-1]

    def keys(self, leaves: Iterable[Any], builder: TraceBuilder) -> dict[str, int]:
        """Return the builder's stack key for each id. Ids without a stack are left out."""
        distinct = list(dict.fromkeys(map(str, leaves)))
        paths = zip(distinct, self.paths(distinct), strict=True)
        of_path = {leaf: [self.frames[i] for i in path] for leaf, path in paths if path}
        return {leaf: builder.stack(frames) for leaf, frames in of_path.items()}  # noqa: PD013

    def paths(self, leaves: Iterable[str]) -> Iterator[list[int]]:
        """Yield the path of each leaf; empty ones when there are too many frames."""
        room = _MAX_PATHS
        for leaf in leaves:
            path = self.path(leaf) if room > 0 else []
            room -= len(path)
            yield path


def add_sampled(events: EventColumns, tracks: Tracks, stacks: FileStacks, builder: TraceBuilder) -> None:
    """Turn events of phase P that have stacks into slices, with durations of `sample_durations`."""
    rows = np.array([i for i in events.where("P").tolist() if events.rows[i].name not in V8_NAMES], np.int64)
    leaf, keys = numbered(str(atom(events.rows[i].sf)) for i in rows.tolist())
    path_of = list(stacks.paths(keys))
    lengths = np.fromiter(map(len, path_of), np.int64, len(path_of))[leaf]
    bare, effect = rows[lengths == 0], "these samples are left out"
    builder.report.add_where(
        "sample-without-stack", "loss", bare, lambda i: f"sf {events.rows[i].sf!r}", effect
    )
    limit = depth_limit(lengths, builder)
    flat_of = [np.array(path[:limit], np.int64) for path in path_of]
    lengths = np.minimum(lengths, limit)
    track = tracks.of(rows[lengths > 0])
    rows, leaf, lengths = rows[lengths > 0], leaf[lengths > 0], lengths[lengths > 0]
    for number in np.unique(track):
        of_track = np.flatnonzero(track == number)
        of_track = of_track[np.argsort(events.ts[rows[of_track]], kind="stable")]
        ts = events.ts[rows[of_track]]
        flat = np.concatenate([flat_of[i] for i in leaf[of_track].tolist()])
        samples = Sampled(ts, sample_durations(ts), flat, lengths[of_track])
        count_samples(builder, int(number), len(ts))
        add_samples(builder, int(number), samples, stacks.frames)


# Counter events: each series of a counter becomes a track.


def add_counters(events: EventColumns, tracks: Tracks, builder: TraceBuilder) -> None:
    """Add counters to `builder`, and report values that are not numbers."""
    # A track has the counter's name. A series other than ``value`` or that name is appended after a dot, and
    # an id in brackets.
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
    effect = "these values are left out"
    wrong = rows[row[~ok]]
    builder.report.add_where("counter-not-a-number", "loss", wrong, lambda i: events.rows[i].name, effect)
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


def _arguments(rows: list[EventRow]) -> list[dict[str, Any]]:
    values = decoded(b"[" + b",".join(row.args or b"null" for row in rows) + b"]")
    values = [decoded(row.args) for row in rows] if values is None else values
    return [value if isinstance(value, dict) else {} for value in values]


def _numbers(
    values: list[Any],
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.bool_]]]:
    plain = [value if isinstance(value, int | float | str) else None for value in values]
    number = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").to_numpy(np.float64)
    return number, np.isfinite(number)
