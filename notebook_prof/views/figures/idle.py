"""What the devices waited for."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.device.idle import CAUSES
from ...analysis.name_labels import with_classes
from ...selection import Selection
from ...service.palette import CATEGORIES, IDLE, PHASES, RESOURCE
from ...trace import Trace
from ...units import format_bytes, format_count, format_ns, format_share
from .drawn import (
    Drawn,
    bar_figure,
    counts,
    row_figure,
    scope,
    shares,
    source,
    tell,
    time_unit,
    tip_columns,
    windows,
)

_COLOURS: Final = {
    "input": PHASES["data"],
    "sync": CATEGORIES["sync"],
    "memcpy": CATEGORIES["memcpy"],
    "communication": CATEGORIES["collective"],
    "host-bound": RESOURCE["host"],
    "launch-latency": CATEGORIES["launch"],
    "tail": IDLE[1],
    "unknown": IDLE[0],
}
"""The colour of each cause."""
_COLUMN: Final = {"host-bound": "host_ns", "launch-latency": "launch_ns"}


def idle_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw each device's idle time by cause; a click selects the largest gap. None without idle time."""
    table = analysis.device_idle(trace, **scope(selection, "window"))
    if not len(table):
        return None
    rows = pd.concat([_causes(own, number) for number, own in table.groupby("device")], ignore_index=True)
    rows = rows[rows["ns"] > 0].reset_index(drop=True)
    several = len(set(rows["device"])) > 1
    whole, spent = int(rows["ns"].sum()), rows["ns"].to_numpy()
    names = [
        f"device {number}: {cause}" if several else cause
        for number, cause in zip(rows["device"], rows["cause"], strict=True)
    ]
    share = shares(spent.tolist(), whole)
    tooltips = {
        "": names,
        "in all": [format_ns(value) for value in spent.tolist()],
        "of the idle time": share,
        "gaps with this as the largest part": counts(rows["gaps"]),
    }
    columns = {
        "colour": [_COLOURS[cause] for cause in rows["cause"]],
        "alpha": np.ones(len(rows)),
        "share": share,
        "select": windows(rows["start"].to_numpy(), rows["end"].to_numpy()),
    }
    measured = int(analysis.device(trace, **scope(selection, "window"))["window_ns"].sum())
    share_of_device = format_share(whole / max(measured, 1))
    title = f"Idle {format_ns(whole)}, {share_of_device} of the device's time, by its causes"
    return Drawn(bar_figure(names, spent.tolist(), columns, tooltips), title)


def _causes(own: pd.DataFrame, device: object) -> pd.DataFrame:
    """Make a row per cause: its time, the gaps that it dominates, and the gap with most of it."""
    start, end = own["ts"].to_numpy(), (own["ts"] + own["dur"]).to_numpy()
    rows = []
    for cause in CAUSES:
        spent = own[_COLUMN.get(cause, f"{cause}_ns")].to_numpy()
        most = int(spent.argmax())
        gaps = int((own["cause"] == cause).sum())
        rows.append((device, cause, int(spent.sum()), gaps, int(start[most]), int(end[most])))
    table = pd.DataFrame(rows, columns=["device", "cause", "ns", "gaps", "start", "end"])
    return table.sort_values("ns", ascending=False, kind="stable")


# The module tree with the time of each module.

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
        "of all phases": [format_share(value) for value in table["share"]],
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
