"""The four views as scenes, from the same answers as the live views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...selection import Selection
from ...service.answers import memory, phases, table, timeline_picture
from ...service.columns import labels_without_heading
from ...service.palette import MEMORY, NAMES, PHASES
from ...service.store import ViewStore
from ...trace import PHASES as PHASE_NAMES
from ...units import (
    CLOCK_FROM_NS,
    byte_ticks,
    format_bytes,
    format_clock,
    format_count,
    format_ns,
    format_share,
)
from .account import STRIP, account_strip, has_strip
from .scene import FADED, INK, MUTED, ON_COLOUR, RULE, STRIPE, Label, Polyline, Rect, Scene, fit

_S, _MIN, _H, _DAY = 10**9, 60 * 10**9, 3600 * 10**9, 24 * 3600 * 10**9
_STEPS_NS: Final = (
    *(count * 10**power for power in range(-3, 9) for count in (1, 2, 5)),
    *(count * unit for unit in (_S, _MIN) for count in (1, 2, 5, 10, 15, 20, 30)),
    *(count * _H for count in (1, 2, 3, 6, 12)),
    *(count * 10**power * _DAY for power in range(9) for count in (1, 2, 5)),
)


def tick_step_ns(least_ns: float) -> float:
    """Return the shortest round distance between ticks that is at least `least_ns`."""
    return float(next(step for step in _STEPS_NS if step >= least_ns))


GUTTER: Final = 150
MARGIN: Final = 14
LANE: Final = 16
EMPTY: Final = 30
"""Height of a picture that only says what is missing."""

_MOST_LANES: Final = 120
_MOST_ROWS: Final = 30
_TICKS: Final = 6
_LEVELS: Final = 5


def timeline(store: ViewStore, selection: Selection, width: int, most_lanes: int = _MOST_LANES) -> Scene:
    """Draw the account, and tracks over time, one lane per depth; unselected slices are grey."""
    c, (start, end) = store.columns, _window(store, selection)
    if not c.n_rows:
        return _nothing(width, "nothing was recorded")
    shown, places = c.shown_rows, c.places
    rows = min(len(shown), most_lanes)
    top = STRIP if has_strip(store) else 0
    lanes = 30 + top
    scene = Scene(width, 34 + top + LANE * (rows + (rows < len(shown))))
    room = width - GUTTER - MARGIN
    answer = timeline_picture(
        store,
        {**selection.to_state(), "window": None},
        {"a": start, "b": end, "px": room, "rows": shown[:rows].tolist()},
    )
    content, data = answer.content, answer.arrays()
    if top:
        account_strip(store, scene, GUTTER, width - MARGIN, start, end)
    time_axis(scene, start, end, 26 + top)
    if content["mode"] == "dense":
        _density(scene, content, data, rows, start, room / (end - start), lanes)
    scale = room / (end - start)
    x0 = GUTTER + (np.maximum(data["x0"], start) - start) * scale
    x1 = GUTTER + (np.minimum(data["x0"] + data["dur"], end) - start) * scale
    for k in range(len(x0)):  # at most 4,000: the slices that a picture shows one by one
        colour = NAMES[int(data["tint"][k]) % len(NAMES)] if data["match"][k] else FADED
        y = lanes + LANE * float(data["slot"][k])
        wide = max(float(x1[k] - x0[k]) - 0.4, 0.6)
        scene.parts.append(Rect(float(x0[k]), y + 1, wide, LANE - 2, colour))
        if text := fit(store.name_styles.labels[int(data["name"][k])], wide - 6):
            scene.parts.append(
                Label(float(x0[k]) + 3, y + LANE / 2, text, ON_COLOUR if data["match"][k] else MUTED)
            )
    for track, label in zip(c.tracks, labels_without_heading(c.tracks), strict=True):
        if (place := int(places[track.first_row])) < rows:
            y = lanes + LANE * place
            scene.parts.append(Rect(0, y - 0.5, width, 0.5, RULE))
            scene.parts.append(Label(6, y + LANE / 2, fit(label, GUTTER - 12)))
    if rows < len(shown):
        more = f"the first {rows} of {format_count(len(shown))} rows are drawn"
        scene.parts.append(Label(GUTTER, lanes + LANE * rows + LANE / 2, more, MUTED))
    return scene


def operators(store: ViewStore, selection: Selection, width: int) -> Scene:
    """Draw the longest operators and kernels under the selection, at most 30."""
    answer = table(store, selection.to_state(), {"by": "name", "top": _MOST_ROWS})
    data, labels = answer.arrays(), answer.content["label"]
    if not labels:
        return _nothing(width, "no operators in this selection")
    device = bool(data["device_ns"].any())
    heads = ("count", "total", "self", *(("device",) if device else ()), "share")
    right = [width - MARGIN - 84 * k for k in range(len(heads))][::-1]
    scene = Scene(width, 28 + LANE * (len(labels) + 1))
    scene.parts.append(Label(10, 14, "name", MUTED))
    scene.parts += [Label(x, 14, head, MUTED, "end") for x, head in zip(right, heads, strict=True)]
    for k, label in enumerate(labels):
        y = 24 + LANE * k + LANE / 2
        if k % 2:
            scene.parts.append(Rect(0, y - LANE / 2, width, LANE, STRIPE))
        code = int(data["name"][k])
        scene.parts.append(Rect(10, y - 4, 8, 8, NAMES[int(store.name_styles.codes[code])]))
        cells = (
            format_count(int(data["count"][k])),
            format_ns(float(data["total_ns"][k])),
            format_ns(float(data["self_ns"][k])),
            *((format_ns(float(data["device_ns"][k])) if data["device_ns"][k] else "",) if device else ()),
            format_share(float(data["share"][k])),
        )
        ink = INK if selection.name is None or label in selection.name else MUTED
        scene.parts.append(Label(24, y, fit(store.name_styles.labels[code], right[0] - 80), ink))
        scene.parts += [Label(x, y, cell, ink, "end") for x, cell in zip(right, cells, strict=True)]
    more = answer.content["rows"] - len(labels)
    if more > 0:
        scene.parts.append(Label(24, scene.height - 10, f"and {format_count(more)} more", MUTED))
    return scene


def memory_curve(store: ViewStore, selection: Selection, width: int) -> Scene:
    """Draw allocated and reserved memory of the device with the highest peak."""
    start, end = _window(store, selection)
    room, base, top = width - GUTTER - MARGIN, 154, 20
    answer = memory(store, selection.to_state(), {"a": start, "b": end, "px": room})
    if answer.content["device"] is None:
        return _nothing(width, "no memory was recorded")
    scene = Scene(width, 180)
    data, high = answer.arrays(), max(answer.content["highest"], 1.0)

    def curve_points(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        at = GUTTER + (np.clip(x, start, end) - start) / (end - start) * room
        level = base - (base - top) * y / high
        return np.repeat(at, 2)[1:], np.repeat(level, 2)[:-1]  # a value holds until the next one

    step = 2.0 ** max(0, np.ceil(np.log2(high / _LEVELS)))
    levels = np.arange(0, high + 1, step).tolist()
    for level, text in zip(levels, byte_ticks(levels), strict=True):
        y = base - (base - top) * level / high
        scene.parts.append(Rect(GUTTER, y, room, 0.5, RULE))
        scene.parts.append(Label(GUTTER - 6, y, text, MUTED, "end"))
    peak = answer.content["peak"]
    resident = answer.content["device"] == -1 and store.resident is not None
    chosen = answer.content["part"] == "selection"
    where = "host" if answer.content["device"] < 0 else f"GPU {answer.content['device']}"
    scene.parts.append(Label(6, 20, f"memory, {where}"))
    legend = [(f"peak {format_bytes(peak['bytes'])}", MEMORY["peak"])]
    for names, what, colour in (
        (("rx", "ry"), "at the start" if resident else "reserved", MEMORY["reserved"]),
        (("x", "y"), "resident" if resident else "allocated", MEMORY["allocated"]),
        (("sx", "sy"), "selected" if chosen else "blocks", MEMORY["selected"]),
    ):
        if len(data[names[0]]):
            points = curve_points(data[names[0]], data[names[1]])
            scene.parts.append(Polyline(*points, colour, names[0] == "rx"))
            legend.append((what, colour))
    for k, (what, colour) in enumerate(legend):
        scene.parts += [Rect(6, 33 + 15 * k, 7, 7, colour), Label(18, 37 + 15 * k, what, MUTED)]
    if start <= peak["ts"] <= end:
        at = GUTTER + (peak["ts"] - start) / (end - start) * room
        y = base - (base - top) * peak["bytes"] / high
        scene.parts.append(Rect(at - 3, y - 3, 6, 6, MEMORY["peak"]))
    time_axis(scene, start, end, base + 12)
    return scene


def phase_bars(store: ViewStore, selection: Selection, width: int) -> Scene:
    """Draw a bar per step, divided into its phases; unselected steps are pale."""
    answer = phases(store, selection.to_state(), {})
    bars, data = answer.content["bars"], answer.arrays()
    if not bars:
        return _nothing(width, "no steps were found")
    scene = Scene(width, 220)
    total = data["total"].reshape(bars, -1)
    high, base, top = max(float(total.sum(axis=1).max()), 1.0), 192, 36
    wide = (width - 80 - MARGIN) / bars
    for level in np.arange(0, high + 1, tick_step_ns(high / _LEVELS)).tolist():
        y = base - (base - top) * level / high
        scene.parts.append(Rect(80, y, width - 80 - MARGIN, 0.5, RULE))
        scene.parts.append(Label(74, y, format_ns(level) if level else "0", MUTED, "end"))
    for k in range(bars):
        x, y = 80 + wide * k, float(base)
        lit = selection.step is None or int(data["first"][k]) in selection.step
        for name, ns in zip(PHASE_NAMES, total[k].tolist(), strict=True):
            tall = (base - top) * ns / high
            y -= tall
            if tall > 0:
                bright = lit and (selection.phase is None or name in selection.phase)
                alpha = 1.0 if bright else 0.25
                scene.parts.append(Rect(x + 0.08 * wide, y, 0.84 * wide, tall, PHASES[name], alpha))
        if k % max(1, -(-bars // 20)) == 0:
            scene.parts.append(Label(x + wide / 2, base + 12, str(int(data["first"][k])), MUTED, "middle"))
    x = 80.0
    for name, ns in zip(PHASE_NAMES, total.sum(axis=0).tolist(), strict=True):
        if ns:
            text = f"{name} {format_share(ns / max(float(total.sum()), 1.0))}"
            scene.parts += [Rect(x, 12, 9, 9, PHASES[name]), Label(x + 14, 16, text)]
            x += 30 + 6 * len(text)
    return scene


VIEWS: Final[dict[str, Callable[[ViewStore, Selection, int], Scene]]] = {
    "timeline": timeline,
    "operators": operators,
    "memory": memory_curve,
    "phases": phase_bars,
}


def _nothing(width: int, text: str) -> Scene:
    """Draw one line that says what is missing."""
    return Scene(width, EMPTY, [Label(10, EMPTY / 2, text, MUTED)])


def _window(store: ViewStore, selection: Selection) -> tuple[float, float]:
    start, end = selection.window or store.trace.span
    return float(start), float(max(end, start + 1))


def time_axis(scene: Scene, start: float, end: float, y: float) -> None:
    """Draw ticks and times between the gutter and the margin of a scene."""
    room = scene.width - GUTTER - MARGIN
    step = tick_step_ns((end - start) / _TICKS)
    as_clock = end >= CLOCK_FROM_NS
    for tick in np.arange(np.ceil(start / step) * step, end, step).tolist():
        x = GUTTER + (tick - start) / (end - start) * room
        scene.parts.append(Rect(x, y - 12 if y > 100 else y - 4, 0.7, 4, MUTED))
        text = format_clock(tick, step, end) if as_clock else format_ns(tick)
        scene.parts.append(Label(x, y if y > 100 else y - 12, text if tick else "0", MUTED, "middle"))


def _density(
    scene: Scene,
    content: dict[str, Any],
    data: dict[str, npt.NDArray[Any]],
    rows: int,
    start: float,
    scale: float,
    top: float,
) -> None:
    bins = content["bins"]
    busy, bright, tint = (data[name].reshape(rows, bins) for name in ("busy", "bright", "dtint"))
    wide = content["bin_ns"] * scale
    for row in range(rows):
        # equal neighbours form one rectangle
        look = (tint[row].astype(np.int64) * 4 + busy[row] // 86 + 1) * 2 + (bright[row] > 0)
        look = np.where(busy[row] > 0, look, 0)
        heads = np.flatnonzero(np.append(True, look[1:] != look[:-1]))
        stops = np.append(heads[1:], bins)
        for a, b in zip(heads.tolist(), stops.tolist(), strict=True):
            if look[a]:
                x = GUTTER + (content["bin_start"] + a * content["bin_ns"] - start) * scale
                colour = NAMES[int(tint[row, a]) % len(NAMES)] if bright[row, a] else FADED
                alpha = min(1.0, 0.45 + 0.55 * float(busy[row, a]) / 255)
                left = max(x, GUTTER)
                width = max(x + wide * (b - a) - left, 0.5)
                scene.parts.append(Rect(left, top + 1 + LANE * row, width, LANE - 2, colour, alpha))
