"""Operators and tensors of MegEngine's timeline, out of the arguments of its events."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.nesting import nest
from .nodes import shape_list, short_name
from .rows import Ranges

_COLUMNS: Final = ("id", "name", "device", "in_shapes", "in_dtypes", "out_shapes", "out_dtypes", "params")


class Operators(NamedTuple):
    """Result of `operators`, row by row of the ranges.

    Attributes
    ----------
    id : ndarray of int64
        MegEngine's number of the operator; -1 where there is none.
    shapes : ndarray of object
        Input shapes of operators on the host, as text.
    table : DataFrame
        A row an executed operator: ``id name device in_shapes in_dtypes out_shapes out_dtypes params``;
        shapes and parameters as JSON text.
    """

    id: IntArray
    shapes: npt.NDArray[np.object_]
    table: pd.DataFrame


def operators(ranges: Ranges, category: npt.NDArray[np.object_]) -> Operators:
    """Return numbers, input shapes and parameters of operators.

    An operator's inputs and outputs are the ``Input`` and ``Output`` ranges directly inside its range on
    the worker's thread.

    Examples
    --------
    >>> none = Ranges(*(np.empty(0, np.int64),) * 3, [], [], [])
    >>> operators(none, np.empty(0, object)).table.empty
    True
    """
    key = np.array([_id(args) for args in ranges.args], np.int64)
    _, parent, _ = nest(ranges.thread, ranges.ts, ranges.dur)
    rows_of_operators = np.flatnonzero(category == "operator")
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
    """Return a row a tensor, in order of first appearance: ``tensor name shape dtype device elements``.

    The name is the last one that is not empty: a tensor is named after the operator that made it.
    """
    tensors_by_id: dict[int, tuple[Any, ...]] = {}
    for args in ranges.args:
        if "shape" in args and isinstance(args.get("id"), int) and abs(args["id"]) < 1 << 62:
            before = tensors_by_id.get(args["id"])
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
