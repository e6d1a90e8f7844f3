"""Allocation sites of the host's heap at its peak, and the memory that remains."""

from __future__ import annotations

from typing import Final, Literal, get_args

import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.schema import Column, Table
from ..time.recorded_steps import recorded_table

By = Literal["line", "function"]

HEAP: Final = Table(
    "memory_heap",
    (
        Column("line", "str", "", "of your code; missing where none was on the stack"),
        Column("text", "str", "", "its source"),
        Column("allocated_by", "str", "", "function that allocated most of it"),
        Column("bytes", "int64", "bytes", "of blocks that were there at the peak"),
        Column("count", "int64", "", "blocks at the peak"),
        Column("share", "float64", "1", "of the peak"),
        Column("kept_bytes", "int64", "bytes", "of blocks that are there at the end"),
        Column("kept_count", "int64", "", "blocks at the end"),
    ),
)


def memory_heap(trace: Trace, *, by: By = "line") -> pd.DataFrame:
    """List who allocated the host's heap at its peak, and what remains at the end.

    Parameters
    ----------
    trace : Trace
        A recording that traced the heap: ``%%profile --heap``, ``nbp.profile(heap=True)``.
    by : {"line", "function"}
        A row for each line of your code, or for each function that allocated.

    Returns
    -------
    DataFrame
        By `bytes`, most first, then by `kept_bytes`; empty if the heap was not traced.

        - ``line`` str: the innermost line of the cell, or of your modules, on the stack, as ``cell:12``;
          missing if there is none, as in other threads; with ``by="function"``, the line with the most bytes;
        - ``text`` str: its source; ``allocated_by`` str: the innermost function of Python, as
          ``concatenate (multiarray.py)``; that of the most bytes; ``import`` of modules that were loaded;
          missing for blocks that no snapshot of tracemalloc has seen;
        - ``bytes``, ``count`` int64: at the peak; ``share`` float64 of it;
        - ``kept_bytes``, ``kept_count`` int64: allocated during the recording and not freed in it.

    Raises
    ------
    OptionError
        If `by` is unknown.

    Notes
    -----
    ``bytes`` sum to the peak of blocks allocated since the recording began. Resident memory
    (``p.memory.peak()``) differs: it includes earlier blocks and memory that the allocator keeps for later.
    With memray (https://bloomberg.github.io/memray/) Python objects count as the arenas that hold them;
    tracemalloc counts each object, but not allocations by other C code, such as torch.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> memory_heap(TraceBuilder().seal()).empty
    True
    """
    if by not in get_args(By):
        raise OptionError(f"by={by!r} is not a grouping of the heap: {nearest(by, get_args(By))}")
    table = recorded_table(trace, "heap")
    if table is None:
        return HEAP.empty()
    key = "line" if by == "line" else "allocated_by"
    table = table.sort_values(["bytes", "kept_bytes"], ascending=False, kind="stable")
    numbers = ["bytes", "count", "kept_bytes", "kept_count"]
    groups = table.groupby(key, sort=False)
    out = groups[["line", "text", "allocated_by"]].first().join(groups[numbers].sum())
    out = out.sort_values(["bytes", "kept_bytes"], ascending=False, kind="stable").reset_index(drop=True)
    out["share"] = out["bytes"] / max(int(out["bytes"].sum()), 1)
    out[["line", "text", "allocated_by"]] = out[["line", "text", "allocated_by"]].replace("", None)
    return HEAP.frame({name: out[name] for name in HEAP.names})
