"""Kineto's rows as columns, the common form of files and live recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.strings import Coded

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
        """Return no events."""
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
                changed[part.name] = _joined(values, [len(one) for one in parts])
        numbers = [one.correlation for one in parts]
        starts = np.cumsum([0, *(int(one.max(initial=-1)) + 1 for one in numbers[:-1])])  # each counts from 0
        changed["correlation"] = np.concatenate(
            [np.where(one >= 0, one + start, one) for one, start in zip(numbers, starts, strict=True)]
        )
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


def _joined(columns: Sequence[Coded | None], sizes: Sequence[int]) -> Coded:
    numbers: dict[str, int] = {}
    codes = []
    for column, size in zip(columns, sizes, strict=True):
        if column is None:
            codes.append(np.full(size, -1, np.int64))
            continue
        lookup = [numbers.setdefault(value, len(numbers)) for value in column.values]
        codes.append(np.array([*lookup, -1], np.int64)[column.codes])
    return Coded(np.concatenate(codes), list(numbers))
