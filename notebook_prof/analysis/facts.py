"""The numbers that a verdict rests on, gathered once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..trace import Trace, Window, length, union
from ..trace.intervals import IntArray
from .device import device
from .grouping import group
from .kernels import kernels
from .level_growth import level_growth
from .memory_peak import memory_peak
from .phases import phases, stepping_track
from .scope import Scope, WindowLike, on_device, on_host
from .spans import step_spans

TINY_NS: Final = 10_000
"""An operator with less self time than this is mostly the framework's own overhead."""
_OPERATORS: Final = ("operator", "collective")
_ENOUGH_STEPS: Final = 4


@dataclass(frozen=True, slots=True)
class Facts:
    """Measured in the steps of a trace, or in all of it where there are none.

    Attributes
    ----------
    total_ns : int
        Wall time that shares refer to: the steps or, without any, from the first work to the last.
    steps : DataFrame
        ``step ts dur source``.
    phase_ns : dict of str to int
        Host time by phase, over all steps; without steps, only that of phase data, if there is any.
    calls, tiny_ns, operator_ns : int
        Operators on the thread of the steps: how many; self time of those shorter than `TINY_NS`; time with
        any open.
    sync_ns : int
        Self time in which that thread waits for a device.
    top : DataFrame
        Operators of that thread, by self time: ``name count self_ns``. Everything, where there are none
        (`top_is_python`).
    top_is_python : bool
    kernels, device : DataFrame
        As the analyses of these names.
    peak : DataFrame
        As `memory_peak`.
    growth_bytes : dict of int to int
        By device: what memory grows by in every step, if it grows in every one.
    thread : Scope
        Slices of the thread of the steps.
    """

    total_ns: int
    steps: pd.DataFrame
    phase_ns: dict[str, int]
    calls: int
    tiny_ns: int
    operator_ns: int
    sync_ns: int
    top: pd.DataFrame
    top_is_python: bool
    kernels: pd.DataFrame
    device: pd.DataFrame
    peak: pd.DataFrame
    growth_bytes: dict[int, int]
    thread: Scope


def gather(trace: Trace, window: WindowLike = None) -> Facts:
    """Measure what `verdict` needs."""
    spans = step_spans(trace, window)
    mine = _thread(trace, window)
    if len(spans):
        mine = mine.only(_inside(spans, mine.ts))
    extent = _extent(trace, window, spans, mine)
    own_operators = mine.only(mine.among("category", _OPERATORS))
    tiny = own_operators.self_ns < TINY_NS
    number = spans["step"].tolist() if len(spans) else None
    python = not own_operators.self_ns.sum()
    return Facts(
        total_ns=int(spans["dur"].sum()) if len(spans) else extent.dur,
        steps=spans,
        phase_ns=_phase_times(trace, window) if len(spans) else _data_time(mine),
        calls=len(own_operators.rows),
        tiny_ns=int(own_operators.self_ns[tiny].sum()),
        operator_ns=length(union(own_operators.ts, own_operators.end)),
        sync_ns=int(mine.self_ns[mine.among("category", ("sync",))].sum()),
        top=_top(mine if python else own_operators),
        top_is_python=bool(python),
        kernels=kernels(trace, window=window, step=number),
        device=device(trace, window=extent),
        peak=memory_peak(trace, window=window),
        growth_bytes=_growth(trace, spans),
        thread=mine,
    )


def _top(scope: Scope) -> pd.DataFrame:
    """Self time by name, longest first."""
    groups = group(scope.slices, "name")
    table = groups.keys.assign(
        count=groups.sum(scope.rows), self_ns=groups.sum(scope.rows, scope.self_ns.astype(np.float64))
    )
    return (
        table[table["count"] > 0]
        .sort_values("self_ns", ascending=False, kind="stable")
        .reset_index(drop=True)
    )


def _thread(trace: Trace, window: WindowLike) -> Scope:
    host = on_host(trace, window)
    return host.only(host.ints("track") == stepping_track(trace))


def _inside(spans: pd.DataFrame, instants: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    ordered = spans.sort_values("ts")
    start, end = ordered["ts"].to_numpy(), (ordered["ts"] + ordered["dur"]).to_numpy()
    row = np.searchsorted(start, instants, side="right") - 1
    return np.asarray((row >= 0) & (instants < end[np.maximum(row, 0)]), dtype=bool)


def _extent(trace: Trace, window: WindowLike, spans: pd.DataFrame, mine: Scope) -> Window:
    """From the first step to the last or, without steps, from the first work to the last."""
    if len(spans):
        return Window(int(spans["ts"].min()), int((spans["ts"] + spans["dur"]).max()))
    work = on_device(trace, window)
    starts = np.concatenate([mine.ts[:1], work.ts[:1]])
    ends = np.concatenate([mine.end, work.end])
    return Window(int(starts.min()), int(ends.max())) if len(starts) else Window(0, 0)


def _data_time(mine: Scope) -> dict[str, int]:
    data = mine.among("phase", ("data",))
    spent = length(union(mine.ts[data], mine.end[data]))
    return {"data": spent} if spent else {}


def _phase_times(trace: Trace, window: WindowLike) -> dict[str, int]:
    table = phases(trace, window=window)
    sums = table.groupby("phase", observed=True)["host_ns"].sum()
    return {str(name): int(value) for name, value in sums.items()}


def _growth(trace: Trace, spans: pd.DataFrame) -> dict[int, int]:
    """Median growth between ends of steps, for devices where every step adds; the first step may set up."""
    table = level_growth(trace, spans)
    table = table[table["grows"] & (table["steps"] >= _ENOUGH_STEPS - 1)]
    return dict(zip(table["device"].tolist(), table["growth_bytes"].tolist(), strict=True))
