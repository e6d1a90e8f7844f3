"""Chooses the rows of Kineto's result to keep: the user's Python calls, and the selected devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...background import checkpoint
from ...readers.codec.columns import marked
from ...readers.kineto import KinetoColumns, MemoryColumns
from ...readers.kineto.activity_metadata import activity_metadata
from ...readers.kineto.columns import CALL_TYPES, DEVICE_TYPES
from ...trace.intervals import contains, union
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ..devices import tell_left_out

_CELL: Final = re.compile(r"(?:ipykernel_\d+[/\\]\d+\.py|<ipython-input-[^>]*>)\(\d+\): <module>$")
_KERNEL: Final = re.compile(r"(?:^|[/\\])ipykernel[/\\]")
_OURS: Final = re.compile(r"(?:^|[/\\])notebook_prof[/\\]")
_START_AND_STOP: Final = re.compile(r"notebook_prof[/\\]session[/\\]engine\.py\(\d+\): (?:start|stop)$")
# wrappers run the user's code: `fetch` in hooks.py, `ticking` in sources.py, all of `loader`
_NO_WRAPPER: Final = re.compile(
    r"(?:^|[/\\])notebook_prof[/\\](?:session[/\\](?:(?:engine|ticks|window)\.py|sources\.py.*: (?!ticking))|"
    r"collectors[/\\](?:base\.py|torch[/\\](?:(?:collector|session)\.py|hooks\.py.*: (?!fetch))))"
)


def users_only(columns: KinetoColumns) -> KinetoColumns:
    """Drop Python calls of the recording and the notebook's kernel. Operators, ranges, device work stay."""
    # These are dropped: on a thread that runs a cell, calls outside the cell; on a thread that runs ipykernel
    # but no cell, every Python call; on all threads, our own calls but those that start and stop the
    # recording, and what they call, unless they are wrappers. In a script, only the last rule applies.
    python = marked(columns.kind, "python_function".__eq__)
    drop, bare, kept, kernel, cell = (
        python & marked(columns.name, test.search)
        for test in (_OURS, _NO_WRAPPER, _START_AND_STOP, _KERNEL, _CELL)
    )
    end = columns.ts + columns.dur
    for tid in pd.unique(columns.tid[python]):
        here = python & (columns.tid == tid)
        starts = columns.ts[bare & here]
        ours = union(starts, starts + np.maximum(columns.dur[bare & here], 1))
        drop |= here & contains(ours, columns.ts)
        if (cells := cell & here).any():
            inside = (columns.ts >= columns.ts[cells].min()) & (end <= end[cells].max())
            drop |= here & ~inside
        elif cell.any() and (kernel & here).any():
            drop |= here
    return columns.where(~drop | kept)


def of_devices(columns: KinetoColumns, devices: Sequence[int] | None, report: ImportReport) -> KinetoColumns:
    """Drop the work and memory of other devices, and the calls that launched it. None keeps all devices."""
    # the launch calls are dropped too, since they would look like launches that lost their kernels; other
    # host rows stay
    if devices is None:
        return columns
    on_device = columns.device >= 0
    on_chosen = on_device & np.isin(columns.device, devices)
    other = on_device & ~on_chosen
    theirs = np.setdiff1d(columns.correlation[other], columns.correlation[on_chosen])
    is_call = np.array([kind in CALL_TYPES for kind in columns.kind.values] + [False])[columns.kind.codes]
    # only calls, since operators have torch's numbers, which may coincide with CUPTI's
    calls = ~on_device & is_call & np.isin(columns.correlation, theirs[theirs >= 0])
    memory = columns.memory
    kept = (memory.device < 0) | np.isin(memory.device, devices)
    tell_left_out(report, devices, "device work", int(other.sum()))
    left = MemoryColumns(*(getattr(memory, field.name)[kept] for field in fields(MemoryColumns)))
    return replace(columns.where(~(other | calls)), memory=left)


# Details that Kineto reports about device work and collectives: launch settings, bytes moved.

COMMUNICATION: Final = "record_param_comms"
"""Name of the range in which torch's process groups report the data they exchange."""
_CHUNK: Final = 2048
_KEY: Final = ["device", "resource", "ts"]


def details(
    activities: Sequence[Any], rows: pd.DataFrame, host: frozenset[str], n: int, report: ImportReport
) -> Coded | None:
    """Read the activities' JSON metadata as texts by row, like `KinetoColumns.extra`; None without any."""
    # `rows` can have details. They have row numbers as index, and the keys by which the details are found:
    # device (-1 for host rows), stream or native thread, and Unix ns. `host` has the names of host rows.
    if not len(rows):
        return None
    telling: list[Any] = []
    for start in range(0, len(activities), _CHUNK):
        checkpoint()
        part = activities[start : start + _CHUNK]
        telling += [one for one in part if one.type() in DEVICE_TYPES or (host and one.name() in host)]
    extra, unreadable = activity_metadata([_text(one) for one in telling])
    report.add(
        "details-unreadable", "info", unreadable, effect="their launch settings and bytes moved are unknown"
    )
    on_device = np.fromiter((one.type() in DEVICE_TYPES for one in telling), bool, len(telling))
    keys = {
        "device": np.where(on_device, _numbers(telling, "device_id"), -1),
        "resource": _numbers(telling, "resource_id"),
        "ts": _numbers(telling, "timestamp"),
    }
    coded = pd.DataFrame({**keys, "code": extra.codes}).drop_duplicates(_KEY)
    codes = np.full(n, -1, np.int64)
    codes[rows.index] = rows.merge(coded, on=_KEY, how="left")["code"].fillna(-1).to_numpy(np.int64)
    return Coded(codes, extra.values)


def _numbers(activities: list[Any], name: str) -> npt.NDArray[np.int64]:
    return np.fromiter((getattr(one, name)() for one in activities), np.int64, len(activities))


def _text(activity: Any) -> str:
    """Return an activity's metadata."""
    text: str = activity.metadata_json()
    # a collective's kernels also get that of its range, as in torch's files
    if activity.type() == "kernel" and (read := getattr(activity, "linked_activity", None)) is not None:
        linked = read()
        if linked is not None and linked.name() == COMMUNICATION and (more := linked.metadata_json()):
            return f"{text},{more}" if text else str(more)
    return text
