"""What pages ask a widget, sound and damaged."""

from __future__ import annotations

import random
from typing import Any, Final

TABS: Final = (
    *("overview", "lines", "kernels", "memory", "steps", "input"),
    *("distributed", "device", "flame", "layers", "roofline", "advice"),
)

DAMAGED: Final[tuple[dict[str, Any], ...]] = (
    {"t": "nonsense"},
    {"t": None},
    {"t": ["timeline"]},
    {"t": {}},
    {},
    {"t": "timeline"},
    {"t": "timeline", "a": "x", "b": []},
    {"t": "timeline", "a": 0, "b": 1e308, "px": -5},
    {"t": "timeline", "a": 0, "b": 1e9, "rows": "rows", "px": "wide"},
    {"t": "strip", "px": 10**9},
    {"t": "detail", "id": 10**30},
    {"t": "detail", "id": "first"},
    {"t": "table", "by": "nothing", "sort": 5},
    {"t": "table", "filter": "/(/", "start": -7, "top": "all"},
    {"t": "panel", "name": "nothing"},
    {"t": "panel", "name": "flame", "top": "many", "own": 5},
    {"t": "select", "patch": {"nothing": [1]}, "origin": "page"},
    {"t": "select", "patch": {"window": ["a", None]}, "revision": "last"},
    {"t": "select", "patch": 5},
    {"t": "select", "patch": {"step": [1]}, "revision": "last"},
    {"t": "select", "patch": {"step": {"a": 1}}, "origin": ["page"]},
    {"t": "search", "text": "/(", "px": 0},
    {"t": "search", "text": 5, "at": "end"},
    {"t": "find", "id": "x", "by": {}},
    {"t": "neighbour", "id": -5, "to": "nowhere", "row": 10**12},
    {"t": "names", "start": -(10**20)},
    {"t": "counters", "a": 0, "b": 1, "tracks": [None]},
    {"t": "memory", "a": 0, "b": -1, "device": "none"},
    {"t": "meta", "seq": {"deep": [[[]]]}},
)
"""Messages that no page of ours sends."""


SHAPELESS: Final[tuple[Any, ...]] = (5, None, [], "text", {"t": "several"}, {"t": "several", "messages": 5})
"""Messages that hold no question; there is nobody to answer."""


def opening(draw: random.Random) -> list[dict[str, Any]]:
    """What a page asks when it begins: here too the first picture comes last, and lets late work begin."""
    first: list[dict[str, Any]] = [{"t": "bokehjs"}] if draw.random() < 0.1 else []
    return [
        *first,
        {"t": "start"},
        {"t": "meta", "doubts": "later"},
        {"t": "names", "start": 0},
        {"t": "timeline", "a": 0, "b": 10**9, "px": 900},
    ]


def tabs() -> list[dict[str, Any]]:
    """All of them, one after the other."""
    return [{"t": "panel", "name": name} for name in TABS]


def questions(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Gestures of a user and looks of a page, with some damaged messages among them."""
    begin = draw.randrange(10**9)
    window = {"a": begin, "b": begin + draw.randrange(1, 10**9), "px": draw.randrange(1, 2000)}
    sound: list[dict[str, Any]] = [
        {"t": "timeline", **window, "rows": [0, 1], "tint": draw.choice(["name", "phase", "category"])},
        {"t": "strip", "px": 300},
        {"t": "account"},
        {"t": "doubts"},
        {"t": "phases"},
        {"t": "memory", **window},
        {"t": "counters", **window, "tracks": [0, 1, 2, 3]},
        {"t": "table", "by": draw.choice(["name", "module", "phase", "category", "shapes"]), "top": 50},
        {"t": "table", "by": "name", "filter": draw.choice(["mm", "self>1us", "/crunch|sort/", "step=3"])},
        {"t": "search", "text": draw.choice(["mm", "crunch", "/a+/", "total>1ms"]), "px": 200, "at": 0},
        {"t": "detail", "id": draw.randrange(200)},
        {"t": "find", "id": draw.randrange(200), "by": draw.choice([1, -1])},
        {"t": "neighbour", "id": draw.randrange(200), "to": "next", "row": 0, "at": 0},
        {"t": "panel", "name": draw.choice(TABS)},
        {"t": "panel", "name": draw.choice(TABS), "own": ["name"]},
        {"t": "select", "patch": {"step": [draw.randrange(9)]}, "origin": "phases", "revision": 0},
        {"t": "select", "patch": {"name": ["crunch (cell)"]}, "origin": "table", "revision": 1},
        {"t": "select", "patch": {"window": [begin, begin + 10**8]}, "origin": "timeline"},
        {"t": "select", "patch": {"step": None, "name": None, "window": None}, "origin": "header"},
    ]
    return [draw.choice(DAMAGED if draw.random() < 0.25 else sound) for _ in range(count)]
