"""The tables of ``paddle.profiler.Profiler.summary()`` for any recording, as DataFrames and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from .summary_events import STATISTICS, Events, sort_key
from .summary_operators import kernel_table, operator_table, user_table
from .summary_overview import device_table, distribution_table, memory_table, model_table, overview_table


class RuledTable:
    """Collects rows of columns with fixed widths; the unit is written below the title."""

    def __init__(self, title: str, widths: Sequence[int], heads: Sequence[str], unit: str = "") -> None:
        self._widths = list(widths)
        self._width = sum(widths) + 2 * len(widths) - 2
        self._lines = [self._titled(title)]
        if unit:
            self._lines.append(f"Time unit: {unit}")
        self.rule()
        self.row(*heads)
        self.rule()

    def rule(self) -> None:
        """Add a line under all columns."""
        self._lines.append("".join("-" * width + "  " for width in self._widths))

    def row(self, *cells: str) -> None:
        """Add a line of cells, which may be wider than their columns."""
        self._lines.append("".join(f"{cell:<{w}}  " for cell, w in zip(cells, self._widths, strict=True)))

    def heading(self, text: str) -> None:
        """Add a title inside the table."""
        self._lines.append(self._titled(text))

    def line(self, text: str) -> None:
        """Add a line directly below the title, above those added earlier."""
        self._lines.insert(1, text)

    def text(self, *, closed: bool, note: str = "") -> str:
        """Return the table, followed by two empty lines. `note` goes below it, with a rule of its own."""
        if closed:
            self.rule()
        if note:
            self._lines += [note, "-" * self._width]
        return "\n".join([*self._lines, "", "", ""])

    def _titled(self, text: str) -> str:
        left = (self._width - len(text)) // 2
        return "-" * left + text + "-" * (self._width - len(text) - left)


VIEWS: Final = (
    "DeviceView",
    "OverView",
    "ModelView",
    "DistributedView",
    "KernelView",
    "OperatorView",
    "MemoryView",
    "MemoryManipulationView",
    "UDFView",
)
"""Paddle's ``SummaryView``."""

UNITS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_CPU_HEAD: Final = "CPU Total / Avg / Max / Min / Ratio(%)"
_GPU_HEAD: Final = "GPU Total / Avg / Max / Min / Ratio(%)"
_LEAST: Final = 40
_NAME: Final = 52
_MERGED: Final = "All threads merged"

_DEVICE_NOTE: Final = """\
Note:
CPU(Process) Utilization = Current process CPU time over all cpu cores / elapsed time, \
so max utilization can be reached 100% * number of cpu cores.
CPU(System) Utilization = All processes CPU time over all cpu cores(busy time) / (busy time + idle time).
GPU Utilization = Current process GPU time / elapsed time."""
_OVERVIEW_NOTE: Final = """\
Note:
In this table, We sum up all collected events in terms of event type.
The time of events collected on host are presented as CPU Time, and as GPU Time if on device.
Events with different types may overlap or inclusion, e.g. Operator includes OperatorInner, \
so the sum of ratios is not 100%.
The time of events in the same type with overlap will not calculate twice, \
and all time is summed after merged.
Example:
Thread 1:
  Operator: |___________|     |__________|
Thread 2:
  Operator:   |____________|     |___|
After merged:
  Result:   |______________|  |__________|
"""
_MODEL_NOTE: Final = """\
Note:
In this table, GPU time is the sum of all device(GPU) events called in the phase.
Unlike overview summary, if two device(GPU) events execute on different streams with overlap time, \
we sum them directly here.
"""
_DISTRIBUTION_NOTE: Final = """\
Note:
Communication time: Communication Event time, Communication Op time and its kernel time on gpu.
Computation time: Kernel time, except kernels belong to communication(nccl kernels).
Overlap time: Communication time intersects with computation time.
Example:
Communication:
  CPU:              |_________________|
  GPU:                                  |______________|
  Total:            |_________________| |______________|
Computation time(Kernel):
  GPU:         |________________|
Overlap time:       |___________|
"""


def paddle_summary(
    trace: Trace,
    *,
    sorted_by: str = "CPUTotal",
    views: str | Iterable[str] | None = None,
    op_detail: bool = True,
    thread_sep: bool = False,
    time_unit: str = "ms",
) -> str:
    """Write the tables as ``paddle.profiler.Profiler.summary`` prints them.

    Parameters
    ----------
    trace : Trace
    sorted_by : str
        ``CPUTotal CPUAvg CPUMax CPUMin GPUTotal GPUAvg GPUMax GPUMin``, or Paddle's ``SortedKeys``. Sorts
        from largest to smallest, minima from smallest to largest.
    views : str or iterable of str, optional
        ``DeviceView OverView ModelView DistributedView KernelView OperatorView MemoryView
        MemoryManipulationView UDFView``, or Paddle's ``SummaryView``; by default all. Views without rows are
        left out.
    op_detail, thread_sep : bool
        Whether to list what is inside operators, and operators by thread.
    time_unit : str
        ``s ms us ns``.

    Returns
    -------
    str
        For Paddle's recordings, exactly Paddle's text.

    Raises
    ------
    OptionError
        If there is no such sort key, view or unit.

    Examples
    --------
    >>> from notebook_prof import Profile
    >>> from notebook_prof.testing import draw
    >>> text = Profile(draw("main: [mm ]")).compat.paddle_summary(views="OperatorView")
    >>> "Operator Summary" in text
    True
    """
    sort_key(sorted_by)
    if time_unit not in UNITS:
        raise OptionError(f"there is no time unit {time_unit!r}: {nearest(time_unit, UNITS)}")
    chosen = _views(views)
    writer = _Writer(Events(trace), time_unit)
    key = sorted_by
    makers: dict[str, Callable[[], str]] = {
        "DeviceView": writer.device,
        "OverView": writer.overview,
        "ModelView": writer.model,
        "DistributedView": writer.distribution,
        "OperatorView": lambda: writer.operators(key, op_detail, thread_sep),
        "KernelView": lambda: writer.kernels(key),
        "MemoryManipulationView": lambda: writer.users(key, False, True),
        "UDFView": lambda: writer.users(key, thread_sep, False),
        "MemoryView": writer.memory,
    }
    return "".join(make() for view, make in makers.items() if view in chosen)


def _views(views: str | Iterable[str] | None) -> Sequence[str]:
    if views is None:
        return VIEWS
    chosen = [views] if isinstance(views, str) or hasattr(views, "name") else list(views)
    words = [str(getattr(view, "name", view)) for view in chosen]
    for word in words:
        if word not in VIEWS:
            raise OptionError(f"there is no view {word!r}: {nearest(word, VIEWS)}")
    return words


class _Writer:
    def __init__(self, events: Events, unit: str) -> None:
        self._events, self._unit = events, unit

    def _time(self, ns: float) -> str:
        return "-" if pd.isna(ns) else f"{float(ns) / UNITS[self._unit]:.2f}"

    def _spread(self, row: dict[Any, Any], side: str) -> str:
        ratio = row[f"{side}_ratio"]
        times = [self._time(row[f"{side}_{word}"]) for word in STATISTICS]
        return " / ".join([*times, "-" if pd.isna(ratio) else f"{100 * ratio:.2f}"])

    def device(self) -> str:
        devices = device_table(self._events)
        if devices.empty:
            return ""
        table = RuledTable("Device Summary", [30, 20], ["Device", "Utilization (%)"])
        for row in devices.to_dict("records"):
            table.row(row["device"], f"{100 * row['utilization']:.2f}")
        return table.text(closed=True, note=_DEVICE_NOTE)

    def overview(self) -> str:
        totals = overview_table(self._events)
        headings = ["Event Type", "Calls", "CPU Time", "Ratio (%)"]
        table = RuledTable("Overview Summary", [25] * 4, headings, self._unit)
        for row in totals[totals["on"] == "cpu"].to_dict("records"):
            indent = "" if row["type"] == "ProfileStep" else "  "
            table.row(
                indent + row["type"],
                str(row["calls"]),
                self._time(row["time_ns"]),
                f"{100 * row['ratio']:.2f}",
            )
        table.rule()
        table.row("", "Calls", "GPU Time", "Ratio (%)")
        table.rule()
        for row in totals[totals["on"] == "gpu"].to_dict("records"):
            table.row(
                "  " + row["type"], str(row["calls"]), self._time(row["time_ns"]), f"{100 * row['ratio']:.2f}"
            )
        return table.text(closed=True, note=_OVERVIEW_NOTE)

    def model(self) -> str:
        phases = model_table(self._events)
        if phases.empty:
            return ""
        rows = []
        for row in phases.to_dict("records"):
            name = row["name"] if row["name"] == "ProfileStep" else f"  {row['name']}"
            calls = "-" if row["name"] == "Others" else str(row["calls"])
            rows.append((name, calls, self._spread(row, "cpu"), self._spread(row, "gpu")))
        table = self._table("Model Summary", 15, rows)
        for cells in rows:
            table.row(*cells)
        return table.text(closed=True, note=_MODEL_NOTE)

    def distribution(self) -> str:
        kinds = distribution_table(self._events)
        if kinds.empty:
            return ""
        table = RuledTable("Distribution Summary", [25] * 3, ["Name", "Total Time", "Ratio (%)"], self._unit)
        for row in kinds.to_dict("records"):
            indent = "" if row["name"] == "ProfileStep" else "  "
            table.row(indent + row["name"], self._time(row["time_ns"]), f"{100 * row['ratio']:.2f}")
        return table.text(closed=True, note=_DISTRIBUTION_NOTE)

    def operators(self, sorted_by: str, op_detail: bool, thread_sep: bool) -> str:
        operators_shown = operator_table(
            self._events, sorted_by=sorted_by, op_detail=op_detail, thread_sep=thread_sep
        )
        if operators_shown.empty:
            return ""
        rows: list[tuple[str, ...]] = []
        threads = []
        for row in operators_shown.to_dict("records"):
            level, device = int(row["level"]), pd.isna(row["cpu_total_ns"])
            indent = "  " * level
            name = row["name"]
            if device and len(name) + len(indent) > _NAME:
                name = name[: _NAME - 3 - len(indent)] + "..."
            flops = "-" if level else f"{row['flops']:.0f}"
            cpu = "- / - / - / - / -" if device else self._spread(row, "cpu")
            rows.append((indent + name, str(row["calls"]), cpu, self._spread(row, "gpu"), flops))
            threads.append(row["thread"])
        longest = max(
            [
                _NAME,
                *(len(name) for name in operators_shown.loc[operators_shown["cpu_total_ns"].notna(), "name"]),
            ]
        )
        table = self._table("Operator Summary", longest, rows, flops=True)
        self._by_thread(table, rows, threads)
        return table.text(closed=True)

    def kernels(self, sorted_by: str) -> str:
        kernels_shown = kernel_table(self._events, sorted_by=sorted_by)
        if kernels_shown.empty:
            return ""
        rows = [
            (_short(row["name"], 90), str(row["calls"]), self._spread(row, "gpu"))
            for row in kernels_shown.to_dict("records")
        ]
        width = max(_LEAST, *(len(cells[2]) for cells in rows))
        table = RuledTable("Kernel Summary", [90, 6, width], ["Name", "Calls", _GPU_HEAD], self._unit)
        for cells in rows:
            table.row(*cells)
        return table.text(closed=True)

    def users(self, sorted_by: str, thread_sep: bool, memory: bool) -> str:
        ranges = user_table(self._events, sorted_by=sorted_by, thread_sep=thread_sep, memory=memory)
        if ranges.empty:
            return ""
        records = ranges.to_dict("records")
        rows = [
            (_short(row["name"], 45), str(row["calls"]), self._spread(row, "cpu"), self._spread(row, "gpu"))
            for row in records
        ]
        title = "Memory Manipulation Summary" if memory else "UserDefined Summary"
        table = self._table(title, max(len(cells[0]) for cells in rows), rows)
        if memory:
            for cells in rows:
                table.row(*cells)
        else:
            self._by_thread(table, rows, [row["thread"] for row in records])
        return table.text(closed=memory)

    def memory(self) -> str:
        totals = memory_table(self._events)
        texts = []
        headings = [
            "Name",
            "Type",
            "Allocation Count",
            "Free Count",
            "Allocation Size",
            "Free Size",
            "Increased Size",
        ]
        for place_name, rows in totals.groupby("place", sort=False):
            table = RuledTable(f"Memory Summary - {place_name}", [50, 12, *[15] * 5], headings)
            table.line(f"Peak Reserved Memory: {rows['peak_reserved_bytes'].iloc[0]}")
            table.line(f"Peak Allocated Memory: {rows['peak_allocated_bytes'].iloc[0]}")
            columns = ["name", "type", "allocation_count", "free_count", "allocation_bytes", "free_bytes"]
            for row in rows[[*columns, "increase_bytes"]].to_numpy().tolist():
                table.row(*map(str, row))
            texts.append(table.text(closed=False))
        return "".join(texts)

    def _table(
        self, title: str, name_width: int, rows: Sequence[Sequence[str]], flops: bool = False
    ) -> RuledTable:
        widths = [name_width, 6, *(max(_LEAST, *(len(cells[i]) for cells in rows)) for i in (2, 3))]
        heads = ["Name", "Calls", _CPU_HEAD, _GPU_HEAD]
        if flops:
            widths, heads = [*widths, 10], [*heads, "FLOPs"]
        return RuledTable(title, widths, heads, self._unit)

    def _by_thread(self, table: RuledTable, rows: Sequence[Sequence[str]], threads: Sequence[Any]) -> None:
        last: Any = object()
        for cells, thread in zip(rows, threads, strict=True):
            now = _MERGED if pd.isna(thread) else str(thread)
            if now != last:
                table.heading(f"Thread: {now}")
                last = now
            table.row(*cells)


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 3] + "..."
