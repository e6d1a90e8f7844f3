"""The cells tab of a notebook's session: what each cell took, and what holds memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...analysis.memory.names import memory_names
from ...analysis.notebook.cells import cells
from ...analysis.notebook.recorded import is_notebook
from ...trace import Trace
from .analyses import unless
from .base import Absent, Panel, Tab, Table

_SHOWN: Final = ("name", "wall_ns", "share", "cores", "peak_bytes", "kept_bytes", "runs", "stale")
_WHERE_KNOWN: Final = ("device_ns", "error")
_HOLDERS: Final = ("name", "kind", "bytes", "share", "made_in", "used_in")
_MOST: Final = 10


without_cells: Final = unless(is_notebook, "This is not a notebook's session: %profile_notebook records one.")


def cells_panel(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show the tables of `cells` and `memory_names`."""
    table = cells(trace)
    if not len(table):
        return Absent(without_cells(trace) or "No cell has run since the watch began.")
    known = [name for name in _WHERE_KNOWN if (table[name].notna() & (table[name] != "")).any()]
    held = memory_names(trace)
    held = held[held["name"].notna()].head(_MOST)
    tables = [
        Table(
            table[[*_SHOWN, *known]], {"name": "name"},
            heads={"device_ns": "GPU busy"},
            select=[{"name": name} for name in table["name"].tolist()], call="p.cells()",
        )
    ]  # fmt: skip
    if len(held):
        heads = {"made_in": "made in", "used_in": "used in"}
        title, call = "What holds memory", "p.memory.names()"
        tables.append(Table(held[list(_HOLDERS)], {"name": "text"}, heads, title=title, call=call))
    return Panel("Cells", tuple(tables))


TAB: Final = Tab(
    "Cells",
    cells_panel,
    without_cells,
    place=35,
    summary="What each cell of a watched notebook took, what is stale, and what holds memory.",
    calls=("nb.cells()", "nb.memory.names()", "nb.path()"),
)
