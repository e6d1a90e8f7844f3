"""The parts of each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.models import BasicTicker, FixedTicker, Range1d

from ... import analysis
from ...analysis.device.kernels import LAUNCH
from ...errors import OptionError, check_option, nearest
from ...selection import Selection
from ...service.palette import CATEGORIES, PHASES, RESOURCE, name_styles
from ...trace import Trace
from ...units import format_count, format_ns, format_share
from .drawn import (
    Drawn,
    bar_figure,
    canvas,
    counts,
    label_axis,
    opacity,
    patches,
    scope,
    shares,
    shortened,
    source,
    tell,
    time_unit,
    tip_columns,
)

# Bars of the longest operators and kernels.

TOP: Final = 20
SIDES: Final = {"host": "self_ns", "device": "device_self_ns"}
_SELECTABLE: Final = ("name", "category", "phase", "step")


def operators_figure(
    trace: Trace, selection: Selection, *, side: str = "host", by: str = "name", top: int = TOP
) -> Drawn | None:
    """Draw the longest operators, by self time on the host or by the device time that they launched.

    A click selects the operator. None if there are no operators; OptionError for an unknown `side` or `by`.
    """
    if side not in SIDES:
        raise OptionError(f"operators have no {side!r} time to draw: {nearest(side, tuple(SIDES))}")
    table = analysis.operators(trace, by=by, **scope(selection, "window", "step", "phase", "category"))
    spent = SIDES[side]
    table = table[table[spent] > 0].sort_values(spent, ascending=False, kind="stable")
    if not len(table):
        return None
    whole, first = int(table[spent].sum()), table.head(top)
    values = [None if pd.isna(value) else value for value in first[by].tolist()]
    whole_names = [f"no {by}" if value is None else str(value) for value in values]
    labels, colours = _look(trace, whole_names, by, side)
    columns: dict[str, Any] = {
        "name": whole_names,
        "label": labels,
        "length": first[spent].to_numpy(),
        "colour": colours,
        "alpha": opacity(values, selection.name if by == "name" else None),
        "select": patches(by, values) if by in _SELECTABLE else [""] * len(first),
    }
    tooltips = {"calls": counts(first["count"])}
    others = len(table) - len(first)
    what = "Self time on the host" if side == "host" else "Device time"
    title = f"{what} of {format_count(len(table))} operators: {format_ns(whole)}"
    return _drawn(columns, tooltips, whole, others, title)


def kernels_figure(
    trace: Trace, selection: Selection, *, by: str = "name", top: int = TOP, category: str | None = "kernel"
) -> Drawn | None:
    """Draw the longest kernels, with their occupancy and use of tensor cores.

    Bars are by ``name``, or by ``launch`` attributes; `category` None adds copies, fills and collectives.
    None if there are no kernels; OptionError for an unknown grouping.
    """
    check_option("kernels cannot be drawn by", by, ("name", "launch"))
    keys = ["name", *LAUNCH] if by == "launch" else ["name"]
    narrowed = scope(selection, "window", "step", "phase")
    table = analysis.kernels(trace, by=keys, category=category, **narrowed)
    if not len(table):
        return None
    whole, first = int(table["total_ns"].sum()), table.head(top)
    names = [str(name) for name in first["name"]]
    labels, colours = _look(trace, names, "name", "device")
    columns: dict[str, Any] = {
        "name": names,
        "label": labels,
        "length": first["total_ns"].to_numpy(),
        "colour": colours,
        "note": ["tensor cores" if used else "" for used in first["tensor_cores"]],
        "alpha": opacity(names, selection.name),
        "select": patches("name", names),
    }
    tooltips = {"calls": counts(first["count"]), "mean": [format_ns(value) for value in first["mean_ns"]]}
    if "occupancy" in first:
        tooltips["occupancy"] = [format_share(value) for value in first["occupancy"]]
    if by == "launch":
        tooltips["launched with"] = _launches(first)
    used = float(table.loc[table["tensor_cores"], "total_ns"].sum()) / max(whole, 1)
    title = f"{format_count(len(table))} kernels: {format_ns(whole)} · {format_share(used)} on tensor cores"
    return _drawn(columns, tooltips, whole, len(table) - len(first), title)


def _look(trace: Trace, names: list[str], by: str, side: str) -> tuple[list[str], list[str]]:
    """Return the label and the colour of each bar."""
    if by == "name":
        styles = name_styles(trace)
        return [styles.label(name) for name in names], [styles.colour(name) for name in names]
    own = {"phase": PHASES, "category": CATEGORIES}.get(by, {})
    return names, [own.get(name, RESOURCE[side]) for name in names]


def _drawn(
    columns: dict[str, Any], tooltips: dict[str, list[str]], whole: int, others: int, title: str
) -> Drawn:
    """Draw bars of `columns`; the title says what is left out."""
    length = [int(value) for value in columns["length"]]
    if others:
        title += f" · these {len(length)} are {format_share(sum(length) / max(whole, 1))} of it"
    share = shares(length, whole)
    tooltips = {
        "": [shortened(name, 200) for name in columns["name"]],
        "in all": [format_ns(value) for value in length],
        "of the sum": share,
        **tooltips,
    }
    notes = columns.get("note", [""] * len(share))
    ends = [f"{text} · {note}" if note else text for text, note in zip(share, notes, strict=True)]
    room = 1.24 if any(notes) else 1.12
    return Drawn(bar_figure(columns["label"], length, {**columns, "share": ends}, tooltips, room), title)


def _launches(table: pd.DataFrame) -> list[str]:
    parts = zip(*(table[name] for name in LAUNCH), strict=True)
    return [
        f"grid {grid}, block {block}, {registers:g} registers, {shared:g} B shared"
        for grid, block, registers, shared in parts
    ]


_HEIGHT: Final = 240
_FEWEST: Final = 8
"""Number of steps whose bars fill the figure; fewer leave room."""
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
    check_option("steps cannot be divided by", kind, KINDS)
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
    """Draw bars over the column ``step``, one piece per column of ns; None without steps or time."""
    # `parts` maps a column to its label and colour, from the bottom. The title counts rows without a step.
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
        title += " · without work outside of steps"
    total = table[list(used)].sum(axis=1).to_numpy(dtype=np.float64)
    steps = table["step"].to_numpy(dtype=np.int64)
    left, right = int(steps.min()) - 0.6, int(steps.max()) + 0.6
    scale, unit = time_unit(float(total.max()))
    plot = canvas(
        _HEIGHT, x_range=Range1d(left, max(right, left + _FEWEST)),
        y_range=Range1d(0, total.max() / scale * 1.04),
    )  # fmt: skip
    plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0, desired_num_ticks=10)
    if right < left + _FEWEST:  # no numbers behind the last step
        plot.xaxis.ticker = FixedTicker(ticks=steps.tolist())
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
