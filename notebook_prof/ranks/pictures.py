"""``ranks.plot``: figures of the ranks' page as Bokeh models with data, ticks, legends and tooltips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.layouts import column
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    CustomJS,
    CustomJSTickFormatter,
    HoverTool,
    Legend,
    LegendItem,
    Toggle,
    UIElement,
)
from bokeh.plotting import figure

from ..errors import check_option
from ..service.palette import MARK, NAMES
from ..units import format_ns
from ..views.time_axis import TIME_CODE
from .page.columns import page_columns
from .page.figures import PANELS, empty_figure
from .page.frames import PageFrames

_TOOLS: Final = "pan,wheel_zoom,box_zoom,box_select,tap,reset"
_POINTS: Final = {"representative": ("dash", 16, 2, "#333333"), "outlier": ("circle", 6, 0, MARK)}
"""Marker, size, line width and colour."""
_CODE: Final = """
    if (busy.active) return
    busy.active = true
    const ranks = new Set(cb_obj.indices.map((i) => from.data.rank[i]))
    for (const source of sources) {
      if (source === from) continue
      const rank = [...source.data.rank]
      source.selected.indices = ranks.size ? [...rank.keys()].filter((i) => ranks.has(rank[i])) : []
    }
    busy.active = false
"""


def rank_figure(name: str, frames: PageFrames) -> figure:
    """Return a figure of the page that needs no page."""
    drawn = page_columns(frames, {}, [name])[name]
    plot = empty_figure(name)
    plot.title = drawn.get("note") or drawn.get("title") or PANELS[name]["title"]
    plot.tools, plot.toolbar_location = figure(tools=_TOOLS).tools, "right"
    plot.x_range.start, plot.x_range.end = drawn["x"]
    plot.y_range.start, plot.y_range.end = drawn["y"]
    for axis, letter in ((plot.xaxis[0], "x"), (plot.yaxis[0], "y")):
        if PANELS[name][letter] == "time":
            axis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    if "labels" in drawn:
        plot.xaxis.major_label_overrides = dict(enumerate(drawn["labels"]))
    if "colours" in drawn:
        mapper = plot.select_one({"name": f"{name}_colours"})
        mapper.low, mapper.high = drawn["colours"]
        formatter = {"formatter": CustomJSTickFormatter(code=TIME_CODE)} if name == "heat" else {}
        plot.add_layout(ColorBar(color_mapper=mapper, width=8, **formatter), "right")
    sources = {renderer.data_source.name: renderer.data_source for renderer in plot.renderers}
    main = sources[f"{name}_data"]
    for source, columns in drawn["sources"].items():
        sources[source].data = columns
    columns = drawn["sources"][main.name]
    rank = drawn["rank"] if "rank" in drawn else columns["y"]
    tips = drawn["tips"] if "tips" in drawn else _cell_tips(columns)
    main.data = {**columns, "rank": rank, "tip": tips}
    if parts := PANELS[name].get("parts"):
        items = [
            LegendItem(label=label, renderers=[renderer])
            for (label, _), renderer in zip(parts.values(), plot.renderers, strict=True)
        ]
        plot.add_layout(Legend(items=items, orientation="horizontal"), "above")
    _add_tips(plot, [renderer for renderer in plot.renderers if renderer.data_source is main])
    return plot


def _add_tips(plot: figure, renderers: list[Any]) -> None:
    tip = '<div style="white-space:pre">@tip</div>'
    plot.add_tools(HoverTool(tooltips=tip, renderers=renderers))


def _cell_tips(data: Mapping[str, Any]) -> list[str]:
    """Return the tooltips of cells, whose texts the page makes by itself."""
    step = data.get("step", data.get("x"))
    spent = data["value"] if "value" in data else np.subtract(data["right"], data["left"]).tolist()
    rows = zip(data["y"], step, spent, strict=True)
    return [f"rank {rank}, step {number}\n{format_ns(ns)}" for rank, number, ns in rows]


def rank_heat(frames: PageFrames, breakdown: pd.DataFrame, value: str) -> figure:
    """Draw ranks × steps, coloured by a column of the breakdown; OptionError for an unknown column."""
    columns = [name for name in breakdown if str(name).endswith("_ns")]
    check_option("ranks cannot be coloured by", value, columns)
    cells = breakdown[["rank", "step"]].assign(value=breakdown[value], kept=True)
    plot = rank_figure("heat", replace(frames, heat=cells))
    plot.title = f"{value.removesuffix('_ns').replace('_', ' ')} by rank and step"
    return plot


def rank_dashboard(frames: PageFrames) -> UIElement:
    """Draw bars, heat map, Marey's lines and lateness below one another, linked in any page."""
    # ranks chosen in one figure stand out in all; heat map and Marey's lines share the axis of the ranks
    plots = {name: rank_figure(name, frames) for name in ("bars", "heat", "marey", "late")}
    plots["marey"].y_range = plots["heat"].y_range
    sources = [plot.select_one({"name": f"{name}_data"}) for name, plot in plots.items()]
    busy = Toggle(active=False)  # one model that all callbacks see
    for source in sources:
        args = {"from": source, "sources": sources, "busy": busy}
        source.selected.js_on_change("indices", CustomJS(args=args, code=_CODE))
    return column(*plots.values(), sizing_mode="stretch_width")


def rank_spread(ranks: pd.DataFrame, bands: pd.DataFrame, figures: pd.DataFrame) -> figure:
    """Draw each group and metric: the 5th to 95th percentile, the representative and the outliers."""
    # `figures` has ``rank metric value``: each rank's median over its steps, in ns
    metrics = list(dict.fromkeys(bands["metric"]))
    plot = figure(title="spread of the ranks by group", height=260, sizing_mode="stretch_width", tools=_TOOLS)
    plot.grid.visible = False
    plot.xaxis.ticker = list(range(len(metrics)))
    names = [metric.removesuffix("_ns").replace("_", " ") for metric in metrics]
    plot.xaxis.major_label_overrides = dict(enumerate(names))
    plot.yaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    groups = sorted(bands["group"].unique())
    width = 0.8 / max(len(groups), 1)
    joined = figures.merge(ranks[["rank", "group", "representative", "outlier", "why"]], on="rank")
    for i, group in enumerate(groups):
        place = {metric: number + (i + 0.5) * width - 0.4 for number, metric in enumerate(metrics)}
        own, some = bands[bands["group"] == group], joined[joined["group"] == group]
        like = f"{int(own['ranks'].iloc[0])} ranks, such as rank {int(own['representative'].iloc[0])}"
        plot.vbar(
            x=own["metric"].map(place), bottom=own["low"], top=own["high"], width=0.8 * width, name="bands",
            fill_color=NAMES[i % len(NAMES)], line_color=None, legend_label=f"group {group} · {like}",
        )  # fmt: skip
        for kind, (marker, size, line, colour) in _POINTS.items():
            points = some[some[kind]]
            rows = zip(points["rank"], points["value"], points["why"], strict=True)
            data = {
                "x": points["metric"].map(place).to_numpy(np.float64),
                "y": points["value"].to_numpy(np.float64),
                "rank": points["rank"].to_numpy(),
                "tip": [f"rank {rank}\n{format_ns(ns)}\n{why}" for rank, ns, why in rows],
            }
            drawn = plot.scatter(
                "x", "y", source=ColumnDataSource(data), marker=marker, size=size, line_width=line,
                line_color=colour, fill_color=colour, name=kind,
            )  # fmt: skip
            _add_tips(plot, [drawn])
    if groups:
        plot.add_layout(plot.legend[0], "above")
    return plot
