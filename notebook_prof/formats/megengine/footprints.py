"""The work of MegEngine's operators in dynamic graphs, by MegEngine's own formulas."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

_BYTES: Final = {
    "Float32": 4,
    "Int32": 4,
    "Float16": 2,
    "Int16": 2,
    "Int8": 1,
    "Uint8": 1,
    "Bool": 1,
    "Int64": 8,
}
Shape: TypeAlias = tuple[int, ...]
_NEEDED: Final = ("id", "name", "in_shapes", "out_shapes")
_PLAIN: Final = re.compile(
    "Elemwise|ADD|SUB|MUL|TRUE_DIV|FLOOR_DIV|MAX|MIN|MOD|POW|RELU|SIGMOID|TANH|EXP|LOG|ABS|NEGATE|SQRT|ERF|GELU"
    "|SILU|EQ|LT|LEQ|SWITCH_GT0|COND_LEQ_MOV|FUSE_MUL_ADD3|FUSE_ADD_RELU|H_SWISH|CEIL|FLOOR|ROUND|SIN|COS|SQUARE"
    "|SIGN"
)
"""Elementwise modes, which serve as the names of these operators."""


def footprints(table: pd.DataFrame) -> pd.DataFrame:
    """Add ``flop_count`` and ``memory_bytes`` (NaN without a formula) to the operators of a dynamic graph."""
    # MegEngine's own ``opr_footprint``. Elementwise: elements of the output × (inputs − 1), at least 1 each.
    # Convolution and each of its gradients: elements of the forward's output × those of one filter × 2.
    # Matrix product: 2·m·n·k. Memory: bytes of all inputs and outputs; for a gradient, those of the forward.
    keys = [name for name in (*_NEEDED[1:], "in_dtypes", "out_dtypes") if name in table]
    texts = table[keys].astype(str).fillna("")
    code = texts.groupby(keys, sort=False).ngroup().to_numpy()
    first = pd.Series(np.arange(len(table))).groupby(code).first().to_numpy()
    each = [_footprint(table.iloc[int(row)]) for row in first]
    work = np.array(each, dtype=np.float64).reshape(-1, 2)
    return table.assign(flop_count=work[code, 0], memory_bytes=work[code, 1])


def with_footprints(table: pd.DataFrame) -> pd.DataFrame:
    """Add `footprints` to a table of operators that has the necessary columns and no figures of its own."""
    return footprints(table) if set(_NEEDED) <= set(table.columns) and "flop_count" not in table else table


def _footprint(row: Any) -> tuple[float, float]:
    inputs, made = _shapes(row["in_shapes"]), _shapes(row["out_shapes"])
    if inputs is None or not made:
        return np.nan, np.nan
    bytes_moved = _bytes_of(inputs, row.get("in_dtypes")) + _bytes_of(made, row.get("out_dtypes"))
    out = math.prod(made[0])
    name = str(row["name"])
    if name in ("MatrixMul", "BatchedMatrixMul") and len(inputs) > 1:
        # out is m·n, the two inputs m·k and k·n of each matrix of the batch
        batch = math.prod(made[0][:-2])
        inner = math.sqrt(math.prod(inputs[0]) * math.prod(inputs[1]) / max(out * batch, 1))
        return 2.0 * out * round(inner), bytes_moved
    if name.startswith("Convolution") and len(inputs) > 1:
        weights, result = _convolution(name, inputs, made[0])
        three = _bytes_of([*inputs[:2], made[0]], _first_types(row))
        return 2.0 * math.prod(result) * math.prod(weights[-3:]), three
    if _PLAIN.fullmatch(name):
        return float(out * (max(len(inputs), 2) - 1)), bytes_moved
    return np.nan, bytes_moved


def _convolution(name: str, inputs: list[Shape], made: Shape) -> tuple[Shape, Shape]:
    """Return the shapes of the filter and of the forward's output, for a convolution or a gradient of one."""
    if "BackwardData" in name:
        return inputs[0], inputs[1]
    return (made, inputs[1]) if "BackwardFilter" in name else (inputs[1], made)


def _first_types(row: Any) -> list[Any] | None:
    """Return the types of two inputs and the output."""
    inputs, made = row.get("in_dtypes"), row.get("out_dtypes")
    return [*inputs[:2], made[0]] if isinstance(inputs, list) and isinstance(made, list) and made else None


def _shapes(value: Any) -> list[Shape] | None:
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
        return [tuple(int(size) for size in shape) for shape in parsed]
    except (TypeError, ValueError):
        return None


def _bytes_of(shapes: list[Shape], dtypes: Any) -> float:
    words = dtypes if isinstance(dtypes, list | tuple) and len(dtypes) == len(shapes) else [""] * len(shapes)
    return float(sum(math.prod(s) * _BYTES.get(str(w), 4) for s, w in zip(shapes, words, strict=True)))
