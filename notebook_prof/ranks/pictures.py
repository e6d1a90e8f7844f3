"""Pictures of many ranks: stacked bars, a heat map, Marey's lines, and arrivals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.layouts import column
from bokeh.models import (
    BasicTicker,
    BoxSelectTool,
    ColorBar,
    ColumnDataSource,
    CustomJS,
    CustomJSTickFormatter,
    HoverTool,
    LinearColorMapper,
    Toggle,
    UIElement,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from ..errors import OptionError, nearest
from ..service.palette import ACCOUNT, CATEGORIES, IDLE, PHASES
from ..units import format_ns
from ..views.time_axis import TIME_CODE, time_ticker

PARTS: Final = {
    "compute_ns": ("compute", CATEGORIES["kernel"]),
    "exposed_ns": ("exposed communication", CATEGORIES["collective"]),
    "exposed_memory_ns": ("copies", CATEGORIES["memcpy"]),
    "data_ns": ("waiting for data", PHASES["data"]),
    "idle_ns": ("idle", PHASES["other"]),
}
"""Columns of `notebook_prof.analysis.breakdown` that sum to a step, from the bottom upwards."""

MAX_CELLS: Final = 100_000
_MAX_LINES: Final = 2_000
_TOOLS: Final = "pan,wheel_zoom,box_zoom,tap,reset"


def rank_bars(breakdown: pd.DataFrame) -> figure:
    """Draw a bar per rank: the median step, divided into parts (each the median of that part)."""
    return _bars(_median_source(breakdown))


def rank_heat(breakdown: pd.DataFrame, value: str = "step_ns") -> figure:
    """Draw ranks × steps, coloured by a column of the breakdown; OptionError for an unknown column."""
    columns = [name for name in breakdown if str(name).endswith("_ns")]
    if value not in columns:
        raise OptionError(f"ranks have no {value!r} to be coloured by: {nearest(value, map(str, columns))}")
    cells = breakdown.head(MAX_CELLS)
    source = ColumnDataSource(
        {
            "rank": cells["rank"].to_numpy(),
            "step": cells["step"].to_numpy(np.int64),
            "value": cells[value].to_numpy(),
            "time": [format_ns(ns) for ns in cells[value].tolist()],
        }
    )
    low, high = (float(cells[value].min()), float(cells[value].max())) if len(cells) else (0.0, 1.0)
    colours = LinearColorMapper(palette=Cividis256, low=low, high=max(high, low + 1))
    more = "" if len(cells) == len(breakdown) else f", the first {MAX_CELLS:,} of {len(breakdown):,}"
    plot = picture(f"{value.removesuffix('_ns').replace('_', ' ')} by rank and step{more}", "step", "rank")
    plot.rect(
        x="step", y="rank", width=1, height=1, source=source, line_color=None,
        fill_color={"field": "value", "transform": colours}, nonselection_fill_alpha=0.25, name="ranks",
    )  # fmt: skip
    plot.xaxis.ticker = plot.yaxis.ticker = BasicTicker(min_interval=1)
    bar = ColorBar(color_mapper=colours, formatter=CustomJSTickFormatter(code=TIME_CODE), width=8)
    plot.add_layout(bar, "right")
    plot.add_tools(HoverTool(tooltips=[("rank", "@rank"), ("step", "@step"), ("", "@time")]), BoxSelectTool())
    return plot


def marey(steps: pd.DataFrame) -> figure:
    """Draw Marey's view: a line through the starts of each step; a bend to the right is a late rank."""
    plot = picture("the start of each step on each rank", "", "rank")
    plot.xaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    plot.xaxis.ticker = time_ticker()
    plot.yaxis.ticker = BasicTicker(min_interval=1)
    groups = list(steps.groupby("step", sort=True))[:_MAX_LINES]
    source = ColumnDataSource(
        {
            "x": [part["start_ns"].to_numpy(np.float64) for _, part in groups],
            "y": [part["rank"].to_numpy(np.float64) for _, part in groups],
            "step": [step for step, _ in groups],
        }
    )
    plot.multi_line(xs="x", ys="y", source=source, line_color=IDLE[2], line_width=1.5)
    spans = ColumnDataSource(
        {
            "rank": steps["rank"].to_numpy(),
            "left": steps["start_ns"].to_numpy(np.float64),
            "right": steps["end_ns"].to_numpy(np.float64),
            "step": steps["step"].to_numpy(np.int64),
            "time": [format_ns(ns) for ns in (steps["end_ns"] - steps["start_ns"]).tolist()],
        }
    )
    bars = plot.hbar(
        y="rank", left="left", right="right", height=0.3, source=spans,
        fill_color=ACCOUNT["steps"][0], fill_alpha=0.35, line_color="#ffffff",
        selection_fill_alpha=0.9, name="ranks",
    )  # fmt: skip
    tips = [("rank", "@rank"), ("step", "@step"), ("", "@time")]
    plot.add_tools(HoverTool(tooltips=tips, renderers=[bars]))
    return plot


def lateness(stragglers: pd.DataFrame) -> figure:
    """Draw each rank's mean lateness at shared collectives, the latest first."""
    names = [str(rank) for rank in stragglers["rank"]]
    plot = figure(
        title="late at shared collectives, on average", x_range=names or ["none"], height=240,
        sizing_mode="stretch_width", tools="tap,reset", x_axis_label="rank",
    )  # fmt: skip
    plot.yaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    source = ColumnDataSource(
        {
            "rank": names,
            "late": stragglers["mean_late_ns"].to_numpy(np.float64),
            "time": [format_ns(ns) for ns in stragglers["mean_late_ns"].tolist()],
            "last": [f"{100 * share:.0f} %" for share in stragglers["last_share"].tolist()],
            "before": [text if isinstance(text, str) else "" for text in stragglers["before"].tolist()],
        }
    )
    style = {"fill_color": CATEGORIES["sync"], "line_color": None, "name": "ranks"}
    plot.vbar(x="rank", top="late", width=0.8, source=source, **style)
    tips = [("rank", "@rank"), ("late", "@time"), ("comes last", "@last"), ("before", "@before")]
    plot.add_tools(HoverTool(tooltips=tips))
    return plot


def rank_dashboard(breakdown: pd.DataFrame, steps: pd.DataFrame, stragglers: pd.DataFrame) -> UIElement:
    """Draw bars, heat map, Marey's lines and lateness below one another, linked in the page."""
    # Ranks chosen in one figure stand out in all; heat map and Marey's lines share the axis of the ranks.
    heat, lines = rank_heat(breakdown), marey(steps)
    lines.y_range = heat.y_range
    plots = [rank_bars(breakdown), heat, lines, lateness(stragglers)]
    _link([plot.select_one({"name": "ranks"}).data_source for plot in plots])
    return column(*plots, sizing_mode="stretch_width")


def _link(sources: list[ColumnDataSource]) -> None:
    """Link the chosen ranks of all sources."""
    code = """
        if (busy.active) return
        busy.active = true
        const ranks = new Set(cb_obj.indices.map((i) => String(from.data.rank[i])))
        for (const source of sources) {
          if (source === from) continue
          const rank = Array.from(source.data.rank, String)
          source.selected.indices = ranks.size ? [...rank.keys()].filter((i) => ranks.has(rank[i])) : []
        }
        busy.active = false
    """
    busy = Toggle(active=False)  # one model that all callbacks see
    for source in sources:
        args = {"from": source, "sources": sources, "busy": busy}
        source.selected.js_on_change("indices", CustomJS(args=args, code=code))


def _median_source(breakdown: pd.DataFrame) -> dict[str, Any]:
    middle = breakdown.groupby("rank")[list(PARTS)].median()
    data: dict[str, Any] = {"rank": middle.index.to_numpy()}
    bottom = np.zeros(len(middle))
    for name in PARTS:
        value = middle[name].to_numpy(np.float64)
        data |= {f"{name}_bottom": bottom, f"{name}_top": bottom + value}
        data[f"{name}_time"] = [format_ns(ns) for ns in value.tolist()]
        bottom = bottom + value
    return data


def _bars(data: dict[str, Any]) -> figure:
    plot = picture("the median step of each rank", "rank", "")
    plot.yaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    plot.xaxis.ticker = BasicTicker(min_interval=1)
    source = ColumnDataSource(data)
    for name, (label, colour) in PARTS.items():
        plot.vbar(
            x="rank", bottom=f"{name}_bottom", top=f"{name}_top", width=0.8, source=source,
            fill_color=colour, line_color=None, legend_label=label, nonselection_fill_alpha=0.25,
            name="ranks" if name == "compute_ns" else name,
        )  # fmt: skip
    tips = [("rank", "@rank"), *((label, f"@{name}_time") for name, (label, _) in PARTS.items())]
    plot.add_tools(HoverTool(tooltips=tips))
    plot.legend.orientation = "horizontal"
    plot.add_layout(plot.legend[0], "above")
    return plot


def picture(title: str, x_label: str, y_label: str) -> figure:
    """Return an empty figure for a few ranks or steps, with the common tools."""
    plot = figure(
        title=title, height=260, sizing_mode="stretch_width", tools=_TOOLS, active_scroll=None,
        x_axis_label=x_label, y_axis_label=y_label,
    )  # fmt: skip
    plot.grid.visible = False
    return plot
