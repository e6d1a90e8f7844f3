"""The critical path of steps across ranks: through the last arrival at each collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ...analysis.critical_path.hops import hops_table
from ...analysis.critical_path.path import PIECES, End, PathSpan, pieces_table
from ...analysis.critical_path.replay.answer import at_times, replayed_times
from ...analysis.critical_path.replay.forward import Replay
from ...analysis.critical_path.resources import FAR, owners_at
from ...analysis.critical_path.walk import HOPS, resource_names, walk
from ...trace.arrays import IntArray
from ...trace.schema import Column, Table
from .clocks import with_margins
from .joint import Joint, joint

BY: Final = ("rank", "class", "name", "category", "resource", "track", "line", "phase", "module", "step")
"""Columns by which the path across ranks can be summed."""

_RANK: Final = Column("rank", "int32", "", "rank that the path runs through")
PATH: Final = Table(
    "ranks_critical_path",
    tuple(column for one in PIECES.columns for column in ((_RANK, one) if one.name == "class" else (one,))),
)
HOP_TABLE: Final = Table.of(
    "ranks_critical_path_hops",
    "step:Int32 at_ns:int64 rank:int32 slice:Int64 name:str cause_rank:int32 cause_slice:Int64 "
    "margin_ns:Int64 near_tie:bool",
)
_COLLECTIVE: Final = ("collective", "host-collective")


def spans_of_ranks(one: Joint, steps: Sequence[int], rank: int | None, end: End) -> list[PathSpan]:
    """Walk steps back from the end on the rank that ends last, or on `rank`."""
    # With `rank`, a step lasts from its start to its end on this rank, else from its first start on any rank.
    table = one.steps[one.steps["step"].isin(steps)]
    if rank is not None:
        table = table[table["rank"] == rank]
    table = _ends(one, table, end)
    out = []
    for number, own in table.groupby("step"):
        begin, last = int(own["start_ns"].min()), own["until_ns"].idxmax()
        until, row = int(own["until_ns"].loc[last]), int(own["row"].loc[last])
        main = one.graph.mains[int(own["rank"].loc[last])]
        track = int(one.graph.resources.track[row]) if row >= 0 else main
        if until > begin and track >= 0:
            path = walk(one.graph, begin, until, track, row)
            where: End = "device" if row >= 0 else "host"
            out.append(PathSpan(int(str(number)), where, track, 0, path))
    return out


def _ends(one: Joint, table: pd.DataFrame, end: End) -> pd.DataFrame:
    """Add each step's end ``until_ns``, and the ``row`` of the device work that ends it; -1 without."""
    # On ranks without a recorded thread, steps end with device work.
    table = table.assign(until_ns=table["end_ns"], row=-1)
    on_threads = table["rank"].map(one.graph.mains).to_numpy(np.int64) >= 0
    if not one.graph.streams or (end == "host" and on_threads.all()):
        return table
    resources = one.graph.resources
    rows = np.concatenate([stream.rows for stream in one.graph.streams.values()])
    slices = one.trace.slices.iloc[rows]
    work = pd.DataFrame(
        {
            "rank": slices["rank"].to_numpy(np.int64),
            "step": slices["step"].to_numpy(dtype=np.int64, na_value=-1),
            "done": resources.end[rows],
            "row": rows,
        }
    )
    last = work.sort_values("done", kind="stable").drop_duplicates(["rank", "step"], keep="last")
    both = table.drop(columns="row").merge(last, on=["rank", "step"], how="left")
    done = both["done"].fillna(-1).to_numpy(np.int64)
    floor = both["end_ns" if end == "last" else "start_ns"].to_numpy(np.int64)
    later = np.where(on_threads, (done > floor) & (end != "host"), done > both["start_ns"].to_numpy(np.int64))
    row = np.where(later, both["row"].fillna(-1).to_numpy(np.int64), -1)
    return both.assign(until_ns=np.where(later, done, both["end_ns"]), row=row)


def path_table(one: Joint, spans: Sequence[PathSpan]) -> pd.DataFrame:
    """Return the table of `RankAnswers.critical_path` for these paths."""
    pieces = pieces_table(one.graph, spans)
    track = pieces["track"].to_numpy(dtype=np.int64, na_value=-1)
    # time without a recorded thread belongs to the rank where the path was before
    rank = pd.Series(_rank_of(one, track)).where(track >= 0).bfill().ffill().fillna(0).to_numpy(np.int64)
    row = pieces["slice"].to_numpy(dtype=np.int64, na_value=-1)
    own_row = np.append(one.own_row, -1)[row]
    columns: dict[str, Any] = {name: pieces[name] for name in PIECES.names}
    columns["rank"] = rank
    columns["slice"] = pd.arrays.IntegerArray(own_row, row < 0)
    columns["track"] = pd.arrays.IntegerArray(one.own_track[track].astype(np.int32), track < 0)
    columns["resource"] = _resources(one, rank, one.own_track[track])
    return _whole_collectives(PATH.frame(columns))


def _whole_collectives(table: pd.DataFrame) -> pd.DataFrame:
    """Join a device's arrival at a collective and its transfer, if they are consecutive."""
    communicates, same = table["class"] == "communication", table[["step", "rank", "slice"]].fillna(-1)
    follows = communicates & communicates.shift(fill_value=False) & table["slice"].notna()
    first = ~(follows & (same == same.shift()).all(axis=1)).to_numpy(bool)
    pieces, out = table.groupby(first.cumsum()), table[first].reset_index(drop=True)
    out["end_ns"] = pieces["end_ns"].last().to_numpy()
    out["dur_ns"] = out["end_ns"] - out["start_ns"]
    out["margin_ns"] = pieces["margin_ns"].min().array
    return out


def _rank_of(one: Joint, track: IntArray) -> IntArray:
    key = one.trace.tracks["track"].to_numpy(np.int64)
    rank = np.zeros(int(key.max(initial=0)) + 1, np.int64)
    rank[key] = one.trace.tracks["rank"].to_numpy(np.int64)
    return rank[track]


def _resources(one: Joint, rank: IntArray, track: IntArray) -> Any:
    """Return the names of threads and streams in a rank's own recording."""
    words = np.full(len(track), None, dtype=object)
    for number, trace in one.own.items():
        here = (rank == number) & (track >= 0)
        keys, labels = resource_names(trace)
        words[here] = np.array(labels, dtype=object)[np.searchsorted(keys, track[here])]
    return pd.Categorical(words)


def hops_between(one: Joint, spans: Sequence[PathSpan], doubt_ns: float) -> pd.DataFrame:
    """Return the table of `RankAnswers.critical_path_hops` for these paths."""
    hops = hops_table(one.graph, spans)
    hops = hops[hops["why"].isin(_COLLECTIVE)]
    row = hops["slice"].to_numpy(np.int64)
    causes = hops["cause_slice"].to_numpy(dtype=np.int64, na_value=-1)
    rank = one.trace.slices["rank"].to_numpy(np.int64)
    tracks = np.concatenate([span.path.hops.cause_track[::-1] for span in spans] or [np.empty(0, np.int64)])
    kinds = np.concatenate([span.path.hops.kind[::-1] for span in spans] or [np.empty(0, np.int64)])
    tracks = tracks[np.isin(kinds, [HOPS.index(name) for name in _COLLECTIVE])]
    # for threads, the cause is an instant, not a slice
    opened = owners_at(one.graph.resources, tracks, hops["at_ns"].to_numpy(np.int64))
    causes = np.where(causes >= 0, causes, opened)
    own = np.append(one.own_row, -1)
    margin = hops["margin_ns"].to_numpy(dtype=np.int64, na_value=np.iinfo(np.int64).max)
    return HOP_TABLE.frame(
        {
            "step": hops["step"].array,
            "at_ns": hops["at_ns"].to_numpy(),
            "rank": rank[row],
            "slice": pd.arrays.IntegerArray(own[row], row < 0),
            "name": hops["name"].to_numpy(),
            "cause_rank": _rank_of(one, tracks),
            "cause_slice": pd.arrays.IntegerArray(own[causes], causes < 0),
            "margin_ns": hops["margin_ns"].array,
            "near_tie": margin < np.maximum(doubt_ns, 2 * one.graph.latencies.noise),
        }
    )


def replayed_path(one: Joint, replay: Replay, steps: Sequence[int], end: End) -> pd.DataFrame:
    """Return the critical path of replayed steps, as `path_table` does; `slice` is a recorded row."""
    start, until = replayed_times(replay)
    change, work = replay.change, replay.edges.work
    rank_of = one.trace.slices["rank"].to_numpy(np.int64)
    faster = {*rank_of[work.rows if change.launched is None else work.rows[change.launched]].tolist()}
    traces, rows, arrived, bounds, least = [], {}, [], [], {}
    for rank, trace in one.own.items():
        here = np.flatnonzero((rank_of == rank) & (start >= 0))
        own, count = one.own_row[here], len(trace.slices)
        begin, done = np.full(count, FAR), np.full(count, -1)
        np.minimum.at(begin, own, start[here])  # arrival and transfer of a collective
        np.maximum.at(done, own, until[here])
        begin[done < 0] = -1
        table = one.steps[one.steps["rank"] == rank]
        main = np.full(len(table), one.graph.mains[rank])
        ends = [replay.now(main, table[name].to_numpy(np.int64)) for name in ("start_ns", "end_ns")]
        bounds.append(table.assign(start_ns=ends[0], end_ns=ends[1]))
        changed, rows[rank] = at_times(trace, begin, done, *(at[: len(trace.steps)] for at in ends))
        new_row = np.full(count, -1)
        new_row[rows[rank]] = np.arange(len(rows[rank]))
        shared = one.arrived[one.arrived["rank"] == rank]
        row = shared["slice"].to_numpy(np.int64)
        shared = shared.assign(slice=new_row[row], start_ns=begin[row])
        arrived.append(shared[new_row[row] >= 0])
        traces.append((rank, changed))
        least[rank] = one.latencies[rank]
        if rank in faster:  # use the recording's latencies, not those that the replay would show
            least[rank] = replace(least[rank], launch=round(least[rank].launch * change.launch_latency))
    met = with_margins(pd.concat(arrived, ignore_index=True))
    after = joint(traces, met, start_unix_ns=0, latencies=least)
    after = replace(after, steps=pd.concat(bounds, ignore_index=True))
    table = path_table(after, spans_of_ranks(after, steps, None, end))
    row = table["slice"].to_numpy(dtype=np.int64, na_value=-1)
    own_row = np.full(len(row), -1)
    for rank, recorded in rows.items():
        of_rank = (table["rank"] == rank).to_numpy() & (row >= 0)
        own_row[of_rank] = recorded[row[of_rank]]
    return table.assign(slice=pd.arrays.IntegerArray(own_row, own_row < 0))
