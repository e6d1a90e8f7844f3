"""The account of the cell as a strip: one rectangle per span, in the colour of its part."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...service.answers import account
from ...service.palette import ACCOUNT
from ...service.store import ViewStore
from ...units import format_items, format_ns
from .scene import FADED, MUTED, ON_COLOUR, RULE, STRIPE, Label, Polyline, Rect, Scene, fit

STRIP: Final = 24
"""Height of the strip with the room below it, pixels."""
_HIGH: Final = 18
_PAD: Final = 4
_HATCH: Final = 6
_FEWEST_LETTERS: Final = 9
_GREYS: Final = {"outside-window": (STRIPE, 1.0), "profiler": (MUTED, 0.6)}


def has_strip(store: ViewStore) -> bool:
    """Return whether the account shows more than the timeline below it."""
    return bool(account(store, {}, {}).content["shown"])


def account_colours(parts: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Return every part's colour and alpha: one per loop of steps, neutral for statements, else greys."""
    counts = dict.fromkeys(ACCOUNT, 0)
    out = []
    for part in parts:
        kind = part["kind"]
        if kind in ACCOUNT:
            out.append((ACCOUNT[kind][counts[kind] % len(ACCOUNT[kind])], 1.0))
            counts[kind] += 1
        else:
            out.append(_GREYS.get(kind, (FADED, 1.0)))
    return out


def account_strip(
    store: ViewStore, scene: Scene, left: float, right: float, start: float, end: float
) -> None:
    """Draw the account in ``[start, end)`` between two edges of a scene, at its top."""
    answer = account(store, {}, {})
    parts, data = answer.content["parts"], answer.arrays()
    colours = account_colours(parts)
    scale = (right - left) / (end - start)
    scene.parts.append(Label(6, 2 + _HIGH / 2, f"account of {format_ns(sum(part['dur'] for part in parts))}"))
    shown = (data["ts"] < end) & (data["ts"] + data["dur"] > start)
    ts, dur = data["ts"][shown], data["dur"][shown]
    x0 = left + (np.maximum(ts, start) - start) * scale
    x1 = left + (np.minimum(ts + dur, end) - start) * scale
    number, steps = data["part"][shown].tolist(), data["steps"][shown].tolist()
    for k, (a, b) in enumerate(zip(x0.tolist(), x1.tolist(), strict=True)):  # at most 1,000 spans
        part, (colour, alpha) = parts[number[k]], colours[number[k]]
        wide = max(b - a - (1 if b - a > 3 else 0), 0.6)
        scene.parts.append(Rect(a, 2, wide, _HIGH, colour, alpha))
        if part["kind"] == "outside-window":
            _draw_hatch(scene, a, a + wide)
        if text := _label(part, steps[k], float(dur[k]), wide - 2 * _PAD):
            ink = ON_COLOUR if part["kind"] in ACCOUNT else MUTED
            scene.parts.append(Label(a + _PAD, 2 + _HIGH / 2, text, ink))


def span_words(part: dict[str, Any], steps: int) -> str:
    """Return the part in words for one of its spans: an interrupted loop has steps in several places."""
    if not steps or steps == part["steps"]:
        return str(part["part"])
    words = {"steps": "", "outside-window": " not recorded"}.get(part["kind"])
    return str(part["part"]) if words is None else format_items(steps, "step") + words


def _label(part: dict[str, Any], steps: int, dur: float, room: float) -> str:
    """Return what ran and for how long, or only what, depending on the space."""
    if part["kind"] in ("not-recorded", "profiler"):
        return ""
    words = span_words(part, steps)
    timed = f"{words} · {format_ns(dur)}"
    for text in ([f"{timed} · {part['text']}"] if part["kind"] == "code" and part["text"] else []) + [timed]:
        if fit(text, room) == text:
            return text
    short = fit(words, room)
    return short if short == words or len(short) >= _FEWEST_LETTERS else ""


def _draw_hatch(scene: Scene, left: float, right: float) -> None:
    for x in np.arange(left - left % _HATCH + _HATCH, right, _HATCH).tolist():
        across = min(_HIGH, x - left)
        scene.parts.append(Polyline(np.array([x, x - across]), np.array([2, 2 + across]), RULE))
