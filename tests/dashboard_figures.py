"""The four figures that the page fills: timeline, overview, memory and phases, on one axis of time.

The package has them as a file, which `tests.generated` writes.

Figures only draw: gestures, tooltips, ticks and colours belong to the page (``js/src``). So no Bokeh tool
captures a wheel that should scroll the notebook, no template can run text from a trace, and themes can change
while the page is open.
"""

from __future__ import annotations

from bokeh.models import (
    AdaptiveTicker,
    BasicTicker,
    BasicTickFormatter,
    BoxAnnotation,
    ColumnDataSource,
    Label,
    LinearAxis,
    Range1d,
)
from bokeh.plotting import figure

from notebook_prof.service.palette import COUNTER, MARK, MEMORY
from notebook_prof.views.figures import AXIS_PX, GUTTER_PX, LANE_PX, MARGIN_PX
from notebook_prof.views.time_axis import time_ticker


def bare_figure(name: str, height: int, x_range: Range1d, y_range: Range1d, axis: str = "below") -> figure:
    """Return a figure without tools whose plot area begins `GUTTER_PX` from the left."""
    plot = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=y_range,
        tools="",
        toolbar_location=None,
        x_axis_location=axis,
        lod_threshold=None,
        output_backend="canvas",
        min_border_left=GUTTER_PX,
        min_border_right=MARGIN_PX,
        min_border_top=4,
        min_border_bottom=4,
        outline_line_color=None,
        background_fill_color=None,
        border_fill_color=None,
    )
    plot.xgrid.visible = False
    plot.ygrid.visible = False
    for part in plot.xaxis:
        part.formatter = BasicTickFormatter(name=f"{name}_time")
        part.ticker = time_ticker()
        _thin_lines(part)
    for part in plot.yaxis:
        _thin_lines(part)
    return plot


def add_veils(plot: figure, name: str) -> None:
    """Shade the time outside the selected window, and frame the window."""
    for side in ("left", "right"):
        plot.add_layout(
            BoxAnnotation(
                name=f"{name}_veil_{side}", visible=False, line_color=None, fill_alpha=0.55, level="overlay"
            )
        )
    plot.add_layout(
        BoxAnnotation(name=f"{name}_window", visible=False, fill_alpha=0.06, line_width=1.5, level="overlay")
    )


def bytes_axis(plot: figure, name: str) -> None:
    """Put ticks at powers of two; the page writes them in binary units."""
    for part in plot.yaxis:
        part.formatter = BasicTickFormatter(name=f"{name}_bytes")
        part.ticker = AdaptiveTicker(
            base=1024,
            mantissas=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
            desired_num_ticks=4,
            num_minor_ticks=0,
        )


def empty_source(name: str, columns: str) -> ColumnDataSource:
    """Return a data source with empty columns that the page fills."""
    return ColumnDataSource(data={column: [] for column in columns.split()}, name=name)


def add_boxes(plot: figure, source: str, columns: str = "", **look: object) -> None:
    """Add boxes from (x0, y0) to (x1, y1) that the page fills; `columns` are extra columns for `look`."""
    plot.quad(
        left="x0",
        right="x1",
        bottom="y0",
        top="y1",
        source=empty_source(source, f"x0 x1 y0 y1 {columns}"),
        **look,
    )


def _thin_lines(axis: LinearAxis) -> None:
    axis.axis_line_alpha = 0.4
    axis.minor_tick_line_color = None
    axis.major_tick_in = 0
    axis.major_tick_out = 4
    axis.major_label_text_font_size = "11px"


def timeline_figure(view: Range1d, lanes: int) -> figure:
    """Build the timeline; the page changes its height when tracks are folded."""
    plot = bare_figure(
        "timeline", AXIS_PX + LANE_PX * lanes, view, Range1d(lanes, 0, name="lanes"), axis="above"
    )
    plot.min_border_top, plot.min_border_bottom = AXIS_PX, 0
    plot.yaxis.visible = False
    plot.segment(
        "x0", "y0", "x1", "y1", source=empty_source("rules", "x0 y0 x1 y1"), line_width=1, name="rules_glyph"
    )
    plot.image_rgba("image", "x", "y", "dw", "dh", source=empty_source("density", "image x y dw dh"))
    add_boxes(plot, "slices", "color", fill_color="color", line_color=None)
    add_boxes(plot, "focus", fill_color=None, line_color="#000000", line_width=2, name="focus_glyph")
    plot.multi_line("xs", "ys", source=empty_source("counters", "xs ys"), line_width=1.3, line_color=COUNTER)
    plot.multi_line(
        "xs", "ys", source=empty_source("links", "xs ys"), line_width=1.5, line_color=MARK, name="links_glyph"
    )
    plot.scatter("x", "y", source=empty_source("heads", "x y"), size=6, color=MARK)
    plot.text(
        "x",
        "y",
        "text",
        source=empty_source("labels", "x y text color"),
        text_font_size="11px",
        text_baseline="middle",
        text_color="color",
        x_offset=3,
    )
    add_veils(plot, "timeline")
    plot.add_layout(
        BoxAnnotation(name="brush", visible=False, fill_alpha=0.18, line_width=1, level="overlay")
    )
    return plot


def overview_figure(start: float, end: float) -> figure:
    """Build the overview over ``[start, end]`` ns."""
    plot = bare_figure("overview", 40, Range1d(start, end, name="whole"), Range1d(1, 0, name="strip_rows"))
    plot.axis.visible = False
    plot.image_rgba("image", "x", "y", "dw", "dh", source=empty_source("strip", "image x y dw dh"))
    add_boxes(plot, "marks", fill_color=MEMORY["peak"], line_color=None)
    for side in ("left", "right"):
        plot.add_layout(
            BoxAnnotation(
                name=f"unseen_{side}", visible=False, line_color=None, fill_alpha=0.6, level="overlay"
            )
        )
    plot.add_layout(BoxAnnotation(name="seen", visible=False, fill_alpha=0.0, line_width=2, level="overlay"))
    add_veils(plot, "overview")
    return plot


def memory_figure(view: Range1d) -> figure:
    """Build the memory curve, which shares the timeline's range."""
    plot = bare_figure("memory", 50, view, Range1d(0, 1, name="bytes"))
    bytes_axis(plot, "memory")
    plot.ygrid.visible = True
    plot.ygrid.grid_line_alpha = 0.5
    plot.varea(
        "x",
        y1=0,
        y2="y",
        source=empty_source("allocated", "x y"),
        fill_color=MEMORY["allocated"],
        fill_alpha=0.35,
    )
    plot.line("x", "y", source=plot.renderers[0].data_source, line_color=MEMORY["allocated"], line_width=1.5)
    plot.varea(
        "x", y1=0, y2="y", source=empty_source("alive", "x y"), fill_color=MEMORY["selected"], fill_alpha=0.6
    )
    plot.line(
        "x",
        "y",
        source=empty_source("reserved", "x y"),
        line_color=MEMORY["reserved"],
        line_dash="dashed",
        line_width=1.2,
    )
    plot.scatter(
        "x",
        "y",
        source=empty_source("peak", "x y"),
        size=9,
        marker="inverted_triangle",
        fill_color=MEMORY["peak"],
        line_color=None,
    )
    plot.add_layout(
        Label(name="peak_label", x=0, y=0, text="", text_font_size="11px", visible=False, y_offset=2)
    )
    add_veils(plot, "memory")
    return plot


def phase_figure() -> figure:
    """Build the stacked bars: one bar per step, one colour per phase, host time upwards."""
    plot = bare_figure("phases", 230, Range1d(0, 1, name="bars_x"), Range1d(0, 1, name="bars_y"))
    plot.min_border_left = 62
    plot.ygrid.visible = True
    plot.ygrid.grid_line_alpha = 0.5
    plot.yaxis.formatter = BasicTickFormatter(name="phases_duration")
    plot.yaxis.ticker = time_ticker()
    plot.xaxis.formatter = BasicTickFormatter(name="phases_step")
    plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0, desired_num_ticks=10)
    plot.xaxis.axis_label = "step"
    plot.axis.axis_label_text_font_size = "11px"
    plot.axis.axis_label_text_font_style = "normal"
    add_boxes(plot, "bars", "color alpha", fill_color="color", fill_alpha="alpha", line_color=None)
    add_boxes(plot, "chosen", fill_color=None, line_color="#000000", line_width=1.5, name="chosen_glyph")
    return plot
