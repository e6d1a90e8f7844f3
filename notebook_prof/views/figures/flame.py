"""The icicle: stacks from the top down, each as wide as what it took."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
from bokeh.models import Range1d

from ... import analysis
from ...analysis.source.stack_nodes import MERGED_STEPS, working_threads
from ...labels import track_label
from ...selection import Selection
from ...service.palette import NEUTRAL, name_styles
from ...trace import Trace
from ...trace.source_lines import LINE
from ...units import format_count, format_ns, format_share
from .drawn import (
    Drawn,
    canvas,
    counts,
    label_axis,
    opacity,
    patches,
    scope,
    shortened,
    source,
    tell,
    time_unit,
    tip_columns,
)

_MOST: Final = 3000
_LEVELS: Final = 40
_LEVEL_PX: Final = 18
_CHARACTERS: Final = 95
"""About as many fit into the width of a tab."""
_METRICS: Final = {"self_ns": "Time on the host", "device_ns": "Device time launched", "count": "Slices"}


def flame_figure(
    trace: Trace,
    selection: Selection,
    *,
    metric: str = "self_ns",
    category: str | None = None,
    by_thread: bool = True,
    order: str = "left_heavy",
    only_my_code: bool = False,
) -> Drawn | None:
    """Draw the stacks of Python frames and operators as an icicle.

    Parameters
    ----------
    trace : Trace
    selection : Selection
        Window, step, phase, category, track and line narrow what is drawn; other names than the selected are
        pale. Without a track, threads are left out on which no operator runs, where there are others.
    metric : {"self_ns", "device_ns", "count"}
        What widths are.
    category : str, optional
        ``python`` or ``operator`` leaves only those frames.
    by_thread : bool
        Whether each thread has a root of its own; of a sandwich none has.
    order : {"left_heavy", "time", "line", "sandwich"}
        As in `analysis.flame`, ``line`` with lines of the user's source as roots; or the callers above and
        the callees below the selected name, as in `analysis.sandwich`, without one of what took most itself.
    only_my_code : bool
        Whether functions of libraries, and what runs inside operators, are folded into what called them.

    Returns
    -------
    Drawn or None
        At most 3,000 nodes, the widest, on 40 levels; the title says what is left out. A click selects a
        name. None where there are no stacks with any of it.

    Raises
    ------
    OptionError
        If there is no such metric or order.
    """
    narrowed = scope(selection, "window", "step", "phase", "category", "track", "line")
    if category is not None:
        narrowed["category"] = category
    if "track" not in narrowed and (threads := working_threads(trace)) is not None:
        narrowed["track"] = threads
    if order == "sandwich":
        return _sandwich(trace, selection, metric, {**narrowed, "only_my_code": only_my_code})
    options: dict[str, Any] = {"by_thread": by_thread, "order": order, "only_my_code": only_my_code}
    if order == "line":
        if not len(trace.slices["line"].cat.categories):
            return None
        options |= {"by_line": True, "order": "left_heavy"}
    table = analysis.flame(trace, metric=metric, **options, **narrowed)
    whole = int(table.loc[table["depth"] == 0, "total"].sum())
    if not whole:
        return None
    title = f"{_METRICS[metric]}: {_amount(whole, metric)}"
    return _widest(trace, table, selection.name, metric, whole, title)


def _sandwich(trace: Trace, selection: Selection, metric: str, narrowed: dict[str, Any]) -> Drawn | None:
    """Draw what called the selected name above it, and below what it called."""
    names = selection.name or sandwich_names(trace, **narrowed)
    table = analysis.sandwich(trace, names, metric=metric, **narrowed)
    if not len(table) or not (whole := int(table["total"].iloc[0])):
        return None
    middle = name_styles(trace).label(str(table["name"].iloc[0]))
    title = f"{_METRICS[metric]} of {shortened(middle, 60)}: {_amount(whole, metric)}"
    return _widest(trace, table, None, metric, whole, title)


def sandwich_names(trace: Trace, **narrowed: Any) -> tuple[str, ...]:
    """Return what a sandwich is of where no name is selected: of what took most itself; empty for nothing."""
    table = analysis.bottom_up(trace, levels=0, **narrowed)
    return tuple(table["name"].head(1)) if len(table) and table["self_ns"].iloc[0] else ()


def _widest(trace: Trace, table: pd.DataFrame, names: Any, metric: str, whole: int, title: str) -> Drawn:
    """Draw the widest boxes; the title says what is left out."""
    depth = table["depth"]
    levels = int(depth.max() - min(int(depth.min()), 0)) + 1
    some = table["total"] > 0
    shown = table[some & (depth.abs() < _LEVELS)].nlargest(_MOST, "total").sort_index()
    if len(shown) < int(some.sum()):
        title += f" · the widest {format_count(len(shown))} of {format_count(int(some.sum()))} stacks"
    if int(depth.abs().max()) >= _LEVELS:
        title += f" · {_LEVELS} of {levels} levels"
    return _draw(shown, names, metric, whole, title, trace)


def _draw(shown: pd.DataFrame, selected: Any, metric: str, whole: int, title: str, trace: Trace) -> Drawn:
    styles = name_styles(trace)
    first = int(shown["depth"].min())
    levels = int(shown["depth"].max()) + 1 - first
    scale, unit = (1.0, "slices") if metric == "count" else time_unit(whole)
    plot = canvas(
        48 + _LEVEL_PX * levels, "xpan,xbox_zoom,xzoom_in,xzoom_out,reset", x_range=Range1d(0, whole / scale),
        y_range=Range1d(first + levels, first), min_border_left=14,
    )  # fmt: skip
    label_axis(plot.xaxis, unit)
    plot.yaxis.visible = False
    plot.ygrid.visible = False
    names = [str(name) for name in shown["name"]]
    start, total, depth = (shown[name].to_numpy() for name in ("start", "total", "depth"))
    room = (total / whole * _CHARACTERS).astype(int).tolist()
    root = shown["category"].isna().tolist()
    labels = [track_label(name) if top else styles.label(name) for top, name in zip(root, names, strict=True)]
    tooltips = {
        "": [shortened(name, 160) for name in names],
        "with what it calls": [_amount(value, metric) for value in total.tolist()],
        "itself": [_amount(value, metric) for value in shown["value"].tolist()],
        "of all": [format_share(value) for value in shown["share"].tolist()],
        "slices": counts(shown["count"]),
    }
    frames = source(
        {
            "left": start / scale,
            "right": (start + total) / scale,
            "top": depth + 0.04,
            "bottom": depth + 0.96,
            "colour": [
                NEUTRAL if top else styles.colour(name) for top, name in zip(root, names, strict=True)
            ],
            "alpha": opacity(names, selected),
            "select": _selecting(trace, names, root),
            "text": [shortened(n, fit) if fit >= 4 else "" for n, fit in zip(labels, room, strict=True)],
            "middle": depth + 0.5,
            **tip_columns(tooltips),
        }
    )
    boxes = plot.quad(
        left="left", right="right", top="top", bottom="bottom", source=frames, fill_color="colour",
        fill_alpha="alpha", line_color=None,
    )  # fmt: skip
    plot.text(
        x="left", y="middle", text="text", source=frames, text_font_size="11px", text_baseline="middle",
        text_color="#000000", x_offset=3,
    )  # fmt: skip
    tell(plot, boxes, tooltips)
    return Drawn(plot, title)


def _selecting(trace: Trace, names: list[str], root: list[bool]) -> list[str]:
    """Return what a click on each box selects: its name; of a line what ran for it; of a thread nothing."""
    lines = set(trace.slices["line"].cat.categories)
    by_name = [None if top or name in MERGED_STEPS else name for name, top in zip(names, root, strict=True)]
    matches = [LINE.fullmatch(name) if top else None for name, top in zip(names, root, strict=True)]
    texts = [f"{match['file']}:{match['line']}" if match else "" for match in matches]
    by_line = patches("line", [text if text in lines else None for text in texts])
    return [line or name for line, name in zip(by_line, patches("name", by_name), strict=True)]


def _amount(value: int, metric: str) -> str:
    return format_count(int(value)) if metric == "count" else format_ns(value)
