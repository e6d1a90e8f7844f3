"""The memory curve's figure, on the timeline's time axis."""

from __future__ import annotations

from bokeh.models import Label, Range1d
from bokeh.plotting import figure

from ...service.palette import MEMORY
from .base import add_veils, bare_figure, bytes_axis, empty_source


def memory_figure(view: Range1d) -> figure:
    """Build the memory curve.

    Parameters
    ----------
    view : Range1d
        The timeline's.
    """
    plot = bare_figure("memory", 150, view, Range1d(0, 1, name="bytes"))
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
