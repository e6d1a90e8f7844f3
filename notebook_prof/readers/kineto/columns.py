"""Kineto's rows as columns: what a file and a live recording have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.strings import Coded

MAX_DEVICE: Final = int(np.iinfo(np.int16).max)
"""The largest device index that the tables hold."""


@dataclass(frozen=True, slots=True)
class MemoryColumns:
    """Kineto's ``[memory]`` instants.

    Attributes
    ----------
    ts : ndarray of int64
        Unix nanoseconds, in any order.
    addr : ndarray of uint64
        Address of the block; 0 where the file does not tell (torch before 1.11).
    size : ndarray of int64
        Bytes; negative when freed.
    allocated, reserved : ndarray of int64
        The allocator's own totals after the event; -1 where the file does not tell.
    device : ndarray of int64
        Device index; -1 for the host.
    tid : ndarray of int64
        Native thread.
    """

    ts: IntArray
    addr: npt.NDArray[np.uint64]
    size: IntArray
    allocated: IntArray
    reserved: IntArray
    device: IntArray
    tid: IntArray

    @classmethod
    def empty(cls) -> MemoryColumns:
        """Return no events."""
        none = np.empty(0, np.int64)
        return cls(none, np.empty(0, np.uint64), none, none, none, none, none)

    @classmethod
    def joined(cls, parts: Sequence[MemoryColumns], base_ns: int) -> MemoryColumns:
        """Return the events of all parts, `base_ns` later."""
        if not parts:
            return cls.empty()
        whole = cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))
        return replace(whole, ts=whole.ts + base_ns)


@dataclass(frozen=True, slots=True)
class CounterColumns:
    """Values of one counter.

    Attributes
    ----------
    name : str
    pid : int
        Process, or the device index of a device's counter.
    ts : ndarray of int64
        Unix nanoseconds.
    value : ndarray of float64
    device : int
        -1 where it is no device's, or its name tells.
    """

    name: str
    pid: int
    ts: IntArray
    value: npt.NDArray[np.float64]
    device: int = -1


@dataclass(frozen=True, slots=True)
class KinetoColumns:
    """Complete rows (those with a duration), in the order of their source.

    Attributes
    ----------
    ts, dur : ndarray of int64, shape (n,)
        Unix nanoseconds and nanoseconds.
    name : Coded
    kind : Coded
        Kineto's activity type, as in ``cpu_op`` or ``kernel``.
    pid, tid : ndarray of int64
        Process and native thread; meaningless on a device.
    device, stream : ndarray of int64
        Of rows on a device; -1 elsewhere.
    correlation : ndarray of int64
        Joins a runtime call and its kernels; -1 where there is none, and on CPU operators.
    sequence : ndarray of int64
        Autograd's sequence number, -1 if none.
    fwd_thread : ndarray of int64
        torch's number of the thread that ran the forward of a backward row; 0 in the forward.
    torch_thread : mapping of int to int
        Native thread → torch's number; empty when unknown (files do not tell).
    shapes : Coded or None
        Input shapes as text, code -1 for none; None when they were not recorded.
    dtypes, strides, concrete : Coded or None
        Element types and strides of the inputs, and the values of those that are no tensors, as JSON text;
        see `operator_arguments`. None when they were not recorded.
    extra : Coded or None
        Launch attributes and collectives' arguments as JSON text; see `activity_metadata.attribute_tables`.
    call_stack : Coded or None
        torch's ``Call stack``, leaf first, as text.
    path : Coded or None
        Dotted module paths that the file itself tells (``Module Hierarchy``).
    thread_names : mapping of (pid, tid) to str
    memory : MemoryColumns
    counters : sequence of CounterColumns
    ranges : RangeColumns or None
        Counters of CUPTI's range profiler; see `profiler_ranges`.
    rank : int or None
    """

    ts: IntArray
    dur: IntArray
    name: Coded
    kind: Coded
    pid: IntArray
    tid: IntArray
    device: IntArray
    stream: IntArray
    correlation: IntArray
    sequence: IntArray
    fwd_thread: IntArray
    torch_thread: Mapping[int, int] = field(default_factory=dict)
    shapes: Coded | None = None
    dtypes: Coded | None = None
    concrete: Coded | None = None
    strides: Coded | None = None
    extra: Coded | None = None
    call_stack: Coded | None = None
    path: Coded | None = None
    thread_names: Mapping[tuple[int, int], str] = field(default_factory=dict)
    memory: MemoryColumns = field(default_factory=MemoryColumns.empty)
    counters: Sequence[CounterColumns] = ()
    ranges: Any = None
    rank: int | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @classmethod
    def joined(cls, parts: Sequence[KinetoColumns]) -> KinetoColumns:
        """Return the rows of consecutive recordings of this process. Everything but columns is taken from the
        last one."""
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
        """Return the rows marked in `keep`; itself if all are."""
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
