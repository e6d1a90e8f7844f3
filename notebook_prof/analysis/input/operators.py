"""The operators of a MindData pipeline, their queues, and the bottleneck."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Table
from ..scope import recorded_table

_OFTEN: Final = 0.3
"""Share of batches for which the host queue may be empty."""
_QUEUE_COLUMNS: Final = Table.of(
    "input_queues",
    "rank:int32 queue:str samples:int64 empty:int64 full:int64 empty_share:float64 mean_size:float64 "
    "capacity:float64 usage:float64 finding:str",
)


def input_queues(trace: Trace) -> pd.DataFrame:
    """Count how often the queues of a MindData pipeline were empty and full.

    Returns
    -------
    DataFrame
        By rank: the queue before the device (``host``), the device's own (``device``), then the output queue
        of each operator (``MapOp_2``); no rows if no pipeline was recorded.

        - ``rank`` int32; ``queue`` str;
        - ``samples``, ``empty``, ``full`` int64; ``empty_share`` float64 of the samples;
        - ``mean_size`` float64; ``capacity`` float64, NaN if unknown; ``usage`` float64, 0–1: the mean size
          divided by the capacity;
        - ``finding`` str, for the host queue only: ``data_process`` (the pipeline is too slow),
          ``data_transmission`` (the transfer to the device is too slow), ``device_queue`` (neither: the
          device is the bottleneck); otherwise empty.

    Notes
    -----
    The host queue is empty in more than 0.3 of its batches: ``data_process``; else the device's queue was
    ever empty: ``data_transmission``; else ``device_queue``. Source: ``minddata_analyser`` of MindInsight
    2.3.1.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> queue = pd.DataFrame({"rank": 0, "step": [1, 2, 3], "capacity": 16, "size": [0, 0, 16]})
    >>> trace = TraceBuilder(metadata={"tables": {"minddata_queue": queue}}).seal()
    >>> input_queues(trace)[["queue", "samples", "empty", "full", "finding"]].values.tolist()
    [['host', 3, 2, 1, 'data_process']]
    """
    host = recorded_table(trace, "minddata_queue")
    device = recorded_table(trace, "minddata_next")
    pipeline = recorded_table(trace, "minddata_pipeline")
    known = [table["rank"] for table in (host, device, pipeline) if table is not None]
    rows: list[dict[str, Any]] = []
    for rank in sorted(set(pd.concat(known).astype(int))) if known else []:
        own = [table[table["rank"] == rank] if table is not None else None for table in (host, device)]
        first = _row("host", own[0]["size"], own[0]["capacity"].max()) if own[0] is not None else None
        second = _row("device", own[1]["size"], np.nan) if own[1] is not None else None
        if first is not None:
            first["finding"] = _finding(first, second)
        queues = [first, second]
        if pipeline is not None:
            ops = pipeline[pipeline["rank"] == rank]
            names = ops["op_type"].astype(str) + "_" + ops["op_id"].astype(str)
            columns = (names, ops["sizes"], ops["queue_length"])
            queues += [_row(*row) for row in zip(*columns, strict=True)]
        rows += [{"rank": rank, "finding": "", **row} for row in queues if row and row["samples"]]
    return _QUEUE_COLUMNS.of_rows(rows)


def _row(name: str, sizes: Any, capacity: float) -> dict[str, Any]:
    size = np.asarray(pd.Series(sizes, dtype="float64").dropna(), dtype=np.float64)
    count, empty = len(size), int((size == 0).sum())
    mean = float(size.mean()) if count else np.nan
    limit = capacity if capacity > 0 else np.nan
    return {
        "queue": name,
        "samples": count,
        "empty": empty,
        "full": int((size >= limit).sum()),
        "empty_share": empty / max(count, 1),
        "mean_size": mean,
        "capacity": limit,
        "usage": mean / limit,
    }


def _finding(host: dict[str, Any], device: dict[str, Any] | None) -> str:
    if host["empty_share"] > _OFTEN:
        return "data_process"
    return "data_transmission" if device and device["empty"] else "device_queue"


HIGH: Final = 0.8
LOW: Final = 0.6
_DROP: Final = 0.1
_COLUMNS: Final = Table.of(
    "input_operators",
    "rank:int32 op_id:int64 name:str parent:int64 workers:float64 queue_length:float64 queue_mean:float64 "
    "usage:float64 input_usage:float64 cpu_share:float64 suspect:bool",
)


def input_operators(trace: Trace) -> pd.DataFrame:
    """List the operators of a MindData pipeline with the use of their queues, and mark the bottleneck.

    Returns
    -------
    DataFrame
        By rank and id; no rows if no pipeline was recorded.

        - ``rank`` int32; ``op_id`` int64; ``name`` str: type and id, like ``MapOp_2``; ``parent`` int64: the
          operator that takes its output, -1 at the root;
        - ``workers``, ``queue_length``, ``queue_mean`` float64: NaN if not recorded; ``usage`` float64, 0–1:
          of its output queue; NaN for the root and for operators without one;
        - ``input_usage`` float64: mean usage of its inputs' queues, skipping operators without a queue;
        - ``cpu_share`` float64, 0–1: mean share of the processors, user and system; NaN where not sampled;
        - ``suspect`` bool.

    Notes
    -----
    An operator is a suspect if the queue of any of its inputs is used more than its own by over 0.1; a leaf,
    if its own is used less than 0.6; the root, if all others' are used at least 0.8. Source:
    ``minddata_pipeline_analyser`` of MindInsight 2.3.1.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> row = {"op_type": ["Batch", "Map", "Reader"], "children": [[1], [2], []], "parent": [-1, 0, 1]}
    >>> queues = {"queue_usage": [np.nan, 0.1, 0.9], "queue_mean": [np.nan, 2, 14], "queue_length": 16}
    >>> table = pd.DataFrame({"rank": 0, "op_id": [0, 1, 2], "workers": 4, **row, **queues})
    >>> trace = TraceBuilder(metadata={"tables": {"minddata_pipeline": table}}).seal()
    >>> input_operators(trace).query("suspect")["name"].tolist()
    ['Map_1']
    """
    pipeline = recorded_table(trace, "minddata_pipeline")
    if pipeline is None:
        return _COLUMNS.empty()
    parts = []
    for rank, own in pipeline.groupby("rank", sort=True):
        ids = own["op_id"].tolist()
        usage = dict(zip(ids, own["queue_usage"].astype(float), strict=True))
        inputs = _inputs(dict(zip(ids, own["children"], strict=True)), usage)
        root = next(iter(own.loc[own["parent"] < 0, "op_id"]), ids[0])
        suspects = _suspects(inputs, {op: use for op, use in usage.items() if op != root}, root)
        parts.append(
            own.assign(
                name=own["op_type"].astype(str) + "_" + own["op_id"].astype(str),
                usage=own["queue_usage"],
                input_usage=[float(pd.Series([usage[op] for op in inputs[one]]).mean()) for one in ids],
                cpu_share=_processor(trace, rank, ids),
                suspect=[op in suspects for op in ids],
            )
        )
    table = pd.concat(parts).sort_values(["rank", "op_id"], kind="stable", ignore_index=True)
    return _COLUMNS.frame({name: table[name] for name in _COLUMNS.names})


def _inputs(children: dict[int, Any], usage: dict[int, float]) -> dict[int, list[int]]:
    """Return, for each operator, the nearest operators with a queue among those that feed it."""
    inputs: dict[int, list[int]] = {}
    for op, below in children.items():
        todo, queued = list(below), set(below)
        inputs[op] = []
        while todo:
            child = todo.pop(0)
            if not np.isnan(usage.get(child, np.nan)):
                inputs[op].append(child)
                continue
            new = [other for other in children.get(child, []) if other not in queued]
            queued.update(new)
            todo += new
    return inputs


def _suspects(inputs: dict[int, list[int]], usage: dict[int, float], root: int) -> set[int]:
    used = {op: use for op, use in usage.items() if not np.isnan(use)}
    if not used:
        return set()
    if all(use >= HIGH for use in used.values()):
        return {root}
    after_drop = {op for op in used if any(usage[child] - used[op] > _DROP for child in inputs[op])}
    return after_drop | {op for op, use in used.items() if not inputs[op] and use < LOW}


def _processor(trace: Trace, rank: Any, ids: list[int]) -> Any:
    cpu = recorded_table(trace, "minddata_cpu")
    if cpu is None:
        return np.nan
    own = cpu[(cpu["rank"] == rank) & cpu["metric"].isin(["user_utilization", "sys_utilization"])]
    means = own.groupby(["op_id", "metric"])["value"].mean().groupby("op_id").sum() / 100
    return means.reindex(ids).to_numpy()
