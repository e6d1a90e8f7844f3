"""Single views with their data: for ``bokeh.io.show``, your own layout, or a picture."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    CustomJSTickFormatter,
    DataTable,
    FixedTicker,
    HoverTool,
    NumberFormatter,
    StringFormatter,
    TableColumn,
)
from bokeh.plotting import figure

from ... import analysis
from ...selection import Selection
from ...service.columns import labels_without_heading
from ...service.palette import MEMORY, NAMES
from ...service.palette import PHASES as PHASE_COLOURS
from ...service.store import ViewStore
from ...trace import PHASES, Trace
from ...units import format_bytes, format_count, format_ns, format_share
from ..time_axis import TIME_CODE, time_ticker

MAX_SLICES: Final = 4000
MAX_OPERATORS: Final = 1000
_MAX_POINTS: Final = 4000
_LANE_PX: Final = 18
_FADED: Final = 0.25
_BYTES_CODE: Final = (
    "const most = Math.max(...ticks.map(Math.abs), 1), u = Math.min(4, Math.floor(Math.log2(most) / 10)); "
    "const unit = ['B', 'KiB', 'MiB', 'GiB', 'TiB'][u]; "
    "return tick ? `${+(tick / 1024 ** u).toPrecision(3)} ${unit}` : '0'"
)


def timeline(trace: Trace, selection: Selection) -> figure:
    """Draw tracks over time, one lane per depth; unselected slices are faded."""
    # At most the 4,000 longest slices that touch the selected window; the title says if there are more.
    store = ViewStore(trace, fold=True)
    columns, slices = store.columns, trace.slices
    places, lanes = columns.places, len(columns.shown_rows)
    inside = Selection(window=selection.window).mask(slices) & (places[columns.row] >= 0)
    rows = np.flatnonzero(inside)
    longest = np.sort(rows[np.argsort(-columns.dur[rows], kind="stable")[:MAX_SLICES]])
    title = f"{format_count(len(longest))} slices"
    if len(rows) > len(longest):
        title = f"the {format_count(len(longest))} longest of {format_count(len(rows))} slices"
    plot = _figure(title, 60 + _LANE_PX * max(lanes, 1), *_span(trace, selection))
    plot.y_range.start, plot.y_range.end = lanes, 0
    firsts = places[[track.first_row for track in columns.tracks]].tolist()
    plot.yaxis.ticker = FixedTicker(ticks=firsts)
    plot.yaxis.major_label_overrides = dict(zip(firsts, labels_without_heading(columns.tracks), strict=True))
    names = [columns.names[code] for code in columns.name[longest]]
    colours = np.array(NAMES)[store.name_colours[columns.name[longest]]]
    lane = places[columns.row[longest]]
    source = ColumnDataSource(
        {
            "start": columns.ts[longest],
            "end": columns.ts[longest] + columns.dur[longest],
            "top": lane + 0.05,
            "bottom": lane + 0.95,
            "color": colours,
            "alpha": np.where(selection.mask(slices)[longest], 1.0, _FADED),
            "name": names,
            "duration": [format_ns(dur) for dur in columns.dur[longest].tolist()],
        }
    )
    plot.quad(
        left="start", right="end", top="top", bottom="bottom", source=source,
        fill_color="color", fill_alpha="alpha", line_color=None,
    )  # fmt: skip
    plot.add_tools(HoverTool(tooltips=[("", "@name"), ("duration", "@duration")]))
    return plot


def operator_table(trace: Trace, selection: Selection) -> DataTable:
    """Return the operators under the selection, by self time; at most 1,000."""
    table = analysis.operators(
        _of_tracks(trace, selection),
        window=selection.window,
        name=selection.name,
        step=selection.step,
        phase=selection.phase,
        category=selection.category,
    ).head(MAX_OPERATORS)
    heads = {"name": "name", "count": "calls", "self": "self", "total": "total", "share": "share"}
    cells: dict[str, Any] = {
        "name": table["name"].astype(object).to_numpy(),
        "count": table["count"].to_numpy(),
        "self": [format_ns(value) for value in table["self_ns"]],
        "total": [format_ns(value) for value in table["total_ns"]],
        "share": [format_share(value) for value in table["share"]],
    }
    if (table["device_ns"] > 0).any():
        heads["device"] = "device"
        cells["device"] = [format_ns(value) for value in table["device_ns"]]
    numbers = {"count": NumberFormatter(text_align="right")}
    shown = [
        TableColumn(
            field=field,
            title=title,
            width=360 if field == "name" else 90,
            sortable=field in ("name", "count"),
            formatter=numbers.get(field, StringFormatter(text_align="left" if field == "name" else "right")),
        )
        for field, title in heads.items()
    ]
    return DataTable(
        source=ColumnDataSource(cells), columns=shown, index_position=None, reorderable=False,
        sizing_mode="stretch_width", height=400,
    )  # fmt: skip


def _of_tracks(trace: Trace, selection: Selection) -> Trace:
    """Return the slices on the selected tracks, and on those of the selected ranks."""
    if selection.track is None and selection.rank is None:
        return trace
    tracks = trace.tracks
    return trace.sel(track=tracks.loc[selection.mask(tracks[["track", "rank"]]), "track"].tolist())


def memory_curve(trace: Trace, selection: Selection) -> figure:
    """Draw allocated and reserved bytes over time, one line per device, with the peak."""
    curve = analysis.memory(trace, window=selection.window)
    peaks = analysis.memory_peak(trace, window=selection.window)
    title = "; ".join(
        f"peak {format_bytes(peak)} {'on the host' if device < 0 else f'on device {device}'}"
        + (", resident" if source == "rss" else "")
        for device, source, peak in zip(peaks["device"], peaks["source"], peaks["peak_bytes"], strict=True)
    )
    plot = _figure(title or "no memory was recorded", 220, *_span(trace, selection))
    plot.yaxis.formatter = CustomJSTickFormatter(code=_BYTES_CODE)
    for _, part in curve.groupby(["device", "source"], sort=True, observed=True):
        thin = _thinned(part, "allocated_bytes")
        plot.step(thin["ts"], thin["allocated_bytes"], mode="after", line_color=MEMORY["allocated"])
        if (part["reserved_bytes"] > 0).any():
            thin = _thinned(part, "reserved_bytes")
            style = {"line_color": MEMORY["reserved"], "line_dash": "dashed"}
            plot.step(thin["ts"], thin["reserved_bytes"], mode="after", **style)
    plot.scatter(
        peaks["ts"], peaks["peak_bytes"], marker="inverted_triangle", size=9,
        fill_color=MEMORY["peak"], line_color=None,
    )  # fmt: skip
    plot.y_range.start = min(0, int(curve["allocated_bytes"].min())) if len(curve) else 0
    return plot


def phase_bars(trace: Trace, selection: Selection) -> figure:
    """Draw a bar per step, divided into its phases; unselected steps are faded."""
    table = analysis.phases(trace, window=selection.window)
    host = table["host_ns"].to_numpy().reshape(-1, len(PHASES))  # a row a phase, in this order
    steps = table["step"].to_numpy(dtype=np.int64)[:: len(PHASES)]
    chosen = np.ones(len(steps), bool) if selection.step is None else np.isin(steps, selection.step)
    plot = figure(
        title="host time by step" if len(steps) else "no steps were found", height=240,
        sizing_mode="stretch_width", tools="pan,wheel_zoom,box_zoom,reset", active_scroll=None,
    )  # fmt: skip
    plot.yaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    plot.xaxis.ticker = BasicTicker(min_interval=1)
    plot.xaxis.axis_label = "step"
    bottom = np.zeros(len(steps), np.int64)
    for i, phase in enumerate(PHASES):
        value = host[:, i]
        faded = ~chosen if selection.phase is None or phase in selection.phase else np.ones(len(steps), bool)
        source = ColumnDataSource(
            {
                "step": steps, "bottom": bottom, "top": bottom + value,
                "alpha": np.where(faded, _FADED, 1.0),
                "phase": [phase] * len(steps), "time": [format_ns(ns) for ns in value.tolist()],
            }
        )  # fmt: skip
        plot.vbar(
            x="step", bottom="bottom", top="top", width=0.8, source=source, legend_label=phase,
            fill_color=PHASE_COLOURS[phase], fill_alpha="alpha", line_color=None,
        )  # fmt: skip
        bottom = bottom + value
    plot.add_tools(HoverTool(tooltips=[("step", "@step"), ("phase", "@phase"), ("host time", "@time")]))
    plot.legend.orientation = "horizontal"
    plot.legend.location = "top_left"
    plot.add_layout(plot.legend[0], "above")
    return plot


def _figure(title: str, height: int, start: float, end: float) -> figure:
    plot = figure(
        title=title, height=height, x_range=(start, end), sizing_mode="stretch_width",
        tools="xpan,xwheel_zoom,xbox_zoom,reset", active_drag="xpan", output_backend="canvas",
    )  # fmt: skip
    plot.xaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    plot.xaxis.ticker = time_ticker()
    plot.grid.visible = False
    return plot


def _span(trace: Trace, selection: Selection) -> tuple[int, int]:
    start, end = selection.window or trace.span
    return int(start), int(max(end, start + 1))


def _thinned(part: pd.DataFrame, column: str) -> pd.DataFrame:
    """Keep at most a few thousand points of a curve: the highest and the last of each stretch."""
    if len(part) <= _MAX_POINTS:
        return part
    part_number = np.arange(len(part)) * (_MAX_POINTS // 2) // len(part)
    high = part.reset_index(drop=True).groupby(part_number)[column].idxmax().to_numpy()
    last = np.flatnonzero(np.append(part_number[1:] != part_number[:-1], True))
    return part.iloc[np.unique(np.concatenate([high, last]))]
