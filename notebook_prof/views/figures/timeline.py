"""The timeline's figure: density image, slices, focus, labels, arrows."""

from __future__ import annotations

from bokeh.models import BoxAnnotation, Range1d
from bokeh.plotting import figure

from ...service.palette import COUNTER
from .base import add_boxes, add_veils, bare_figure, empty_source
from .sizes import AXIS_PX, LANE_PX


def timeline_figure(view: Range1d, lanes: int) -> figure:
    """Build the timeline.

    Parameters
    ----------
    view : Range1d
        Shared with the memory curve.
    lanes : int
        Rows shown at first; the page changes the height when tracks fold.
    """
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
        "xs",
        "ys",
        source=empty_source("links", "xs ys"),
        line_width=1.5,
        line_color="#D55E00",
        name="links_glyph",
    )
    plot.scatter("x", "y", source=empty_source("heads", "x y"), size=6, color="#D55E00")
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
