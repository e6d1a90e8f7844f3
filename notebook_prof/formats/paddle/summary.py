"""The tables of ``paddle.profiler.Profiler.summary()`` for any recording, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from . import summary_tables as tables
from .summary_events import STATISTICS, STEP, TypedEvents, sort_key

VIEWS: Final = (
    "DeviceView", "OverView", "ModelView", "DistributedView", "KernelView", "OperatorView", "MemoryView",
    "MemoryManipulationView", "UDFView",
)  # fmt: skip
"""Paddle's ``SummaryView``."""

UNITS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_SPREAD: Final = "Total / Avg / Max / Min / Ratio(%)"
_LONGEST: Final = 90
_HEADS: Final = {
    "device": "Device",
    "utilization": "Utilization (%)",
    "type": "Event Type",
    "name": "Name",
    "calls": "Calls",
    "time_ns": "Total Time",
    "cpu_time_ns": "CPU Time",
    "gpu_time_ns": "GPU Time",
    "ratio": "Ratio (%)",
    "cpu_total_ns": f"CPU {_SPREAD}",
    "gpu_total_ns": f"GPU {_SPREAD}",
    "flops": "FLOPs",
    "kind": "Type",
    "allocation_count": "Allocation Count",
    "free_count": "Free Count",
    "allocation_bytes": "Allocation Size",
    "free_bytes": "Free Size",
    "increase_bytes": "Increased Size",
}
"""Columns that are shown, and what Paddle calls them; a total stands for all of its side's statistics."""
_NOTES: Final = {
    "Device": """\
CPU(Process): time of the process on all cores / elapsed time, at most 100% * number of cores.
CPU(System): busy time of all cores / their whole time.
GPU: time of the process on the GPU / elapsed time.""",
    "Overview": """\
Sums by type of event: those on the host as CPU Time, those on devices as GPU Time.
Types overlap (Operator includes OperatorInner), so the ratios do not add up to 100%; overlaps within a type
count once, also those of several threads.""",
    "Model": """\
GPU time is the sum of all device events called in the phase; those that overlap are added up.""",
    "Distribution": """\
Communication: communication events, communication operators and their kernels.
Computation: all other kernels. Overlap: what both have in common.""",
}


def paddle_summary(
    trace: Trace,
    *,
    sorted_by: str = "CPUTotal",
    views: str | Iterable[str] | None = None,
    op_detail: bool = True,
    thread_sep: bool = False,
    time_unit: str = "ms",
) -> str:
    """Write the tables that ``paddle.profiler.Profiler.summary`` prints.

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
        For Paddle's recordings, Paddle's tables, titles and numbers; columns are as wide as their cells.

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
    chosen = [views] if isinstance(views, str) or hasattr(views, "name") else list(views or VIEWS)
    words = [str(getattr(view, "name", view)) for view in chosen]
    for word in words:
        if word not in VIEWS:
            raise OptionError(f"there is no view {word!r}: {nearest(word, VIEWS)}")
    events, key, seps = TypedEvents(trace), sorted_by, thread_sep
    moves = partial(tables.user_table, events, key, memory=True)
    makers: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
        "DeviceView": ("Device", lambda: tables.device_table(events)),
        "OverView": ("Overview", lambda: tables.overview_table(events)),
        "ModelView": ("Model", lambda: tables.model_table(events)),
        "DistributedView": ("Distribution", lambda: tables.distribution_table(events)),
        "OperatorView": ("Operator", lambda: tables.operator_table(events, key, op_detail, seps)),
        "KernelView": ("Kernel", lambda: tables.kernel_table(events, key)),
        "MemoryManipulationView": ("Memory Manipulation", moves),
        "UDFView": ("UserDefined", lambda: tables.user_table(events, key, seps)),
        "MemoryView": ("Memory", lambda: tables.memory_table(events)),
    }
    made = [(title, make()) for view, (title, make) in makers.items() if view in words]
    return "".join(text for title, table in made for text in _texts(title, table, time_unit))


def _texts(title: str, table: pd.DataFrame, unit: str) -> Iterator[str]:
    """Yield a view's tables as text; none without rows."""
    head, lines, note = f"{title} Summary", [f"Time unit: {unit}"], _NOTES.get(title, "")
    if title == "Memory":
        for place, rows in table.rename(columns={"type": "kind"}).groupby("place", sort=False):
            most = {word: rows[f"peak_{word.lower()}_bytes"].iloc[0] for word in ("Allocated", "Reserved")}
            peaks = [f"Peak {word} Memory: {number}" for word, number in most.items()]
            yield _text(f"{head} - {place}", peaks, rows, unit)
        return
    if title in ("Overview", "Model", "Distribution"):  # all but the steps are parts of steps
        table = table.assign(level=(table.iloc[:, 0] != STEP).astype(int))
    if title == "Model":
        table["calls"] = table["calls"].astype(object).where(table["name"] != "Others", "-")
    if title == "Overview":
        for side, rows in table.groupby("on", sort=False):
            named = rows.rename(columns={"time_ns": f"{side}_time_ns"})
            yield _text(head, lines, named, unit, note if side == "gpu" else "")
    elif len(table):
        yield _text(head, [] if title == "Device" else lines, table, unit, note)


def _text(title: str, lines: Sequence[str], table: pd.DataFrame, unit: str, note: str = "") -> str:
    shown = [name for name in _HEADS if name in table]
    rows = table.to_dict("records")
    cells = [[_HEADS[name] for name in shown], *([_cell(row, name, unit) for name in shown] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    drawn = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    text = [title.center(len(rule), "-"), *lines, drawn[0], rule]
    thread: Any = None
    for row, line in zip(rows, drawn[1:], strict=True):
        now = "All threads merged" if pd.isna(row.get("thread")) else row["thread"]
        if "thread" in row and now != thread:
            thread = now
            text.append(f"Thread: {now}".center(len(rule), "-"))
        text.append(line)
    return "\n".join([*text, rule, *([f"Note:\n{note}"] if note else []), "", "", ""])


def _cell(row: dict[Any, Any], name: str, unit: str) -> str:
    """Return a cell as text; a dash where a number is missing."""
    value = row[name]
    if name in ("name", "type"):
        text = "  " * int(row.get("level", 0)) + str(value)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    if name.endswith("_total_ns"):
        side = name.removesuffix("total_ns")
        times = [_time(row[side + word], unit) for word in STATISTICS]
        return " / ".join([*times, _share(row[f"{side}ratio"])])
    if name in ("utilization", "ratio"):
        return _share(value)
    if name == "flops":
        return "-" if row["level"] else f"{value:.0f}"
    return _time(value, unit) if name.endswith("time_ns") else str(value)


def _time(ns: float, unit: str) -> str:
    return "-" if pd.isna(ns) else f"{float(ns) / UNITS[unit]:.2f}"


def _share(share: float) -> str:
    return "-" if pd.isna(share) else f"{100 * share:.2f}"
