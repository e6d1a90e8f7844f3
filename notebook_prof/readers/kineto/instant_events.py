"""Events without a duration: memory, counters, names of threads, marks, begins and ends."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from ..codec.numbers import exact_ns, identifiers, integers, number_of, to_ns
from .columns import MAX_DEVICE, CounterColumns, MemoryColumns
from .event_types import Begin, Counter, End, Instant, Metadata, QuickInstant

_MEMORY: Final = "[memory]"
_INSTANTS: Final = (Instant, QuickInstant)
_BOOKKEEPING: Final = ("Iteration Start", "Record Window End")

Mark = tuple[str, int | str | None, int | str | None, int]


class InstantEvents:
    """Keep events of every class but ``Complete``.

    Parameters
    ----------
    report : ImportReport

    Attributes
    ----------
    thread_names : dict of (pid, tid) to str
    begins_and_ends : list of Begin or End
        In the order of the file.
    marks : list of (name, pid, tid, ns)
        Instants that are neither memory nor bookkeeping.
    """

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self.thread_names: dict[tuple[int, int], str] = {}
        self.begins_and_ends: list[Begin | End] = []
        self.marks: list[Mark] = []
        self._memory: list[MemoryColumns] = []
        self._counters: list[tuple[str, int, int, float]] = []

    def add(self, events: list[Any]) -> bool:
        """Keep what is of use; flow arrows are not, as they are found again.

        Returns
        -------
        bool
            False if nothing was kept, as times are needed as text.
        """
        classes = set(map(type, events))
        if (QuickInstant in classes or Instant in classes) and not self._add_instants(
            [event for event in events if event.__class__ in _INSTANTS]
        ):
            return False
        if Metadata in classes:
            self.thread_names.update(
                ((number_of(event.pid), number_of(event.tid)), str(event.args.name))
                for event in events
                if event.__class__ is Metadata and event.name == "thread_name" and event.args.name is not None
            )
        if Counter in classes:
            self._add_counters([event for event in events if event.__class__ is Counter])
        if Begin in classes or End in classes:
            marks = [event for event in events if event.__class__ in (Begin, End)]
            for mark in marks:  # the text that they were decoded from does not last
                mark.ts = mark.ts.copy()
            self.begins_and_ends += marks
        return True

    def memory(self, base_ns: int) -> MemoryColumns:
        """Return all memory events, in the order of the file."""
        return MemoryColumns.joined(self._memory, base_ns)

    def counters(self, base_ns: int) -> list[CounterColumns]:
        """Return all values of counters, a table for each counter."""
        rows: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for name, pid, at, value in self._counters:
            rows.setdefault((name, pid), []).append((at, value))
        tables = []
        for (name, pid), samples in rows.items():
            times, values = zip(*samples, strict=True)
            ts = np.array(times, np.int64) + base_ns
            tables.append(CounterColumns(name, pid, ts, np.array(values, np.float64)))
        return tables

    def _add_instants(self, rows: list[Any]) -> bool:
        if isinstance(rows[0], QuickInstant):
            exact = exact_ns([row.ts for row in rows])
            if exact is None:
                return False
            ts, ok = exact, np.ones(len(rows), bool)
        else:
            ts, ok = to_ns([row.ts for row in rows])
        if not ok.all():
            self._report_lost(int((~ok).sum()))
            rows, ts = [row for row, good in zip(rows, ok.tolist(), strict=True) if good], ts[ok]
        names = [row.name for row in rows]
        if names.count(_MEMORY) < len(names):
            of_memory = np.array([name == _MEMORY for name in names], bool)
            self._add_marks([rows[i] for i in np.flatnonzero(~of_memory)], ts[~of_memory])
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
                tid=identifiers([row.tid for row in rows]),
            )
        )
        return True

    def _add_marks(self, rows: list[Any], ts: IntArray) -> None:
        self.marks += [
            (row.name, row.pid, row.tid, at)
            for row, at in zip(rows, ts.tolist(), strict=True)
            if row.name and not row.name.startswith(_BOOKKEEPING)
        ]

    def _report_lost(self, count: int) -> None:
        self._report.add("broken-row", "loss", count, effect="these rows are left out")

    def _add_counters(self, rows: list[Counter]) -> None:
        ts, ok = to_ns([row.ts for row in rows])
        lost = int((~ok).sum())
        for row, at, good in zip(rows, ts.tolist(), ok.tolist(), strict=True):
            values = [(key, value) for key, value in row.args.items() if isinstance(value, int | float)]
            lost += good and not values
            if good:
                name = row.name or ""
                self._counters += [
                    (
                        name if key == name or len(values) == 1 else f"{name} {key}",
                        number_of(row.pid),
                        at,
                        value,
                    )
                    for key, value in values
                ]
        self._report_lost(lost)
