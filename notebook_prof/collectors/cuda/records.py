"""Turns records of ``cupti-python`` into Kineto's columns, so both use the same assembler."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.strings import Coded
from ..devices import driver

# The occupancy of kernels, from the GPU properties that the driver reports.

_WARP: Final = 32
_PARTS: Final = 4
"""Number of partitions of a multiprocessor's registers. A warp takes all of its registers from one."""
_REGISTER_UNIT: Final = 256
_ATTRIBUTES: Final = {
    "multiprocessors": 16,
    "threads": 39,
    "major": 75,
    "minor": 76,
    "shared_memory": 81,
    "registers": 82,
    "blocks": 106,
    "reserved_shared_memory": 111,
}
"""Values of ``CUdevice_attribute``. Source: ``cuda.h``."""


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """A GPU, its multiprocessors, and the resources of each."""

    name: str
    memory_bytes: int
    multiprocessors: int
    threads: int
    major: int
    minor: int
    shared_memory: int
    registers: int
    blocks: int
    reserved_shared_memory: int

    def resident_blocks(self, threads: int, registers: int, shared_memory: int) -> int:
        """Return how many blocks of a kernel one multiprocessor can hold."""
        # As described in *Occupancy* of NVIDIA's CUDA programming guide: warps, blocks, registers (allocated
        # in units of 256, from one of four partitions) and shared memory (in units of 256 bytes before
        # compute capability 8, then 128, plus the system's reserve for each block) each set a limit, and the
        # lowest applies. Agrees with Kineto's figures for 39,000 kernels on a P100, V100s, an RTX 2080 Ti,
        # A100s and an H100, except for those with more than 48 KiB of shared memory, for which Kineto reports
        # 0.
        # `registers` is per thread, `shared_memory` is bytes per block.
        warps = max(-(-threads // _WARP), 1)
        limits = [self.blocks, self.threads // _WARP // warps]
        if registers:
            of_warp = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
            limits.append(self.registers // _PARTS // of_warp * _PARTS // warps)
        unit = 256 if self.major < 8 else 128
        if allocated := -(-(shared_memory + self.reserved_shared_memory) // unit) * unit:
            limits.append(self.shared_memory // allocated)
        return min(limits)

    def occupancy(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], registers: int, shared_memory: int
    ) -> tuple[float, float, float]:
        """Return Kineto's ``blocks per SM``, ``warps per SM`` and ``est. achieved occupancy`` (0–1)."""
        threads = block[0] * block[1] * block[2]
        each = grid[0] * grid[1] * grid[2] / max(self.multiprocessors, 1)
        resident = min(float(self.resident_blocks(threads, registers, shared_memory)), each)
        return each, each * threads / _WARP, resident * threads / max(self.threads, 1)


def read_devices(load: Callable[[str], Any] = ctypes.CDLL) -> dict[int, DeviceProperties]:
    """Ask the driver for the GPUs that are visible to this process; {} if that fails."""
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None or cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return {}
    devices = {number: _device(cuda, number) for number in range(count.value)}
    return {number: device for number, device in devices.items() if device is not None}


def _device(cuda: Any, number: int) -> DeviceProperties | None:
    handle, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    if cuda.cuDeviceGet(ctypes.byref(handle), number):
        return None
    cuda.cuDeviceGetName(name, len(name), handle)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    attributes: dict[str, int] = {}
    for attribute, code in _ATTRIBUTES.items():
        value = ctypes.c_int()
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), code, handle):
            return None
        attributes[attribute] = value.value
    return DeviceProperties(name.value.decode(errors="replace"), memory.value, **attributes)


_WORK: Final = ("start", "end", "device_id", "context_id", "stream_id", "correlation_id")
_LAUNCHED: Final = {"graph_id": "graph", "graph_node_id": "graph_node", "priority": "priority"}
"""Fields that some launches or releases of CUPTI lack, with their names in `activity_metadata`."""
_GRID: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread")
_SHARED: Final = ("static_shared_memory", "dynamic_shared_memory")
_COPY: Final = (*_WORK, "bytes", "copy_kind", "src_kind", "dst_kind", *_LAUNCHED)
_CALL: Final = ("start", "end", "cbid", "thread_id", "correlation_id")
_THREADS: Final = ("object_id.pt.thread_id", "object_id.threadId")
"""Paths of the thread's number: since 13.0, and before."""
FIELDS: Final = {
    "CONCURRENT_KERNEL": (*_WORK, *_GRID, *_SHARED, "name", *_LAUNCHED),
    "MEMCPY": _COPY,
    "MEMSET": (*_WORK, "bytes", "memory_kind", *_LAUNCHED),
    "DRIVER": _CALL,
    "RUNTIME": _CALL,
    "MEMCPY2": _COPY,
    "SYNCHRONIZATION": ("start", "end", "type", "context_id", "stream_id", "correlation_id"),
    "OVERHEAD": ("start", "end", "overhead_kind", "object_kind", *_THREADS),
}
"""The fields to read from each kind of record, by the package's names."""
ON_DEVICE: Final = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "MEMCPY2")
_DOMAINS: Final = {"DRIVER": 1, "RUNTIME": 2}
_OF_THREAD: Final = 2
_NO_STREAM: Final = 0xFFFFFFFF

_COPIES: Final = (
    "unknown",
    *("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
)
_MEMORY: Final = (
    "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static",
)  # fmt: skip
_WAITS: Final = ("Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_OVERHEADS: Final = (
    *("Unknown", "Buffer Flush", "Instrumentation", "Resource", "Runtime Triggered Module Loading"),
    *("Lazy Function Loading", "Command Buffer Full", "Activity Buffer Request", "UVM Activity Init"),
)
"""Kinds of overhead, as Kineto spells them."""


def read(rows: Sequence[Any], fields: Sequence[str]) -> pd.DataFrame:
    """Return fields of records as columns. Optional fields that this release lacks are left out."""
    optional = (*_LAUNCHED, *_THREADS)
    present = [field for field in fields if field not in optional or _has(rows[0], field)]
    columns = zip(*map(attrgetter(*present), rows), strict=True)
    types = {"name": object, "graph_node_id": np.uint64}
    names = ["thread_id" if field in _THREADS else field for field in present]
    return pd.DataFrame(
        {
            name: np.array(column, types.get(name, np.int64))
            for name, column in zip(names, columns, strict=True)
        }
    )


def _has(record: Any, field: str) -> bool:
    try:
        attrgetter(field)(record)
    except AttributeError:
        return False
    return True


def _texts(frame: pd.DataFrame, fields: Sequence[str], say: Callable[..., str]) -> npt.NDArray[Any]:
    """Return a text for each row. `say` makes it, once per distinct combination of fields."""
    group = frame.groupby(list(fields), sort=False).ngroup().to_numpy()
    distinct = frame[list(fields)].drop_duplicates()
    values = zip(*(distinct[field].tolist() for field in fields), strict=True)
    texts = np.array([say(*one) for one in values], object)
    return np.asarray(texts[group])


def named(
    frames: dict[str, pd.DataFrame],
    devices: dict[int, DeviceProperties],
    name_of_call: Callable[[int, int], str],
) -> list[pd.DataFrame]:
    """Name the records as Kineto does. Driver calls inside a runtime call are left out."""
    if "DRIVER" in frames and "RUNTIME" in frames:
        driver_calls = frames["DRIVER"]
        inside = driver_calls["correlation_id"].isin(frames["RUNTIME"]["correlation_id"])
        frames["DRIVER"] = driver_calls[~inside]
    device_of = {
        int(context): int(device)
        for kind in ON_DEVICE
        if kind in frames
        for context, device in frames[kind].groupby("context_id")["device_id"].first().items()
    }
    rows = []
    for kind, frame in frames.items():
        if frame.empty:
            continue
        if kind in _DOMAINS:
            name = _texts(frame, ["cbid"], lambda number, domain=_DOMAINS[kind]: name_of_call(domain, number))
            frame = frame.assign(name=name, kind=f"cuda_{kind.lower()}")
        elif kind == "CONCURRENT_KERNEL":
            frame = frame.assign(kind="kernel", extra=_launches(frame, devices))
            frame["name"] = _texts(frame, ["name"], lambda name: demangle(name) or "kernel")
        elif kind == "MEMSET":
            name = _texts(frame, ["memory_kind"], lambda kind: f"Memset ({_pick(_MEMORY, kind)})")
            frame = frame.assign(name=name, kind="gpu_memset", extra=_sizes(frame))
        elif kind in ON_DEVICE:
            name = _texts(frame, ["copy_kind", "src_kind", "dst_kind"], _copy)
            frame = frame.assign(name=name, kind="gpu_memcpy", extra=_sizes(frame))
        elif kind == "SYNCHRONIZATION":
            frame = frame.assign(
                name=_texts(frame, ["type"], lambda kind: _pick(_WAITS, kind)),
                kind="cuda_sync",
                stream_id=frame["stream_id"].where(frame["stream_id"] != _NO_STREAM, -1),
                device_id=frame["context_id"].map(device_of).fillna(0),
            )
        else:
            frame = frame[frame["object_kind"] == _OF_THREAD]
            frame = frame.assign(name=_texts(frame, ["overhead_kind"], _overhead), kind="overhead")
        rows.append(frame)
    return rows


def _launches(frame: pd.DataFrame, devices: dict[int, DeviceProperties]) -> npt.NDArray[Any]:
    """Return the launch settings of kernels as JSON, with the resulting occupancy."""
    launched = [field for field in _LAUNCHED if field in frame]

    def say(*row: int) -> str:
        grid, block, registers, number, shared = row[:3], row[3:6], row[6], row[7], row[8] + row[9]
        launch: dict[str, Any] = {
            "grid": grid,
            "block": block,
            "registers": registers,
            "shared_memory": shared,
        }
        if (device := devices.get(number)) is not None:
            blocks, warps, share = device.occupancy(grid, block, registers, shared)  # type: ignore[arg-type]
            launch |= {"blocks_per_sm": blocks, "warps_per_sm": warps, "occupancy": 100 * share}
        return json.dumps(launch | _graph(launched, row[10:]))

    return _texts(frame, [*_GRID, "device_id", *_SHARED, *launched], say)


def _sizes(frame: pd.DataFrame) -> npt.NDArray[Any]:
    launched = [field for field in _LAUNCHED if field in frame]
    return _texts(
        frame, ["bytes", *launched], lambda size, *row: json.dumps({"bytes": size} | _graph(launched, row))
    )


def _graph(fields: Sequence[str], values: Sequence[int]) -> dict[str, int]:
    """Return the graph, node and priority of a launch. Graph 0 means none."""
    pairs = zip(fields, values, strict=True)
    return {_LAUNCHED[field]: value for field, value in pairs if value or field == "priority"}


def _copy(kind: int, source: int, target: int) -> str:
    return f"Memcpy {_pick(_COPIES, kind)} ({_pick(_MEMORY, source)} -> {_pick(_MEMORY, target)})"


def _overhead(kind: int) -> str:
    return "Driver Compiler" if kind == 1 else _pick(_OVERHEADS, kind >> 16)


def _pick(words: Sequence[str], number: int) -> str:
    return words[number] if number < len(words) else words[0]


def joined(rows: list[pd.DataFrame], pid: int) -> dict[str, Any]:
    """Return the columns of `KinetoColumns`, and ``start`` and ``end`` on CUPTI's clock."""
    names = {
        "thread_id": "tid",
        "device_id": "device",
        "stream_id": "stream",
        "correlation_id": "correlation",
    }
    frame = pd.concat([one.rename(columns=names) for one in rows]) if rows else pd.DataFrame()
    n = len(frame)
    numbers = {
        name: frame[name].fillna(-1).to_numpy(np.int64) if name in frame else np.full(n, -1, np.int64)
        for name in ("start", "end", *names.values())
    }
    texts = {}
    for name in ("name", "kind", "extra"):
        codes, values = pd.factorize(frame[name]) if name in frame else (np.full(n, -1, np.int64), [])
        texts[name] = Coded(codes, list(values))
    return {
        **numbers,
        **texts,
        "pid": np.full(n, pid, np.int64),
        "sequence": np.full(n, -1, np.int64),
        "fwd_thread": np.zeros(n, np.int64),
    }


def demangle(name: str) -> str:
    """Demangle a C++ name with the process's C++ library. If that fails, return it unchanged."""
    if not name.startswith("_Z") or (call := _demangler()) is None:
        return name
    status = ctypes.c_int()
    readable = call(name.encode(), None, None, ctypes.byref(status))
    if not readable:
        return name
    try:
        return ctypes.string_at(readable).decode(errors="replace") if status.value == 0 else name
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(readable))


@cache
def _demangler() -> Any:
    """Return ``__cxa_demangle`` of the C++ ABI."""
    for library in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            call = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        call.restype = ctypes.c_void_p
        call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return call
    return None
