"""The work of every slice of a trace, from the distinct calls of operators. Vectorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace
from ...trace.arrays import BoolArray, FloatArray, IntArray, positions
from ...trace.intervals import as_ints
from ..grouping import outermost
from ..scope import ints, of_kind, recorded_table
from .formulas import formula_of, work_of

KINDS: Final = (
    *("matmul", "convolution", "attention", "elementwise", "norm", "softmax", "reduction", "pooling"),
    *("embedding", "copy", "given"),
)
"""Kinds of work; ``given`` is work that the file itself reports."""


@dataclass(frozen=True, slots=True)
class SliceWork:
    """Work of each slice by itself (0 if unknown); all have the shape (slices,)."""

    flops: FloatArray
    bytes: FloatArray
    # Index into `KINDS`; -1 if the work is unknown.
    kind: IntArray
    # Slices with known work that are not inside others with known work; these add up to all work.
    outermost: BoolArray


def slice_work(trace: Trace) -> SliceWork:
    """Return the work of every slice."""
    # Formulas run once for each distinct call. Calls with the same name and shapes that differ in types or
    # arguments each get the mean of their work, so totals over the trace are exact.
    slices = trace.slices
    parent = ints(slices["parent"])
    recorded = _recorded_work(trace)
    if recorded is not None:
        rows, flops, bytes_moved = recorded
        kind = np.full(len(slices), -1, np.int64)
        kind[rows] = KINDS.index("given")
        return SliceWork(flops, bytes_moved, kind, kind >= 0)
    table = _distinct(trace)
    code = _call_codes(slices, of_kind(trace, ("thread", "process")))
    table_row = positions(table["code"].to_numpy(), code)
    has_work = table_row >= 0
    flops, bytes_moved = np.zeros(len(slices)), np.zeros(len(slices))
    kind = np.full(len(slices), -1, np.int64)
    for column, target in (("flops", flops), ("bytes", bytes_moved), ("kind", kind)):
        target[has_work] = table[column].to_numpy()[table_row[has_work]]
    return SliceWork(
        flops, bytes_moved, kind, has_work & (outermost(parent, has_work) == np.arange(len(parent)))
    )


def inclusive_work(
    work: SliceWork, depth: npt.NDArray[Any], parent: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the FLOPs and bytes of each slice: its own if known, else the sum over what is inside it."""
    flops, moved = work.flops.copy(), work.bytes.copy()
    busy = np.flatnonzero((parent >= 0) & (work.kind < 0)[parent])
    order = busy[np.argsort(-depth[busy].astype(np.int64), kind="stable")]
    edges = np.flatnonzero(np.diff(depth[order])) + 1
    for rows in np.split(order, edges):
        for values in (flops, moved):
            np.add.at(values, parent[rows], values[rows])
    return flops, moved


def _call_codes(slices: pd.DataFrame, host: BoolArray) -> IntArray:
    """Return a number for each pair of name and shapes; -1 for slices without shapes or on devices."""
    names, shapes = (as_ints(slices[column].cat.codes.to_numpy()) for column in ("name", "shapes"))
    width = len(slices["shapes"].cat.categories)
    has_shapes = host & (names >= 0) & (shapes >= 0)
    return np.asarray(np.where(has_shapes, names * max(width, 1) + shapes, -1), dtype=np.int64)


def _distinct(trace: Trace) -> pd.DataFrame:
    """Return ``code flops bytes kind`` of each pair of name and shapes with known work, by code."""
    slices = trace.slices
    names, shapes = slices["name"].cat.categories, slices["shapes"].cat.categories
    source = str(trace.metadata.get("source", ""))
    has_formula = np.array([formula_of(str(name), source) is not None for name in names], dtype=bool)
    code = _call_codes(slices, of_kind(trace, ("thread", "process")))
    codes = np.unique(code[code >= 0])
    codes = codes[np.append(has_formula, False)[codes // max(len(shapes), 1)]]
    keys = [(str(names[c // len(shapes)]), str(shapes[c % len(shapes)])) for c in codes.tolist()]
    variants = _variants(trace)
    rows = []
    for number, key in zip(codes.tolist(), keys, strict=True):
        works, weight = [], 0
        for dtypes, concrete, count in variants.get(key, [(None, None, 1)]):
            if work := work_of(*key, dtypes, concrete, source):
                works.append((work.flops * count, work.bytes * count, KINDS.index(work.kind)))
                weight += count
        if works:
            flops, bytes_moved, kinds = zip(*works, strict=True)
            rows.append((number, sum(flops) / weight, sum(bytes_moved) / weight, kinds[0]))
    return pd.DataFrame(rows, columns=["code", "flops", "bytes", "kind"]).astype(
        {"code": "int64", "flops": "float64", "bytes": "float64", "kind": "int64"}
    )


def _variants(trace: Trace) -> dict[tuple[str, str], list[tuple[str | None, str | None, int]]]:
    table = recorded_table(trace, "operator_arguments")
    variants: dict[tuple[str, str], list[tuple[str | None, str | None, int]]] = {}
    if table is not None:
        columns = [table[name].tolist() for name in ("name", "shapes", "dtypes", "concrete", "count")]
        for name, shapes, *texts, count in zip(*columns, strict=True):
            dtypes, concrete = (text if isinstance(text, str) else None for text in texts)
            variants.setdefault((name, shapes), []).append((dtypes, concrete, int(count)))
    return variants


def _recorded_work(trace: Trace) -> tuple[IntArray, FloatArray, FloatArray] | None:
    """Return the slices whose work the file reports, matched by the operator's number, and that work."""
    table = recorded_table(trace, "operators")
    if table is None or not {"id", "flop_count", "memory_bytes"} <= set(table.columns):
        return None
    number = pd.to_numeric(table["id"], errors="coerce").fillna(-1).astype("int64").to_numpy()
    row_of_number = pd.Index(number)
    slices = trace.slices
    at = row_of_number.get_indexer(pd.Index(ints(slices["correlation"])))
    rows = np.flatnonzero((at >= 0) & of_kind(trace, ("stream",)))
    flops, bytes_moved = np.zeros(len(slices)), np.zeros(len(slices))
    for target, column in ((flops, "flop_count"), (bytes_moved, "memory_bytes")):
        target[rows] = table[column].fillna(0).astype("float64").to_numpy()[at[rows]]
    return rows, flops, bytes_moved
