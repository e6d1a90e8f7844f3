"""Several ranks in one Trace, on one clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from ...analysis.critical_path.resources import sync_table
from ...trace import ImportReport, Trace
from ...trace.arrays import IntArray
from ...trace.schema import TABLES

_CORRELATIONS: Final = 32
_ADDRESSES: Final = 52
_HOST: Final = -1

Tables: TypeAlias = dict[str, pd.DataFrame]


def retimed(trace: Trace, moved: Callable[[Any], IntArray]) -> Trace:
    """Return the trace with times moved, which must keep their order; inner slices stay inside."""
    tables = {table.name: getattr(trace, table.name) for table in TABLES}
    for name in ("slices", "steps"):
        ts = tables[name]["ts"].to_numpy()
        start, end = moved(ts), moved(ts + tables[name]["dur"].to_numpy())
        tables[name] = tables[name].assign(ts=start, dur=end - start)
    for name in ("counters", "allocations"):
        tables[name] = tables[name].assign(ts=moved(tables[name]["ts"].to_numpy()))
    return Trace(tables, metadata=_retimed_tables(trace, moved), report=trace.report)


def _retimed_tables(trace: Trace, moved: Callable[[Any], IntArray]) -> dict[str, Any]:
    """Return the metadata, with its tables' times moved too."""
    tables_of_events = dict(trace.metadata.get("tables") or {})
    for name, columns in (trace.metadata.get("table_times") or {}).items():
        if isinstance(frame := tables_of_events.get(name), pd.DataFrame):
            tables_of_events[name] = frame.assign(
                **{c: moved(frame[c].to_numpy()) for c in columns if c in frame}
            )
    return {**trace.metadata, **({"tables": tables_of_events} if tables_of_events else {})}


def stacked(ranks: Sequence[tuple[int, Trace]], *, start_unix_ns: int) -> Trace:
    """Put several ranks, with times on one axis that begins at `start_unix_ns`, into one Trace.

    Tracks have their rank, slices a column ``rank`` (Int32) for `Selection`. Devices keep their numbers if no
    two ranks share one; otherwise the number is ``rank × devices + number``. A step lasts from its first
    start on any rank to its last end. Host memory is the sum over all ranks.

    >>> from notebook_prof.testing import draw
    >>> traces = [(rank, draw("stream 7: [gemm ]")) for rank in (2, 7)]
    >>> trace = stacked(traces, start_unix_ns=0)
    >>> trace.tracks[["rank", "device"]].values.tolist(), trace.slices["rank"].tolist()
    ([[2, 2], [7, 7]], [2, 7])
    """
    devices = _devices(ranks)
    parts: list[Tables] = []
    first = {"track": 0, "stack": 0, "row": 0}
    for (rank, trace), new_numbers in zip(ranks, devices, strict=True):
        parts.append(_tables_of(rank, trace, new_numbers, first))
        first["track"] += _next_key(trace.tracks["track"])
        first["stack"] += _next_key(trace.stacks["stack"])
        first["row"] += len(trace.slices)
    tables = {table.name: _joined([part[table.name] for part in parts]) for table in TABLES}
    tables["slices"], new_row = _in_order(tables["slices"])
    for name, column in (("flows", "src"), ("flows", "dst"), ("allocations", "slice")):
        tables[name][column] = _translated(tables[name][column], new_row)
    tables["steps"] = _whole_steps(tables["steps"])
    tables["allocations"] = _merged_blocks(tables["allocations"])
    report = ImportReport()
    for rank, trace in ranks:
        for issue in trace.report:
            example = f"rank {rank}: {issue.example}"
            report.add(issue.code, issue.severity, issue.count, example, issue.effect, issue.advice)
    metadata: dict[str, Any] = {"source": "ranks", "start_unix_ns": start_unix_ns}
    metadata["ranks"] = [rank for rank, _ in ranks]
    if (events := _device_events(ranks, devices)) is not None:
        metadata["tables"] = {"device_events": events}
    return Trace(tables, metadata=metadata, report=report)


def _devices(ranks: Sequence[tuple[int, Trace]]) -> list[dict[int, int]]:
    """Return the new number of each device, a mapping for each rank."""
    own = []
    for _, trace in ranks:
        columns = (trace.tracks["device"], trace.allocations["device"], trace.slices["device"])
        numbers = {int(device) for column in columns for device in column.dropna().unique()}
        own.append(sorted(device for device in numbers if device >= 0))
    every = [device for devices in own for device in devices]
    if len(set(every)) == len(every):
        return [{device: device for device in devices} for devices in own]
    width = max(len(devices) for devices in own)
    return [
        {device: rank * width + i for i, device in enumerate(devices)}
        for (rank, _), devices in zip(ranks, own, strict=True)
    ]


def _tables_of(rank: int, trace: Trace, devices: dict[int, int], first: dict[str, int]) -> Tables:
    """Return a rank's tables with unique keys, devices and correlations."""
    tables: Tables = {table.name: getattr(trace, table.name) for table in TABLES}
    keys = {
        "slices": {"track": "track", "parent": "row", "stack": "stack"},
        "tracks": {"track": "track"},
        "counters": {"track": "track"},
        "flows": {"src": "row", "dst": "row"},
        "stacks": {"stack": "stack", "parent": "stack"},
        "allocations": {"track": "track", "slice": "row"},
    }
    for name, columns in keys.items():
        frame = tables[name]
        tables[name] = frame.assign(**{c: _raised(frame[c], first[key]) for c, key in columns.items()})
    correlation = _raised(tables["slices"]["correlation"], rank << _CORRELATIONS)
    tables["slices"] = tables["slices"].assign(correlation=correlation)
    for name in ("slices", "tracks"):
        frame = tables[name]
        own = pd.array(np.full(len(frame), rank, np.int32), dtype="Int32")
        tables[name] = frame.assign(device=_device(frame["device"], devices), rank=own)
    blocks = tables["allocations"]
    address = blocks["addr"].to_numpy() ^ np.uint64((rank + 1) % 4096 << _ADDRESSES)
    moved = {"device": _device(blocks["device"], devices), "addr": address, "rank": np.int32(rank)}
    tables["allocations"] = blocks.assign(**moved)
    return tables


def divided(trace: Trace, rows: IntArray, at: IntArray) -> Trace:
    """Split slices of streams in two at some instants; the launch of a slice launches both parts."""
    # `slices` gets a column ``own_row`` (int64): the row in `trace`
    slices, flows, count = trace.slices, trace.flows, len(trace.slices)
    ts, dur = slices["ts"].to_numpy(), slices["dur"].to_numpy()
    shortened, second = dur.copy(), ts[rows] + dur[rows] - at
    shortened[rows] = at - ts[rows]
    first = slices.assign(dur=shortened, self_ns=np.minimum(slices["self_ns"], shortened))
    second = slices.iloc[rows].assign(ts=at, dur=second, self_ns=second)
    both = pd.concat([first, second], ignore_index=True)
    both, new_row = _in_order(both.assign(own_row=np.append(np.arange(count), rows)))
    second_row = np.full(count, -1)
    second_row[rows] = count + np.arange(len(rows))
    launched = second_row[flows["dst"].to_numpy()]
    more = flows.assign(dst=launched)[(launched >= 0) & (flows["kind"] == "launch").to_numpy()]
    flows = pd.concat([flows, more.astype(flows.dtypes.to_dict())], ignore_index=True)
    flows = flows.assign(**{name: _translated(flows[name], new_row) for name in ("src", "dst")})
    blocks = trace.allocations
    blocks = blocks.assign(slice=_translated(blocks["slice"], new_row))
    tables = {table.name: getattr(trace, table.name) for table in TABLES}
    tables |= {"slices": both, "flows": flows, "allocations": blocks}
    return Trace(tables, metadata=trace.metadata, report=trace.report, span=trace.span)


def _device_events(
    ranks: Sequence[tuple[int, Trace]], devices: Sequence[dict[int, int]]
) -> pd.DataFrame | None:
    """Return the files' waits for devices, with the new devices and correlations; None if there are none."""
    parts = []
    for (rank, trace), new_numbers in zip(ranks, devices, strict=True):
        table = sync_table(trace)
        if table is None:
            continue
        moved = {"device": table["device"].map(new_numbers).fillna(_HOST).astype("int64")}
        for name in ("correlation", "wait_on_correlation"):
            numbers = table[name].to_numpy()
            moved[name] = np.where(numbers > 0, numbers + (rank << _CORRELATIONS), -1)
        parts.append(table.assign(**moved))
    return pd.concat(parts, ignore_index=True) if parts else None


def _raised(column: pd.Series[Any], by: int) -> Any:
    """Shift the keys of other rows; missing ones (also -1) stay missing."""
    if not isinstance(column.dtype, np.dtype):
        return column + by
    numbers = column.to_numpy()
    return np.where(numbers >= 0, numbers + numbers.dtype.type(by), numbers)


def _device(column: pd.Series[Any], devices: dict[int, int]) -> Any:
    numbers = column.to_numpy(dtype=np.int64, na_value=_HOST)
    new_number = np.full(max(devices, default=-1) + 2, _HOST, np.int64)
    new_number[list(devices)] = list(devices.values())
    return _like(column, new_number[numbers].astype(np.int16))  # the host uses the last one


def _next_key(keys: pd.Series[Any]) -> int:
    return int(keys.max()) + 1 if len(keys) else 0


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables; categories are merged."""
    words = {
        name: union_categoricals([frame[name] for frame in frames])
        for name in frames[0]
        if isinstance(frames[0][name].dtype, pd.CategoricalDtype)
    }
    others = pd.concat([frame.drop(columns=list(words)) for frame in frames], ignore_index=True)
    return others.assign(**words)[list(frames[0].columns)]


def _in_order(slices: pd.DataFrame) -> tuple[pd.DataFrame, IntArray]:
    """Sort by start, longest first, as in a Trace; return the new index of each row."""
    order = np.lexsort((-slices["dur"].to_numpy(), slices["ts"].to_numpy()))
    new_row = np.empty(len(order), np.int64)
    new_row[order] = np.arange(len(order))
    slices = slices.iloc[order].reset_index(drop=True)
    return slices.assign(parent=_translated(slices["parent"], new_row)), new_row


def _translated(column: pd.Series[Any], new_row: IntArray) -> Any:
    return _like(column, np.append(new_row, -1)[column.to_numpy(dtype=np.int64, na_value=-1)])


def _like(column: pd.Series[Any], numbers: Any) -> Any:
    """Return integers as a column like this one; -1 becomes missing if its dtype allows that."""
    return numbers if isinstance(column.dtype, np.dtype) else pd.arrays.IntegerArray(numbers, numbers < 0)


def _whole_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return one row per step: from its start on the first rank to its end on the last."""
    ends = steps.assign(end=steps["ts"] + steps["dur"]).groupby("step", as_index=False)
    table = ends.agg(ts=("ts", "min"), end=("end", "max"), source=("source", "first"), loop=("loop", "first"))
    table = table.assign(dur=table["end"] - table["ts"])[list(steps.columns)]
    return table.astype(steps.dtypes.to_dict())


def _merged_blocks(blocks: pd.DataFrame) -> pd.DataFrame:
    """Sort by time, and sum the memory of several ranks on one device (the host)."""
    order = np.argsort(blocks["ts"].to_numpy(), kind="stable")
    blocks = blocks.iloc[order].reset_index(drop=True)
    for name in ("allocated", "reserved"):
        change = blocks.groupby(["device", "rank"])[name].diff().fillna(blocks[name]).astype("int64")
        blocks[name] = change.groupby(blocks["device"]).cumsum()
    return blocks.drop(columns="rank")
