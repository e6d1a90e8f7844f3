"""The result of a tab's figure function, and common parts of those functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from bokeh.models import (
    Axis,
    BasicTickFormatter,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    Legend,
    LegendItem,
    PlainText,
    Title,
)
from bokeh.plotting import figure

from ...selection import Selection
from ...units import format_count, format_share

_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_BYTES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
BAR_PX: Final = 19
HEAD_PX: Final = 48
PALE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with its data."""

    # Hover tools show escaped text columns; clickable sources have a column ``select`` with a JSON patch or
    # an empty text. Text named ``themed`` takes the colour of the page's text.
    figure: figure
    title: str
    legend: Mapping[str, str] = field(default_factory=dict)  # from text to ``#RRGGBB``


def standalone(drawn: Drawn) -> figure:
    """Return the figure with title and legend inside, for places that do not show them beside it."""
    plot = drawn.figure
    plot.title = Title(text=PlainText(text=drawn.title), text_font_size="12px")
    items = []
    for text, colour in drawn.legend.items():
        mark = plot.scatter([], [], marker="square", size=9, fill_color=colour, line_color=None)
        items.append(LegendItem(label=text, renderers=[mark]))
    if items:
        keys = Legend(
            items=items, orientation="horizontal", border_line_color=None, background_fill_color=None
        )
        keys.label_text_font_size = "11px"
        plot.add_layout(keys, "below")
    return plot


def canvas(height: int, tools: str = "", **options: Any) -> figure:
    """Return a figure as wide as its container, without background; the wheel scrolls the page."""
    plot = figure(
        height=height,
        **{
            "sizing_mode": "stretch_width",
            "tools": tools,
            "toolbar_location": "right" if tools else None,
            "lod_threshold": None,
            "output_backend": "canvas",
            "outline_line_color": None,
            "background_fill_color": None,
            "border_fill_color": None,
            "min_border_right": 14,
            "min_border_top": 6,
            **options,
        },
    )
    plot.toolbar.logo = None
    plot.xgrid.visible = False
    plot.ygrid.grid_line_alpha = 0.5
    for axis in plot.axis:
        axis.axis_line_alpha = 0.4
        axis.minor_tick_line_color = None
        axis.major_tick_in, axis.major_tick_out = 0, 4
        axis.major_label_text_font_size = axis.axis_label_text_font_size = "11px"
        axis.axis_label_text_font_style = "normal"
    return plot


def time_unit(longest_ns: float) -> tuple[float, str]:
    """Return the name of the best unit for times up to this, and its length in ns."""
    return next((unit for unit in _TIMES if longest_ns >= unit[0]), _TIMES[-1])


def byte_unit(most: float) -> tuple[float, str]:
    """Return the name of the best unit for sizes up to this, and its bytes."""
    return next((unit for unit in _BYTES if most >= unit[0]), _BYTES[-1])


def label_axis(axis: Sequence[Axis], text: str) -> None:
    """Set the label of an axis, and write its ticks as plain numbers."""
    for part in axis:
        part.axis_label = text
        part.formatter = BasicTickFormatter(use_scientific=False)


def name_axis(axis: Sequence[Axis], names: Sequence[str]) -> None:
    """Write a name at each of 0, 1, 2 …; long names are cut in the middle."""
    # Names are passed as plain text, since Bokeh would read a string between ``$$`` as TeX.
    for part in axis:
        part.ticker = FixedTicker(ticks=list(range(len(names))))
        part.major_label_overrides = {
            position: PlainText(text=shortened(name, 40)) for position, name in enumerate(names)
        }
        part.major_tick_line_color = None


def shortened(name: object, most: int) -> str:
    """Cut a long name in the middle: kernels often differ only at the end of their names."""
    text = str(name).replace("\n", " ")
    if len(text) <= most:
        return text
    kept = max(most - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def patches(dimension: str, values: Iterable[Any]) -> list[str]:
    """Return the JSON patch that a click on each value sets; empty if it sets nothing."""
    return ["" if value is None else json.dumps({dimension: [value]}) for value in values]


def windows(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> list[str]:
    """Return patches that select time windows."""
    stop = np.maximum(end, start + 1).tolist()
    return [json.dumps({"window": list(pair)}) for pair in zip(start.tolist(), stop, strict=True)]


def scope(selection: Selection, *dimensions: str) -> dict[str, Any]:
    """Return the clauses of a selection as arguments of an analysis.

    >>> scope(Selection(step=[3], name="mm"), "step", "window")
    {'step': (3,)}
    """
    clauses = {dimension: getattr(selection, dimension) for dimension in dimensions}
    return {dimension: value for dimension, value in clauses.items() if value is not None}


def opacity(values: Iterable[Any], chosen: Sequence[Any] | None) -> npt.NDArray[np.float64]:
    """Return the opacity of each value: 1, or less if others are selected."""
    return np.array([1.0 if chosen is None or value in chosen else PALE for value in values])


def source(columns: Mapping[str, Any]) -> ColumnDataSource:
    """Return a data source; arrays of objects become lists."""
    return ColumnDataSource(
        {
            name: values.tolist() if isinstance(values, np.ndarray) and values.dtype.kind == "O" else values
            for name, values in columns.items()
        }
    )


def tip_columns(tooltips: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return columns of a source for `tell`, in the same order."""
    return {f"tip{number}": values for number, values in enumerate(tooltips.values())}


def tell(plot: figure, renderer: Any, tooltips: Iterable[str]) -> None:
    """Show the columns of `tip_columns` in the tooltip, with their labels; Bokeh escapes the text."""
    rows = [(label, f"@{{tip{number}}}") for number, label in enumerate(tooltips)]
    plot.add_tools(HoverTool(tooltips=rows, renderers=[renderer], visible=False))


def row_figure(names: Sequence[str], unit: str, longest: float) -> figure:
    """Return a canvas with a named row for each bar, from the top down; `longest` is in `unit`."""
    count = len(names)
    plot = canvas(HEAD_PX + BAR_PX * count, x_range=(0, longest), y_range=(count - 0.5, -0.5))
    label_axis(plot.xaxis, unit)
    name_axis(plot.yaxis, names)
    plot.ygrid.visible = False
    plot.xgrid.visible = True
    plot.xgrid.grid_line_alpha = 0.5
    return plot


def bar_figure(
    names: Sequence[str],
    length_ns: Sequence[int],
    columns: Mapping[str, Any],
    tooltips: Mapping[str, Sequence[str]],
    room: float = 1.12,
) -> figure:
    """Draw a named bar for each time; `columns` are ``colour alpha select`` and ``share``, its text."""
    longest = max(length_ns)
    scale, unit = time_unit(longest)
    geometry = {"place": np.arange(len(names)), "length": np.array(length_ns) / scale}
    data = source({**columns, **geometry, **tip_columns(tooltips)})
    plot = row_figure(names, unit, longest / scale * room)
    bars = plot.hbar(
        y="place", right="length", height=0.8, source=data, fill_color="colour", fill_alpha="alpha",
        line_color=None,
    )  # fmt: skip
    plot.text(
        x="length", y="place", text="share", source=data, text_font_size="11px", text_baseline="middle",
        x_offset=4, name="themed",
    )  # fmt: skip
    tell(plot, bars, tooltips)
    return plot


def shares(values: Iterable[float], whole: float) -> list[str]:
    """Return each as a share of the whole."""
    return [format_share(value / whole if whole else 0.0) for value in values]


def counts(values: Iterable[Any]) -> list[str]:
    """Write whole numbers with digit grouping."""
    return [format_count(int(value)) for value in values]
