"""What the four figures have in common: a bare canvas whose plot area starts at the same pixel.

Gestures, tooltips, tick texts and colours are the page's (``static/*.js``): figures only draw. So no
tool of Bokeh swallows a wheel that should scroll the notebook, no template can run text that came from a
trace, and themes can change while the page lives.
"""

from __future__ import annotations

from bokeh.models import (
    AdaptiveTicker,
    BasicTickFormatter,
    BoxAnnotation,
    ColumnDataSource,
    LinearAxis,
    Range1d,
)
from bokeh.plotting import figure

from ..time_axis import time_ticker
from .sizes import GUTTER_PX, MARGIN_PX


def bare_figure(name: str, height: int, x_range: Range1d, y_range: Range1d, axis: str = "below") -> figure:
    """A figure without tools whose plot area begins `GUTTER_PX` from the left.

    Parameters
    ----------
    name : str
        The page finds the model by it.
    height : int
        Pixels.
    x_range, y_range : Range1d
    axis : str
        Where the time axis stands: ``above`` or ``below``.
    """
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
        _thin(part)
    for part in plot.yaxis:
        _thin(part)
    return plot


def add_veils(plot: figure, name: str) -> None:
    """Shade what lies outside the selected window, and frame what lies inside."""
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
    """Ticks at powers of two, written by the page in binary units."""
    for part in plot.yaxis:
        part.formatter = BasicTickFormatter(name=f"{name}_bytes")
        part.ticker = AdaptiveTicker(
            base=1024,
            mantissas=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
            desired_num_ticks=4,
            num_minor_ticks=0,
        )


def empty_source(name: str, columns: str) -> ColumnDataSource:
    """A data source with empty columns that the page fills."""
    return ColumnDataSource(data={column: [] for column in columns.split()}, name=name)


def add_boxes(plot: figure, source: str, columns: str = "", **look: object) -> None:
    """Boxes from (x0, y0) to (x1, y1) that the page fills; `columns` are further ones that `look` names."""
    plot.quad(
        left="x0",
        right="x1",
        bottom="y0",
        top="y1",
        source=empty_source(source, f"x0 x1 y0 y1 {columns}"),
        **look,
    )


def _thin(axis: LinearAxis) -> None:
    axis.axis_line_alpha = 0.4
    axis.minor_tick_line_color = None
    axis.major_tick_in = 0
    axis.major_tick_out = 4
    axis.major_label_text_font_size = "11px"
