"""Events without a duration: memory, counters, thread names, marks, begins and ends."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace.arrays import BoolArray, IntArray, positions
from ...trace.report import ImportReport
from ...trace.taxonomy import BACKWARD_NODE_PREFIX
from ..codec.columns import marked
from ..codec.numbers import integers, number_of, to_ns
from .columns import MAX_DEVICE, CounterColumns, KinetoColumns, MemoryColumns
from .event_types import Begin, Counter, End, Instant, Metadata

_MEMORY: Final = "[memory]"
_BOOKKEEPING: Final = ("Iteration Start", "Record Window End")

Mark = tuple[str, int | str | None, int | str | None, int]  # name, process, thread, nanoseconds


class InstantEvents:
    """Collects the events of all classes but ``Complete``."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self.thread_names: dict[tuple[int, int], str] = {}  # by process and thread
        self.begins_and_ends: list[Begin | End] = []  # in the order of the file
        self.marks: list[Mark] = []  # instants other than memory events and bookkeeping
        self._memory: list[MemoryColumns] = []
        self._counters: list[tuple[str, int, int, float]] = []

    def add(self, events: list[Any]) -> None:
        """Add the events."""
        # Flow arrows are dropped, since they are computed again.
        classes = set(map(type, events))
        if Instant in classes:
            self._add_instants([event for event in events if event.__class__ is Instant])
        if Metadata in classes:
            named = (event for event in events if event.__class__ is Metadata and event.name == "thread_name")
            for event in named:
                if event.args.name is not None:
                    self.thread_names[number_of(event.pid), number_of(event.tid)] = str(event.args.name)
        if Counter in classes:
            self._add_counters([event for event in events if event.__class__ is Counter])
        if Begin in classes or End in classes:
            marks = [event for event in events if event.__class__ in (Begin, End)]
            for mark in marks:  # the text from which they were decoded is not kept
                mark.ts = mark.ts.copy()
            self.begins_and_ends += marks

    def memory(self, base_ns: int) -> MemoryColumns:
        """Return all memory events, in the order of the file."""
        return MemoryColumns.joined(self._memory, base_ns)

    def counters(self, base_ns: int) -> list[CounterColumns]:
        """Return the values of all counters, one table per counter."""
        rows: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for name, pid, at, value in self._counters:
            rows.setdefault((name, pid), []).append((at, value))
        tables = []
        for (name, pid), samples in rows.items():
            times, values = zip(*samples, strict=True)
            ts = np.array(times, np.int64) + base_ns
            tables.append(CounterColumns(name, pid, ts, np.array(values, np.float64)))
        return tables

    def _add_instants(self, rows: list[Instant]) -> None:
        ts, ok = to_ns([row.ts for row in rows])
        if not ok.all():
            self._report.broken_rows(int((~ok).sum()))
            rows, ts = [row for row, good in zip(rows, ok.tolist(), strict=True) if good], ts[ok]
        names = [row.name for row in rows]
        if names.count(_MEMORY) < len(names):
            of_memory = np.array([name == _MEMORY for name in names], bool)
            self.marks += [
                (row.name, row.pid, row.tid, at)
                for row, at in zip(rows, ts.tolist(), strict=True)
                if row.name and row.name != _MEMORY and not row.name.startswith(_BOOKKEEPING)
            ]
            rows, ts = [rows[i] for i in np.flatnonzero(of_memory)], ts[of_memory]
        args = [row.args for row in rows]
        self._memory.append(
            MemoryColumns(
                ts=ts,
                addr=integers([each.address for each in args]).view(np.uint64),
                size=integers([each.size for each in args]),
                allocated=integers([each.allocated for each in args]),
                reserved=integers([each.reserved for each in args]),
                device=np.minimum(integers([each.device for each in args]), MAX_DEVICE),
                tid=integers([row.tid for row in rows]),
            )
        )

    def _add_counters(self, rows: list[Counter]) -> None:
        ts, ok = to_ns([row.ts for row in rows])
        lost = int((~ok).sum())
        for row, at, good in zip(rows, ts.tolist(), ok.tolist(), strict=True):
            values = [(key, value) for key, value in row.args.items() if isinstance(value, int | float)]
            lost += good and not values
            for key, value in values if good else ():
                name = row.name or ""
                name = name if key == name or len(values) == 1 else f"{name} {key}"
                self._counters.append((name, number_of(row.pid), at, value))
        self._report.broken_rows(lost)


# Links between rows: backward node → forward operator, launch → device work.


class Links(NamedTuple):
    """Row numbers of the two ends of flows; both arrays have the same length."""

    src: IntArray
    dst: IntArray


def backward_nodes(columns: KinetoColumns) -> BoolArray:
    """Return a mask of the rows in which the autograd engine runs one node."""
    # Recordings that are older than the engine's ranges have none, so their rows with a forward thread are
    # used instead.
    nodes = marked(columns.name, lambda name: name.startswith(BACKWARD_NODE_PREFIX))
    return nodes if nodes.any() else (columns.fwd_thread > 0) & (columns.sequence >= 0)


def forward_links(columns: KinetoColumns, nodes: BoolArray, operators: BoolArray) -> Links:
    """Return the forward operator of each backward node, as links from forward to backward."""
    # PyTorch gives a node the sequence number that was current when its forward operator started. Operators
    # inside and before it that made no node have the same number. So among operators with the same number on
    # the same thread, the one that started last made the node. Nodes without a number, or without a recorded
    # forward, are left out.
    forward = np.flatnonzero(operators & (columns.sequence >= 0) & (columns.fwd_thread == 0) & ~nodes)
    backward = np.flatnonzero(nodes & (columns.sequence >= 0))
    if not len(forward) or not len(backward):
        return Links(np.empty(0, np.int64), np.empty(0, np.int64))
    home = _forward_tid(columns, forward, backward)
    rows = np.concatenate([forward, backward])
    thread = np.concatenate([columns.tid[forward], home])
    late = np.repeat([0, 1], [len(forward), len(backward)])
    number = columns.sequence[rows]
    order = np.lexsort((late, columns.ts[rows], number, thread))
    rows, thread, late, number = rows[order], thread[order], late[order], number[order]
    last = np.maximum.accumulate(np.where(late == 0, np.arange(len(rows)), -1))
    at = np.flatnonzero((late == 1) & (last >= 0))
    source = last[at]
    same = (thread[source] == thread[at]) & (number[source] == number[at])
    return Links(rows[source[same]], rows[at[same]])


def _forward_tid(columns: KinetoColumns, forward: IntArray, backward: IntArray) -> IntArray:
    """Return the native thread that ran the forward of each backward node; -1 if unknown."""
    # Live recordings know torch's number of every thread. For files, a number is taken to be the thread that
    # shares most of its sequence numbers.
    tid_of = {number: tid for tid, number in columns.torch_thread.items()}
    result = np.full(len(backward), -1, np.int64)
    numbers = columns.fwd_thread[backward]
    tids = pd.unique(columns.tid[forward])
    numbers_of = columns.sequence[forward]
    sequences_of_tid = {int(tid): pd.unique(numbers_of[columns.tid[forward] == tid]) for tid in tids}
    for number in pd.unique(numbers):
        of_thread = numbers == number
        tid = tid_of.get(int(number))
        if tid is None:
            sequences = columns.sequence[backward[of_thread]]
            shared = {one: int(np.isin(sequences, own).sum()) for one, own in sequences_of_tid.items()}
            tid = max(shared, key=shared.__getitem__)
        result[of_thread] = tid
    return result


def launch_links(columns: KinetoColumns, calls: BoolArray, work: BoolArray) -> Links:
    """Return links from runtime calls to their kernels, copies and fills, by correlation number."""
    # A call can have many device rows (a graph launch). Device rows without a recorded call are left out. Of
    # calls with the same number, the first counts, which is the last in reverse.
    call, target = np.flatnonzero(calls)[::-1], np.flatnonzero(work)
    at = positions(columns.correlation[call], columns.correlation[target])
    return Links(call[at[at >= 0]], target[at >= 0])
