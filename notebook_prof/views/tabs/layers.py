"""The layers tab: the module tree with its time, memory and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ... import analysis
from ...selection import filtered
from ...trace import Trace
from .. import figures
from .analyses import followed, selection_of, unless
from .base import Absent, Panel, Tab, Table, pictures


def layers(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show bars of the modules, and the table of all of them."""
    table = filtered(analysis.layers, trace, state)
    if not len(table):
        return Absent(without_modules(trace) or "There is no module in the selection.")
    empty = [name for name in table if table[name].isna().all() or _is_zero(table[name])]
    shown = table[table["module"].notna()].drop(columns=["parent", *empty], errors="ignore")
    units = {"depth": "count", "parameters": "count", "share": "share"}
    heads = {"share": "of all phases"}
    part = Table(shown, units, heads, title="Modules", call="p.layers()", of=analysis.layers)
    drawn = pictures(figures.layers_figure(trace, selection_of(state)))
    return Panel("Layers", (*drawn, part), followed(analysis.layers))


def _is_zero(column: Any) -> bool:
    number = column.dtype.kind in "iuf" and column.name != "depth"
    return number and not bool(np.any(column.to_numpy(na_value=0)))


without_modules: Final = unless(
    lambda trace: trace.slices["module"].notna().any(),
    "No modules were recorded. Record with modules (the torch collector does unless told --no-modules), "
    "or with_modules=True and with_stack=True of torch.profiler.",
)


TAB: Final = Tab(
    "Layers",
    layers,
    without_modules,
    place=100,
    summary="The module tree, forward and backward.",
    calls=("p.layers()",),
    plots={"layers": "layers_figure"},
)
