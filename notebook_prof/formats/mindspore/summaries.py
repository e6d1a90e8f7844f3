"""Files that are tables of results: kept as tables of the metadata, with our names and units.

========================  =============================================================================
key in ``tables``         columns beside ``rank``
========================  =============================================================================
``operator_types``        ``side type count per_step total_ns mean_ns share``
``operator_details``      ``side type name full_name count total_ns mean_ns share subgraph``
``activities``            ``name type full_name stream block grid count total_ns mean_ns max_ns min_ns``
``framework``             ``full_name name type subgraph task stream block_dim shapes`` and ``info``
``aicpu``                 ``serial type total_ns dispatch_ns start_ns end_ns``
``flops``                 ``full_name flops flops_per_s utilization`` (and ``vector_…``)
``cluster_steps``         ``step`` and a column ``…_ns`` for each part; step ``-1`` is the average
``communication``         ``step communication_ns wait_ns links operators``; step ``-1`` is the average
``kernel_details`` …      as in the file
========================  =============================================================================

``side`` is ``AI Core``, ``AI CPU``, ``Host`` or ``GPU``; ``share`` is of all rows of the file.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace.report import ImportReport
from .operators import input_shapes
from .staging import csv_frame, json_cells, json_value, ns_of, numbers

Frames = dict[str, pd.DataFrame]
_MS: Final = 1e6
_US: Final = 1e3


def summary_tables(kind: str, data: bytes, name: str, report: ImportReport) -> Frames:
    """Return the tables in a file of results, by key in the metadata; none for other kinds."""
    if kind in _CSV or kind in _AS_IT_IS:
        if not len(frame := csv_frame(data, report)):
            return {}
        if kind in _AS_IT_IS:
            return {kind: _numeric(frame)}
        key, read, *options = _CSV[kind]
        return {key: read(frame, report, *options)}
    if kind in _JSON and isinstance(value := json_value(data, report, name), dict):
        if kind == "flops_summary":
            facts = {key: item for key, item in value.items() if isinstance(item, int | float | str)}
            return {kind: pd.DataFrame([facts])}
        return {kind.removeprefix("cpu_").removeprefix("gpu_"): pd.DataFrame({"value": [value]})}
    return {}


def _numeric(frame: pd.DataFrame) -> pd.DataFrame:
    """Read columns of numbers; blanks and the tabulators of MindStudio's times are cut off."""
    ready = {}
    for name in frame:
        text = frame[name].str.strip()
        values = pd.to_numeric(text.where(text != "N/A", ""), errors="coerce")
        blank = text.isin(["", "N/A"])
        ready[name] = values if (values.notna() | blank).all() and not blank.all() else text
    return pd.DataFrame(ready)


def _shares(total: pd.Series) -> pd.Series:
    whole = total.sum()
    return total / whole if whole else total * 0.0


def _first(frame: pd.DataFrame, *names: str) -> str:
    return next((name for name in names if name in frame), "")


def _text(frame: pd.DataFrame, *names: str) -> pd.Series:
    """Return the first of these columns that exists; if none does, empty texts."""
    return next((frame[name] for name in names if name in frame), pd.Series("", index=frame.index))


def _types(frame: pd.DataFrame, report: ImportReport, side: str, unit: float) -> pd.DataFrame:
    times = _first(frame, "total_time", "execution_time", "total_compute_time", "total_time(us)")
    total = numbers(frame, times, unit)
    per_step = numbers(frame, "execution_frequency(per-step)")
    count = numbers(frame, _first(frame, "type_occurrences", "execution_frequency"))
    table = {"side": side, "type": _text(frame, "kernel_type", "op_type"), "count": count}
    table |= {"per_step": per_step, "total_ns": total}
    return pd.DataFrame({**table, "mean_ns": total / count, "share": _shares(total)})


def _aicore_details(frame: pd.DataFrame, report: ImportReport) -> pd.DataFrame:
    full = frame.iloc[:, 0]
    mean = numbers(frame, "execution_time", _MS)
    count = numbers(frame, "execution_frequency")
    name = full.str.rpartition("/")[2]
    kind = name.str.replace(r"-op\d+$", "", regex=True)
    total = mean * count.fillna(1)
    table = {"side": "AI Core", "type": kind, "name": name, "full_name": full, "count": count}
    subgraph = full.str.partition("/")[0]
    return pd.DataFrame(
        {**table, "total_ns": total, "mean_ns": mean, "share": _shares(total), "subgraph": subgraph}
    )


def _details(frame: pd.DataFrame, report: ImportReport, side: str, unit: float) -> pd.DataFrame:
    total, mean = (
        numbers(frame, _first(frame, f"{name}(ms)", f"{name}(us)", name), unit)
        for name in ("op_total_time", "op_avg_time")
    )
    texts = {"type": "op_type", "name": "op_name", "subgraph": "subgraph"}
    table = {key: _text(frame, column) for key, column in texts.items()}
    table["full_name"] = _text(frame, "full_op_name", "op_full_name")
    table |= {"count": numbers(frame, "op_occurrences"), "total_ns": total, "mean_ns": mean}
    return pd.DataFrame({"side": frame.get("op_side", side), **table, "share": _shares(total)})


def _activity(frame: pd.DataFrame, report: ImportReport) -> pd.DataFrame:
    texts = {"name": "name", "type": "type", "full_name": "op_full_name", "block": "block_dim"}
    texts |= {"grid": "grid_dim", "stream": "stream_id"}
    table = {key: _text(frame, column) for key, column in texts.items()}
    table["count"] = numbers(frame, "occurrences")
    for part, word in (("total", "total"), ("mean", "avg"), ("max", "max"), ("min", "min")):
        table[f"{part}_ns"] = numbers(frame, f"{word}_duration", _US)
    return pd.DataFrame(table)


def _framework(frame: pd.DataFrame, report: ImportReport) -> pd.DataFrame:
    info = json_cells(_text(frame, "op_info"), report)
    return pd.DataFrame(
        {
            "full_name": _text(frame, "full_kernel_name", "full_op_name"),
            "name": _text(frame, "kernel_name", "op_name").str.rpartition("/")[2],
            "type": _text(frame, "kernel_type", "op_type"),
            "subgraph": _text(frame, "subgraph"),
            "task": numbers(frame, "task_id"),
            "stream": numbers(frame, "stream_id"),
            "block_dim": numbers(frame, "block_dim"),
            "shapes": [input_shapes(value) for value in info],
            "info": info,
        }
    )


def aicpu_table(frame: pd.DataFrame, report: ImportReport) -> pd.DataFrame:
    """Return operators on the AI CPU, in the table ``aicpu``."""
    start, begun = ns_of(_text(frame, "run_start"), _US)
    end, ended = ns_of(_text(frame, "run_end"), _US)
    table = pd.DataFrame(
        {
            "serial": numbers(frame, "serial_number"),
            "type": _text(frame, "kernel_type", "node_type_name"),
            "total_ns": numbers(frame, _first(frame, "total_time", "total_time(ms)"), _MS),
            "dispatch_ns": numbers(frame, _first(frame, "dispatch_time", "dispatch_time(ms)"), _MS),
            "start_ns": start,
            "end_ns": np.maximum(end, start),
        }
    )
    return table[begun & ended]


def _flops(frame: pd.DataFrame, report: ImportReport) -> pd.DataFrame:
    table = {"full_name": frame.iloc[:, 0]}
    if "MFLOPs(10^6 cube)" not in frame:
        table["flops"] = numbers(frame, "FLOPs", 1e6)
        table["flops_per_s"] = numbers(frame, "FLOPS", 1e9)
        return pd.DataFrame({**table, "utilization": numbers(frame, "FLOPS utilization")})
    for key, unit, short in (("", "cube", "cube"), ("vector_", "vector", "vec")):
        table[f"{key}flops"] = numbers(frame, f"MFLOPs(10^6 {unit})", 1e6)
        table[f"{key}flops_per_s"] = numbers(frame, f"GFLOPS(10^9 {unit})", 1e9)
        table[f"{key}utilization"] = numbers(frame, f"FLOPS utilization({short})")
    return pd.DataFrame(table)


def _cluster(frame: pd.DataFrame, report: ImportReport) -> pd.DataFrame:
    step = np.arange(1, len(frame) + 1)
    if len(step) > 1:
        step[-1] = -1
    # the only file in 10 ns counts has other columns than those in milliseconds
    unit = 10.0 if "iteration_interval" in frame else _MS
    values = {f"{name.removesuffix('_time')}_ns": numbers(frame, name, unit) for name in frame}
    return pd.DataFrame({"step": step, **values})


def _hccl(frame: pd.DataFrame, report: ImportReport) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "step": numbers(frame, "step_num").fillna(-1).astype("int64"),
            "communication_ns": numbers(frame, "communication_cost", _MS),
            "wait_ns": numbers(frame, "wait_cost", _MS),
            "links": json_cells(_text(frame, "link_info"), report),
            "operators": json_cells(_text(frame, "communication_operator_cost"), report),
        }
    )


_CSV: Final[dict[str, tuple[Any, ...]]] = {
    "aicore_types": ("operator_types", _types, "AI Core", _MS),
    "cpu_types": ("operator_types", _types, "Host", _MS),
    "gpu_types": ("operator_types", _types, "GPU", _US),
    "aicore_details": ("operator_details", _aicore_details),
    "cpu_details": ("operator_details", _details, "Host", _MS),
    "gpu_details": ("operator_details", _details, "GPU", _US),
    "gpu_activity": ("activities", _activity),
    "framework": ("framework", _framework),
    "aicpu": ("aicpu", aicpu_table),
    "flops": ("flops", _flops),
    "cluster": ("cluster_steps", _cluster),
    "hccl": ("communication", _hccl),
}
"""The table's key, and the function that makes it from a frame, an import report and options."""
_AS_IT_IS: Final = ("kernel_details", "operator_details", "step_trace_time", "cluster_step_trace_time")
_JSON: Final = (
    "flops_summary", "flops_scope", "timeline_summary", "cpu_timeline_summary", "gpu_timeline_summary",
    "dynamic_shapes", "memory_summary", "parallel_strategy", "communication", "cluster_communication",
    "pipeline_summary",
)  # fmt: skip
