"""MegEngine's computing nodes and shapes, as devices, streams and text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.nesting import nest
from .rows import Ranges

_COMP_NODE: Final = re.compile(r'CompNode\("([^"]*)" from "([^"]*)"\)')
_NODE: Final = re.compile(r"([A-Za-z_]+?)(\d{1,4}|x)?(?::(\d{1,9}))?$")


class Nodes:
    """Gives every computing node a stream track; nodes of one physical device share the device number."""

    def __init__(self, builder: TraceBuilder, physical: Mapping[str, str] | None = None) -> None:
        self._builder = builder
        # by logical node, from `physical_nodes`
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

    >>> physical_nodes(['CompNode("cpu0:0" from "xpux:0")'])
    {'xpux:0': 'cpu0:0'}
    """
    matches = (_COMP_NODE.search(text) for text in dict.fromkeys(texts))
    return {match[2]: match[1] for match in matches if match}


def short_name(node: str) -> str:
    """Return the physical node's name, where the text tells it.

    >>> short_name('CompNode("cpu0:0" from "xpux:0")'), short_name("xpux:0")
    ('cpu0:0', 'xpux:0')
    """
    match = _COMP_NODE.search(node)
    return match[1] if match else node


def shape_list(text: str) -> str:
    """Return a shape in MegEngine's spelling as a list.

    >>> shape_list("{8,3,32,32}"), shape_list("{}")
    ('[8, 3, 32, 32]', '[]')
    """
    return "[" + ", ".join(part.strip() for part in text.strip("{} ").split(",") if part.strip()) + "]"


def shapes_text(shapes: Any) -> str | None:
    """Write a list of shapes as `slices.shapes` holds them; None for an empty one, and for anything else."""
    return repr(shapes) if isinstance(shapes, list) and shapes else None


# Operators and tensors of MegEngine's timeline, out of the arguments of its events.

_COLUMNS: Final = ("id", "name", "device", "in_shapes", "in_dtypes", "out_shapes", "out_dtypes", "params")


class Operators(NamedTuple):
    """Result of `operators`: `id` and `shapes` have a value for each of the ranges."""

    id: IntArray  # MegEngine's number of the operator; -1 where there is none
    shapes: npt.NDArray[np.object_]  # input shapes of operators on the host, as text
    table: pd.DataFrame  # a row an executed operator; shapes and parameters as JSON text


def operators(ranges: Ranges, category: npt.NDArray[np.object_]) -> Operators:
    """Return numbers, input shapes and parameters of operators."""
    key = np.array([_id(args) for args in ranges.args], np.int64)
    _, parent, _ = nest(ranges.thread, ranges.ts, ranges.dur)
    rows_of_operators = np.flatnonzero(category == "operator")
    # an operator's inputs and outputs are the ranges directly inside its own on the worker's thread
    parts: dict[str, dict[int, list[dict[str, Any]]]] = {"Input ": {}, "Output ": {}}
    for word, args_of_parent in parts.items():
        for i in np.flatnonzero([name.startswith(word) for name in ranges.name]).tolist():
            args_of_parent.setdefault(int(parent[i]), []).append(ranges.args[i])
    shapes = np.full(len(key), None, object)
    rows = []
    for i in rows_of_operators.tolist():
        inputs, outputs = (parts[word].get(i, []) for word in ("Input ", "Output "))
        texts = [_shapes(side) for side in (inputs, outputs)]
        shapes[i] = texts[0]
        args = ranges.args[i]
        own = {name: value for name, value in args.items() if not name.startswith("__")}
        rows.append(
            (
                int(key[i]),
                ranges.name[i],
                short_name(str((inputs or outputs or [{}])[0].get("device", args.get("__device__", "")))),
                texts[0],
                [str(tensor.get("dtype", "")) for tensor in inputs],
                texts[1],
                [str(tensor.get("dtype", "")) for tensor in outputs],
                msgspec.json.encode(own).decode(),
            )
        )
    return Operators(key, shapes, pd.DataFrame(rows, columns=list(_COLUMNS)).astype({"id": "int64"}))


def tensors(ranges: Ranges) -> pd.DataFrame:
    """Return a row a tensor, in order of first appearance."""
    tensors_by_id: dict[int, tuple[Any, ...]] = {}
    for args in ranges.args:
        if "shape" in args and isinstance(args.get("id"), int) and abs(args["id"]) < 1 << 62:
            before = tensors_by_id.get(args["id"])
            # the last one that is not empty: a tensor is named after the operator that made it
            name = str(args.get("name", "")) or (before[0] if before else "")
            elements = args.get("nr_elements")
            tensors_by_id[args["id"]] = (
                name,
                shape_list(str(args["shape"])),
                str(args.get("dtype", "")),
                short_name(str(args.get("device", ""))),
                elements if isinstance(elements, int) and abs(elements) < 1 << 62 else None,
            )
    columns = ["name", "shape", "dtype", "device", "elements"]
    table = pd.DataFrame(list(tensors_by_id.values()), columns=columns).astype({"elements": "Int64"})
    table.insert(0, "tensor", np.fromiter(tensors_by_id, np.int64, len(tensors_by_id)))
    return table


def _shapes(tensors: list[dict[str, Any]]) -> str | None:
    return f"[{', '.join(shape_list(str(t.get('shape', ''))) for t in tensors)}]" if tensors else None


def _id(args: dict[str, Any]) -> int:
    value = args.get("__id__", -1)
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else -1
