"""The parts of each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
from bokeh.models import BasicTicker, Range1d

from ... import analysis
from ...errors import OptionError, nearest
from ...selection import Selection
from ...service.palette import CATEGORIES, PHASES
from ...trace import Trace
from ...units import format_ns
from .drawn import (
    Drawn,
    canvas,
    label_axis,
    opacity,
    patches,
    scope,
    shares,
    source,
    tell,
    time_unit,
    tip_columns,
)

_HEIGHT: Final = 240
_MOST: Final = 600
_OTHER: Final = "#B4B4B4"
BREAKDOWN: Final = {
    "kernel_ns": ("kernels", CATEGORIES["kernel"]),
    "memcpy_ns": ("copies", CATEGORIES["memcpy"]),
    "memset_ns": ("fills", CATEGORIES["memset"]),
    "communication_ns": ("communication", CATEGORIES["collective"]),
    "runtime_ns": ("runtime calls", CATEGORIES["launch"]),
    "dataloader_ns": ("DataLoader", CATEGORIES["io"]),
    "cpu_ns": ("CPU", CATEGORIES["operator"]),
    "other_ns": ("other", _OTHER),
}
STEP_TRACE: Final = {
    "gap_ns": ("gap", PHASES["data"]),
    "fp_bp_ns": ("forward + backward", PHASES["forward"]),
    "tail_ns": ("tail", PHASES["optimizer"]),
}
_DISTRIBUTED: Final = {
    "alone_ns": ("computation alone", CATEGORIES["kernel"]),
    "overlap_ns": ("both at once", "#C3A5E0"),
    "exposed_ns": ("communication alone", CATEGORIES["collective"]),
}
KINDS: Final = ("breakdown", "step_trace")


def steps_figure(trace: Trace, selection: Selection, *, kind: str = "breakdown") -> Drawn | None:
    """Draw a stacked bar for each of the first 600 steps; a click selects one. None without steps.

    `kind` is ``breakdown`` (the TensorBoard plugin's parts) or ``step_trace`` (MindInsight's); OptionError
    for any other.
    """
    if kind not in KINDS:
        raise OptionError(f"steps cannot be divided by {kind!r}: {nearest(kind, KINDS)}")
    made = analysis.step_breakdown if kind == "breakdown" else analysis.step_trace
    table = made(trace, **scope(selection, "window"))
    return stacked(table, BREAKDOWN if kind == "breakdown" else STEP_TRACE, selection, "Time by step")


def distributed_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw a stacked bar per step: computation, communication and overlap. None without communication."""
    # On the first device, or on the host if there is no device work.
    table = analysis.distributed(trace, **scope(selection, "window"))
    if not len(table) or not int(table["communication_ns"].sum()):
        return None
    devices = table.loc[table["device"] >= 0, "device"]
    where = int(devices.min()) if len(devices) else -1
    table = table[table["device"] == where].copy()
    table["alone_ns"] = table["computation_ns"] - table["overlap_ns"]
    title = f"Time on {'the host' if where < 0 else f'device {where}'} by step"
    return stacked(table, _DISTRIBUTED, selection, title)


def stacked(
    table: pd.DataFrame, parts: Mapping[str, tuple[str, str]], selection: Selection, title: str
) -> Drawn | None:
    """Draw bars over the column ``step``, one piece per column of ns; None without steps or time.

    `parts` maps a column to its label and colour, from the bottom. The title counts rows without a step.
    """
    outside = table["step"].isna().any()
    table = table[table["step"].notna()].drop_duplicates("step")
    step_count = len(table)
    table = table.head(_MOST)
    used = {column: part for column, part in parts.items() if int(table[column].sum()) > 0}
    if not used:
        return None
    if step_count > len(table):
        title += f" · the first {len(table)} of {step_count} steps"
    if outside:
        title += " · without what ran outside of steps"
    total = table[list(used)].sum(axis=1).to_numpy(dtype=np.float64)
    steps = table["step"].to_numpy(dtype=np.int64)
    left = int(steps.min()) - 0.6
    scale, unit = time_unit(float(total.max()))
    plot = canvas(
        _HEIGHT, x_range=Range1d(left, max(int(steps.max()) + 0.6, left + 8)),
        y_range=Range1d(0, total.max() / scale * 1.04),
    )  # fmt: skip
    plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0, desired_num_ticks=10)
    label_axis(plot.xaxis, "step")
    label_axis(plot.yaxis, unit)
    alpha, select = opacity(steps.tolist(), selection.step), patches("step", steps.tolist())
    bottom = np.zeros(len(steps))
    for column, (name, colour) in used.items():
        value = table[column].to_numpy(dtype=np.float64)
        tooltips = {
            "": [f"step {number}: {name}" for number in steps.tolist()],
            "time": [format_ns(part) for part in value.tolist()],
            "of the bar": shares(value / np.maximum(total, 1), 1.0),
        }
        geometry = {"step": steps, "bottom": bottom / scale, "top": (bottom + value) / scale}
        data = source({**geometry, "alpha": alpha, "select": select, **tip_columns(tooltips)})
        bars = plot.vbar(
            x="step", bottom="bottom", top="top", width=0.82, source=data, fill_color=colour,
            fill_alpha="alpha", line_color=None,
        )  # fmt: skip
        tell(plot, bars, tooltips)
        bottom = bottom + value
    return Drawn(plot, title, dict(used.values()))
