"""The data pipeline: its operators, their queues, the queue to the device, and the processor.

======================  ===============================================================================
key in ``tables``       columns beside ``rank``
======================  ===============================================================================
``minddata_pipeline``   ``op_id op_type workers queue_length queue_mean queue_usage interval_ns parent``
                        ``children sizes throughput``; the last three hold lists; parent -1 at the root
``minddata_queue``      ``step capacity size get_ns push_ns total_ns time_ns``: between pipeline and
                        device, one row per batch; `time_ns` in the clock of ``metadata["start_unix_ns"]``
``minddata_next``       ``start_ns wait_ns size``: the device's own queue, a row per GetNext, in its clock
``minddata_cpu``        ``op_id metric time_ns value``: shares of the processors in percent; op_id -1 is
                        the machine, -2 the process
======================  ===============================================================================
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace.report import ImportReport
from .staging import Staging, csv_frame, json_cells, json_value, ns_of, numbers

_MS: Final = 1e6
_MACHINE, _PROCESS = -1, -2
_QUEUE_COLUMNS: Final = ("get_ns", "push_ns", "total_ns")


def host_queue(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Read ``device_queue_profiling_<id>.txt`` or ``dataset_iterator_profiling_<id>.txt``; a row per step."""
    # Lines are `0 <what> <step> <ms> <time ms>` (what: 0 get, 1 push, 2 total) and `1 <capacity> <step>
    # <size> <time ms>`; some versions leave out the time, which is then -1. Capacity, size and durations are
    # NaN where their line is missing.
    lines = pd.Series(data.replace(b"\x00", b"").decode(errors="replace").splitlines(), dtype="object")
    lines = lines[lines.str.strip() != ""]
    fields = lines.str.split(n=5, expand=True).reindex(columns=range(5))
    values = fields.apply(pd.to_numeric, errors="coerce")
    good = values[[0, 1, 2, 3]].notna().all(axis=1) & values[0].isin([0, 1]) & (values[2].abs() < 2**53)
    report.broken_rows(~good.to_numpy(), lambda i: lines.iloc[i], "these lines are left out")
    values = values[good]
    values[2] = values[2].astype("int64")
    queue = values[values[0] == 1].drop_duplicates(2, keep="last").set_index(2)
    table = pd.DataFrame(index=pd.Index(sorted(values[2].unique()), name="step", dtype="int64"))
    table["capacity"], table["size"] = queue[1], queue[3]
    for what, name in enumerate(_QUEUE_COLUMNS):
        rows = values[(values[0] == 0) & (values[1] == what)].drop_duplicates(2, keep="last").set_index(2)
        table[name] = rows[3] * _MS
    when = values[values[4].notna() & (values[4] < 9e12)].drop_duplicates(2, keep="last").set_index(2)[4]
    table["time_ns"] = (when * _MS).reindex(table.index).fillna(-1).astype("int64")
    return table.reset_index()


def stage_host_queue(table: pd.DataFrame, staging: Staging, rank: int) -> None:
    """Stage a slice of category io for each batch, ending when it was handed over, and the queue's fill."""
    times = table["time_ns"].to_numpy()
    # a sample file has the same time in every line, or none, so it cannot be drawn
    drawn = (times >= 0) & table["total_ns"].notna().to_numpy() & (len(np.unique(times)) > 1)
    rows = table[drawn]
    ends = rows["time_ns"].to_numpy()
    dur = rows["total_ns"].to_numpy().astype(np.int64)

    def emit(shift: int) -> None:
        builder = staging.builder
        track = staging.track(rank, "data pipeline", "thread")
        builder.slices(
            ts=ends - dur + shift, dur=dur, track=track, name="next batch", category="io", phase="data"
        )
        sized = rows[rows["size"].notna()]
        if len(sized):
            fill = staging.track(rank, "host queue", "counter")
            builder.counter(fill, sized["time_ns"].to_numpy() + shift, sized["size"].to_numpy())
        shifted = table["time_ns"].where(table["time_ns"] < 0, table["time_ns"] + shift)
        staging.table("minddata_queue", table.assign(time_ns=shifted), rank)

    if len(rows):
        staging.at("host", ends - dur, ends, emit)
    else:
        staging.table("minddata_queue", table, rank)


def next_queue(data: bytes, unit_ns: float, report: ImportReport) -> pd.DataFrame:
    """Read ``minddata_aicpu_<id>.txt`` (µs) or ``minddata_getnext_profiling_<id>.txt`` (ns)."""
    # Lines that begin with GetNext hold start, end and the queue's size after it; tables of r0.5 have a
    # header.
    lines = pd.Series(data.replace(b"\x00", b"\n").decode(errors="replace").splitlines(), dtype="object")
    lines = lines[lines.str.startswith("GetNext")]
    fields = lines.str.split(n=4, expand=True).reindex(columns=range(4))
    start, begun = ns_of(fields[1], unit_ns)
    end, ended = ns_of(fields[2], unit_ns)
    size = pd.to_numeric(fields[3], errors="coerce").to_numpy(np.float64)
    good = begun & ended & (end >= start)
    report.broken_rows(~good, lambda i: lines.iloc[i], "these lines are left out")
    table = pd.DataFrame({"start_ns": start, "wait_ns": end - start, "size": size})
    return table[good].reset_index(drop=True)


def stage_next_queue(table: pd.DataFrame, staging: Staging, rank: int) -> None:
    """Stage a slice of phase data for each wait of the device for a batch."""
    start, wait = table["start_ns"].to_numpy(), table["wait_ns"].to_numpy()

    def emit(shift: int) -> None:
        staging.builder.slices(
            ts=start + shift,
            dur=wait,
            track=staging.track(rank, f"NPU {rank} data queue", "stream"),
            name="GetNext_dequeue_wait",
            category="sync",
            phase="data",
        )
        staging.table("minddata_next", table.assign(start_ns=start + shift), rank)

    staging.at("device", start, start + wait, emit)


def pipeline(data: bytes, report: ImportReport, name: str) -> pd.DataFrame:
    """Read ``pipeline_profiling_<id>.json``: one row per operator of the pipeline, by id."""
    value = json_value(data, report, name)
    if not isinstance(value, dict) or not isinstance(value.get("op_info"), list):
        return pd.DataFrame()
    interval = value.get("sampling_interval")
    rows = []
    for op in value["op_info"]:
        if not isinstance(op, dict) or not isinstance(op.get("op_id"), int):
            report.broken_rows(1, str(op)[:80], "this operator is left out")
            continue
        queue = _dict(_dict(op.get("metrics")).get("output_queue"))
        rows.append(
            {
                "op_id": op["op_id"],
                "op_type": str(op.get("op_type", "")),
                "workers": _number(op.get("num_workers")),
                "queue_length": _number(queue.get("length")),
                "children": _integers(op.get("children")),
                "sizes": _integers(queue.get("size")),
                "throughput": [x for x in _list(queue.get("throughput")) if isinstance(x, int | float)],
            }
        )
    return _derived(pd.DataFrame(rows), _number(interval)) if rows else pd.DataFrame()


def pipeline_raw(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Read ``minddata_pipeline_raw_<id>.csv``: as `pipeline`; the mean and the usage are computed."""
    frame = csv_frame(data, report)
    if "op_id" not in frame or not len(frame):
        return pd.DataFrame()
    blank = pd.Series("", index=frame.index)
    table = pd.DataFrame(
        {
            "op_id": numbers(frame, "op_id"),
            "op_type": frame.get("op_type", blank),
            "workers": numbers(frame, "num_workers"),
            "queue_length": numbers(frame, "output_queue_length"),
            "children": [_integers(x) for x in json_cells(frame.get("children_id", blank), report)],
            "sizes": [_integers(x) for x in json_cells(frame.get("output_queue_size", blank), report)],
        }
    )
    table["throughput"] = [[] for _ in range(len(table))]
    good = table["op_id"].notna() & (table["op_id"].abs() < 2**31)
    report.broken_rows(~good.to_numpy(), lambda i: table["op_type"].iloc[i], "these operators are left out")
    table = table[good].astype({"op_id": "int64"})
    interval = numbers(frame, "sample_interval").max()
    return _derived(table, float(interval)) if len(table) else pd.DataFrame()


def _derived(table: pd.DataFrame, interval_ms: float) -> pd.DataFrame:
    table = table.sort_values("op_id", kind="stable").drop_duplicates("op_id").reset_index(drop=True)
    mean = np.array([np.mean(sizes) if sizes else np.nan for sizes in table["sizes"]])
    parent = {child: op for op, own in zip(table["op_id"], table["children"], strict=True) for child in own}
    usage = mean / table["queue_length"].where(table["queue_length"] > 0)
    return table.assign(
        queue_mean=mean,
        queue_usage=usage,
        interval_ns=interval_ms * _MS,
        parent=[parent.get(op, -1) for op in table["op_id"]],
    )


def processor(data: bytes, report: ImportReport, name: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read the samples of ``minddata_cpu_utilization_<id>.json``, and its facts about the processors."""
    value = json_value(data, report, name)
    if not isinstance(value, dict):
        return pd.DataFrame(), {}
    times = np.array(_integers(value.get("time_stamp")), np.float64)
    times = times[np.abs(times) < 9e12]
    listed = [op for op in _list(value.get("op_info")) if isinstance(_dict(op).get("op_id"), int)]
    groups = [(_MACHINE, value.get("device_info")), (_PROCESS, value.get("process_info"))]
    groups += [(op["op_id"], op.get("metrics")) for op in listed if op["op_id"] >= 0]
    parts, extra = [], 0
    for op_id, metrics in groups:
        for metric, series in _dict(metrics).items():
            values = [x for x in _list(series) if isinstance(x, int | float)]
            # values beyond the last time are cut, and counted as `samples-without-time`
            n = min(len(values), len(times))
            extra += len(values) - n
            when = (times[:n] * _MS).astype(np.int64)
            columns = {"op_id": op_id, "metric": metric, "time_ns": when, "value": values[:n]}
            parts.append(pd.DataFrame(columns))
    report.add("samples-without-time", "info", extra, effect="samples beyond the list of times are left out")
    facts = {
        "processors": value.get("cpu_processor_num"),
        "interval_ns": _number(value.get("sampling_interval")) * _MS,
    }
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table, {key: item for key, item in facts.items() if item is not None and item == item}


def stage_samples(operators: pd.DataFrame, cpu: pd.DataFrame, staging: Staging, rank: int) -> None:
    """Stage counters of the queues and of the processor, and their tables."""
    if len(operators):
        staging.table("minddata_pipeline", operators, rank)
    if not len(cpu):
        return
    times = np.sort(cpu["time_ns"].unique())

    def emit(shift: int) -> None:
        builder = staging.builder
        staging.table("minddata_cpu", cpu.assign(time_ns=cpu["time_ns"] + shift), rank)
        machine = cpu[(cpu["op_id"] == _MACHINE) & cpu["metric"].str.endswith("_utilization")]
        for metric, rows in machine.groupby("metric"):
            track = staging.track(rank, f"processor {metric}", "counter", unit="1")
            builder.counter(track, rows["time_ns"].to_numpy() + shift, rows["value"].to_numpy() / 100)
        for i, sizes in enumerate(operators["sizes"] if len(operators) else ()):
            # The thread that samples the processor samples the queues too, but only the processor's file has
            # times: where the numbers of samples differ, a queue has no counter.
            if len(sizes) == len(times):
                name = f"queue of {operators['op_type'][i]}_{operators['op_id'][i]}"
                builder.counter(staging.track(rank, name, "counter"), times + shift, sizes)

    if len(times):
        staging.at("host", times, times, emit)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else float("nan")


def _integers(value: Any) -> list[int]:
    return [x for x in _list(value) if isinstance(x, int) and abs(x) < 2**53]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
