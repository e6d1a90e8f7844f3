"""The roofline: achieved rates of operators, and the machine's ceilings."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.models import Range1d
from bokeh.plotting import figure

from ... import analysis
from ...selection import Selection
from ...service.palette import CATEGORIES, MARK, name_styles
from ...trace import Trace
from ...units import format_count, format_ns, format_share
from .drawn import Drawn, canvas, counts, opacity, patches, scope, shortened, source, tell, tip_columns

_LABELLED: Final = 16
_CHARACTERS: Final = 95
"""Approximate number of characters that fit into the width of a tab."""
_LINE: Final = 0.055
"""Height of a line as a share of the figure's height."""
_MOST: Final = 500
_HEIGHT: Final = 340
_GIGA: Final = 1e9


def roofline_figure(
    trace: Trace,
    selection: Selection,
    *,
    flops_per_s: float | None = None,
    bytes_per_s: float | None = None,
    by: str = "name",
) -> Drawn | None:
    """Draw the FLOP/s that operators achieve over their intensity, both logarithmic.

    Each operator is a point whose area shows its time; a click selects it. Each known ceiling is drawn. None
    without known work; OptionError for an unknown `by` or a ceiling that is not positive.
    """
    narrowed = scope(selection, "window", "step", "phase")
    table = analysis.roofline(trace, by=by, flops_per_s=flops_per_s, bytes_per_s=bytes_per_s, **narrowed)
    has_work = (table["flops"] > 0) & (table["bytes"] > 0) & (table["time_ns"] > 0)
    silent = int((~has_work).sum())
    table = table[has_work].nlargest(_MOST, "time_ns")
    if not len(table):
        return None
    title = f"{format_count(len(table))} operators of known work"
    if silent:
        title += f" · {format_count(silent)} more have no FLOPs, or took no time"
    x_range, y_range = _ranges(table, flops_per_s, bytes_per_s)
    plot = canvas(
        _HEIGHT,
        "pan,box_zoom,zoom_in,zoom_out,reset",
        x_axis_type="log",
        y_axis_type="log",
        x_range=x_range,
        y_range=y_range,
    )
    plot.xgrid.visible = True
    plot.xgrid.grid_line_alpha = 0.5
    plot.xaxis.axis_label = "FLOP a byte"
    plot.yaxis.axis_label = "GFLOP/s"
    _draw_ceilings(plot, flops_per_s, bytes_per_s)
    _draw_points(trace, plot, table, by, selection)
    return Drawn(plot, title)


def _draw_points(trace: Trace, plot: figure, table: pd.DataFrame, by: str, selection: Selection) -> None:
    names = [str(name) for name in table[by]]
    styles = name_styles(trace)
    spent = table["time_ns"].to_numpy(dtype=np.float64)
    attained = zip(table["attained_share"], table["bound"], strict=True)
    tooltips = {
        "": [shortened(name, 160) for name in names],
        "kind": [str(kind) for kind in table["kind"]],
        "in all": [format_ns(value) for value in spent.tolist()],
        "calls": counts(table["count"]),
        "computes": [_rate(value, "FLOP/s") for value in table["flops_per_s"]],
        "moves": [_rate(value, "B/s") for value in table["bytes_per_s"]],
        "of the ceiling": [
            f"{format_share(share)} ({bound})" if share == share else "–" for share, bound in attained
        ],
    }
    data = source(
        {
            "x": table["intensity"].to_numpy(),
            "y": table["flops_per_s"].to_numpy() / _GIGA,
            "size": 7 + 25 * np.sqrt(spent / spent.max()),
            "colour": [styles.colour(name) if by == "name" else CATEGORIES["operator"] for name in names],
            "alpha": 0.85 * opacity(names, selection.name if by == "name" else None),
            "label": _labels(plot, table, [styles.label(name) for name in names]),
            "select": patches("name", names) if by == "name" else [""] * len(names),
            **tip_columns(tooltips),
        }
    )
    points = plot.scatter(
        "x", "y", size="size", source=data, fill_color="colour", fill_alpha="alpha", line_color="#444444",
        line_alpha=0.6,
    )  # fmt: skip
    plot.text(
        "x", "y", text="label", source=data, text_font_size="11px", x_offset=8, y_offset=-5, name="themed"
    )
    tell(plot, points, tooltips)


def _labels(plot: figure, table: pd.DataFrame, names: list[str]) -> list[str]:
    """Name the longest operators, unless labels overlap."""
    width = np.log10(plot.x_range.end / plot.x_range.start)
    height = np.log10(plot.y_range.end / plot.y_range.start)
    left = np.log10(table["intensity"].to_numpy() / plot.x_range.start) / width
    up = np.log10(table["flops_per_s"].to_numpy() / _GIGA / plot.y_range.start) / height
    boxes: list[tuple[float, float, float]] = []
    out = [""] * len(names)
    for i in range(min(_LABELLED, len(names))):
        text = shortened(names[i], 26)
        box = (float(left[i]), float(left[i]) + len(text) / _CHARACTERS, float(up[i]))
        if not any(box[0] < b[1] and b[0] < box[1] and abs(box[2] - b[2]) < _LINE for b in boxes):
            boxes.append(box)
            out[i] = text
    return out


def _rate(value: float, unit: str) -> str:
    """Return a rate with a suitable prefix: ``15.7 TFLOP/s``."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _ranges(table: pd.DataFrame, flops: float | None, moved: float | None) -> tuple[Range1d, Range1d]:
    """Leave a margin around the points and the ceilings, and room for labels on the right."""
    ridge = [flops / moved] if flops and moved else []
    x = [*table["intensity"], *ridge]
    y = [value / _GIGA for value in (*table["flops_per_s"], *([flops] if flops else []))]
    return Range1d(min(x) / 3, max(x) * 12), Range1d(min(y) / 4, max(y) * 4)


def _draw_ceilings(plot: figure, flops_per_s: float | None, bytes_per_s: float | None) -> None:
    left, right = float(plot.x_range.start), float(plot.x_range.end)
    low = float(plot.y_range.start)
    line: dict[str, Any] = {"line_color": MARK, "line_width": 2}
    text: dict[str, Any] = {"text_font_size": "11px", "text_color": MARK}
    ridge = flops_per_s / bytes_per_s if flops_per_s and bytes_per_s else None
    if flops_per_s:
        top = flops_per_s / _GIGA
        plot.line([max(ridge or left, left), right], [top, top], **line)
        plot.text(
            [right],
            [top],
            [_rate(flops_per_s, "FLOP/s")],
            text_align="right",
            y_offset=-4,
            x_offset=-6,
            **text,
        )
    if bytes_per_s:
        slope, end = bytes_per_s / _GIGA, min(ridge or right, right)
        plot.line([left, end], [left * slope, end * slope], line_dash="dashed", **line)
        begin = max(left * 1.2, 1.5 * low / slope)
        plot.text([begin], [begin * slope], [_rate(bytes_per_s, "B/s")], y_offset=-12, **text)
