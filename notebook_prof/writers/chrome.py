"""Chrome trace JSON in Kineto's dialect: opens in Perfetto, in TensorBoard, and here again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import pandas as pd

from ..atomic_files import Sink, atomic_gzip
from ..trace import Trace
from ..trace.arrays import IntArray
from .arguments import EventTexts
from .json_tables import json_tables
from .rows import (
    Rows,
    counter_rows,
    flow_rows,
    memory_rows,
    slice_rows,
    stack_frames,
    step_rows,
    tables,
    track_rows,
)

_PLAIN: Final = (str, int, float, bool, type(None))


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace as Chrome trace JSON.

    Parameters
    ----------
    trace : Trace
    path : path
        Compressed with gzip if it ends in ``.gz``; an existing file is replaced.

    Notes
    -----
    Slices become complete events with Kineto's category names; times are microseconds with three
    decimals relative to ``baseTimeNanoseconds``, so that no nanosecond is lost. Streams, launches,
    counters and allocations are written as Kineto writes them. What Kineto has no place for (phase,
    step, module, what it was called and launched with) is in each event's ``args``, call stacks are
    Chrome's ``stackFrames``, the metadata is under ``notebook_prof``, and tracks, steps, the metadata's
    tables and the import report are under ``notebook_prof_tables``: `read_trace` gives all of it back. Of
    the metadata, what JSON has no word for becomes the nearest that it has: tuples become lists. Steps that
    are not slices already become ``ProfilerStep#N`` on a thread of their own.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from notebook_prof import TraceBuilder, read_trace
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 2], dur=[9, 3], name=["linear", "mm"], track=b.track("main", pid=1, tid=1))
    >>> file = Path(tempfile.mkdtemp()) / "run.json.gz"
    >>> write_chrome(b.seal(), file)
    >>> read_trace(file).slices[["ts", "dur"]].values.tolist()
    [[0, 9], [2, 3]]
    """
    with atomic_gzip(path) as file:
        _write(trace, file)


def _write(trace: Trace, file: Sink) -> None:
    texts = EventTexts(trace)
    file.write(_head(trace, texts))
    first = True
    for rows in _all_rows(trace, texts):
        for text in rows:
            if text:
                file.write((text if first else ",\n" + text).encode())
                first = False
    file.write(b"\n]}\n")


def _all_rows(trace: Trace, texts: EventTexts) -> Iterator[Rows]:
    yield track_rows(trace)
    yield slice_rows(trace, texts)
    yield step_rows(trace)
    yield flow_rows(trace)
    yield counter_rows(trace)
    yield memory_rows(trace)


def _head(trace: Trace, texts: EventTexts) -> bytes:
    top = head_object(trace, texts.rows)
    # half a surrogate is no text that other programs read
    return (json.dumps(top, ensure_ascii=False)[:-1] + ', "traceEvents": [\n').encode(errors="replace")


def head_object(trace: Trace, rows_of_table: Mapping[str, IntArray]) -> dict[str, Any]:
    """Return what events have no place for; `rows_of_table` as for `json_tables`."""
    beside = {
        "report": [asdict(issue) for issue in trace.report],
        "metadata": json_tables(trace, rows_of_table),
    }
    top: dict[str, Any] = {
        "schemaVersion": 1,
        "notebook_prof_tables": tables(trace) | {name: part for name, part in beside.items() if part},
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": int(trace.metadata.get("start_unix_ns", 0)),
        "deviceProperties": _devices(trace),
        "notebook_prof": _jsonable({key: part for key, part in trace.metadata.items() if key != "tables"}),
    }
    rank = trace.metadata.get("rank")
    if isinstance(rank, int):
        facts = {key: trace.metadata.get(key) for key in ("rank", "world_size", "backend")}
        top["distributedInfo"] = {key: value for key, value in facts.items() if value is not None}
    if len(trace.stacks):
        top["stackFrames"] = stack_frames(trace)
    return top


def _devices(trace: Trace) -> list[dict[str, Any]]:
    names = trace.metadata.get("devices") or ()
    numbers = trace.tracks["device"].dropna().unique()
    name_of = {i: str(name) for i, name in enumerate(names)} if isinstance(names, list | tuple) else {}
    return [
        {"id": int(n), "name": name_of.get(int(n), f"device {n}")} for n in np.sort(numbers) if int(n) >= 0
    ]


def _jsonable(value: Any) -> Any:
    """Return the part of the metadata that JSON can carry; the rest as text."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if isinstance(value, np.generic):
        return _jsonable(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, _PLAIN):
        return value
    return None if value is pd.NA else str(value)
