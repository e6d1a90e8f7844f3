"""The operators of a data pipeline, and which of them holds it up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ..time.recorded_steps import recorded_table
from .input_queues import RULES

HIGH: Final = 0.8
LOW: Final = 0.6
_DROP: Final = 0.1
_COLUMNS: Final = {
    "rank": "int32",
    "op_id": "int64",
    "name": "str",
    "parent": "int64",
    "workers": "float64",
    "queue_length": "float64",
    "queue_mean": "float64",
    "usage": "float64",
    "input_usage": "float64",
    "cpu_share": "float64",
    "suspect": "bool",
}


def input_operators(trace: Trace, *, rule: str = "2.3.1") -> pd.DataFrame:
    """List the operators of a MindData pipeline with the use of their queues, and mark the bottleneck.

    Parameters
    ----------
    trace : Trace
    rule : {"2.3.1", "0.5"}
        Version of MindInsight whose rule marks suspects.

    Returns
    -------
    DataFrame
        By rank and id; no rows where no pipeline was recorded.

        - ``rank`` int32; ``op_id`` int64; ``name`` str: type and id, as ``MapOp_2``; ``parent`` int64: the
          operator that takes its output, -1 at the root;
        - ``workers``, ``queue_length``, ``queue_mean`` float64: NaN where not told; ``usage`` float64, 0–1:
          of its output queue; NaN for the root and for operators without one;
        - ``input_usage`` float64: mean usage of its inputs' queues, looked for beyond operators without one;
        - ``cpu_share`` float64, 0–1: mean share of the processors, user and system; NaN where not sampled;
        - ``suspect`` bool.

    Raises
    ------
    OptionError
        If there is no such rule.

    Notes
    -----
    Rule 2.3.1: an operator is a suspect if the queue of any of its inputs is used more than its own by over
    0.1; a leaf, if its own is used less than 0.6; the root, if all others' are used at least 0.8. Rule 0.5:
    an operator is a suspect if the queues of all its inputs are used at least 0.8 and its own less than 0.6;
    if every operator's is below 0.6, the leaves; if every one's is at least 0.8, the root. Source:
    MindInsight's ``minddata_pipeline_analyser``.

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
    if rule not in RULES:
        raise OptionError(f"there is no rule {rule!r} of MindInsight's: {nearest(rule, RULES)}")
    pipeline = recorded_table(trace, "minddata_pipeline")
    if pipeline is None:
        return pd.DataFrame({name: [] for name in _COLUMNS}).astype(_COLUMNS)
    parts = []
    for rank, own in pipeline.groupby("rank", sort=True):
        ids = own["op_id"].tolist()
        usage = dict(zip(ids, own["queue_usage"].astype(float), strict=True))
        inputs = _inputs(dict(zip(ids, own["children"], strict=True)), usage)
        root = next(iter(own.loc[own["parent"] < 0, "op_id"]), ids[0])
        suspects = _suspects(inputs, {op: use for op, use in usage.items() if op != root}, root, rule)
        parts.append(
            pd.DataFrame(
                {
                    "rank": rank,
                    "op_id": own["op_id"].to_numpy(),
                    "name": (own["op_type"].astype(str) + "_" + own["op_id"].astype(str)).to_numpy(),
                    "parent": own["parent"].to_numpy(),
                    "workers": own["workers"].to_numpy(),
                    "queue_length": own["queue_length"].to_numpy(),
                    "queue_mean": own["queue_mean"].to_numpy(),
                    "usage": own["queue_usage"].to_numpy(),
                    "input_usage": [_mean([usage[op] for op in inputs[own_id]]) for own_id in ids],
                    "cpu_share": _processor(trace, rank, ids),
                    "suspect": [op in suspects for op in ids],
                }
            )
        )
    table = pd.concat(parts, ignore_index=True)[list(_COLUMNS)].astype(_COLUMNS)
    return table.sort_values(["rank", "op_id"], kind="stable").reset_index(drop=True)


def _inputs(children: dict[int, Any], usage: dict[int, float]) -> dict[int, list[int]]:
    """The nearest operators below each that have a queue."""
    found: dict[int, list[int]] = {}
    for op, below in children.items():
        todo, seen = list(below), set(below)
        found[op] = []
        while todo:
            child = todo.pop(0)
            if not np.isnan(usage.get(child, np.nan)):
                found[op].append(child)
                continue
            new = [other for other in children.get(child, []) if other not in seen]
            seen.update(new)
            todo += new
    return found


def _suspects(inputs: dict[int, list[int]], usage: dict[int, float], root: int, rule: str) -> set[int]:
    used = {op: use for op, use in usage.items() if not np.isnan(use)}
    if not used:
        return set()
    leaves = {op for op in used if not inputs[op]}
    if all(use >= HIGH for use in used.values()):
        return {root}
    if rule == "2.3.1":
        found = {op for op in used if any(usage[child] - used[op] > _DROP for child in inputs[op])}
        return found | {op for op in leaves if used[op] < LOW}
    if all(use < LOW for use in used.values()):
        return leaves
    return {
        op
        for op in used
        if inputs[op] and used[op] < LOW and all(usage[child] >= HIGH for child in inputs[op])
    }


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _processor(trace: Trace, rank: Any, ids: list[int]) -> Any:
    cpu = recorded_table(trace, "minddata_cpu")
    if cpu is None:
        return np.nan
    own = cpu[(cpu["rank"] == rank) & cpu["metric"].isin(["user_utilization", "sys_utilization"])]
    means = own.groupby(["op_id", "metric"])["value"].mean().groupby("op_id").sum() / 100
    return means.reindex(ids).to_numpy()
