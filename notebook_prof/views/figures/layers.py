"""The module tree with the time of each module."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.name_labels import with_classes
from ...selection import Selection
from ...service.palette import PHASES
from ...trace import Trace
from ...units import format_bytes, format_count, format_ns, format_share
from .drawn import Drawn, counts, row_figure, scope, source, tell, time_unit, tip_columns

_MOST: Final = 40
_PARTS: Final = ("forward", "backward", "optimizer")


def layers_figure(trace: Trace, selection: Selection, *, depth: int | None = None) -> Drawn | None:
    """Draw the modules as a tree with bars of forward, backward and optimizer time.

    Device time if there is any, else host time; at most 40 modules: the longest, and those around them. None
    without modules.
    """
    table = analysis.layers(trace, depth=depth, **scope(selection, "window", "step"))
    side = "device_" if int(table["device_self_ns"].sum()) else ""
    columns = {part: f"{side}{part}_ns" for part in _PARTS}
    table["shown_ns"] = table[list(columns.values())].sum(axis=1)
    table = table[(table["shown_ns"] > 0) & table["module"].notna()].reset_index(drop=True)
    if not len(table):
        return None
    title = f"{'Device time' if side else 'Time on the host'} of {format_count(len(table))} modules"
    # a parent takes at least as long as each child, so it comes first
    order = np.lexsort((table["depth"].to_numpy(), -table["shown_ns"].to_numpy()))
    if len(table) > _MOST:
        title += f" · the {_MOST} that take most"
    return _draw(table.iloc[np.sort(order[:_MOST])].reset_index(drop=True), columns, title)


def _draw(table: pd.DataFrame, columns: dict[str, str], title: str) -> Drawn:
    tooltips = {
        "": [str(module) for module in table["module"]],
        **{part: [format_ns(value) for value in table[column]] for part, column in columns.items()},
        "of all": [format_share(value) for value in table["share"]],
        "calls": counts(table["calls"]),
        "allocated in forward": [format_bytes(value) for value in table["allocated_bytes"]],
        "of it kept": [format_bytes(value) for value in table["kept_bytes"]],
    }
    if "parameters" in table and table["parameters"].notna().any():
        tooltips["parameters"] = [
            format_count(int(value)) if pd.notna(value) else "–" for value in table["parameters"]
        ]
    named = zip(*(table[name] for name in ("module", "class", "parent", "depth")), strict=True)
    scale, unit = time_unit(int(table["shown_ns"].max()))
    names = ["· " * int(depth) + _written(_last(path, parent), kind) for path, kind, parent, depth in named]
    plot = row_figure(names, unit, int(table["shown_ns"].max()) / scale * 1.05)
    left, legend = np.zeros(len(table)), {}
    for part, column in columns.items():
        value = table[column].to_numpy(dtype=np.float64) / scale
        if not value.any():
            continue
        bars = {"place": np.arange(len(table)), "left": left, "right": left + value, **tip_columns(tooltips)}
        drawn = plot.hbar(
            y="place", left="left", right="right", height=0.8, source=source(bars), fill_color=PHASES[part],
            line_color=None,
        )  # fmt: skip
        tell(plot, drawn, tooltips)
        left, legend[part] = left + value, PHASES[part]
    return Drawn(plot, title, legend)


def _written(path: str, kind: object) -> str:
    """Return a module with its class, if recorded."""
    return with_classes([path], {path: kind})[0] if isinstance(kind, str) else path


def _last(module: object, parent: object) -> str:
    """Return the part of a module's name that its parent's name lacks."""
    text = str(module)
    return text.removeprefix(f"{parent}.") if isinstance(parent, str) else text
