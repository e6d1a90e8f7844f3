"""The empty figures of the ranks' page, and how the page fills and reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import BasicTicker, BasicTickFormatter, BoxAnnotation, LinearColorMapper, Range1d
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from ...service.palette import ACCOUNT, CATEGORIES, IDLE
from ...views.figures.canvas import empty_source
from ...views.time_axis import time_ticker
from .frames import BUBBLES, PARTS, TALK

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
            "title": PANELS[name]["title"],
            "x": PANELS[name]["x"],
            "y": PANELS[name]["y"],
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
