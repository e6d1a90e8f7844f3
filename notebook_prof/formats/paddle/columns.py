"""The columns shared by Paddle's two kinds of file, and how they become a Trace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...readers.codec.columns import per_group
from ...readers.events import stream_tracks
from ...trace.arrays import IntArray, distinct_paths, positions
from ...trace.builder import TraceBuilder
from ...trace.nesting import nest
from ...trace.strings import Coded, by_value
from ...trace.taxonomy import call_category, group_of_word, is_collective_kernel

# Paddle's event types, and their meaning here.

EVENT_TYPES: Final = (
    "Operator", "Dataloader", "ProfileStep", "CudaRuntime", "Kernel", "Memcpy", "Memset", "UserDefined",
    "OperatorInner", "Forward", "Backward", "Optimization", "Communication", "PythonOp", "PythonUserDefined",
    "DygraphKernelLaunch", "StaticKernelLaunch",
)  # fmt: skip
"""By number, as the protobuf file holds them. 15 and 16 are Paddle 3's; the schema that Paddle embeds
ends at 14, which is why Paddle 3.3 cannot read its own files."""

MEMORY_TYPES: Final = ("Allocate", "Free", "ReservedAllocate", "ReservedFree")

DEVICE_TYPES: Final = ("Kernel", "Memcpy", "Memset")
RUNTIME_TYPES: Final = ("CudaRuntime", "MluRuntime")

CATEGORY: Final = group_of_word(
    {
        "operator": "Operator OperatorInner DygraphKernelLaunch StaticKernelLaunch",
        "annotation": "Dataloader ProfileStep UserDefined Backward Optimization PythonUserDefined",
        "launch": "CudaRuntime MluRuntime",
        "kernel": "Kernel",
        "memcpy": "Memcpy",
        "memset": "Memset",
        "module": "Forward",
        "collective": "Communication",
        "python": "PythonOp",
    }
)

_PHASE: Final = {
    "Dataloader": "data",
    "Forward": "forward",
    "Backward": "backward",
    "Optimization": "optimizer",
    "Communication": "communication",
}

_KERNEL_LAUNCH: Final = " kernel launch"


def event_type(number: int, name: str) -> str:
    """Return Paddle's word for a type number; ``Unknown <n>`` beyond the known ones."""
    # Some versions of 2022 and 2023 used 15 for the runtime calls of MLU devices; names distinguish them from
    # Paddle 3's kernel launches.
    if number == EVENT_TYPES.index("DygraphKernelLaunch") and not name.endswith(_KERNEL_LAUNCH):
        return "MluRuntime"
    return EVENT_TYPES[number] if 0 <= number < len(EVENT_TYPES) else f"Unknown {number}"


def category(word: str, name: str) -> str:
    """Return the category of an event; unknown types are operators."""
    word_category = CATEGORY.get(word, "operator")
    if word_category == "kernel" and (is_collective_kernel(name) or "xccl" in name.lower()):
        return "collective"
    return call_category(name) if word_category == "launch" else word_category


# Input shapes and call stacks of Paddle's operators.

_FRAME: Final = re.compile(r"File ['\"]([^'\"\n]*)['\"], line (\d+), in ([^\n\\]+)")


def shapes_text(shapes: Mapping[str, Any]) -> str:
    """Return the shapes of all arguments as one list, as `slices.shapes` holds them."""
    lists = (value if isinstance(value, list) else [value] for value in shapes.values())
    return repr([*chain.from_iterable(lists)])


def frames(callstack: str) -> list[tuple[str, str, int]]:
    """Return a recorded Python call stack as (function, file, line), root first."""
    return [(name.strip(), file, min(int(line), 2**31 - 1)) for file, line, name in _FRAME.findall(callstack)]


def _dtypes(columns: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in columns.split())


ROW_COLUMNS: Final = _dtypes(
    "ts:int64 dur:int64 name:object type:object pid:int64 tid:int64 device:int64 stream:int64 "
    "correlation:int64 shapes:object callstack:object"
)
"""Columns of `PaddleColumns.rows`. Times in Unix ns; -1 and None are missing; `type` is Paddle's own word."""

DEVICE_COLUMNS: Final = _dtypes(
    "correlation:int64 device:int64 stream:int64 start_unix_ns:int64 name:object type:object context:Int64 "
    "grid:object block:object registers_per_thread:Int64 shared_memory_bytes:Int64 blocks_per_sm:float64 "
    "warps_per_sm:float64 occupancy:float64 bytes:Int64 value:Int64"
)
"""Columns of ``metadata["tables"]["device_events"]``; `occupancy` is a share from 0 to 1."""

MEMORY_COLUMNS: Final = _dtypes(
    "ts:int64 type:object place:object addr:uint64 bytes:int64 allocated:int64 reserved:int64 "
    "peak_allocated:int64 peak_reserved:int64 pid:int64 tid:int64"
)
"""Columns of `PaddleColumns.memory`; `type` is Allocate, Free, ReservedAllocate or ReservedFree."""

INPUT_COLUMNS: Final = _dtypes("name:object inputs:object dtypes:object")
"""Columns of `PaddleColumns.inputs`: JSON text of ``{argument: [shape, ...]}`` and of the variable kinds."""


@dataclass(frozen=True, slots=True)
class PaddleColumns:
    """One file's events."""

    rows: pd.DataFrame  # everything with a duration: `ROW_COLUMNS`
    device_events: pd.DataFrame  # launch attributes and bytes of device work: `DEVICE_COLUMNS`
    memory: pd.DataFrame  # `MEMORY_COLUMNS`
    inputs: pd.DataFrame  # one row per operator call with known inputs: `INPUT_COLUMNS`
    # `ExtraInfo`: thread names by thread id, and utilisations
    extra: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the metadata


def frame(columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """Return a frame of tuples with exact dtypes, also when there are no rows."""
    return pd.DataFrame(rows, columns=pd.Index(list(columns)), dtype=object).astype(dict(columns))


_DEVICE: Final = re.compile(r"Place\((?!.*pinned)[A-Za-z_]+:(\d{1,4})\)")
_HOST: Final = "Place(cpu)"


def allocations(columns: PaddleColumns, builder: TraceBuilder) -> dict[str, pd.DataFrame]:
    """Put memory events into `builder`, and return tables of the peaks and of the remaining events."""
    memory = columns.memory
    device = _devices(memory["place"])
    # ReservedAllocate and ReservedFree, with which the allocator takes memory from the system, are already in
    # `reserved`; pinned host memory has totals of its own. Both are kept apart, with `ts` in Unix ns.
    usual = memory["type"].isin(["Allocate", "Free"]).to_numpy() & (device > -2)
    effect = "not in allocations: see metadata['tables']['reserved_events']"
    builder.report.add("pinned-memory", "info", int((device <= -2).sum()), effect=effect)
    if usual.any():
        rows = memory[usual]
        builder.allocations(
            ts=rows["ts"].to_numpy(),
            addr=rows["addr"].to_numpy(),
            bytes=rows["bytes"].to_numpy(),
            device=device[usual],
            allocated=rows["allocated"].to_numpy(),
            reserved=rows["reserved"].to_numpy(),
            # also threads that have no events of their own
            track=thread_tracks(rows, columns, builder),
        )
    by_place = memory.assign(device=device).groupby("place", sort=False)
    # the peaks are those of the whole process
    peaks = by_place[["device", "peak_allocated", "peak_reserved"]].max().reset_index()
    named = peaks.rename(columns={name: f"{name}_bytes" for name in ("peak_allocated", "peak_reserved")})
    return {"memory_places": named, "reserved_events": memory[~usual].reset_index(drop=True)}


def _devices(column: pd.Series) -> IntArray:
    """Return the device of each place; -1 for the host, -2 for pinned memory and unknown places."""
    code, texts = pd.factorize(column.to_numpy())
    numbers = [
        -1 if text == _HOST else int(match[1]) if (match := _DEVICE.fullmatch(str(text))) else -2
        for text in texts
    ]
    return np.asarray(np.array([*numbers, -2], np.int64)[code])


_STEP: Final = re.compile(r"ProfileStep#(\d{1,9})")
_UTILISATION: Final = {
    "Process Cpu Utilization": "process_cpu_utilization",
    "System Cpu Utilization": "system_cpu_utilization",
}
_WORKER: Final = re.compile(r"(.+)_time_(.+)\.paddle_trace\.(?:pb|json)")
_LAST_DEVICE: Final = np.iinfo(np.int16).max


def assemble(columns: PaddleColumns, builder: TraceBuilder) -> None:
    """Put Paddle's events into `builder` as slices, flows, steps and allocations."""
    # Python's and C++'s events of a thread share its track. `Forward` events are slices of category module,
    # named by their layer's class; `module` is the path of class names.
    rows = columns.rows.assign(device=np.minimum(columns.rows["device"], _LAST_DEVICE))
    device = rows["device"].to_numpy()
    track = np.empty(len(rows), np.int64)
    track[device < 0] = thread_tracks(rows[device < 0], columns, builder)
    stream = rows["stream"].to_numpy()
    track[device >= 0] = stream_tracks(builder, device[device >= 0], stream[device >= 0])
    name, names = pd.factorize(rows["name"].to_numpy())
    word, words = pd.factorize(rows["type"].to_numpy())
    pair, pairs = pd.factorize(name.astype(np.int64) * max(len(words), 1) + word)
    texts = [(str(names[code // len(words)]), str(words[code % len(words)])) for code in pairs]
    categories = [category(type_, text) for text, type_ in texts]
    handles = builder.slices(
        ts=rows["ts"].to_numpy(),
        dur=rows["dur"].to_numpy(),
        track=track,
        name=Coded(name, list(names)),
        category=Coded(pair, categories),
        phase=by_value(word, [_PHASE.get(str(text)) for text in words]),
        correlation=rows["correlation"].to_numpy(),
        device=device,
        stream=rows["stream"].to_numpy(),
        shapes=rows["shapes"].to_numpy(),
        module=_modules(rows, track),
        stack=_stacks(rows["callstack"].to_numpy(), builder),
    )
    _launches(rows, handles, builder)
    marks = rows[(rows["type"] == "ProfileStep").to_numpy()]
    marks = marks.assign(step=[_STEP.fullmatch(text) for text in marks["name"]]).dropna(subset="step")
    if len(marks):
        builder.steps([int(match[1]) for match in marks["step"]], marks["ts"], marks["dur"], "file")
    # Data for which the common tables have no columns: `event_types` has Paddle's own type of every name,
    # `device_events` is by correlation (see `columns.DEVICE_COLUMNS`), and `operator_inputs` has the inputs
    # by argument as JSON.
    tables = builder.metadata.setdefault("tables", {})
    counts = np.bincount(pair, minlength=len(pairs))
    types = pd.DataFrame(texts, columns=["name", "type"])
    tables["event_types"] = types.assign(category=categories, count=counts)
    tables["device_events"] = columns.device_events
    calls = columns.inputs.groupby(["name", "inputs", "dtypes"], sort=False).size()
    tables["operator_inputs"] = calls.reset_index(name="count")
    tables.update(allocations(columns, builder))
    _facts(columns, builder)


def _modules(rows: pd.DataFrame, track: IntArray) -> Coded:
    """Return the path of class names for each Forward event; what is inside inherits it."""
    calls = np.flatnonzero((rows["type"] == "Forward").to_numpy())
    name, names = pd.factorize(rows["name"].to_numpy()[calls])
    depth, parent, _ = nest(track[calls], rows["ts"].to_numpy()[calls], rows["dur"].to_numpy()[calls])
    path, above, first = distinct_paths(name, parent, depth.astype(np.int64))
    paths: list[str] = []
    for outer, call in zip(above.tolist(), first.tolist(), strict=True):
        own = str(names[name[call]])
        paths.append(f"{paths[outer]}.{own}" if outer >= 0 else own)
    result = np.full(len(rows), -1, np.int64)
    result[calls] = path
    return Coded(result, paths)


def _stacks(callstack: npt.NDArray[Any], builder: TraceBuilder) -> IntArray:
    code, texts = pd.factorize(callstack)
    keys = [builder.stack(frames(str(text))) for text in texts]  # noqa: PD013
    return np.asarray(np.array([*keys, -1], np.int64)[code])


def _launches(rows: pd.DataFrame, handles: IntArray, builder: TraceBuilder) -> None:
    """Link each kernel, copy and fill with its runtime call, by correlation number."""
    correlation = rows["correlation"].to_numpy()
    call = np.flatnonzero(rows["type"].isin(RUNTIME_TYPES).to_numpy() & (correlation >= 0))
    work = np.flatnonzero((rows["device"] >= 0).to_numpy())
    at = positions(correlation[call], correlation[work])
    linked = at >= 0
    builder.flows("launch", handles[call[at[linked]]], handles[work[linked]])
    effect = "kernels and copies launched before the recording have no step, phase or module"
    builder.report.add("device-work-without-launch", "info", int((~linked).sum()), effect=effect)


def _facts(columns: PaddleColumns, builder: TraceBuilder) -> None:
    builder.metadata.update(columns.facts)
    if properties := columns.facts.get("device_properties", []):
        builder.metadata["devices"] = [str(entry.get("name", "")) for entry in properties]
    for key, name in _UTILISATION.items():
        try:
            builder.metadata[name] = float(columns.extra[key])
        except (KeyError, ValueError):
            continue
    if match := _WORKER.fullmatch(str(builder.metadata.get("file", ""))):
        builder.metadata["worker"] = match[1]


def thread_tracks(rows: pd.DataFrame, columns: PaddleColumns, builder: TraceBuilder) -> IntArray:
    """Return the track of each row's thread, by its ``pid`` and ``tid``, named as in ``ExtraInfo``."""

    def track(pid: int, tid: int) -> int:
        return builder.track(columns.extra.get(str(tid), f"thread {tid}"), pid=pid, tid=tid)

    return per_group(track, rows["pid"].to_numpy(), rows["tid"].to_numpy())
