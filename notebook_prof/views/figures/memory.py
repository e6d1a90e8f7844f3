"""Memory over time, one line per device, and the address of each block."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from bokeh.models import Range1d

from ... import analysis
from ...selection import Selection
from ...service.detail.curve import StepCurve
from ...service.palette import CATEGORIES, IDLE, MEMORY, NAMES, PHASES
from ...trace import Trace
from ...units import format_bytes, format_count, format_ns
from .drawn import (
    Drawn,
    byte_unit,
    canvas,
    label_axis,
    opacity,
    scope,
    shortened,
    source,
    tell,
    time_unit,
    tip_columns,
    windows,
)

_WIDTH: Final = 800
_LEVELS_HEIGHT: Final = 200


def levels_figure(trace: Trace, selection: Selection) -> Drawn | None:
    """Draw each device's allocated (solid) and reserved (dashed) memory, with peaks. None without events."""
    table = analysis.memory(trace, window=selection.window)
    if not len(table):
        return None
    start, end = selection.window or trace.span
    end = max(int(end), int(start) + 1)
    high = max(int(table["allocated_bytes"].max()), int(table["reserved_bytes"].max()), 1)
    (size, size_unit), (time, unit) = byte_unit(high), time_unit(end)
    plot = canvas(
        _LEVELS_HEIGHT, x_range=Range1d(int(start) / time, end / time), y_range=Range1d(0, 1.08 * high / size)
    )
    label_axis(plot.xaxis, unit)
    label_axis(plot.yaxis, size_unit)
    legend: dict[str, str] = {}
    curves = table.groupby(["device", "source"], sort=True, observed=True)
    for number, ((device, kind), own) in enumerate(curves):
        colour = (MEMORY["allocated"], *NAMES[1:])[number % len(NAMES)]
        where = f"GPU {device}" if int(str(device)) >= 0 else "host"
        measure = "resident" if kind == "rss" else "allocated"
        ts = own["ts"].to_numpy()
        for column, dash in {"reserved_bytes": "dashed", "allocated_bytes": "solid"}.items():
            if column == "allocated_bytes" or (own[column] > 0).any():
                x, y = StepCurve(ts, own[column].to_numpy()).sample(start, end, _WIDTH)
                style = {"line_color": colour, "line_width": 1.4, "line_dash": dash}
                plot.step(x / time, y / size, mode="after", **style)
        reserved = " (dashed: reserved)" if (own["reserved_bytes"] > 0).any() else ""
        legend[f"{where} {measure}{reserved}"] = colour
        level = own["allocated_bytes"].to_numpy()
        top = int(np.argmax(level))
        tooltips = {"": [f"peak, {where}"], measure: [format_bytes(int(level[top]))]}
        mark = {"x": [int(ts[top]) / time], "y": [int(level[top]) / size], **tip_columns(tooltips)}
        peak = plot.scatter(
            "x", "y", source=source(mark), marker="inverted_triangle", size=10,
            fill_color=MEMORY["peak"], line_color=None,
        )  # fmt: skip
        tell(plot, peak, tooltips)
    return Drawn(plot, "Memory over time", legend)


_MOST: Final = 4000
_HEIGHT: Final = 320
KINDS: Final = {
    "parameter": CATEGORIES["module"],
    "activation": PHASES["forward"],
    "gradient": PHASES["backward"],
    "optimizer": PHASES["optimizer"],
    "input": PHASES["data"],
    "temporary": IDLE[1],
    "earlier": CATEGORIES["launch"],
    "other": IDLE[2],
}
"""Colour of each kind of memory: that of the phase which allocates it."""


def memory_flow_figure(
    trace: Trace, selection: Selection, *, device: int | None = None, min_bytes: int = 0
) -> Drawn | None:
    """Draw each block as a rectangle: lifetime by addresses, at most 4,000 blocks, the largest (bytes ×
    time).

    `device` -1 is the host; the default is the device with most memory. A click selects a block's lifetime.
    None without an allocator.
    """
    # Unused stretches of addresses are cut out, so that distant blocks are drawn close together; the order of
    # addresses stays.
    blocks = analysis.memory_blocks(trace, min_bytes=min_bytes, **scope(selection, "window"))
    blocks = blocks[blocks["bytes"] > 0]
    if device is None and len(blocks):
        device = int(blocks.groupby("device")["bytes"].sum().idxmax())
    blocks = blocks[blocks["device"] == device]
    if not len(blocks):
        return None
    area = blocks["bytes"].astype("float64") * (blocks["lifetime_ns"] + 1)
    shown = blocks.loc[area.nlargest(_MOST).index].sort_index()
    many = format_count(len(shown))
    if len(shown) < len(blocks):
        many = f"The {many} largest (bytes × time) of {format_count(len(blocks))}"
    title = f"{many} blocks on {'the host' if device == -1 else f'device {device}'}"
    cut = selection.window or (0, max(int(trace.span.end), 1))
    return _draw(shown, selection, title, cut)


def compacted(addr: npt.NDArray[np.uint64], size: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return addresses from 0 without the gaps between them; overlapping blocks keep their distance."""
    if not len(addr):
        return np.empty(0, np.int64)
    order = np.argsort(addr, kind="stable")
    start = (addr[order] - addr[order[0]]).astype(np.int64)
    reach = np.maximum.accumulate(start + size[order])
    gap = np.maximum(start[1:] - reach[:-1], 0)
    offset = np.empty(len(addr), np.int64)
    offset[order] = start - np.append(0, np.cumsum(gap))
    return offset


def _draw(shown: pd.DataFrame, selection: Selection, title: str, cut: tuple[Any, ...]) -> Drawn:
    size, life = shown["bytes"].to_numpy(), shown["lifetime_ns"].to_numpy()
    bottom = compacted(shown["addr"].to_numpy(), size)
    birth = shown["birth_ts"].to_numpy(dtype=np.int64, na_value=0)
    kinds = shown["kind"].astype(str).tolist()
    tooltips = {
        "": _words(shown["operator"]),
        "size": [format_bytes(value) for value in size.tolist()],
        "kind": kinds,
        "module": _words(shown["module"]),
        "lived": [format_ns(value) for value in life.tolist()],
        "born": _instants(shown["birth_ts"], "before the recording"),
        "freed": _instants(shown["death_ts"], "after the recording"),
        "freed in": _words(shown["freed_by"]),
        "address": [f"{value:#x}" for value in shown["addr"].tolist()],
    }
    high = int((bottom + size).max())
    (memory, memory_unit), (time, unit) = byte_unit(high), time_unit(max(map(abs, cut)))
    data = source(
        {
            "left": birth / time,
            "right": (birth + life) / time,
            "bottom": bottom / memory,
            "top": (bottom + size) / memory,
            "colour": [KINDS[kind] for kind in kinds],
            "alpha": 0.85 * opacity(tooltips[""], selection.name),
            "select": windows(birth, birth + life),
            **tip_columns(tooltips),
        }
    )
    plot = canvas(
        _HEIGHT, "pan,box_zoom,zoom_in,zoom_out,reset", x_range=Range1d(cut[0] / time, cut[1] / time),
        y_range=Range1d(0, high / memory * 1.02),
    )  # fmt: skip
    boxes = plot.quad(
        left="left", right="right", bottom="bottom", top="top", source=data, fill_color="colour",
        fill_alpha="alpha", line_color="#555555", line_width=0.4, line_alpha=0.5,
    )  # fmt: skip
    label_axis(plot.xaxis, unit)
    label_axis(plot.yaxis, f"addresses without gaps, {memory_unit}")
    tell(plot, boxes, tooltips)
    return Drawn(plot, title, {kind: colour for kind, colour in KINDS.items() if kind in kinds})


def _words(column: pd.Series[str]) -> list[str]:
    return [shortened(word, 120) if isinstance(word, str) else "–" for word in column]


def _instants(column: pd.Series[int], unknown: str) -> list[str]:
    values: list[float] = column.to_numpy(dtype=np.float64, na_value=np.nan).tolist()
    return [format_ns(value) if value == value else unknown for value in values]
