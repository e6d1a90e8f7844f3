"""The strip above the timeline: the whole recording, and the part of it that is in view."""

from __future__ import annotations

from bokeh.models import BoxAnnotation, Range1d
from bokeh.plotting import figure

from ...service.palette import MEMORY
from .base import add_boxes, add_veils, bare_figure, empty_source


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
