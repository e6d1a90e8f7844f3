"""Inputs of operators: element types, values, kernels to launch, and stacks and modules as text."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.strings import Coded
from ..event_arguments import argument_rows
from ..event_arguments import argument_table as event_argument_table
from .activity_types import concrete_matters
from .columns import KinetoColumns

_BACKEND_MARKS: Final = ("kernel_backend", "kernel_hash")
_BACKEND_KEYS: Final = (*_BACKEND_MARKS, "kernel_file", "kernel_kwargs", "num_warps", "num_stages", "grid")
_LINE: Final = re.compile(r"\((\d{1,9})\): ")
_LEVEL: Final = re.compile(r"(?:^|\.)([^.():]+)\([^()]*\)::[^.()]+")
_NO_LEVEL: Final = frozenset({"top", "self"})


def to_json(value: Any) -> str:
    """Return a list of texts as JSON, always in the same spelling.

    >>> to_json(["float", "Scalar"])
    '["float","Scalar"]'
    """
    return msgspec.json.encode(value).decode()


def argument_table(columns: KinetoColumns) -> pd.DataFrame:
    """Return the distinct combinations of operators and their inputs, in order of first appearance."""
    # `dtypes` and `concrete` are JSON lists of texts, one per argument, `strides` is a JSON list of lists of
    # numbers; unknown ones are missing. Calls of convolutions, pooling and attention with different
    # `concrete` are separate rows. For other operators, `concrete` is that of one call of the row, and so is
    # `strides` for all operators. There are no rows if shapes were not recorded.
    parts = {"name": columns.name, "shapes": columns.shapes, "dtypes": columns.dtypes}
    rows = np.empty(0, int)
    if columns.shapes is not None:
        rows = np.flatnonzero(np.asarray(columns.shapes.codes) >= 0)
    key = np.zeros(len(rows), np.int64)
    values = _codes(columns.concrete, rows)
    matters = np.append([concrete_matters(name) for name in columns.name.values], False).astype(bool)
    for own in (
        *(_codes(part, rows) for part in parts.values()),
        np.where(matters[_codes(columns.name, rows)], values, -1),
    ):
        key, _ = pd.factorize(key * (int(own.max(initial=-1)) + 2) + own + 1)
    _, first, group, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    texts = {name: _texts(part, rows[first]) for name, part in parts.items()}
    texts["concrete"] = _texts_of_any(columns.concrete, values, group, len(first))
    texts["count"] = pd.Series(count.astype(np.int64))
    texts["strides"] = _texts_of_any(columns.strides, _codes(columns.strides, rows), group, len(first))
    return pd.DataFrame(texts)


def _codes(part: Coded | None, rows: IntArray) -> IntArray:
    if part is None:
        return np.full(len(rows), -1, np.int64)
    return np.asarray(part.codes, np.int64)[rows]


def _texts(part: Coded | None, rows: IntArray) -> pd.Series[Any]:
    return _words(part, _codes(part, rows))


def _texts_of_any(part: Coded | None, codes: IntArray, group: IntArray, groups: int) -> pd.Series[Any]:
    """Return, for each group, the first text among its rows."""
    rows = np.flatnonzero(codes >= 0)
    group_of, at = np.unique(group[rows], return_index=True)
    of_groups = np.full(groups, -1, np.int64)
    of_groups[group_of] = codes[rows[at]]
    return _words(part, of_groups)


def _words(part: Coded | None, codes: IntArray) -> pd.Series[Any]:
    words = np.array([*(part.values if part is not None else ()), None], dtype=object)
    return pd.Series(words[codes], dtype=object)


def compiled_arguments(columns: KinetoColumns, track: IntArray) -> pd.DataFrame | None:
    """Return rows of ``event_arguments`` for operators that launch a kernel of a backend such as Triton."""
    # `arguments` has those of `_BACKEND_KEYS` that are known.
    if columns.extra is None:
        return None
    texts: list[str] = []
    code = np.full(len(columns.extra.values) + 1, -1, np.int64)
    for i, text in enumerate(columns.extra.values):
        metadata: dict[str, Any] = msgspec.json.decode(text)
        if any(mark in metadata for mark in _BACKEND_MARKS):
            code[i] = len(texts)
            kept = {name: metadata[name] for name in _BACKEND_KEYS if name in metadata}
            texts.append(msgspec.json.encode(kept).decode())
    if not texts:
        return None
    codes = np.where(columns.device < 0, code[np.asarray(columns.extra.codes)], -1)
    return event_argument_table(
        [argument_rows(track, columns.ts, columns.dur, columns.name, Coded(codes, texts))]
    )


def stack_frames(call_stack: str) -> list[tuple[str, str, int]]:
    """Return (function, file, line) of the frames of torch's ``Call stack``, root first.

    >>> stack_frames("nn/linear.py(7): forward;train.py(3): main")
    [('main', 'train.py', 3), ('forward', 'nn/linear.py', 7)]
    """
    frames = []
    for part in reversed(call_stack.split(";")):
        text = part.strip()
        if match := _LINE.search(text):
            frames.append((text[match.end() :], text[: match.start()], int(match[1])))
        elif text:
            frames.append((text, "", -1))
    return frames


def module_path(text: str) -> str:
    """Return the dotted path of torch's ``Module Hierarchy``; empty at the top.

    >>> module_path("TOP(Net)::forward.conv1(Conv2d)::forward.aten::conv2d")
    'conv1'
    """
    return ".".join(name for name in _LEVEL.findall(text) if name.lower() not in _NO_LEVEL)
