"""Operators and what is inside them, kernels, and the user's own ranges."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...analysis.work.slices import inclusive_work, slice_work
from ...trace.arrays import BoolArray, IntArray
from .columns import DEVICE_TYPES
from .summary_events import STEP, TypedEvents, ranked, ratios, spread

_ARGUMENTS: Final = re.compile(r"(.+?)(<.*>)(\(.*\))")
_MEMORY_WORDS: Final = ("memcpy", "memorycopy", "memset")


def operator_table(
    events: TypedEvents, sorted_by: str = "CPUTotal", op_detail: bool = True, thread_sep: bool = False
) -> pd.DataFrame:
    """List operators by name, with the calls and the device work inside them."""
    # Level 0 is operators; 1 is what is directly inside them, and device work that the operator launched
    # itself; 2 is device work of what is inside. Device work has no `cpu_` columns. Ratios of operators are
    # shares of all operators (of a thread), those of what is inside are shares of the enclosing row.
    operators = events.order[events.of("Operator")[events.order]]
    return _by_thread(
        events, operators, thread_sep, lambda rows: _table_of(events, rows, sorted_by, op_detail)
    )


def _by_thread(
    events: TypedEvents, rows: IntArray, apart: bool, make: Callable[[IntArray], pd.DataFrame]
) -> pd.DataFrame:
    """Return a table of all rows, or those of each thread; the column `thread` is then set."""
    threads, every = events.threads(rows), [(pd.NA, rows)]
    if apart and len(rows):
        every = [(thread, rows[threads == thread]) for thread in pd.unique(threads)]
    table = pd.concat([make(own).assign(thread=thread) for thread, own in every], ignore_index=True)
    return table.assign(thread=pd.array(table["thread"].tolist(), dtype="Int64"))


def kernel_table(events: TypedEvents, sorted_by: str = "GPUTotal") -> pd.DataFrame:
    """List kernels by name, without argument lists, by total time unless `sorted_by` is a GPU key."""
    rows = _by_visit(events, np.flatnonzero(events.of("Kernel")))
    table = spread(_cut(events, rows), events.dur[rows], events.dur[rows])
    table = ratios(table, 0, float(events.dur[rows].sum()))
    key = sorted_by if str(getattr(sorted_by, "name", sorted_by)).startswith("GPU") else "GPUTotal"
    return ranked(table, key).drop(columns=[c for c in table.columns if c.startswith("cpu_")])


def user_table(
    events: TypedEvents, sorted_by: str = "CPUTotal", thread_sep: bool = False, *, memory: bool = False
) -> pd.DataFrame:
    """List the user's ranges or, with `memory`, those whose names say that they copy or fill memory."""
    types = ("UserDefined", "PythonUserDefined") if memory else ("PythonUserDefined",)
    ranges = events.order[(events.of(*types) & (_moves_memory(events) == memory))[events.order]]
    gpu = float(events.gpu_ns[events.of(STEP)].sum())

    def table_of(rows: IntArray) -> pd.DataFrame:
        table = spread(events.names[rows], events.dur[rows], events.gpu_ns[rows])
        # ratios are shares of the time of all steps
        return ratios(table if memory else ranked(table, sorted_by), events.total_ns, gpu)

    table = _by_thread(events, ranges, thread_sep, table_of)
    return table.drop(columns="thread") if memory else table


def _flops(events: TypedEvents, operators: IntArray, table: pd.DataFrame) -> Any:
    """Return the FLOPs of each name; 0 for Paddle's recordings, since Paddle's own summary counts none."""
    if events.own_types or table.empty:
        return 0.0
    flops, _ = inclusive_work(
        slice_work(events.trace), events.trace.slices["depth"].to_numpy(), events.parent
    )
    sums = pd.Series(flops[operators]).groupby(events.names[operators].astype(object), sort=False).sum()
    return sums.reindex(table["name"]).to_numpy(dtype=np.float64)


def _table_of(events: TypedEvents, operators: IntArray, sorted_by: str, op_detail: bool) -> pd.DataFrame:
    table = spread(events.names[operators], events.dur[operators], events.gpu_ns[operators])
    table = ratios(table, float(events.dur[operators].sum()), float(events.gpu_ns[operators].sum()))
    table["flops"] = _flops(events, operators, table)
    table = ranked(table, sorted_by).assign(level=0)
    if not op_detail or table.empty:
        return table
    groups = _inside_operators(events, operators)
    parts: list[pd.DataFrame] = []
    for i, name in enumerate(table["name"]):
        parts += [table.iloc[i : i + 1], *_details(events, table.iloc[i], groups[name])]
    return pd.concat(parts, ignore_index=True)


class _Inside(NamedTuple):
    """What is directly inside the calls of an operator."""

    rows: IntArray
    work: IntArray  # the operator's own device work
    below: dict[str, IntArray]  # device work of each inner name


def _inside_operators(events: TypedEvents, operators: IntArray) -> dict[str, _Inside]:
    rank = np.full(len(events.ts) + 1, -1, np.int64)
    rank[operators] = np.arange(len(operators))
    code, names = pd.factorize(events.names[operators])
    inner = np.flatnonzero(events.host & ~events.of("Operator") & (rank[events.parent] >= 0))
    inner = inner[np.lexsort((inner, rank[events.parent[inner]]))]
    work = np.flatnonzero(events.of(*DEVICE_TYPES))
    own = work[rank[events.owner[work]] >= 0]
    own = own[np.lexsort((own, rank[events.owner[own]]))]
    inner_code = code[rank[events.parent[inner]]]
    rows, works = _split(inner, inner_code), _split(own, code[rank[events.owner[own]]])
    label, labels = pd.factorize(events.names[inner])
    pair = np.full(len(events.ts) + 1, -1, np.int64)
    pair[inner] = inner_code * max(len(labels), 1) + label
    under = work[pair[events.owner[work]] >= 0]
    below: dict[int, dict[str, IntArray]] = {}
    for key, inner_rows in _split(under, pair[events.owner[under]]).items():
        below.setdefault(key // len(labels), {})[str(labels[key % len(labels)])] = inner_rows
    none = np.empty(0, np.int64)
    return {
        str(name): _Inside(rows.get(i, none), works.get(i, none), below.get(i, {}))
        for i, name in enumerate(names)
    }


def _split(rows: IntArray, code: IntArray) -> dict[int, IntArray]:
    """Return the rows of each code, in order."""
    order = np.argsort(code, kind="stable")
    codes, first = np.unique(code[order], return_index=True)
    parts = np.split(rows[order], first[1:])
    return dict(zip(codes.tolist(), parts, strict=False))


def _details(events: TypedEvents, row: pd.Series[float], inside: _Inside) -> list[pd.DataFrame]:
    rows = inside.rows
    table = spread(events.names[rows], events.dur[rows], events.gpu_ns[rows])
    table = ratios(table, float(row["cpu_total_ns"]), float(row["gpu_total_ns"])).assign(level=1)
    parts = []
    for i, name in enumerate(table["name"]):
        parts.append(table.iloc[i : i + 1])
        if name in inside.below:
            parts.append(_device_rows(events, inside.below[name], float(table["gpu_total_ns"].iloc[i]), 2))
    if len(inside.work):
        parts.append(_device_rows(events, inside.work, float(row["gpu_total_ns"]), 1))
    return parts


def _device_rows(events: TypedEvents, rows: IntArray, whole: float, level: int) -> pd.DataFrame:
    rows = _by_visit(events, rows)
    table = ratios(spread(_cut(events, rows), events.dur[rows], events.dur[rows]), 1, whole)
    table[[name for name in table.columns if name.startswith("cpu_")]] = np.nan
    return table.assign(level=level)


def _by_visit(events: TypedEvents, rows: IntArray) -> IntArray:
    """Return device work in the order in which the events that launched it are visited."""
    return np.asarray(rows[np.argsort(events.position_in_order[events.owner[rows]], kind="stable")])


def _cut(events: TypedEvents, rows: IntArray) -> npt.NDArray[np.object_]:
    """Cut argument lists off names that have template arguments."""
    code, names = pd.factorize(events.names[rows])
    short = [f"{m[1]}{m[2]}" if (m := _ARGUMENTS.match(str(name))) else str(name) for name in names]
    return np.asarray(np.array([*short, ""], dtype=object)[code])


def _moves_memory(events: TypedEvents) -> BoolArray:
    return events.named(lambda name: any(word in name.lower() for word in _MEMORY_WORDS))
