"""The source line of each slice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace, inherit
from ...trace.arrays import IntArray
from ..scope import ints

_NAMES: Final = (
    re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.+)"),  # torch: file.py(12): f
    re.compile(r"(?P<function>.+) \((?P<file>.+):(?P<line>\d+)\)"),  # VizTracer: f (file.py:12)
)


@dataclass(frozen=True, slots=True)
class Frames:
    """Distinct frames (`file` is empty and `line` -1 if unknown); `code` is the frame of every slice."""

    code: IntArray
    function: npt.NDArray[np.object_]
    file: npt.NDArray[np.object_]
    line: IntArray


def frames(trace: Trace) -> Frames:
    """Find the function and source line of every slice."""
    # It is the innermost frame of the slice's own stack; for a Python slice without a stack, its name
    # (``file.py(12): f`` or ``f (file.py:12)``); for anything else, the frame of the nearest slice around it.
    # A slice without any of these counts as a function with the slice's name.
    slices, stacks = trace.slices, trace.stacks
    words = [str(name) for name in slices["name"].cat.categories]
    parsed = [_parse(word) for word in words]
    name_code = slices["name"].cat.codes.to_numpy().astype(np.int64)
    python = (slices["category"] == "python").to_numpy()
    code = _stack_rows(slices["stack"], stacks)
    own = (code < 0) & python & (name_code >= 0)
    code[own] = len(stacks) + name_code[own]
    code = inherit(ints(slices["parent"]), code)
    lost = code < 0
    code[lost] = len(stacks) + name_code[lost]
    return Frames(
        code,
        np.array([*stacks["name"], *(name for name, _, _ in parsed)], dtype=object),
        np.array([*stacks["file"], *(file for _, file, _ in parsed)], dtype=object),
        np.concatenate([ints(stacks["line"]), np.array([line for _, _, line in parsed], dtype=np.int64)]),
    )


def _stack_rows(stack: pd.Series[int], stacks: pd.DataFrame) -> IntArray:
    """Return the row of `stacks` for each slice; -1 without a stack."""
    keys = stacks["stack"].to_numpy()
    row_of = np.full(1 + int(keys.max(initial=0)) + 1, -1, dtype=np.int64)
    row_of[keys] = np.arange(len(keys))
    return row_of[ints(stack)]  # -1 reads the last entry, which belongs to no stack


def _parse(name: str) -> tuple[str, str, int]:
    for pattern in _NAMES:
        if match := pattern.fullmatch(name):
            return match["function"], match["file"], int(match["line"])
    return name, "", -1
