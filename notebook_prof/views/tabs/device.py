"""The device tab: how busy each device was, and what it waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...analysis.busy_time import BusyTime
from ...selection import filtered
from ...trace import Trace
from ...units import format_ns, format_share
from .. import figures
from .analyses import followed, selection_of, without_device
from .base import Absent, Fact, Facts, Panel, Part, Tab, Table, pictures

_GAPS = ("device", "ts", "dur", "cause", "step", "phase")
_MOST_GAPS = 100


def device(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show shares of `analysis.overview` with their bases, busy time, and gaps with causes."""
    busy = filtered(analysis.device, trace, state)
    if not len(busy):
        return Absent(without_device(trace) or "There is no device work in the selection.")
    gaps = filtered(analysis.device_idle, trace, state)
    parts: list[Part] = [
        _facts(trace, state, busy),
        *pictures(figures.idle_figure(trace, selection_of(state))),
        Table(busy, title="Time of each device", call="p.device()", of=analysis.device),
    ]
    if len(gaps):
        longest = gaps.sort_values("dur", ascending=False, kind="stable").head(_MOST_GAPS)
        gone = [name for name in ("step", "phase") if longest[name].isna().all()]
        title = f"The {len(longest)} longest gaps" if len(longest) < len(gaps) else "Gaps, the longest first"
        # the gap as a window, and the work that ended it in focus
        rows = zip(*(longest[name].tolist() for name in ("ts", "dur", "next")), strict=True)
        select = [
            {"window": (ts, ts + dur), "focus": None if pd.isna(row) else int(row)} for ts, dur, row in rows
        ]
        parts.append(Table(longest[list(_GAPS)].drop(columns=gone), {"step": "text", "device": "text"},
                           select=select, title=title, call="p.device.idle()",
                           of=analysis.device_idle))  # fmt: skip
    return Panel("Device", tuple(parts), (*followed(analysis.device), "step", "phase"))


def _facts(trace: Trace, state: Mapping[str, Any], busy: pd.DataFrame) -> Facts:
    facts: list[Fact] = []
    devices = analysis.overview(trace, window=state.get("window")).devices
    columns = {
        "utilization": "kernels run",
        "sm_efficiency": "SM efficiency",
        "occupancy": "occupancy",
        "tensor_core_share": "on tensor cores",
    }
    for row in devices.to_dict("records"):
        if row["device"] < 0:
            continue
        where = f"GPU {row['device']}" if str(row["name"]).startswith("device") else str(row["name"])
        shares = {label: row[key] for key, label in columns.items() if pd.notna(row[key])}
        of = f"{where} · of {format_ns(row['window_ns'])}"  # other figures are means over kernels
        notes = dict.fromkeys(("kernels run", "SM efficiency"), of)
        facts += [
            Fact(label, format_share(value), notes.get(label, where)) for label, value in shares.items()
        ]
    whole = BusyTime(int(busy["busy_ns"].sum()), int(busy["window_ns"].sum()))
    of = f"of {format_ns(whole.window_ns)}, first to last work"
    facts[:0] = [Fact("busy", format_share(whole.share), of), Fact("idle", format_share(1 - whole.share), of)]
    return Facts(tuple(facts))


TAB: Final = Tab(
    "Device",
    device,
    without_device,
    place=80,
    summary="Utilisation, occupancy, idle gaps and their causes.",
    calls=("p.device()", "p.device.idle()"),
    plots={"device": "idle_figure"},
)
