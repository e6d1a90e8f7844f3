"""CUDA graphs: the time of each node over all replays, and repeated sequences that could be one graph."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...errors import OptionError, SelectionError, nearest
from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.schema import Table
from ..busy_time import device_of
from ..grouping import outermost
from ..scope import Numbers, WindowLike, ints, many, matching_codes, of_kind, on_device, texts
from .busy import device_attributes
from .kernel_launches import GRAPH_LAUNCH, launch_calls, launching_rows

GRAPH_NODES: Final = Table.of(
    "graph_nodes",
    "graph:int64 node:Int64 name:str category:str device:int64 stream:Int64 replays:int64 count:int64 "
    "total_ns:int64 mean_ns:float64 min_ns:int64 max_ns:int64 start_ns:float64 share:float64",
)


def graph_nodes(
    trace: Trace, *, window: WindowLike = None, graph: Numbers = None, step: Numbers = None
) -> pd.DataFrame:
    """List the nodes of CUDA graphs with their times over all replays.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; only replays entirely inside it count.
    graph : int or iterable of int, optional
        Keep these graphs.
    step : int or iterable of int, optional
        Keep only work launched by these steps.

    Returns
    -------
    DataFrame
        One row per node: ``graph node name category device stream replays count total_ns mean_ns min_ns
        max_ns start_ns share``. Graphs by their time, longest first, and the nodes of each graph by mean
        start; empty without graph launches.

    Notes
    -----
    Recordings of CUDA 12 and later number graphs and nodes (Kineto since 2026). In others, launches that
    ran the same kernels equally often count as one graph, and its *n*-th kernel of a name as one node.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [cudaGraphLaunch][cudaGraphLaunch]
    ... stream 7:   [gemm][add]       [gemm  ][add]
    ... ''', categories={"cudaGraphLaunch": "launch"}, launches=[
    ...     ("cudaGraphLaunch", "gemm"), ("cudaGraphLaunch", "add")])
    >>> graph_nodes(trace)[["graph", "name", "replays", "total_ns"]].values.tolist()
    [[1, 'gemm', 2, 14], [1, 'add', 2, 10]]
    """
    work = on_device(trace)
    call, correlation = launch_calls(trace)[work.rows], work.ints("correlation")
    # a number for each launch: the row of its call, else one above all rows
    size = len(trace.slices)
    replay = np.where(call >= 0, call, np.where(correlation > 0, size + correlation, -1))
    attributes = device_attributes(trace, work)
    recorded = pd.DataFrame(index=range(len(replay))) if attributes is None else attributes
    recorded = recorded.reindex(columns=["graph", "graph_node"]).fillna(-1).astype(np.int64)
    launches = [GRAPH_LAUNCH.fullmatch(str(name)) is not None for name in trace.slices["name"].cat.categories]
    by_call = matching_codes(np.append(trace.slices["name"].array.codes, -1)[call], launches)
    rows = np.flatnonzero((replay >= 0) & (by_call | (recorded["graph"] > 0)))
    if not len(rows):
        return GRAPH_NODES.empty()
    ts = trace.slices["ts"].to_numpy()[work.rows]
    dur = trace.slices["dur"].to_numpy()[work.rows]
    rows = rows[np.lexsort((ts[rows], replay[rows]))]
    frame = pd.DataFrame(
        {
            "replay": replay[rows],
            "name": work.codes("name")[rows],
            "category": work.codes("category")[rows],
            "device": device_of(trace, work)[rows],
            "stream": work.ints("stream")[rows],
            "step": work.ints("step")[rows],
            "ts": ts[rows],
            "dur": dur[rows],
            "graph": recorded["graph"].to_numpy()[rows],
            "node": recorded["graph_node"].to_numpy()[rows],
        }
    )
    frame["graph"] = _graphs(frame)
    frame["turn"] = frame.groupby(["replay", "name"]).cumcount().where(frame["node"] < 0, 0)
    each = frame.groupby("replay")
    frame["start"] = frame["ts"] - each["ts"].transform("min")
    if window is not None:
        end = (frame["ts"] + frame["dur"]).groupby(frame["replay"]).transform("max")
        frame = frame[(each["ts"].transform("min") >= window[0]) & (end <= window[1])]
    for name, chosen in (("graph", graph), ("step", step)):
        if chosen is not None:
            frame = frame[frame[name].isin(many(chosen))]
    return _node_table(trace, frame)


def _graphs(frame: pd.DataFrame) -> pd.Series[int]:
    """Return the number of each row's graph: the recorded one, else one per distinct set of kernels."""
    hashed = pd.util.hash_array(frame["name"].to_numpy())
    begin = np.flatnonzero(np.diff(frame["replay"].to_numpy(), prepend=-1))
    length = np.diff(begin, append=len(frame))
    with np.errstate(over="ignore"):
        signature = np.add.reduceat(hashed, begin)
    recorded = np.maximum.reduceat(frame["graph"].to_numpy(), begin)
    first = np.argsort(frame["ts"].to_numpy()[begin], kind="stable")
    number = np.empty(len(begin), np.int64)
    number[first] = pd.factorize(signature[first])[0] + 1 + max(int(recorded.max()), 0)
    return pd.Series(np.repeat(np.where(recorded > 0, recorded, number), length), index=frame.index)


def _node_table(trace: Trace, frame: pd.DataFrame) -> pd.DataFrame:
    groups = frame.groupby(["graph", "node", "name", "turn"], sort=False)
    table = groups.agg(
        category=("category", "first"),
        device=("device", "first"),
        stream=("stream", "first"),
        streams=("stream", "nunique"),
        replays=("replay", "nunique"),
        count=("dur", "size"),
        total_ns=("dur", "sum"),
        mean_ns=("dur", "mean"),
        min_ns=("dur", "min"),
        max_ns=("dur", "max"),
        start_ns=("start", "mean"),
    ).reset_index()
    whole = table.groupby("graph")["total_ns"].transform("sum")
    table["share"] = table["total_ns"] / whole.clip(lower=1)
    order = np.lexsort((table["start_ns"], table["graph"], -whole))
    table = table.iloc[order].reset_index(drop=True)
    for name in ("name", "category"):
        table[name] = texts(trace.slices[name], table[name].to_numpy(np.int64))
    table["node"] = table["node"].astype("Int64").where(table["node"] >= 0)
    alone = (table.pop("streams") == 1) & (table["stream"] >= 0)
    table["stream"] = table["stream"].astype("Int64").where(alone)
    return GRAPH_NODES.frame({name: table[name] for name in GRAPH_NODES.names})


# Repeated sequences of kernels: candidates for a single graph or a fused kernel.

SEQUENCES: Final = Table.of(
    "kernel_sequences",
    "kernels:object length:int64 count:int64 kernel_ns:int64 gap_ns:int64 call_ns:int64 host_ns:int64 "
    "first_slice:int64",
)


class _OrderedWork(NamedTuple):
    """Device work by stream, then start; arrays of one length."""

    # Row in slices; code of the name; number of the part (of a stream and step, between collectives and other
    # breaks), which no sequence leaves.
    row: IntArray
    code: IntArray
    part: IntArray


class _Occurrences(NamedTuple):
    """The length of a sequence, and where its occurrences start; they do not overlap."""

    first: IntArray
    length: int


def kernel_sequences(
    trace: Trace,
    *,
    operator: str | None = None,
    shortest: int = 3,
    longest: int = 32,
    fewest: int = 3,
    most: int = 20,
    window: WindowLike = None,
    step: Numbers = None,
) -> pd.DataFrame:
    """Find repeated sequences of kernels, and the host time between their launches.

    Parameters
    ----------
    operator : str, optional
        Consider only work launched inside the outermost operators with this text in their names; a sequence
        is then everything that one call launched. Default: any neighbours on a stream in one step.
    shortest, longest : int
        Number of kernels in a sequence; `longest` does not apply with `operator`.
    fewest : int
        Minimum number of occurrences; with `operator`, once is enough.
    most : int
        Maximum number of sequences.
    window : (int, int), optional
        Half-open, in ns: work that touches it.
    step : int or iterable of int, optional
        Keep only work launched by these steps.

    Returns
    -------
    DataFrame
        One row per sequence, by the number of kernels in all its occurrences (with `operator`: by their
        count), largest first: ``kernels length count kernel_ns gap_ns call_ns host_ns first_slice``. No
        kernel is in two sequences. A single launch, by a CUDA graph or a fused kernel, saves at most
        ``call_ns``, the calls that launch the kernels, and ``host_ns``, the host's other time between them;
        both are 0 if launches were not recorded.

    Raises
    ------
    OptionError
        If the lengths or numbers are not positive, or `longest` is less than `shortest`.
    SelectionError
        If no operator has `operator` in its name.

    Notes
    -----
    The work of a stream is divided at steps and collectives, which no graph of one sequence spans. Sequences
    of each length extend those of one kernel less, so each length takes one pass. The sequence that covers
    most kernels is taken, then the one that covers most of the rest, and so on. With `operator` it is HTA's
    ``get_frequent_cuda_kernel_sequences``.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("stream 7: [mul][add][sqrt] [mul][add][sqrt] [mul][add][sqrt]")
    >>> row = kernel_sequences(trace).iloc[0]
    >>> row["kernels"], int(row["count"]), int(row["gap_ns"])
    (('mul', 'add', 'sqrt'), 3, 0)
    """
    limits = {"shortest": shortest, "longest": longest, "fewest": fewest, "most": most}
    for name, value in limits.items():
        if not isinstance(value, int | np.integer) or value < 1:
            raise OptionError(f"{name}={value!r} is not a positive number")
    if longest < shortest:
        raise OptionError(f"longest={longest} is less than shortest={shortest}")
    work = _work_of(trace, window, step, collectives=operator is not None)
    if operator is None:
        occurrences = _frequent(work, shortest, longest, fewest, most)
    else:
        work, occurrences = _launched_by(trace, work, operator, shortest, most)
    return _table(trace, work, occurrences)


def _work_of(trace: Trace, window: WindowLike, step: Numbers, *, collectives: bool) -> _OrderedWork:
    scope = on_device(trace, window).where(step=step)
    rows = scope.rows
    slices = trace.slices
    track, number = slices["track"].to_numpy()[rows], ints(slices["step"])[rows]
    order = np.lexsort((slices["ts"].to_numpy()[rows], track))
    rows, track, number = rows[order], track[order], number[order]
    exchange = (slices["category"] == "collective").to_numpy()[rows]
    divided = np.ones(len(rows), bool)
    divided[1:] = (track[1:] != track[:-1]) | (number[1:] != number[:-1]) | exchange[1:] | exchange[:-1]
    part = np.cumsum(divided)
    keep = np.ones(len(rows), bool) if collectives else ~exchange
    return _OrderedWork(rows[keep], ints(slices["name"].cat.codes)[rows[keep]], part[keep])


def _frequent(work: _OrderedWork, shortest: int, longest: int, fewest: int, most: int) -> list[_Occurrences]:
    """Repeatedly choose the sequence that covers the most remaining work."""
    candidates: list[tuple[int, int, IntArray]] = []
    at, number = np.arange(len(work.row)), work.code
    for length in range(2, longest + 1):
        # a sequence can be frequent only if it is frequent without its last kernel
        inside = at + length - 1 < len(work.row)
        at, number = at[inside], number[inside]
        last = at + length - 1
        together = work.part[at] == work.part[last]
        at, number, last = at[together], number[together], last[together]
        number = pd.factorize(number * (int(work.code.max(initial=0)) + 2) + work.code[last])[0]
        frequent = np.bincount(number, minlength=1)[number] >= fewest if len(number) else np.zeros(0, bool)
        at, number = at[frequent], number[frequent]
        if not len(at):
            break
        if length >= shortest:
            candidates += _largest(at, number, length, most)
    candidates.sort(key=lambda one: (-one[0], one[1]))
    free, out = np.ones(len(work.row), bool), []
    for _, length, starts in candidates:
        occupied = np.concatenate([[0], np.cumsum(~free)])
        starts = _without_overlap(starts[occupied[starts + length] == occupied[starts]], length)
        if len(starts) >= fewest:
            free[(starts[:, None] + np.arange(length)).ravel()] = False
            out.append(_Occurrences(starts, length))
        if len(out) == most:
            break
    return sorted(out, key=lambda one: -one.length * len(one.first))


def _largest(at: IntArray, number: IntArray, length: int, most: int) -> list[tuple[int, int, IntArray]]:
    """Return the most frequent sequences of one length, each as (kernels covered, length, starts)."""
    order = np.argsort(number, kind="stable")
    counts = np.bincount(number)
    ends = np.cumsum(counts)
    out = []
    for k in np.argsort(-counts, kind="stable")[: 2 * most].tolist():
        starts = _without_overlap(at[order[ends[k] - counts[k] : ends[k]]], length)
        out.append((len(starts) * length, length, starts))
    return out


def _without_overlap(starts: IntArray, length: int) -> IntArray:
    """Drop occurrences that overlap an earlier one, such as the second ABA in ABABA."""
    while len(starts) > 1:
        begins = np.ones(len(starts), bool)
        begins[1:] = np.diff(starts) >= length
        if begins.all():
            break
        # keep the first of each chain of overlapping occurrences, and drop those that it overlaps
        first = np.maximum.accumulate(np.where(begins, np.arange(len(starts)), 0))
        starts = starts[begins | (starts >= starts[first] + length)]
    return starts


def _launched_by(
    trace: Trace, work: _OrderedWork, operator: str, shortest: int, most: int
) -> tuple[_OrderedWork, list[_Occurrences]]:
    """Return the work launched by matching operators, ordered by call, and the calls with equal work."""
    call = np.append(_outermost(trace, operator), -1)[launching_rows(trace)[work.row]]
    order = np.lexsort((trace.slices["ts"].to_numpy()[work.row], call))
    order = order[call[order] >= 0]
    launched = _OrderedWork(work.row[order], work.code[order], call[order])
    calls, first, count = np.unique(launched.part, return_index=True, return_counts=True)
    text = pd.Series(launched.code).astype(str).groupby(launched.part).agg("|".join).to_numpy()
    name = ints(trace.slices["name"].cat.codes)[calls]
    table = pd.DataFrame({"first": first, "length": count, "key": text, "name": name})
    table = table[table["length"] >= shortest]
    groups = [
        _Occurrences(own["first"].to_numpy(np.int64), int(own["length"].iloc[0]))
        for _, own in table.groupby(["name", "key"], sort=False)
    ]
    return launched, sorted(groups, key=lambda one: -len(one.first))[:most]


def _outermost(trace: Trace, operator: str) -> IntArray:
    """Return the outermost slice around (or at) each slice whose name contains the text; -1 if none does."""
    words = [str(word) for word in trace.slices["name"].cat.categories]
    hits = matching_codes(trace.slices["name"].array.codes, [operator in word for word in words])
    hits &= ~of_kind(trace, ("stream",))
    if not hits.any():
        raise SelectionError(f"no operator has {operator!r} in its name: {nearest(operator, words)}")
    return outermost(ints(trace.slices["parent"]), hits)


def _table(trace: Trace, work: _OrderedWork, occurrences: list[_Occurrences]) -> pd.DataFrame:
    slices = trace.slices
    launched_by = launch_calls(trace)
    ts, dur = slices["ts"].to_numpy(), slices["dur"].to_numpy()
    words = slices["name"].cat.categories
    rows = []
    for one in occurrences:
        places = one.first[:, None] + np.arange(one.length)
        inside = work.row[places]
        call = launched_by[inside]
        gap = np.maximum(ts[inside[:, 1:]] - (ts + dur)[inside[:, :-1]], 0)
        call_ns = np.where(call >= 0, dur[call], 0)
        between = np.where(call[:, -1] >= 0, (ts + dur)[call[:, -1]] - ts[call[:, 0]], 0)
        rows.append(
            {
                "kernels": tuple(str(words[code]) for code in work.code[places[0]]),
                "length": one.length,
                "count": len(one.first),
                "kernel_ns": int(dur[inside].sum()),
                "gap_ns": int(gap.sum()),
                "call_ns": int(call_ns.sum()),
                "host_ns": int(np.maximum(between - call_ns.sum(axis=1), 0).sum()),
                "first_slice": int(inside[0, 0]),
            }
        )
    return SEQUENCES.of_rows(rows)
