"""The step-phase bars' figure."""

from __future__ import annotations

from bokeh.models import BasicTicker, BasicTickFormatter, Range1d
from bokeh.plotting import figure

from ..time_axis import time_ticker
from .base import add_boxes, bare_figure


def phase_figure() -> figure:
    """Build the stacked bars: one bar a step, one colour a phase, host time upwards."""
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
