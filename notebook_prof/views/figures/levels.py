"""Memory over time: a line a device."""

from __future__ import annotations

from typing import Final

import numpy as np
from bokeh.models import Range1d

from ... import analysis
from ...selection import Selection
from ...service.lod import StepCurve
from ...service.palette import MEMORY, NAMES
from ...trace import Trace
from ...units import format_bytes
from .drawn import Drawn, byte_unit, canvas, label_axis, source, tell, time_unit, tip_columns

_WIDTH: Final = 800
_HEIGHT: Final = 200


def levels_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw allocated and reserved memory of all devices together.

    Parameters
    ----------
    trace : Trace
    selection : Selection
        The window narrows what is drawn.

    Returns
    -------
    Drawn or None
        A solid line a device for what is allocated, a dashed one for what is reserved, a mark at each peak.
        None without memory events.
    """
    table = analysis.memory(trace, window=selection.window)
    if not len(table):
        return None
    start, end = selection.window or trace.span
    end = max(int(end), int(start) + 1)
    high = max(int(table["allocated_bytes"].max()), int(table["reserved_bytes"].max()), 1)
    (size, size_unit), (time, unit) = byte_unit(high), time_unit(end)
    plot = canvas(
        _HEIGHT, x_range=Range1d(int(start) / time, end / time), y_range=Range1d(0, 1.08 * high / size)
    )
    label_axis(plot.xaxis, unit)
    label_axis(plot.yaxis, size_unit)
    legend: dict[str, str] = {}
    curves = table.groupby(["device", "source"], sort=True, observed=True)
    for place, ((device, kind), own) in enumerate(curves):
        colour = NAMES[place % len(NAMES)]
        where = f"GPU {device}" if int(str(device)) >= 0 else "host"
        taken = "resident" if kind == "rss" else "allocated"
        ts = own["ts"].to_numpy()
        for column, dash in {"reserved_bytes": "dashed", "allocated_bytes": "solid"}.items():
            if column == "allocated_bytes" or (own[column] > 0).any():
                x, y = StepCurve(ts, own[column].to_numpy()).sample(start, end, _WIDTH)
                style = {"line_color": colour, "line_width": 1.4, "line_dash": dash}
                plot.step(x / time, y / size, mode="after", **style)
        reserved = " (dashed: reserved)" if (own["reserved_bytes"] > 0).any() else ""
        legend[f"{where} {taken}{reserved}"] = colour
        level = own["allocated_bytes"].to_numpy()
        top = int(np.argmax(level))
        told = {"": [f"peak, {where}"], taken: [format_bytes(int(level[top]))]}
        mark = {"x": [int(ts[top]) / time], "y": [int(level[top]) / size], **tip_columns(told)}
        peak = plot.scatter(
            "x", "y", source=source(mark), marker="inverted_triangle", size=10,
            fill_color=MEMORY["peak"], line_color=None,
        )  # fmt: skip
        tell(plot, peak, told)
    return Drawn(plot, "Memory over time", legend)
