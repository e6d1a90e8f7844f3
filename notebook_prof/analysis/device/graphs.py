"""CUDA graphs: the time of each node over all replays."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Table
from ..busy_time import device_of
from ..scope import Numbers, WindowLike, many, matching_codes, on_device, texts
from .busy import device_attributes
from .kernel_launches import GRAPH_LAUNCH, launch_calls

GRAPH_NODES: Final = Table.of(
    "graph_nodes",
    "graph:int64 node:Int64 name:str category:str device:int64 stream:Int64 replays:int64 count:int64 "
    "total_ns:int64 mean_ns:float64 min_ns:int64 max_ns:int64 start_ns:float64 share:float64",
)


def graph_nodes(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """List the nodes of CUDA graphs with their times over all replays.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; only replays entirely inside it count.
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
    if step is not None:
        frame = frame[frame["step"].isin(many(step))]
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
