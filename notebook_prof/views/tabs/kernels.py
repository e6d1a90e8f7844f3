"""The kernels tab: work of the devices, by name or by launch attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ... import analysis
from ...analysis.device.busy import device_attributes
from ...analysis.device.kernels import LAUNCH
from ...analysis.scope import on_device
from ...selection import filtered
from ...trace import Trace
from .. import figures
from .analyses import arguments, followed, selection_of, without_device
from .base import Absent, Panel, Part, Tab, Table, pictures

_UNITS = {"name": "name", "occupancy": "share", "share": "share", "mean_ns": "ns", "tensor_cores": "text"}
_LAUNCHED = (
    "name", "grid", "block", "registers_per_thread", "shared_memory_bytes", "count", "total_ns", "mean_ns",
)  # fmt: skip


def kernels(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show bars of the longest kernels, the table by name, and the table by name and launch attributes."""
    table = filtered(analysis.kernels, trace, state)
    if not len(table):
        return Absent(without_device(trace) or "There is no kernel in the selection.")
    parts: list[Part] = [
        *pictures(figures.kernels_figure(trace, selection_of({**state, "name": None}))),
        Table(
            _readable(table), _UNITS, {"share": "of all kernels"}, select=_names(table),
            title="Kernels, copies and fills", call="p.kernels()", of=analysis.kernels,
        ),
    ]  # fmt: skip
    attributes = device_attributes(trace, on_device(trace))
    if attributes is not None and set(LAUNCH) <= set(attributes):
        launched = analysis.kernels(trace, by=["name", *LAUNCH], **arguments(analysis.kernels, state))
        shown = [*_LAUNCHED, *(name for name in ("occupancy", "blocks_per_sm") if name in launched)]
        parts.append(
            Table(
                launched[shown], _UNITS, select=_names(launched), title="By launch attributes",
                call=f"p.kernels(by={['name', *LAUNCH]})", of=analysis.kernels,
            )
        )  # fmt: skip
    return Panel("Kernels", tuple(parts), followed(analysis.kernels))


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    if "tensor_cores" not in table:
        return table
    return table.assign(tensor_cores=["yes" if used else "no" for used in table["tensor_cores"]])


def _names(table: pd.DataFrame) -> list[dict[str, str]]:
    return [{"name": str(name)} for name in table["name"]]


TAB: Final = Tab(
    "Kernels",
    kernels,
    without_device,
    place=30,
    summary="What ran on devices, tensor cores, occupancy, launches.",
    calls=("p.kernels()",),
    plots={"kernels": "kernels_figure"},
)
