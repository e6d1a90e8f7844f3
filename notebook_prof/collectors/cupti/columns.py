"""From CUPTI's records to Kineto's columns, so that one assembler serves both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...readers.kineto import KinetoColumns
from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from ...trace.strings import Coded
from . import layouts as kinds
from . import names
from .align import Alignment
from .devices import Device
from .walk import Records

INSTANT, START, END = 1, 2, 4
_FLAGS: Final = INSTANT | START | END


def ranges(rows: npt.NDArray[Any], end_ns: int, report: ImportReport) -> dict[str, Any]:
    """Pair the markers by their number.

    Parameters
    ----------
    rows : structured ndarray
        Marker records.
    end_ns : int
        On CUPTI's clock: where ranges end that were still open.
    report : ImportReport
        Told how many those are, and ends without a beginning, which are left out.
    """
    flags = rows["flags"] & _FLAGS
    begins = rows[(flags == START) | (flags == INSTANT)]
    ends = rows[flags == END]
    instant = (begins["flags"] & _FLAGS) == INSTANT
    order = np.argsort(ends["id"], kind="stable")
    key = ends["id"][order]
    position = np.searchsorted(key, begins["id"])
    has_end = position < len(key)
    has_end[has_end] = key[position[has_end]] == begins["id"][has_end]
    has_end &= ~instant
    stop = np.where(instant, begins["timestamp"], np.uint64(end_ns))
    stop[has_end] = ends["timestamp"][order[position[has_end]]]
    report.add(
        "ranges-open",
        "info",
        int((~has_end & ~instant).sum()),
        example="NVTX ranges that had not ended when the recording did",
        effect="they end with it",
    )
    report.add(
        "range-ends-alone",
        "info",
        int((~np.isin(ends["id"], begins["id"])).sum()),
        example="ends of NVTX ranges that began before the recording",
        effect="they are left out",
    )
    return {
        "start": begins["timestamp"],
        "end": np.maximum(stop, begins["timestamp"]),
        "name": names.coded(begins["name"], lambda address: names.text_at(address) or "range"),
        "kind": "user_annotation",
        "tid": begins["objectId.pt.threadId"],
    }


Part = dict[str, Any]
NameOfCall = Callable[[int, int], str]

_LAUNCHED: Final = {"graphId": "graph", "graphNodeId": "graph_node", "priority": "priority"}
"""Fields that not every launch or not every release has, and what they are called in Kineto's columns."""
_CONFIGURATION: Final = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread")
_NO_STREAM: Final = 0xFFFFFFFF
_THREAD: Final = 2


def columns(
    records: Records,
    clock: Alignment,
    call_name: NameOfCall,
    report: ImportReport,
    *,
    pid: int,
    thread_names: dict[tuple[int, int], str] | None = None,
    threads: Mapping[int, int] | None = None,
    devices: Mapping[int, Device] | None = None,
) -> KinetoColumns:
    """Make Kineto's columns of the records.

    Parameters
    ----------
    records : Records
    clock : Alignment
    call_name : callable
        From domain and number of a call to its name.
    report : ImportReport
        Told what has no times and is left out.
    pid : int
        This process; records of containers may carry the host's number.
    thread_names : dict, optional
    threads : mapping of int to int, optional
        From the records' numbers of threads to the system's, where they differ.
    devices : mapping of int to Device, optional
        For the occupancy of kernels.

    Returns
    -------
    KinetoColumns
        Calls and ranges on their threads; kernels, copies, fills and waits on their streams. Calls of the
        driver inside a call of the runtime with the same correlation are left out, as that is one launch.
    """
    of = {kind: _timed(kind, rows, report) for kind, rows in records.of.items()}
    runtime = of.get(kinds.RUNTIME)
    makers: tuple[tuple[int, Callable[[npt.NDArray[Any]], Part]], ...] = (
        (kinds.RUNTIME, lambda rows: _calls(rows, "cuda_runtime", names_of(2))),
        (kinds.DRIVER, lambda rows: _calls(_outer(rows, runtime), "cuda_driver", names_of(1))),
        (kinds.CONCURRENT_KERNEL, lambda rows: _kernels(rows, devices or {})),
        (kinds.MEMCPY, _copies),
        (kinds.MEMCPY_P2P, _copies),
        (kinds.MEMSET, _fills),
        (kinds.SYNCHRONIZATION, lambda rows: _waits(rows, of)),
        (kinds.OVERHEAD, _overheads),
        (kinds.MARKER, lambda rows: ranges(rows, clock.last.device_ns, report)),
    )

    def names_of(domain: int) -> Callable[[int], str]:
        return lambda number: call_name(domain, number)

    parts = [make(of[kind]) for kind, make in makers if kind in of and len(of[kind])]
    for part in parts:
        if threads and "tid" in part:
            part["tid"] = _renumbered(part["tid"], threads)
    return _joined(parts, clock, pid, thread_names or {})


def _renumbered(numbers: npt.NDArray[Any], tid_of: Mapping[int, int]) -> IntArray:
    distinct, codes = np.unique(numbers, return_inverse=True)
    return np.array([tid_of.get(number, number) for number in distinct.tolist()], np.int64)[codes]


def _timed(kind: int, rows: npt.NDArray[Any], report: ImportReport) -> npt.NDArray[Any]:
    """Return the rows that have times; CUPTI writes zeros where it could not tell."""
    if "start" not in (rows.dtype.names or ()):
        return rows
    keep = (rows["start"] > 0) & (rows["end"] >= rows["start"])
    report.add(
        "records-without-times",
        "loss" if kind in (kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET) else "info",
        int((~keep).sum()),
        example=f"{kinds.STRUCTS[kind]} records for which CUPTI could not tell start and end",
        effect="they are left out",
    )
    return rows[keep]


def _calls(rows: npt.NDArray[Any], kind: str, name: Callable[[int], str]) -> Part:
    return {
        "start": rows["start"],
        "end": rows["end"],
        "name": names.coded(rows["cbid"], name),
        "kind": kind,
        "tid": rows["threadId"],
        "correlation": rows["correlationId"],
    }


def _outer(rows: npt.NDArray[Any], runtime: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return the driver calls that are not part of a recorded runtime call."""
    if runtime is None:
        return rows
    return rows[~np.isin(rows["correlationId"], runtime["correlationId"])]


def _on_stream(rows: npt.NDArray[Any]) -> Part:
    return {
        "start": rows["start"],
        "end": rows["end"],
        "device": rows["deviceId"],
        "stream": rows["streamId"],
        "correlation": rows["correlationId"],
    }


def _kernels(rows: npt.NDArray[Any], devices: Mapping[int, Device]) -> Part:
    configuration = {name: rows[name] for name in (*_CONFIGURATION, "deviceId")}
    launched = _launched(rows)
    shared = rows["staticSharedMemory"].astype(np.int64) + rows["dynamicSharedMemory"]

    def text(row: tuple[int, ...]) -> str:
        grid, block, registers, number, memory = row[:3], row[3:6], row[6], row[7], row[8]
        text_of_row = (
            f'{{"grid":[{grid[0]},{grid[1]},{grid[2]}],"block":[{block[0]},{block[1]},{block[2]}],'
            f'"registers":{registers},"shared_memory":{memory}'
        )
        if (device := devices.get(number)) is not None:
            blocks, warps, share = device.occupancy(
                (grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), registers, memory
            )
            text_of_row += f',"blocks_per_sm":{blocks},"warps_per_sm":{warps},"occupancy":{100 * share}'
        return text_of_row + _launch_json(launched, row[9:]) + "}"

    return {
        **_on_stream(rows),
        "name": names.coded(rows["name"], names.kernel_name),
        "kind": "kernel",
        "extra": _texts({**configuration, "shared": shared, **launched}, text),
    }


def _launched(rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return how a graph or a stream launched the rows, where the records have it."""
    return {name: rows[name] for name in _LAUNCHED if name in (rows.dtype.names or ())}


def _launch_json(launched: Mapping[str, Any], values: tuple[int, ...]) -> str:
    """Return the same in JSON, to be appended; a graph of number 0 is none."""
    pairs = zip(launched, values, strict=True)
    return "".join(f',"{_LAUNCHED[name]}":{value}' for name, value in pairs if value or name == "priority")


def _copy_details(rows: npt.NDArray[Any]) -> Coded:
    """Return the bytes, and the graph that asked for them."""
    launched = _launched(rows)
    return _texts(
        {"bytes": rows["bytes"], **launched},
        lambda row: f'{{"bytes":{row[0]}{_launch_json(launched, row[1:])}}}',
    )


def _copies(rows: npt.NDArray[Any]) -> Part:
    code = rows["copyKind"].astype(np.int64) << 16 | rows["srcKind"].astype(np.int64) << 8 | rows["dstKind"]
    return {
        **_on_stream(rows),
        "name": names.coded(code, names.copy_name),
        "kind": "gpu_memcpy",
        "extra": _copy_details(rows),
    }


def _fills(rows: npt.NDArray[Any]) -> Part:
    return {
        **_on_stream(rows),
        "name": names.coded(rows["memoryKind"], names.memset_name),
        "kind": "gpu_memset",
        "extra": _copy_details(rows),
    }


def _waits(rows: npt.NDArray[Any], of: dict[int, npt.NDArray[Any]]) -> Part:
    stream = rows["streamId"].astype(np.int64)
    return {
        "start": rows["start"],
        "end": rows["end"],
        "device": _device_of_context(rows["contextId"], of),
        "stream": np.where(stream == _NO_STREAM, -1, stream),
        "correlation": rows["correlationId"],
        "name": names.coded(rows["type"], names.sync_name),
        "kind": "cuda_sync",
    }


def _device_of_context(context: npt.NDArray[Any], of: dict[int, npt.NDArray[Any]]) -> IntArray:
    """Return the device of each context: waits name a context only; kernels and copies tell whose it is."""
    result = np.zeros(len(context), np.int64)
    for kind in (kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET):
        if (rows := of.get(kind)) is not None:
            contexts, first = np.unique(rows["contextId"], return_index=True)
            for number, at in zip(contexts.tolist(), first.tolist(), strict=True):
                result[context == number] = int(rows["deviceId"][at])
    return result


def _overheads(rows: npt.NDArray[Any]) -> Part:
    rows = rows[rows["objectKind"] == _THREAD]
    return {
        "start": rows["start"],
        "end": rows["end"],
        "name": names.coded(rows["overheadKind"], names.overhead_name),
        "kind": "overhead",
        "tid": rows["objectId.pt.threadId"],
    }


def _texts(values: dict[str, npt.NDArray[Any]], text: Callable[[tuple[int, ...]], str]) -> Coded:
    """Return a column of JSON texts, each distinct combination of values being written once."""
    frame = pd.DataFrame(values)
    group = frame.groupby(list(frame), sort=False).ngroup().to_numpy()
    distinct = frame.drop_duplicates()
    each = zip(*(distinct[name].tolist() for name in distinct), strict=True)
    return Coded(group, [text(row) for row in each])


def _joined(
    parts: list[Part], clock: Alignment, pid: int, thread_names: dict[tuple[int, int], str]
) -> KinetoColumns:
    lengths = [len(part["start"]) for part in parts]
    n = sum(lengths)

    def numbers(name: str, missing: int = -1) -> IntArray:
        column = np.full(n, missing, np.int64)
        at = 0
        for part, length in zip(parts, lengths, strict=True):
            if name in part:
                column[at : at + length] = part[name]
            at += length
        return column

    def texts(name: str) -> Coded:
        codes = np.full(n, -1, np.int64)
        code_of: dict[str, int] = {}
        at = 0
        for part, length in zip(parts, lengths, strict=True):
            if name in part:
                own = (
                    part[name]
                    if isinstance(part[name], Coded)
                    else Coded(np.zeros(length, int), [part[name]])
                )
                map_ = np.array([code_of.setdefault(t, len(code_of)) for t in own.values] + [-1], np.int64)
                codes[at : at + length] = map_[own.codes]
            at += length
        return Coded(codes, list(code_of))

    def times(name: str) -> npt.NDArray[np.uint64]:
        return np.concatenate([part[name].astype(np.uint64) for part in parts] or [np.empty(0, np.uint64)])

    ts = clock.to_wall(times("start"))
    return KinetoColumns(
        ts=ts,
        dur=clock.to_wall(times("end")) - ts,
        name=texts("name"),
        kind=texts("kind"),
        pid=np.full(n, pid, np.int64),
        tid=numbers("tid"),
        device=numbers("device"),
        stream=numbers("stream"),
        correlation=numbers("correlation"),
        sequence=np.full(n, -1, np.int64),
        fwd_thread=np.zeros(n, np.int64),
        extra=texts("extra"),
        thread_names=thread_names,
    )
