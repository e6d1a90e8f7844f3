"""The roofline tab: work of operators, and the machine's ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ... import analysis
from ...analysis.device.roofline import ceilings_of
from ...selection import filtered
from ...trace import Trace
from .. import figures
from .analyses import followed, selection_of, unless
from .base import Absent, Note, Panel, Tab, Table, pictures

_UNKNOWN = (
    "No ceilings are known: nbp.measure_device() measures those of this machine{}; "
    "p.plot.roofline(flops_per_s=…, bytes_per_s=…) takes those of a data sheet."
)
_UNITS = {
    "name": "name",
    "flops": "flops",
    "bytes": "bytes",
    "flops_per_s": "flops/s",
    "bytes_per_s": "bytes/s",
    "attained_share": "share",
    "ideal_ns": "ns",
    "on_device": "text",
}


def roofline(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Return the picture with the known ceilings, and the table."""
    ceilings = ceilings_of(trace)
    limits: dict[str, Any] = dict(ceilings.limits) if ceilings is not None else {}
    table = filtered(analysis.roofline, trace, state, **limits)
    if not len(table):
        return Absent(without_shapes(trace) or "There is no operator of known work in the selection.")
    text = _UNKNOWN.format("" if "file" in trace.metadata else ", and draws them here from then on")
    if ceilings is not None:
        text = f"Ceilings of {ceilings.name}, measured here ({ceilings.how})."
    shown = table.dropna(axis=1, how="all").assign(
        on_device=["yes" if on else "no" for on in table["on_device"]]
    )
    part = Table(
        shown, _UNITS, title="Operators",
        select=[{"name": str(name)} for name in table["name"]],
        call="p.device.roofline()", of=analysis.roofline,
    )  # fmt: skip
    drawn = pictures(figures.roofline_figure(trace, selection_of(state), **limits))
    return Panel("Roofline", (Note(text), *drawn, part), followed(analysis.roofline))


without_shapes: Final = unless(
    lambda trace: trace.slices["shapes"].notna().any() or "operators" in (trace.metadata.get("tables") or {}),
    "No shapes were recorded, so the work is unknown: %%profile records them unless given "
    "--no-shapes, torch.profiler with record_shapes=True.",
)


TAB: Final = Tab(
    "Roofline",
    roofline,
    without_shapes,
    place=110,
    summary="Operators by FLOPs per byte and FLOP/s.",
    calls=("p.device.roofline()",),
    plots={"roofline": "roofline_figure"},
)
