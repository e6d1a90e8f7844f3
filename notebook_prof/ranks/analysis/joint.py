"""Several ranks in one graph of dependences: in collectives, ranks wait for the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...analysis.critical_path.dependences import Dependences, RankEdges, dependences
from ...analysis.critical_path.resources import EVENT, EVENTS, FAR, STREAM, WAITS, Resources, StreamWork
from ...analysis.critical_path.streams import Latencies, runs_bound_by_stream
from ...analysis.critical_path.waits import Waits, by_thread
from ...analysis.distributed.collectives import SYMMETRIC
from ...trace import Trace
from ...trace.arrays import BoolArray, FloatArray, IntArray
from .stacking import divided, stacked

_ARRIVAL_NS: Final = 1
"""Length of the arrival part of a device collective without waiting."""


@dataclass(frozen=True)
class Joint:
    """Ranks on one time axis, with the waits of their threads and streams."""

    # The Trace of all ranks. Each device collective is two slices: before and after the last rank's arrival.
    trace: Trace
    # The dependences of `trace`, including waits of collectives.
    graph: Dependences
    # By rank, its own recording on the common axis.
    own: Mapping[int, Trace]
    # For each slice and track of `trace`: the row and track in its rank's own recording.
    own_row: IntArray
    own_track: IntArray
    # ``rank step start_ns end_ns`` int64 on the common axis.
    steps: pd.DataFrame
    # Factors that remove the time waiting for other ranks, which a replay recomputes.
    waiting: FloatArray
    # Waits for another rank that ended, by the clocks, before that rank arrived: not used in a replay.
    apart: int
    # Waits for another rank.
    bound: int
    # The arrivals from which it was made.
    arrived: pd.DataFrame
    # By rank, from its own recording.
    latencies: Mapping[int, Latencies]


class _Meetings(NamedTuple):
    """Collectives by participating rank: one row per collective and rank; arrays of one length."""

    match: IntArray
    rank: IntArray
    slice: IntArray
    # ns; on the common axis.
    start: IntArray
    end: IntArray
    # Index, among these, of the rank that arrived last.
    last: IntArray
    # ns from the previous arrival to the last one.
    margin: IntArray
    # Whether the last rank arrived while this one was in the collective.
    bound: BoolArray
    # Whether no rank can leave before all have arrived.
    symmetric: BoolArray
    on_stream: BoolArray


def joint(
    ranks: Sequence[tuple[int, Trace]],
    arrived: pd.DataFrame,
    *,
    start_unix_ns: int,
    latencies: Mapping[int, Latencies] | None = None,
) -> Joint:
    """Put ranks, with times on the common axis, into one graph."""
    # Each rank's own waits come from its recording, as in `critical_path`. A rank that was in a collective
    # when the last one arrived resumes from there: the path leaves it for the last rank, at the instant of
    # its arrival.
    # `arrived` has ``rank match slice operation`` and ``margin_ns`` of shared collectives; `latencies`
    # default to those of each rank's own recording.
    met = _meetings(ranks, arrived)
    until = np.where(met.bound, met.start[met.last], met.start) + _ARRIVAL_NS
    cut = np.minimum(until, met.end - 1)
    parts, graphs, least = [], [], {}
    for rank, trace in ranks:
        here = (met.rank == rank) & met.on_stream
        part = divided(trace, met.slice[here], cut[here])
        first = least[rank] = dependences(trace).latencies if latencies is None else latencies[rank]
        graphs.append(dependences(part, latency=first.launch, spacing=first.spacing))
        parts.append((rank, part))
    trace = stacked(parts, start_unix_ns=start_unix_ns)
    numbers = _Numbers.of(trace, parts)
    graph = _merged(trace, [rank for rank, _ in ranks], graphs, _pooled([*least.values()]), numbers)
    return _with_collectives(graph, met, dict(ranks), numbers, arrived, least)


def _meetings(ranks: Sequence[tuple[int, Trace]], arrived: pd.DataFrame) -> _Meetings:
    """Return collectives shared by at least two of these ranks, all on streams or all on threads."""
    parts = []
    for rank, trace in ranks:
        own = arrived[arrived["rank"] == rank]
        own = own.reindex(columns=["match", "slice", "operation", "margin_ns"])  # an empty table lacks some
        row = own["slice"].to_numpy(np.int64)
        start, dur = (trace.slices[name].to_numpy()[row] for name in ("ts", "dur"))
        streams = trace.tracks.loc[(trace.tracks["kind"] == "stream").to_numpy(), "track"]
        on_stream = trace.slices["track"].iloc[row].isin(streams).to_numpy()
        parts.append(own.assign(rank=rank, start=start, end=start + dur, on_stream=on_stream))
    table = pd.concat(parts, ignore_index=True)
    table = table[table["end"] - table["start"] > _ARRIVAL_NS]
    by_match = table.groupby("match")
    alike = by_match["on_stream"].transform("nunique") == 1
    table = table[(by_match["rank"].transform("size") > 1) & alike]
    table = table.sort_values(["match", "start", "rank"], kind="stable").reset_index(drop=True)
    size = table.groupby("match")["rank"].transform("size").to_numpy()
    nth = table.groupby("match").cumcount().to_numpy()
    last = np.arange(len(table)) - nth + size - 1
    start, end = (table[name].to_numpy(np.int64) for name in ("start", "end"))
    bound = (start < start[last]) & (start[last] < end)
    match, rank, row = (table[name].to_numpy(np.int64) for name in ("match", "rank", "slice"))
    symmetric = table["operation"].isin(SYMMETRIC).to_numpy()
    on_stream = table["on_stream"].to_numpy(bool)
    margin = table["margin_ns"].to_numpy(np.int64)
    return _Meetings(match, rank, row, start, end, last, margin, bound, symmetric, on_stream)


class _Numbers(NamedTuple):
    """Rows and tracks of ranks in the Trace of all ranks."""

    # By rank: the row in the Trace of all ranks of each row of its divided Trace; the last entry, -1, is for
    # missing rows.
    row: dict[int, IntArray]
    # By rank: row of each slice of its own recording, or of the slice's first part; and of the second part,
    # or -1.
    whole: dict[int, IntArray]
    second: dict[int, IntArray]
    # By rank: offset of its tracks.
    track: dict[int, int]
    own_row: IntArray

    @classmethod
    def of(cls, trace: Trace, parts: Sequence[tuple[int, Trace]]) -> _Numbers:
        """Look them up: slices of a rank stay in their order."""
        own_row = trace.slices["own_row"].to_numpy(np.int64)
        rank_of = trace.slices["rank"].to_numpy(np.int64)
        row, whole, second, track, first = {}, {}, {}, {}, 0
        for rank, part in parts:
            rows = np.flatnonzero(rank_of == rank)
            row[rank] = np.append(rows, -1)
            count = int(own_row[rows].max(initial=-1)) + 1
            whole[rank], second[rank] = np.full(count + 1, -1), np.full(count + 1, -1)
            second[rank][own_row[rows]] = rows
            whole[rank][own_row[rows][::-1]] = rows[::-1]
            second[rank][second[rank] == whole[rank]] = -1
            track[rank] = first
            first += int(part.tracks["track"].max()) + 1 if len(part.tracks) else 0
        return cls(row, whole, second, track, own_row)


def _pooled(least: Sequence[Latencies]) -> Latencies:
    """Return the median of the ranks' latencies, and the largest noise."""
    call, spacing, launch = (
        int(np.median([getattr(one, name) for one in least])) for name in ("call", "spacing", "launch")
    )
    return Latencies(call, spacing, launch, max(one.noise for one in least))


def _merged(
    trace: Trace, ranks: Sequence[int], graphs: Sequence[Dependences], latencies: Latencies, numbers: _Numbers
) -> Dependences:
    """Put the dependences of ranks side by side."""
    resources = Resources(trace)
    threads: dict[int, Waits] = {}
    streams: dict[int, StreamWork] = {}
    position = np.full(len(trace.slices), -1, np.int64)
    mains = {}
    for rank, graph in zip(ranks, graphs, strict=True):
        row, more = numbers.row[rank], numbers.track[rank]
        mains[rank] = graph.main + more if graph.main >= 0 else -1
        for track, waits in graph.threads.items():
            threads[track + more] = waits._replace(
                thread=waits.thread + more,
                track=np.where(waits.track >= 0, waits.track + more, -1),
                row=row[waits.row],
                slice=row[waits.slice],
            )
        for track, own in graph.streams.items():
            moved = replace(own, rows=row[own.rows], call=row[own.call], event=row[own.event])
            streams[track + more] = moved
            position[moved.rows] = np.arange(len(moved.rows))
    first = next((main for main in mains.values() if main >= 0), -1)
    return Dependences(
        resources, threads, streams, position, first, latencies,
        all(graph.scopes_recorded for graph in graphs), mains,
    )  # fmt: skip


def _with_collectives(
    graph: Dependences,
    met: _Meetings,
    own: Mapping[int, Trace],
    numbers: _Numbers,
    arrived: pd.DataFrame,
    latencies: Mapping[int, Latencies],
) -> Joint:
    """Let collectives wait for the last rank and, in a replay, for all that must arrive."""
    resources = graph.resources
    trace = resources.trace
    waiting = np.ones(len(trace.slices))
    first, second = np.full(len(met.rank), -1), np.full(len(met.rank), -1)
    for rank in own:
        here = met.rank == rank
        first[here] = numbers.whole[rank][met.slice[here]]
        second[here] = numbers.second[rank][met.slice[here]]
    on_stream, on_thread = np.flatnonzero(met.on_stream), np.flatnonzero(~met.on_stream)
    waiting[first[on_stream]] = _ARRIVAL_NS / np.maximum(
        resources.end[first[on_stream]] - resources.ts[first[on_stream]], 1
    )
    target, source = _pairs(met)
    _bind_work(graph, met, first, second, on_stream[met.bound[on_stream]])
    threads, unmet = _bind_threads(graph, met, first, on_thread)
    device = met.on_stream[target]
    late = np.where(device, resources.end[first[source]] > resources.ts[second[target]], False)
    late |= ~device & (met.start[source] > np.where(met.bound, met.start[met.last], met.start)[target])
    target, source, device = target[~late], source[~late], device[~late]
    between = RankEdges(
        transfer=second[target[device]],
        arrival=first[source[device]],
        call=first[target[~device]],
        thread=resources.track[first[source[~device]]],
        at=met.start[source[~device]],
        unmet=unmet,
    )
    tracks, ranks = (trace.tracks[name].to_numpy(np.int64) for name in ("track", "rank"))
    own_track = np.full(int(tracks.max(initial=-1)) + 2, -1)
    own_track[tracks] = tracks - np.array([numbers.track[one] for one in ranks.tolist()], np.int64)
    graph = replace(graph, threads=threads, between=between)
    steps = _steps_of(own)
    apart = int((met.symmetric & ~met.bound & (met.start < met.start[met.last])).sum())
    bound = int(met.bound.sum())
    return Joint(
        trace, graph, own, numbers.own_row, own_track, steps, waiting, apart, bound, arrived, latencies
    )  # fmt: skip


def _pairs(met: _Meetings) -> tuple[IntArray, IntArray]:
    """Return indices of waits and of their causes: all other ranks, or else the last one if it bound."""
    table = pd.DataFrame({"match": met.match, "place": np.arange(len(met.match))})
    every = table[met.symmetric].merge(table, on="match")
    every = every[every["place_x"] != every["place_y"]]
    others = np.flatnonzero(met.bound & ~met.symmetric)
    target = np.concatenate([every["place_x"].to_numpy(np.int64), others])
    return target, np.concatenate([every["place_y"].to_numpy(np.int64), met.last[others]])


def _bind_work(
    graph: Dependences, met: _Meetings, first: IntArray, second: IntArray, places: IntArray
) -> None:
    """Let the transfers of collectives on devices begin with the arrival of the last rank."""
    track = graph.resources.track[second[places]]
    for number, stream in graph.streams.items():
        here = places[track == number]
        at = graph.position[second[here]]
        stream.event[at] = first[met.last[here]]
        stream.event_kind[at] = EVENTS.index("collective")
        stream.bound[at] = EVENT
        stream.margin[at] = met.margin[here]
        stream.root = runs_bound_by_stream(stream.bound == STREAM, stream.before)


def _bind_threads(
    graph: Dependences, met: _Meetings, first: IntArray, places: IntArray
) -> tuple[dict[int, Waits], Waits]:
    """Return the waits of all threads, with collectives, and the collectives that do not wait yet."""
    track, kind = graph.resources.track, WAITS.index("host-collective")
    done = met.start[met.last]

    def waits(here: IntArray, done: IntArray, end: IntArray, cause: IntArray, margin: IntArray) -> Waits:
        code, none = np.full(len(here), kind), np.full(len(here), -1)
        call = first[here]
        return Waits(track[call], met.start[here], done, end, cause, none, call, code, margin)

    bound, free = places[met.bound[places]], places[~met.bound[places]]
    more = waits(bound, done[bound], done[bound], track[first[met.last[bound]]], met.margin[bound])
    threads = by_thread([*graph.threads.values(), more], list(graph.resources.threads))
    start, margin = met.start[free], np.full(len(free), FAR)
    return threads, waits(free, start, start + _ARRIVAL_NS, track[first[free]], margin)


def _steps_of(own: Mapping[int, Trace]) -> pd.DataFrame:
    """Return the steps of each rank or, without any, each whole recording with the number -1."""
    parts = [trace.steps.assign(rank=rank) for rank, trace in own.items()]
    if not any(map(len, parts)):
        wholes = {rank: trace.slices for rank, trace in own.items() if len(trace.slices)}
        begins = [int(slices["ts"].min()) for slices in wholes.values()]
        ends = [int((slices["ts"] + slices["dur"]).max()) for slices in wholes.values()]
        durs = np.subtract(ends, begins)
        parts = [pd.DataFrame({"rank": list(wholes), "step": -1, "ts": begins, "dur": durs})]
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(start_ns=table["ts"], end_ns=table["ts"] + table["dur"])
    return table[["rank", "step", "start_ns", "end_ns"]].astype(np.int64)
