"""The icicle: stacks from the top down, each as wide as its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from bokeh.models import Range1d
from bokeh.plotting import figure

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
"""Maximum number of characters, about the width of a tab."""
LONGER, AS_LONG, SHORTER, NEW = "#e0705f", "#dddddd", "#4fb39a", "#88b4e7"
"""Colours of a difference; black text is legible on each."""
_METRICS: Final = {"self_ns": "Time on the host", "device_ns": "Device time launched", "count": "Slices"}
_WHOLES: Final = {"self_ns": "of thread time", "device_ns": "of device time", "count": "of all slices"}


def flame_figure(
    trace: Trace,
    selection: Selection,
    *,
    metric: str = "self_ns",
    category: str | None = None,
    by_thread: bool = True,
    order: str = "left_heavy",
    fold_libraries: bool = False,
) -> Drawn | None:
    """Draw the stacks as an icicle: the widest 3,000 nodes on at most 40 levels; None without stacks.

    A click selects a name. `order` is as in `analysis.flame`, or ``line`` with the user's lines as roots, or
    ``sandwich`` for the selected name. OptionError for an unknown metric or order.
    """
    # Without a selected track, threads without operators are left out, if other threads have some.
    narrowed = scope(selection, "window", "step", "phase", "category", "track", "line")
    if category is not None:
        narrowed["category"] = category
    if "track" not in narrowed and (threads := working_threads(trace)) is not None:
        narrowed["track"] = threads
    if order == "sandwich":
        return _sandwich(trace, selection, metric, {**narrowed, "fold_libraries": fold_libraries})
    options: dict[str, Any] = {"by_thread": by_thread, "order": order, "fold_libraries": fold_libraries}
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
    """Draw the callers of the selected name above it, and its callees below."""
    names = selection.name or sandwich_names(trace, **narrowed)
    table = analysis.sandwich(trace, names, metric=metric, **narrowed)
    if not len(table) or not (whole := int(table["total"].iloc[0])):
        return None
    middle = name_styles(trace).label(str(table["name"].iloc[0]))
    title = f"{_METRICS[metric]} of {shortened(middle, 60)}: {_amount(whole, metric)}"
    return _widest(trace, table, None, metric, whole, title)


def sandwich_names(trace: Trace, **narrowed: Any) -> tuple[str, ...]:
    """Return the default name for a sandwich, the one with most self time; empty if there is none."""
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
    names = [str(name) for name in shown["name"]]
    root = shown["category"].isna().tolist()
    labels = [track_label(name) if top else styles.label(name) for top, name in zip(root, names, strict=True)]
    total = shown["total"]
    tooltips = {
        "": [shortened(name, 160) for name in names],
        "with what it calls": [_amount(value, metric) for value in total.tolist()],
        "itself": [_amount(value, metric) for value in shown["value"].tolist()],
        _WHOLES[metric]: [format_share(value) for value in shown["share"].tolist()],
        "slices": counts(shown["count"]),
    }
    looks = {
        "colour": [NEUTRAL if top else styles.colour(name) for top, name in zip(root, names, strict=True)],
        "alpha": opacity(names, selected),
        "select": _selecting(trace, names, root),
    }
    scale = (1.0, "slices") if metric == "count" else time_unit(whole)
    return Drawn(_icicle(shown, whole, scale, labels, looks, tooltips), title)


def flame_difference(table: pd.DataFrame, title: str, labels: Sequence[str]) -> Drawn:
    """Draw an icicle as wide as one recording, coloured by its difference from another."""
    # Red took longer than in the other recording, green took less; grey is the same, blue is new.
    # `table` has ``name depth start total`` in ns, ``before`` (time in the other recording, NaN if it has
    # none) and ``select``.
    total, before = (table[name].to_numpy(np.float64) for name in ("total", "before"))
    most = np.fmax(np.fmax(total, before), 1.0)
    change = np.clip((total - before) / most, -1.0, 1.0)
    new = np.isnan(before)
    whole = int(total[table["depth"].to_numpy() == 0].sum())
    tooltips = {
        "": [shortened(name, 160) for name in table["name"]],
        "per step": [format_ns(value) for value in total.tolist()],
        "before": ["" if value != value else format_ns(value) for value in before.tolist()],
        "more": [format_ns(x) if x > 0 else "" for x in (total - before).tolist()],
        "less": [format_ns(-x) if x < 0 else "" for x in (total - before).tolist()],
    }
    looks = {
        "colour": [NEW if gone else _between(x) for gone, x in zip(new, change.tolist(), strict=True)],
        "alpha": np.ones(len(table)),
        "select": table["select"].tolist(),
    }
    legend = {"longer": _between(1.0), "as long": _between(0.0), "shorter": _between(-1.0), "new": NEW}
    return Drawn(_icicle(table, whole, time_unit(whole), labels, looks, tooltips), title, legend)


def _between(change: float) -> str:
    """Return a colour between as long (0) and twice as long, or half (1, -1)."""
    share = min(1.0, abs(2 * change)) ** 0.7
    end = LONGER if change > 0 else SHORTER
    return "#" + "".join(
        f"{round(int(same, 16) + share * (int(far, 16) - int(same, 16))):02x}"
        for same, far in ((AS_LONG[i : i + 2], end[i : i + 2]) for i in (1, 3, 5))
    )


def _icicle(
    shown: pd.DataFrame,
    whole: int,
    scaled: tuple[float, str],
    labels: Sequence[str],
    looks: Mapping[str, Any],
    tooltips: Mapping[str, Sequence[str]],
) -> figure:
    """Return boxes as wide as their totals, with names where they fit."""
    scale, unit = scaled
    first = int(shown["depth"].min())
    levels = int(shown["depth"].max()) + 1 - first
    plot = canvas(
        48 + _LEVEL_PX * levels, "xpan,xbox_zoom,xzoom_in,xzoom_out,reset", x_range=Range1d(0, whole / scale),
        y_range=Range1d(first + levels, first), min_border_left=14,
    )  # fmt: skip
    label_axis(plot.xaxis, unit)
    plot.yaxis.visible = False
    plot.ygrid.visible = False
    start, total, depth = (shown[name].to_numpy() for name in ("start", "total", "depth"))
    room = (total / whole * _CHARACTERS).astype(int).tolist()
    frames = source(
        {
            "left": start / scale,
            "right": (start + total) / scale,
            "top": depth + 0.04,
            "bottom": depth + 0.96,
            **looks,
            "text": [shortened(n, fit) if fit >= 4 else "" for n, fit in zip(labels, room, strict=True)],
            "label": list(labels),  # the page fits them to the visible part: js/src/tabs/fitted_labels.js
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
    return plot


def _selecting(trace: Trace, names: list[str], root: list[bool]) -> list[str]:
    """Return what a click on each box selects: its name; for a line, its work; for a thread, nothing."""
    lines = set(trace.slices["line"].cat.categories)
    by_name = [None if top or name in MERGED_STEPS else name for name, top in zip(names, root, strict=True)]
    matches = [LINE.fullmatch(name) if top else None for name, top in zip(names, root, strict=True)]
    texts = [f"{match['file']}:{match['line']}" if match else "" for match in matches]
    by_line = patches("line", [text if text in lines else None for text in texts])
    return [line or name for line, name in zip(by_line, patches("name", by_name), strict=True)]


def _amount(value: int, metric: str) -> str:
    return format_count(int(value)) if metric == "count" else format_ns(value)
