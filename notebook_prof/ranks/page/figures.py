"""Figures of the ranks' page: empty ones, which the page fills, and ones with data for ``ranks.plot``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import (
    BasicTicker,
    BasicTickFormatter,
    BoxAnnotation,
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    HoverTool,
    Legend,
    LegendItem,
    LinearColorMapper,
    Range1d,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from ...errors import check_option
from ...service.palette import ACCOUNT, CATEGORIES, IDLE, MARK, NAMES
from ...units import format_ns
from ...views.time_axis import TIME_CODE, time_ticker
from .columns import page_columns
from .frames import BUBBLES, PARTS, TALK, PageFrames

_HEIGHT: Final = 224
_LIGHTER: Final = 40
"""Colours left out at the dark end, which a dark page would swallow."""
_SPACE_LEFT: Final = 58

PANELS: Final[Mapping[str, dict[str, Any]]] = {
    "bars": {"title": "Median step of each rank", "x": "rank", "y": "time", "parts": PARTS},
    "late": {"title": "Late at shared collectives, on average", "x": "late rank", "y": "time"},
    "heat": {"title": "Step time by rank and step", "x": "step", "y": "rank"},
    "marey": {"title": "Start of each step on each rank", "x": "time", "y": "rank"},
    "talk": {"title": "Communication by operation and group", "x": "time", "y": "talk", "parts": TALK},
    "links": {"title": "Messages from rank to rank", "x": "rank", "y": "rank"},
    "bubbles": {"title": "Pipeline bubbles of each rank", "x": "rank", "y": "time", "parts": BUBBLES},
}
"""Figures in the order of the page; ``x`` and ``y`` name the axes."""
_WORDS: Final = {"rank": "rank", "late rank": "rank, the latest first", "step": "step"}
_ENDS: Final = {"x": "to rank", "y": "from rank"}


def page_document(panels: list[str]) -> str:
    """Return the figures without data as the JSON of one Bokeh document; roots in the given order."""
    document = Document()
    for name in panels:
        document.add_root(empty_figure(name))
    return str(serialize_json(document.to_json()))


def page_settings(panels: list[str]) -> list[dict[str, Any]]:
    """Return title, axes and legend of each panel."""
    return [
        {
            "name": name,
            **{key: PANELS[name][key] for key in ("title", "x", "y")},
            "legend": list(PANELS[name].get("parts", {}).values()),
        }
        for name in panels
    ]


def empty_figure(name: str) -> figure:
    """Return a panel's figure without data, title and tools."""
    plot = figure(
        name=name, height=_HEIGHT, sizing_mode="stretch_width", tools="", toolbar_location=None,
        x_range=Range1d(0, 1, name=f"{name}_xs"), y_range=Range1d(0, 1, name=f"{name}_ys"),
        output_backend="canvas", min_border_left=_SPACE_LEFT, min_border_right=10, min_border_top=4,
        min_border_bottom=4, outline_line_color=None, background_fill_color=None, border_fill_color=None,
    )  # fmt: skip
    plot.grid.visible = False
    for axis, letter in ((plot.xaxis, "x"), (plot.yaxis, "y")):
        axis.formatter = BasicTickFormatter(name=f"{name}_{letter}_ticks")
        axis.minor_tick_line_color = None
        axis.axis_line_alpha = 0.4
        axis.major_tick_in = 0
        axis.major_label_text_font_size = "11px"
        axis.axis_label = _WORDS.get(PANELS[name][letter], "") if name != "links" else _ENDS[letter]
        axis.axis_label_text_font_size = "11px"
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_standoff = 2
        whole = BasicTicker(min_interval=1, num_minor_ticks=0)
        axis.ticker = time_ticker() if PANELS[name][letter] == "time" else whole
    return _FIGURES[name](plot)


def empty_source(name: str, columns: str) -> ColumnDataSource:
    """Return a data source with empty columns that the page fills."""
    return ColumnDataSource(data={column: [] for column in columns.split()}, name=name)


def _stacked(plot: figure) -> figure:
    parts = PANELS[plot.name]["parts"]
    columns = " ".join(f"{part}_bottom {part}_top" for part in parts)
    source = empty_source(f"{plot.name}_data", f"rank alpha {columns}")
    for part, (_, colour) in parts.items():
        plot.vbar(
            x="rank", bottom=f"{part}_bottom", top=f"{part}_top", width=0.8, source=source,
            fill_color=colour, fill_alpha="alpha", line_color=None,
        )  # fmt: skip
    return plot


def _late(plot: figure) -> figure:
    source = empty_source("late_data", "at top alpha")
    style = {"fill_color": CATEGORIES["sync"], "fill_alpha": "alpha", "line_color": None}
    plot.vbar(x="at", top="top", width=0.8, source=source, **style)
    return plot


def _square(plot: figure) -> figure:
    source = empty_source(f"{plot.name}_data", "x y value alpha")
    colours = LinearColorMapper(palette=Cividis256[_LIGHTER:], low=0, high=1, name=f"{plot.name}_colours")
    plot.rect(
        x="x", y="y", width=1, height=1, source=source, line_color=None, fill_alpha="alpha",
        fill_color={"field": "value", "transform": colours}, dilate=True,
    )  # fmt: skip
    return plot


def _marey(plot: figure) -> figure:
    spans = empty_source("marey_data", "y step left right alpha")
    style = {"fill_color": ACCOUNT["steps"][0], "line_color": None, "fill_alpha": "alpha"}
    plot.hbar(y="y", left="left", right="right", height=0.5, source=spans, **style)
    lines = empty_source("marey_lines", "xs ys alpha")
    plot.multi_line("xs", "ys", source=lines, line_color=IDLE[2], line_width=1.4, line_alpha="alpha")
    frame = {"visible": False, "fill_alpha": 0.06, "line_width": 1.5, "level": "overlay"}
    plot.add_layout(BoxAnnotation(name="marey_window", **frame))
    return plot


def _talk(plot: figure) -> figure:
    source = empty_source("talk_data", "at alpha " + " ".join(f"{part}_left {part}_right" for part in TALK))
    for part, (_, colour) in TALK.items():
        plot.hbar(
            y="at", left=f"{part}_left", right=f"{part}_right", height=0.7, source=source,
            fill_color=colour, fill_alpha="alpha", line_color=None,
        )  # fmt: skip
    plot.min_border_left = 150
    return plot


_FIGURES: Final = {
    "bars": _stacked,
    "late": _late,
    "heat": _square,
    "marey": _marey,
    "talk": _talk,
    "links": _square,
    "bubbles": _stacked,
}


_TOOLS: Final = "pan,wheel_zoom,box_zoom,box_select,tap,reset"
_POINTS: Final = {"representative": ("dash", 16, 2, "#333333"), "outlier": ("circle", 6, 0, MARK)}
"""Marker, size, line width and colour."""


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
