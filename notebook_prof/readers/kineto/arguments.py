"""Arguments of operators: types, values, stacks and modules; and the counters of CUPTI's range profiler."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.nesting import nest
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ...trace.taxonomy import LAUNCH_CALL
from ..codec.columns import marked
from ..codec.numbers import integers, to_ns
from ..codec.tolerant_json import NOTHING, decoded
from ..events import add_arguments, argument_rows
from .columns import MAX_DEVICE, CounterColumns, KinetoColumns, concrete_matters

_BACKEND_MARKS: Final = ("kernel_backend", "kernel_hash")
_BACKEND_KEYS: Final = (*_BACKEND_MARKS, "kernel_file", "kernel_kwargs", "num_warps", "num_stages", "grid")
_LINE: Final = re.compile(r"\((\d{1,9})\): ")
_LEVEL: Final = re.compile(r"(?:^|\.)([^.():]+)\([^()]*\)::[^.()]+")
_NO_LEVEL: Final = frozenset({"top", "self"})


def to_json(value: Any) -> str:
    """Return a list of texts as JSON, always in the same spelling."""
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
    mattering = np.where(matters[_codes(columns.name, rows)], values, -1)
    for own in (*(_codes(part, rows) for part in parts.values()), mattering):
        key, _ = pd.factorize(key * (int(own.max(initial=-1)) + 2) + own + 1)
    _, first, group, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    texts = {name: _words(part, _codes(part, rows[first])) for name, part in parts.items()}
    texts["concrete"] = _texts_of_any(columns.concrete, values, group, len(first))
    texts["count"] = pd.Series(count.astype(np.int64))
    texts["strides"] = _texts_of_any(columns.strides, _codes(columns.strides, rows), group, len(first))
    return pd.DataFrame(texts)


def _codes(part: Coded | None, rows: IntArray) -> IntArray:
    if part is None:
        return np.full(len(rows), -1, np.int64)
    return np.asarray(part.codes, np.int64)[rows]


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


def add_compiled_arguments(columns: KinetoColumns, track: IntArray, builder: TraceBuilder) -> None:
    """Add rows of ``event_arguments`` for operators that launch a kernel of a backend such as Triton."""
    # `arguments` has those of `_BACKEND_KEYS` that are known.
    if columns.extra is None:
        return
    texts: list[str] = []
    code = np.full(len(columns.extra.values) + 1, -1, np.int64)
    for i, text in enumerate(columns.extra.values):
        metadata: dict[str, Any] = msgspec.json.decode(text)
        if any(mark in metadata for mark in _BACKEND_MARKS):
            code[i] = len(texts)
            kept = {name: metadata[name] for name in _BACKEND_KEYS if name in metadata}
            texts.append(msgspec.json.encode(kept).decode())
    codes = np.where(columns.device < 0, code[np.asarray(columns.extra.codes)], -1)
    rows = argument_rows(track, columns.ts, columns.dur, columns.name, Coded(codes, texts))
    add_arguments(builder, [rows])


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


ACTIVITY_TYPE: Final = "cuda_profiler_range"


class _RangeRow(Struct, gc=False):
    cat: Any = ""
    name: Any = None
    pid: Any = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Raw = NOTHING


class RangeColumns(Struct):
    """The profiler's ranges, in the order of the file."""

    ts: IntArray  # Unix nanoseconds
    dur: IntArray
    device: IntArray
    names: list[str]  # the kernel of each range, as CUPTI names it
    values: pd.DataFrame  # a float64 column for each counter, by its full name; NaN if it was not measured


class ProfilerRanges:
    """Collects ranges while a file is read."""

    def __init__(self) -> None:
        self._rows: list[tuple[_RangeRow, dict[str, float]]] = []

    def add(self, text: bytes | memoryview, expected: int, report: ImportReport) -> None:
        """Read the counters of the `expected` ranges in a list of events."""
        # `text` is empty if the events could not be read as a list.
        read = 0
        rows = decoded(text, list[_RangeRow]) or []
        for row in (row for row in rows if row.cat == ACTIVITY_TYPE):
            args = decoded(row.args, dict[str, Any]) or {}
            values = {name: float(value) for name, value in args.items() if type(value) in (int, float)}
            if values:  # the text from which it was decoded is not kept
                row.ts, row.dur, row.args = row.ts.copy(), row.dur.copy(), NOTHING
                self._rows.append((row, values))
                read += 1
        effect = "these ranges are slices, but have no row in the table profiler_ranges"
        report.add("range-without-counters", "loss", expected - read, ACTIVITY_TYPE, effect)

    def columns(self, base: int) -> RangeColumns | None:
        """Return all ranges, shifted by `base`; None if there are none."""
        ts, ts_ok = to_ns([row.ts for row, _ in self._rows])
        dur, dur_ok = to_ns([row.dur for row, _ in self._rows])
        keep = np.flatnonzero(ts_ok & dur_ok)
        if not len(keep):
            return None
        rows = [self._rows[i] for i in keep.tolist()]
        device = integers([row.pid if isinstance(row.pid, int | str) else None for row, _ in rows])
        names, values = [str(row.name) for row, _ in rows], pd.DataFrame([own for _, own in rows])
        device = np.clip(device, 0, MAX_DEVICE)
        return RangeColumns(ts[keep] + base, dur[keep], device, names, values.astype("float64"))


def range_counters(ranges: RangeColumns) -> list[CounterColumns]:
    """Return a counter for each metric of each device: the value of a range while it lasts, otherwise 0."""
    counters = []
    for device in np.unique(ranges.device).tolist():
        of_device = np.flatnonzero(ranges.device == device)
        of_device = of_device[np.argsort(ranges.ts[of_device], kind="stable")]
        start = ranges.ts[of_device]
        end = start + ranges.dur[of_device]
        gap = np.append(end[:-1] < start[1:], True)
        ts = np.concatenate([start, end[gap]])
        order = np.argsort(ts, kind="stable")
        for name in ranges.values.columns:
            values = ranges.values[name].to_numpy()[of_device]
            if not np.isnan(values).all():
                value = np.concatenate([np.nan_to_num(values), np.zeros(int(gap.sum()))])
                counters.append(CounterColumns(str(name), -1, ts[order], value[order], device))
    return counters


def range_table(ranges: RangeColumns, columns: KinetoColumns) -> pd.DataFrame:
    """Return the table for ``metadata["tables"]["profiler_ranges"]``, by start."""
    # `top_operator` and `operator` are the outermost and the innermost one around the call that launched the
    # kernel, missing if unknown. Ranges have no correlation, and their times are not those of the run. CUPTI
    # replays kernels one by one. So if a file has as many launch calls as ranges, they are matched in order
    # of time, as HTA does.
    order = np.argsort(ranges.ts, kind="stable")
    outer, inner = _operators(columns, len(order))
    key = {"device": ranges.device, "start_unix_ns": ranges.ts, "dur_ns": ranges.dur}
    table = pd.DataFrame({name: values[order] for name, values in key.items()})
    table["name"] = pd.Categorical([ranges.names[i] for i in order.tolist()])
    table["top_operator"] = pd.Categorical(outer)
    table["operator"] = pd.Categorical(inner)
    return pd.concat([table, ranges.values.iloc[order].reset_index(drop=True)], axis=1)


def _operators(columns: KinetoColumns, count: int) -> list[list[str | None]]:
    """Return the outermost and innermost operator of each launch; all None without `count` launches."""
    call = np.flatnonzero(marked(columns.name, LAUNCH_CALL.fullmatch) & (columns.device < 0))
    if len(call) != count:
        return [[None] * count] * 2
    call = call[np.argsort(columns.ts[call], kind="stable")]
    operator = np.flatnonzero(marked(columns.kind, "cpu_op".__eq__))
    both = np.concatenate([operator, call])
    thread = columns.tid[both]
    _, parent, _ = nest(thread, columns.ts[both], columns.dur[both])
    inner = parent[len(operator) :].copy()
    outer = inner.copy()
    while (higher := (outer >= 0) & (parent[outer] >= 0)).any():
        outer[higher] = parent[outer[higher]]
    names = [columns.name.values[i] for i in columns.name.codes[operator].tolist()]
    return [[names[i] if i >= 0 else None for i in at.tolist()] for at in (outer, inner)]
