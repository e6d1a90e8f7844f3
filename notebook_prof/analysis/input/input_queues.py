"""The queues of a data pipeline: how often empty, how often full, and what that says."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ..time.recorded_steps import recorded_table

RULES: Final = ("2.3.1", "0.5")
_EMPTY: Final = {"2.3.1": 0.3, "0.5": 0.7}
_TRANSMITTED: Final = 0.95
_COLUMNS: Final = {
    "rank": "int32",
    "queue": "str",
    "samples": "int64",
    "empty": "int64",
    "full": "int64",
    "empty_share": "float64",
    "mean_size": "float64",
    "capacity": "float64",
    "usage": "float64",
    "finding": "str",
}


def input_queues(trace: Trace, *, rule: str = "2.3.1") -> pd.DataFrame:
    """Count how often the queues of a MindData pipeline were empty and full.

    Parameters
    ----------
    trace : Trace
    rule : {"2.3.1", "0.5"}
        Version of MindInsight whose rule gives the finding.

    Returns
    -------
    DataFrame
        By rank: the queue before the device (``host``), the device's own (``device``), then the output queue
        of each operator (``MapOp_2``); no rows where no pipeline was recorded.

        - ``rank`` int32; ``queue`` str;
        - ``samples``, ``empty``, ``full`` int64; ``empty_share`` float64 of the samples;
        - ``mean_size`` float64; ``capacity`` float64, NaN where not known; ``usage`` float64, 0–1: the mean
          size of the capacity;
        - ``finding`` str, of the host queue only: ``data_process`` (the pipeline is too slow),
          ``data_transmission`` (the way to the device is), ``device_queue`` (neither: the device is what
          takes time); else empty.

    Raises
    ------
    OptionError
        If there is no such rule.

    Notes
    -----
    With *n* batches in the host queue, rule 2.3.1: empty in more than 0.3 *n* of them: ``data_process``; else
    the device's queue was ever empty: ``data_transmission``; else ``device_queue``. Rule 0.5: the same with
    0.7 where only the host queue is known; with both, nothing unless the device's queue was ever empty, then
    ``data_process`` above 0.7 and ``data_transmission`` below 0.95, which may be both. Source: MindInsight's
    ``minddata_analyser``.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> queue = pd.DataFrame({"rank": 0, "step": [1, 2, 3], "capacity": 16, "size": [0, 0, 16]})
    >>> trace = TraceBuilder(metadata={"tables": {"minddata_queue": queue}}).seal()
    >>> input_queues(trace)[["queue", "samples", "empty", "full", "finding"]].values.tolist()
    [['host', 3, 2, 1, 'data_process']]
    """
    if rule not in RULES:
        raise OptionError(f"there is no rule {rule!r} of MindInsight's: {nearest(rule, RULES)}")
    host = recorded_table(trace, "minddata_queue")
    device = recorded_table(trace, "minddata_next")
    pipeline = recorded_table(trace, "minddata_pipeline")
    rows: list[dict[str, Any]] = []
    for rank in _ranks(host, device, pipeline):
        own = [table[table["rank"] == rank] if table is not None else None for table in (host, device)]
        first = _row("host", own[0]["size"], own[0]["capacity"].max()) if own[0] is not None else None
        second = _row("device", own[1]["size"], np.nan) if own[1] is not None else None
        if first is not None:
            first["finding"] = _finding(first, second, rule)
        found = [first, second, *_operators(pipeline, rank)]
        rows += [{"rank": rank, "finding": "", **row} for row in found if row and row["samples"]]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _ranks(*tables: pd.DataFrame | None) -> list[int]:
    return sorted({int(rank) for table in tables if table is not None for rank in table["rank"].unique()})


def _row(name: str, sizes: Any, capacity: float) -> dict[str, Any]:
    size = np.asarray(pd.Series(sizes, dtype="float64").dropna(), dtype=np.float64)
    count, empty = len(size), int((size == 0).sum())
    mean = float(size.mean()) if count else np.nan
    known = capacity if capacity > 0 else np.nan
    return {
        "queue": name,
        "samples": count,
        "empty": empty,
        "full": int((size >= known).sum()),
        "empty_share": empty / max(count, 1),
        "mean_size": mean,
        "capacity": known,
        "usage": mean / known,
    }


def _operators(pipeline: pd.DataFrame | None, rank: int) -> list[dict[str, Any]]:
    if pipeline is None:
        return []
    own = pipeline[pipeline["rank"] == rank]
    names = own["op_type"].astype(str) + "_" + own["op_id"].astype(str)
    return [_row(*row) for row in zip(names, own["sizes"], own["queue_length"], strict=True)]


def _finding(host: dict[str, Any], device: dict[str, Any] | None, rule: str) -> str:
    slow = host["empty_share"] > _EMPTY[rule]
    starved = bool(device and device["empty"])
    if device is None or rule == "2.3.1":
        return "data_process" if slow else "data_transmission" if starved else "device_queue"
    if not starved:
        return ""
    found = ["data_process"] * slow + ["data_transmission"] * (host["empty_share"] < _TRANSMITTED)
    return " ".join(found)
