"""MegEngine's computing nodes and shapes, as devices, streams and text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...trace.builder import TraceBuilder

_COMP_NODE: Final = re.compile(r'CompNode\("([^"]*)" from "([^"]*)"\)')
_NODE: Final = re.compile(r"([A-Za-z_]+?)(\d{1,4}|x)?(?::(\d{1,9}))?$")


class Nodes:
    """Gives every computing node a stream track; nodes of one physical device share the device number.

    Parameters
    ----------
    builder : TraceBuilder
    physical : mapping of str to str, optional
        Physical node of each logical one, from `physical_nodes`.

    Examples
    --------
    >>> b = TraceBuilder()
    >>> nodes = Nodes(b)
    >>> nodes.track('CompNode("gpu1:0" from "gpux:0")') == nodes.track("gpu1:0")
    True
    >>> b.seal().tracks[["name", "device", "stream"]].values.tolist()
    [['gpu1:0', 1, 0]]
    """

    def __init__(self, builder: TraceBuilder, physical: Mapping[str, str] | None = None) -> None:
        self._builder = builder
        self._physical = physical or {}
        self._devices: dict[tuple[str, str], int] = {}

    def track(self, node: str) -> int:
        """Return the track of a computing node, written in full or short."""
        name = short_name(node)
        match = _NODE.match(self._physical.get(name, name))
        stream = match[3] if match else None
        return self._builder.track(name, "stream", device=self.device(node), stream=int(stream or 0))

    def device(self, node: str) -> int:
        """Return the device number of a computing node."""
        name = short_name(node)
        match = _NODE.match(self._physical.get(name, name))
        kind, number = (match[1], match[2] or "x") if match else (name, "x")
        if (kind, number) not in self._devices:
            numbers = set(self._devices.values())
            index = int(number) if number.isdecimal() else 0
            while index in numbers:
                index += 1
            self._devices[kind, number] = index
        return self._devices[kind, number]


def physical_nodes(texts: Iterable[str]) -> dict[str, str]:
    """Return the physical node of each logical one that texts like ``CompNode("cpu0:0" from "xpux:0")`` name.

    Examples
    --------
    >>> physical_nodes(['CompNode("cpu0:0" from "xpux:0")'])
    {'xpux:0': 'cpu0:0'}
    """
    matches = (_COMP_NODE.search(text) for text in dict.fromkeys(texts))
    return {match[2]: match[1] for match in matches if match}


def short_name(node: str) -> str:
    """Return the physical node's name, where the text tells it.

    Examples
    --------
    >>> short_name('CompNode("cpu0:0" from "xpux:0")'), short_name("xpux:0")
    ('cpu0:0', 'xpux:0')
    """
    match = _COMP_NODE.search(node)
    return match[1] if match else node


def shape_list(text: str) -> str:
    """Return a shape in MegEngine's spelling as a list.

    Examples
    --------
    >>> shape_list("{8,3,32,32}"), shape_list("{}")
    ('[8, 3, 32, 32]', '[]')
    """
    return "[" + ", ".join(part.strip() for part in text.strip("{} ").split(",") if part.strip()) + "]"


def shapes_text(shapes: Any) -> str | None:
    """Write a list of shapes as `slices.shapes` holds them; None for an empty one, and for anything else.

    Examples
    --------
    >>> shapes_text([[8, 3], []])
    '[[8, 3], []]'
    """
    return repr(shapes) if isinstance(shapes, list) and shapes else None
