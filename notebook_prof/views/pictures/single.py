"""Single views with their data: for ``bokeh.io.show``, your own layout, or a picture."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    DataTable,
    Div,
    FixedTicker,
    HoverTool,
    NumberFormatter,
    StringFormatter,
    TableColumn,
    UIElement,
)
from bokeh.plotting import figure

from ... import analysis
from ...selection import Selection, filtered
from ...service.columns import labels_without_heading
from ...service.palette import NAMES
from ...service.palette import PHASES as PHASE_COLOURS
from ...service.store import ViewStore
from ...trace import PHASES, Trace
from ...units import format_count, format_ns, format_share
from ..figures.drawn import standalone
from ..figures.memory import levels_figure
from ..figures.steps import stacked
from ..time_axis import TIME_CODE, time_ticker

MAX_SLICES: Final = 4000
MAX_OPERATORS: Final = 1000
_LANE_PX: Final = 18
_FADED: Final = 0.25
_TOOLS: Final = "xpan,xwheel_zoom,xbox_zoom,reset"


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
    start, end = selection.window or trace.span
    plot = figure(
        title=title, height=60 + _LANE_PX * max(lanes, 1), x_range=(start, max(end, start + 1)),
        y_range=(lanes, 0), sizing_mode="stretch_width", tools=_TOOLS, active_drag="xpan",
        output_backend="canvas",
    )  # fmt: skip
    plot.xaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    plot.xaxis.ticker = time_ticker()
    plot.grid.visible = False
    firsts = places[[track.first_row for track in columns.tracks]].tolist()
    plot.yaxis.ticker = FixedTicker(ticks=firsts)
    plot.yaxis.major_label_overrides = dict(zip(firsts, labels_without_heading(columns.tracks), strict=True))
    names = [columns.names[code] for code in columns.name[longest]]
    colours = np.array(NAMES)[store.name_styles.codes[columns.name[longest]]]
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
    if selection.track is not None or selection.rank is not None:
        tracks = trace.tracks
        trace = trace.sel(track=tracks.loc[selection.mask(tracks[["track", "rank"]]), "track"].tolist())
    table = filtered(analysis.operators, trace, selection.to_state()).head(MAX_OPERATORS)
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


def memory_curve(trace: Trace, selection: Selection) -> UIElement:
    """Draw allocated and reserved bytes over time, one line per device, with the peak."""
    drawn = levels_figure(trace, selection)
    if drawn is None:
        return Div(text="No memory was recorded.")
    plot = standalone(drawn)
    plot.add_tools(*_TOOLS.split(","))
    plot.toolbar_location = "right"
    return plot


def phase_bars(trace: Trace, selection: Selection) -> UIElement:
    """Draw a bar per step, divided into its phases; unselected steps are faded."""
    table = analysis.phases(trace, window=selection.window)
    steps = table.pivot(index="step", columns="phase", values="host_ns").reindex(columns=list(PHASES))
    parts = {phase: (phase, PHASE_COLOURS[phase]) for phase in PHASES}
    drawn = stacked(steps.reset_index(), parts, selection, "Host time by step")
    return Div(text="No steps were found.") if drawn is None else standalone(drawn)
