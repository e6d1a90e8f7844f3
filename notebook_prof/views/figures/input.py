"""How steps got their data: waits, queues, and the operators of the pipeline."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.models import Range1d

from ... import analysis
from ...analysis.scope import recorded_table
from ...selection import Selection
from ...service.palette import CATEGORIES, NAMES, PHASES, STATUS
from ...trace import Trace
from ...units import format_share
from .drawn import Drawn, canvas, label_axis, scope, shortened, source, tell, tip_columns
from .steps import stacked

_HEIGHT: Final = 220
_POINTS: Final = 4000
_FETCH: Final = {
    "wait_ns": ("waiting", CATEGORIES["sync"]),
    "work_ns": ("loading", PHASES["data"]),
    "push_ns": ("pushing to the device", CATEGORIES["memcpy"]),
}


def input_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw each step's time for data: waiting, working and pushing. None without fetches."""
    table = analysis.input_pipeline(trace, **scope(selection, "window"))
    table["work_ns"] = (table["fetch_ns"] - table["wait_ns"] - table["push_ns"]).clip(lower=0)
    return stacked(table, _FETCH, selection, "Time to get the data, by step")


def queues_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw how full each MindData queue is over time, as a share of capacity. None without queues."""
    lines = _lines(trace, selection)
    if not lines:
        return None
    plot = canvas(_HEIGHT, x_range=Range1d(0, 100), y_range=Range1d(-3, 106))
    label_axis(plot.xaxis, "samples of each queue in their order, %")
    label_axis(plot.yaxis, "filled, %")
    legend = {}
    for number, (name, (sizes, capacity)) in enumerate(lines.items()):
        colour, n = NAMES[number % len(NAMES)], len(sizes)
        tooltips = {
            "": [shortened(name, 80)] * n,
            "filled": [f"{size:g} of {capacity:g}" for size in sizes.tolist()],
        }
        spots = {"x": 100 * (np.arange(n) + 0.5) / n, "y": 100 * sizes / max(capacity, 1)}
        data = source({**spots, **tip_columns(tooltips)})
        plot.step("x", "y", source=data, mode="center", line_color=colour, line_width=1.5)
        dots = plot.scatter("x", "y", source=data, size=4, fill_color=colour, line_color=None)
        tell(plot, dots, tooltips)
        legend[shortened(name, 40)] = colour
    return Drawn(plot, "How full the queues were", legend)


def _lines(trace: Trace, selection: Selection) -> dict[str, tuple[Any, float]]:
    """Return name → sizes by time, and the capacity."""
    lines: dict[str, tuple[Any, float]] = {}
    for name, key in (("before the device", "minddata_queue"), ("on the device", "minddata_next")):
        table = recorded_table(trace, key)
        if table is None:
            continue
        if selection.step is not None and "step" in table:
            table = table[table["step"].isin(list(selection.step))]
        sizes = table["size"].to_numpy(dtype=np.float64, na_value=0)
        top = table["capacity"].max() if "capacity" in table else np.nan
        if len(sizes):
            lines[name] = _subsample(sizes), float(top) if top == top else float(sizes.max())
    pipeline = recorded_table(trace, "minddata_pipeline")
    if pipeline is not None:
        columns = ("op_type", "op_id", "sizes", "queue_length")
        for kind, number, sizes, length in zip(*(pipeline[name] for name in columns), strict=True):
            if isinstance(sizes, list | tuple | np.ndarray) and len(sizes) and length == length:
                lines[f"{kind}_{number}"] = _subsample(np.asarray(sizes, dtype=np.float64)), float(length)
    return lines


def _subsample(sizes: Any) -> Any:
    return sizes[:: -(-len(sizes) // _POINTS)]


_EDGE: Final = "#888888"
_ROW_PX: Final = 84


def pipeline_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw MindData's operators as boxes with the queues between them, with suspects framed."""
    # Of several ranks, the first one is drawn. A pipeline has neither steps nor slices to select.
    del selection
    table = analysis.input_operators(trace)
    if not len(table):
        return None
    table = table[table["rank"] == table["rank"].min()].reset_index(drop=True)
    x, y = operator_positions(table)
    plot = canvas(
        20 + _ROW_PX * int(y.max() + 1), x_range=Range1d(-0.6, x.max() + 0.6),
        y_range=Range1d(y.max() + 0.6, -0.6),
    )  # fmt: skip
    plot.axis.visible = False
    plot.grid.visible = False
    at = {int(number): row for row, number in enumerate(table["op_id"])}
    into = np.array([at.get(int(number), -1) for number in table["parent"]], dtype=np.int64)
    linked = into >= 0
    plot.segment(
        x0=x[linked] + 0.3, y0=y[linked], x1=x[into[linked]] - 0.3, y1=y[into[linked]], line_color=_EDGE,
        line_width=2,
    )  # fmt: skip
    usage = table["usage"].to_numpy(dtype=np.float64)
    queue = linked & ~np.isnan(usage)
    middle, level, full = ((x + x[into]) / 2)[queue], ((y + y[into]) / 2)[queue], usage[queue]
    plot.rect(middle, level, width=0.22, height=0.24, fill_color="#FFFFFF", line_color=_EDGE)
    plot.quad(
        left=middle - 0.11, right=middle - 0.11 + 0.22 * full, bottom=level + 0.12, top=level - 0.12,
        fill_color=PHASES["data"], line_color=None,
    )  # fmt: skip
    plot.text(
        middle, level + 0.28, [format_share(value, 0) for value in full.tolist()], text_align="center",
        text_font_size="11px", text_baseline="middle", name="themed",
    )  # fmt: skip
    tooltips = _tooltips(table)
    suspect = table["suspect"].to_numpy(dtype=bool)
    frame = np.where(suspect, STATUS["bad"], "#555555").tolist()
    looks = {"label": [shortened(name, 20) for name in table["name"]], "frame": frame}
    data = source({"x": x, "y": y, **looks, "width": np.where(suspect, 3.0, 0.8), **tip_columns(tooltips)})
    boxes = plot.rect(
        "x", "y", width=0.6, height=0.5, source=data, fill_color=CATEGORIES["operator"], line_color="frame",
        line_width="width",
    )  # fmt: skip
    plot.text(
        "x", "y", text="label", source=data, text_align="center", text_baseline="middle",
        text_font_size="11px", text_color="#000000",
    )  # fmt: skip
    tell(plot, boxes, tooltips)
    legend = {"operator": CATEGORIES["operator"], "how full its queue was": PHASES["data"]}
    if suspect.any():
        legend["suspected bottleneck"] = STATUS["bad"]
    return Drawn(plot, "The data pipeline", legend)


def _tooltips(table: pd.DataFrame) -> dict[str, list[str]]:
    lengths = zip(table["queue_mean"], table["queue_length"], strict=True)
    return {
        "": [str(name) for name in table["name"]],
        "workers": [f"{value:g}" if value == value else "–" for value in table["workers"]],
        "queue, mean": [f"{mean:.3g} of {length:g}" if mean == mean else "–" for mean, length in lengths],
        "processors": [format_share(value) for value in table["cpu_share"]],
        "bottleneck": ["suspected" if value else "no" for value in table["suspect"].tolist()],
    }


def operator_positions(table: pd.DataFrame) -> tuple[Any, Any]:
    """Return the column and row of each operator: the root on the right, feeders to its left."""
    ids = [int(number) for number in table["op_id"]]
    above = dict(zip(ids, (int(number) for number in table["parent"]), strict=True))
    far = {number: len(_path_to_root(number, above)) for number in ids}
    feeds = set(above.values())
    row: dict[int, int] = {}
    for lane, first in enumerate(number for number in ids if number not in feeds):
        for number in _path_to_root(first, above):
            row.setdefault(number, lane)
    most = max(far.values())
    columns = np.array([most - far[number] for number in ids], dtype=np.float64)
    return columns, np.array([row.get(number, 0) for number in ids], dtype=np.float64)


def _path_to_root(number: int, above: dict[int, int]) -> list[int]:
    """Follow an operator to the root; stop if the file contains a cycle."""
    way: list[int] = []
    while number in above and number not in way:
        way.append(number)
        number = above[number]
    return way
