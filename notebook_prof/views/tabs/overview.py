"""The overview tab: the recording, and where its time went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...trace import Trace
from ...units import format_bytes, format_count, format_ns, format_share
from .. import figures
from .analyses import followed, selection_of
from .base import Absent, Fact, Facts, Panel, Part, Tab, Table, pictures

_EMPTY_PHASES = ("calls", "device_ns", "device_mean_ns", "device_min_ns", "device_max_ns", "device_share")


def overview(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Return the tables of `analysis.overview`, with the main figures at the top."""
    window = state.get("window")
    tables = analysis.overview(trace, window=window)
    call = f"p.overview({'' if window is None else f'window={tuple(window)}'})"
    drawn = figures.operators_figure(trace, selection_of({**state, "name": None}), top=8)
    parts: list[Part] = [_facts(trace, tables), *pictures(drawn)]
    if len(tables.devices):
        parts.append(Table(tables.devices, _DEVICE_UNITS, title="Devices", call=f"{call}.devices"))
    if len(tables.phases):
        parts.append(_phases(tables.phases, f"{call}.phases"))
    if len(tables.events):
        events = tables.events
        rows = events[["category", "phase"]].to_dict("records")
        select = [
            {str(key): None if pd.isna(v) or v == "none" else str(v) for key, v in row.items()}
            for row in rows
        ]
        parts.append(Table(events, select=select, title="Time by category and phase", call=f"{call}.events"))
    parts += _compilations(trace)
    if len(tables.annotations):
        select = [{"name": str(name)} for name in tables.annotations["name"]]
        parts.append(Table(tables.annotations, {"name": "name"}, select=select, title="Your own ranges",
                           call=f"{call}.annotations"))  # fmt: skip
    # leave out what the facts at the top already show in better units
    shown = ~tables.configuration["item"].isin(["recorded_ns", "slices", "steps"])
    parts.append(Table(tables.configuration[shown], title="Configuration", call=f"{call}.configuration"))
    return Panel("Overview", tuple(parts), (*followed(analysis.overview), "category", "step", "phase"))


def _compilations(trace: Trace) -> list[Part]:
    """Return the compilations by ``torch.compile``, and its graph breaks."""
    table, breaks = analysis.compilations(trace), analysis.graph_breaks(trace)
    parts: list[Part] = []
    if len(table):
        title = f"Compiled by torch.compile in {format_ns(table['dur'].sum())}"
        parts.append(Table(table[_OF_COMPILATIONS], title=title, call="p.compilations()"))
    if len(breaks):
        parts.append(Table(breaks, title="Graph breaks", call="p.compilations.graph_breaks()"))
    kernels = analysis.fused_kernels(trace)
    if len(kernels := kernels[kernels["slices"] > 0]):
        parts.append(_fused_kernels(kernels))
    return parts


def _fused_kernels(kernels: pd.DataFrame) -> Table:
    """Return kernels with their operators and lines; a click on a kernel selects its slices."""
    line = (kernels["file"] + ":" + kernels["line"].astype("str")).where(kernels["line"] > 0, "")
    return Table(
        kernels.assign(place=line)[["kernel", "total_ns", "operators", "place", "text", "exact", "backward"]],
        units={"kernel": "name", "text": "code"},
        heads={"place": "made of line"},
        title="Fused kernels, and the lines they were made of",
        select=[{"name": [str(name)]} for name in kernels["kernel"]],
        call="p.compilations.kernels()",
    )


_OF_COMPILATIONS: Final = [
    *("id", "function", "place", "step", "backward", "dur", "dynamo_ns", "aot_ns", "inductor_ns"),
    *("codegen_ns", "operators", "guards", "cached", "guard", "guard_place"),
]

_DEVICE_UNITS = {
    "utilization": "share",
    "sm_efficiency": "share",
    "occupancy": "share",
    "capability": "number",
    "device": "text",
}


def _facts(trace: Trace, tables: analysis.Overview) -> Facts:
    facts = [
        Fact("recorded", format_ns(trace.span.dur)),
        Fact("slice" if len(trace.slices) == 1 else "slices", format_count(len(trace.slices))),
    ]
    if len(trace.steps):
        mean = format_ns(trace.steps["dur"].mean())
        one = len(trace.steps) == 1
        label, note = ("step", mean) if one else ("steps", f"{mean} each on average")
        facts.append(Fact(label, format_count(len(trace.steps)), note))
    peaks = analysis.memory_peak(trace)
    for row in peaks.sort_values("peak_bytes", ascending=False).head(2).to_dict("records"):
        of_host = "host, recorded blocks" if row["source"] == "allocator" else "host, resident"
        where = f"GPU {row['device']}" if row["device"] >= 0 else of_host
        facts.append(Fact("peak memory", format_bytes(row["peak_bytes"]), where))
    for row in tables.devices.to_dict("records"):
        if row["device"] >= 0 and pd.notna(row["busy_share"]):
            name = row["name"] if isinstance(row["name"], str) else ""
            of = " · ".join(filter(None, (name, f"of {format_ns(row['window_ns'])}")))
            facts.append(Fact(f"GPU {row['device']} busy", format_share(row["busy_share"]), of))
    return Facts(tuple(facts))


def _phases(phases: pd.DataFrame, call: str) -> Table:
    gone = _EMPTY_PHASES[1:] if not phases["device_ns"].any() else ()
    select: list[Mapping[str, Any] | None] = [
        {"phase": str(name)} if name != "step" else None for name in phases["phase"]
    ]
    return Table(phases.drop(columns=list(gone)), select=select, title="Time by phase, over the steps",
                 call=call)  # fmt: skip


TAB: Final = Tab(
    "Overview",
    overview,
    place=10,
    summary="What was recorded, longest operators, devices, phases, categories, compilations, your ranges.",
    calls=("p.overview()",),
    plots={"top": "operators_figure"},
)
