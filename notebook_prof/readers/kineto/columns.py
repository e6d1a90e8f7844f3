"""Kineto's rows as columns, the common form of files and live recordings, and its activity types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.strings import Coded, joined
from ...trace.taxonomy import (
    CATEGORIES,
    EVALUATION_SUFFIX,
    MODULE_PREFIX,
    call_category,
    group_of_word,
    is_collective_kernel,
    is_collective_range,
)
from ..codec.columns import marked

MAX_DEVICE: Final = int(np.iinfo(np.int16).max)
"""The largest device index that fits into the tables."""


@dataclass(frozen=True, slots=True)
class MemoryColumns:
    """Kineto's ``[memory]`` instants."""

    ts: IntArray  # Unix nanoseconds, in any order
    addr: npt.NDArray[np.uint64]  # address of the block; 0 if unknown (torch before 1.11)
    size: IntArray  # bytes; negative when freed
    allocated: IntArray  # the allocator's total after the event; -1 if unknown
    reserved: IntArray  # the bytes it has reserved then; -1 if unknown
    device: IntArray  # -1 for the host
    tid: IntArray  # native thread

    @classmethod
    def empty(cls) -> MemoryColumns:
        none = np.empty(0, np.int64)
        return cls(none, np.empty(0, np.uint64), none, none, none, none, none)

    @classmethod
    def joined(cls, parts: Sequence[MemoryColumns], base_ns: int) -> MemoryColumns:
        """Join the events of all parts, and shift their times by `base_ns`."""
        if not parts:
            return cls.empty()
        whole = cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))
        return replace(whole, ts=whole.ts + base_ns)


@dataclass(frozen=True, slots=True)
class CounterColumns:
    """Values of one counter."""

    name: str
    pid: int  # process, or the device index of a device's counter
    ts: IntArray  # Unix nanoseconds
    value: npt.NDArray[np.float64]
    device: int = -1  # -1 if the counter belongs to no device, or if its name contains the device


@dataclass(frozen=True, slots=True)
class KinetoColumns:
    """Complete rows (those with a duration), in the order of their source."""

    ts: IntArray  # Unix nanoseconds
    dur: IntArray
    name: Coded
    kind: Coded  # Kineto's activity type, such as ``cpu_op`` or ``kernel``
    pid: IntArray  # the process; meaningless on a device, as is the native thread `tid`
    tid: IntArray
    device: IntArray  # -1 for rows that are not on a device, as is the stream
    stream: IntArray
    correlation: IntArray  # links a runtime call to its kernels; -1 if there is none, and for CPU operators
    sequence: IntArray  # autograd's sequence number, -1 if none
    # torch's number of the thread that ran the forward of a backward row; 0 for forward rows
    fwd_thread: IntArray
    # native thread → torch's number; empty if unknown, as in files
    torch_thread: Mapping[int, int] = field(default_factory=dict)
    shapes: Coded | None = None  # input shapes as text, code -1 for none; None if they were not recorded
    # element types of the inputs as JSON text, see `operator_arguments`; None if they were not recorded
    dtypes: Coded | None = None
    concrete: Coded | None = None  # values of inputs other than tensors, likewise
    strides: Coded | None = None  # strides of the inputs, likewise
    # launch attributes and collectives' arguments as JSON text; see `attribute_tables`
    extra: Coded | None = None
    call_stack: Coded | None = None  # torch's ``Call stack``, leaf first, as text
    path: Coded | None = None  # dotted module paths in the file (``Module Hierarchy``)
    thread_names: Mapping[tuple[int, int], str] = field(default_factory=dict)  # by process and thread
    memory: MemoryColumns = field(default_factory=MemoryColumns.empty)
    counters: Sequence[CounterColumns] = ()
    ranges: Any = None  # `RangeColumns`: counters of CUPTI's range profiler
    rank: int | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @classmethod
    def joined(cls, parts: Sequence[KinetoColumns]) -> KinetoColumns:
        """Join consecutive recordings of this process. Attributes that are not columns are the last one's."""
        *_, last = parts
        changed: dict[str, Any] = {}
        for part in fields(cls):
            values = [getattr(one, part.name) for one in parts]
            if isinstance(values[-1], np.ndarray):
                changed[part.name] = np.concatenate(values)
            elif any(isinstance(value, Coded) for value in values):
                missing = (Coded(np.full(len(one), -1), []) for one in parts)
                whole = [value or none for value, none in zip(values, missing, strict=True)]
                changed[part.name] = joined(whole)
        numbers = [one.correlation for one in parts]
        starts = np.cumsum([0, *(int(one.max(initial=-1)) + 1 for one in numbers[:-1])])  # each counts from 0
        moved = (np.where(one >= 0, one + start, one) for one, start in zip(numbers, starts, strict=True))
        changed["correlation"] = np.concatenate([*moved])
        changed["memory"] = MemoryColumns.joined([one.memory for one in parts], 0)
        changed["torch_thread"] = {tid: number for one in parts for tid, number in one.torch_thread.items()}
        changed["thread_names"] = {key: name for one in parts for key, name in one.thread_names.items()}
        return replace(last, **changed)

    def where(self, keep: npt.NDArray[np.bool_]) -> KinetoColumns:
        """Return the rows marked in `keep`; this object if all are."""
        if keep.all():
            return self
        changed: dict[str, Any] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, np.ndarray):
                changed[part.name] = value[keep]
            elif isinstance(value, Coded):
                changed[part.name] = Coded(value.codes[keep], value.values)
        return replace(self, **changed)


_CATEGORY_OF_TYPE: Final = group_of_word(
    {
        "operator": "cpu_op operator",
        "annotation": "user_annotation gpu_user_annotation instant cpu_instant_event cuda_event",
        "python": "python_function",
        "kernel": "kernel concurrent_kernel mtia_ccp_events hpu_op",
        "memcpy": "gpu_memcpy memcpy",
        "memset": "gpu_memset memset",
        "launch": "runtime cuda_runtime cuda_driver privateuse1_runtime privateuse1_driver mtia_runtime "
        "xpu_runtime xpu_driver glow_runtime",
        "sync": "cuda_sync xpu_sync",
        "collective": "collective_comm",
        "overhead": "overhead cuda_profiler_range",
    }
)

BOOKKEEPING_TYPES: Final = frozenset({"trace"})
"""Types of rows about the recording itself, such as ``PyTorch Profiler (0)``."""

DEVICE_TYPES: Final = frozenset({
    "kernel", "concurrent_kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset", "gpu_user_annotation",
    "mtia_ccp_events", "hpu_op", "cuda_event", "cuda_sync", "cuda_profiler_range",
})  # fmt: skip
"""Types of rows that belong to a device, not to a thread. Their process id is a device index."""

OPERATOR_TYPES: Final = frozenset({"cpu_op", "operator", "user_annotation"})
"""Types of rows that can have shapes and a sequence number."""

CALL_TYPES: Final = frozenset(
    kind for kind, category in _CATEGORY_OF_TYPE.items() if category == "launch" or kind == "xpu_sync"
)
"""Types of calls into a device's runtime or driver."""

_PYTHON_MODULE_PREFIX: Final = "nn.Module: "
_CONCRETE: Final = re.compile(r"conv|pool|attention", re.IGNORECASE)

OPERATOR, CALL, DEVICE, UNKNOWN, EXTRAS, BOOKKEEPING, NAMELESS = (1 << bit for bit in range(7))
"""Flags for the kind of an event, by its type and name, and for the arguments it can have."""

UNNAMED: Final = "INVALID"
"""Kineto's name for a CUDA call whose number is not in its table."""
_EXTRAS_PREFIXES: Final = ("record_param_comms", "nccl:", "c10d::", "triton_")
_AMD_LAUNCH: Final = re.compile(r"hip\w*LaunchKernel")


def is_known(activity_type: str) -> bool:
    return activity_type.lower() in _CATEGORY_OF_TYPE


def flags_of_type(activity_type: str | None) -> int:
    activity_type = (activity_type or "").lower()
    if activity_type in BOOKKEEPING_TYPES:
        return BOOKKEEPING
    if activity_type in DEVICE_TYPES:
        return DEVICE | EXTRAS
    if activity_type in OPERATOR_TYPES:
        return OPERATOR
    if activity_type in CALL_TYPES:
        return CALL
    return 0 if is_known(activity_type) else UNKNOWN


def flags_of_name(name: str | None) -> int:
    """Return the flags that a name implies: it is missing, or its events have further arguments."""
    if name is None:
        return NAMELESS
    return EXTRAS if name.startswith(_EXTRAS_PREFIXES) or name == UNNAMED or _AMD_LAUNCH.match(name) else 0


def concrete_matters(name: str) -> bool:
    """Return whether an operator's work depends on arguments other than tensors."""
    return _CONCRETE.search(name) is not None


def categories(columns: KinetoColumns) -> Coded:
    """Return the category of every row, as codes into `CATEGORIES`."""
    # Unknown activity types are operators on a thread and kernels on a device. Device rows of communication
    # libraries are `collective`, runtime calls that only wait are `sync`. ``nn.Module: X`` rows, which
    # torch's Python tracer writes, are `module` if the recording has no ranges of our module hooks.
    code = {category: i for i, category in enumerate(CATEGORIES)}
    name = columns.name
    by_kind = [code[_CATEGORY_OF_TYPE.get(kind.lower(), "operator")] for kind in columns.kind.values]
    result = np.append(np.array(by_kind, np.int8), np.int8(code["operator"]))[columns.kind.codes]
    on_device = columns.device >= 0
    result[on_device & (result == code["operator"])] = code["kernel"]
    transfers = on_device & (result == code["kernel"])
    if transfers.any():
        result[transfers & marked(name, is_collective_kernel)] = code["collective"]
    ranges = ~on_device & (result == code["annotation"])
    result[ranges & marked(name, is_collective_range)] = code["collective"]
    calls = result == code["launch"]
    if calls.any():
        kinds = Coded(name.codes, [call_category(text) for text in name.values])
        for word in ("sync", "overhead"):
            result[calls & marked(kinds, word.__eq__)] = code[word]
    hooked = marked(name, lambda text: text.startswith(MODULE_PREFIX))
    if hooked.any():
        result[hooked] = code["module"]
    else:
        traced = marked(name, lambda text: text.startswith(_PYTHON_MODULE_PREFIX))
        result[traced & (result == code["python"])] = code["module"]
    return Coded(result, CATEGORIES)


def module_name(name: str) -> str:
    """Return the module path in the name of a range of category `module`."""
    if name.startswith(MODULE_PREFIX):
        return name.removeprefix(MODULE_PREFIX).removesuffix(EVALUATION_SUFFIX)
    return name.removeprefix(_PYTHON_MODULE_PREFIX)
