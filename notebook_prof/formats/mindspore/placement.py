"""Turns the lanes of a timeline into slices, steps, arrows and tables."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...readers.events import NAME, argument_rows
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded, by_value
from ...trace.taxonomy import STEP_PREFIX
from ...trace.taxonomy import phase_of as phase_of_torch
from .operators import host_thread, is_collective, split
from .rows import Lane, Timeline, device_of, lanes, number_in
from .staging import Staging

_STEP: Final = re.compile(r"(\d{1,9})|" + re.escape(STEP_PREFIX) + r"(\d{1,9})")
_WAITING: Final = re.compile(r"(?i)notify|event_(?:wait|record)|synchronize|stream_wait|wait_event")
_COPY: Final = re.compile(r"(?i)memcpy|\bd2d\b|\bh2d\b|\bd2h\b|sdma")
_CATEGORY: Final = {"host": "operator", "aicpu": "kernel", "scopes": "module"}
_CATEGORY_OF_CAT: Final = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "python_function": "python",
    "enqueue": "launch",
    "dequeue": "launch",
}
_FLOWS: Final = (("fwdbwd", "fwdbwd"), ("async_npu", "launch"), ("HostToDevice", "launch"))


@dataclass(frozen=True, slots=True)
class Placement:
    """How a timeline is put into a recording."""

    rank: int = 0
    clock: str = "unix"  # one of `staging.CLOCKS`
    offset_ns: int = 0  # added to the times of the file
    skip: Collection[str] = ()  # roles that another file describes better
    shapes: dict[str, str] | None = None  # by full name
    host: int | None = None  # thread of the host's operators, if another file has it


def place_timeline(timeline: Timeline, staging: Staging, how: Placement) -> None:
    """Put a timeline into `staging`: see `lanes.ROLES` for what becomes what."""
    # The host's operators and the scopes around them share one thread, so that scopes are their ancestors.
    # What the tool computed itself (computing, communication, free) is a table `overlap` with the columns
    # `name start_ns dur_ns`, in the clock of `metadata["start_unix_ns"]`.
    all_lanes = [lane for lane in lanes(timeline) if lane.role not in how.skip]
    if not all_lanes:
        return
    rows = pd.concat([lane.rows for lane in all_lanes])
    starts = rows["ts"].to_numpy() + how.offset_ns
    ends = starts + np.maximum(rows["dur"].to_numpy(), 0)

    def emit(shift: int) -> None:
        handles = np.full(len(timeline.slices), -1, np.int64)
        # scopes first: of slices that start and end together, the first is the outer one
        for lane in sorted(all_lanes, key=lambda lane: (lane.role != "scopes", lane.number)):
            move = shift + how.offset_ns
            if lane.role == "result":
                table = pd.DataFrame({"name": lane.rows["name"], "start_ns": lane.rows["ts"] + move})
                staging.table("overlap", table.assign(dur_ns=lane.rows["dur"]), how.rank)
                continue
            handles[lane.rows.index] = _lane(lane, all_lanes, staging, how, move)
            _steps(lane, staging.builder, move)
        _flows(timeline, handles, staging.builder)

    staging.at(how.clock, starts, ends, emit)


def _lane(lane: Lane, all_lanes: list[Lane], staging: Staging, how: Placement, move: int) -> IntArray:
    rows = lane.rows
    category, phase, module, name = _words(lane, rows)
    has_shapes = how.shapes and lane.role in ("device", "host")
    device, track, streams = _track(lane, all_lanes, staging, how)
    _keep_arguments(rows, name, track, move, staging)
    return staging.builder.slices(
        ts=rows["ts"].to_numpy() + move,
        dur=rows["dur"].to_numpy(),
        track=track,
        name=name,
        category=category,
        phase=phase,
        module=module,
        shapes=rows["full"].map(how.shapes) if has_shapes else None,
        device=device,
        stream=streams,
    )


def _keep_arguments(rows: pd.DataFrame, name: Any, track: Any, move: int, staging: Staging) -> None:
    """Keep the events' arguments in the table ``event_arguments``, as for generic trace events."""
    ts, dur = rows["ts"].to_numpy() + move, rows["dur"].to_numpy()
    codes, texts = pd.factorize(rows["args"])
    arguments = by_value(codes, [str(text) or None for text in texts])
    names = name if isinstance(name, Coded) else Coded(*pd.factorize(name))
    if len(kept := argument_rows(track, ts, dur, names, arguments)):
        staging.tables.setdefault(NAME, []).append(kept)


def _words(lane: Lane, rows: pd.DataFrame) -> tuple[Any, Any, Any, Any]:
    """Return the category, phase, module and name of a lane's rows, computed once per distinct name."""
    codes, fulls = pd.factorize(rows["full"])
    parts = [split(str(full)) for full in fulls]
    if lane.role == "python":
        category: Any = rows["cat"].map(_CATEGORY_OF_CAT).fillna("operator")
        phases = [phase_of_torch(str(full)) for full in fulls]
        step = rows["name"].str.startswith(STEP_PREFIX)
        return category.where(~step, "annotation"), by_value(codes, phases), None, rows["name"]
    if lane.role in ("runtime", "steps", "scopes"):
        waits = [("sync" if _WAITING.search(str(full)) else "launch") for full in fulls]
        category = by_value(codes, waits) if lane.role == "runtime" else "annotation"
        return _CATEGORY.get(lane.role, category), None, None, rows["name"]
    if lane.role in ("device", "communication"):
        kinds: list[str | None] = [
            _device_category(lane.role, part.name, str(full)) for part, full in zip(parts, fulls, strict=True)
        ]
        category = by_value(codes, kinds)
        copies = rows["type"].str.contains(_COPY) & (lane.role == "device")
        if copies.any():
            category = np.where(copies, "memcpy", np.array(kinds, dtype=object)[codes])
    else:
        category = _CATEGORY[lane.role]
    phase: Any = by_value(codes, [part.phase for part in parts])
    module = by_value(codes, [part.module or None for part in parts])
    if lane.role == "communication":
        phase = "communication"
    return category, phase, module, Coded(codes, [part.name for part in parts])


def _device_category(role: str, name: str, full: str) -> str:
    if _WAITING.search(full):
        return "sync"
    if role == "communication" or is_collective(name):
        return "collective"
    return "memcpy" if _COPY.search(full) else "kernel"


def _track(
    lane: Lane, all_lanes: list[Lane], staging: Staging, how: Placement
) -> tuple[int | None, Any, Any]:
    rank = how.rank
    if lane.role in ("host", "scopes"):
        hosts = [other.number for other in all_lanes if other.role == "host"]
        hosts += [how.host] if how.host is not None else []
        # scopes are computed from one thread's operators; with several threads it is unknown which
        tid = lane.number if lane.role == "host" else (hosts[0] if len(hosts) == 1 else -1 - lane.number)
        if tid >= 0:
            return None, host_thread(staging, rank, tid), None
        return None, staging.track(rank, "scopes", "thread", pid=rank, tid=tid), None
    if lane.role in ("python", "runtime"):
        pid = number_in(lane.pid)
        pythons = {number_in(other.pid) for other in all_lanes if other.role == "python"}
        if lane.role == "runtime" and pid // 100 in pythons:
            pid //= 100  # CANN's number of a process is that of the process followed by 02
        name = lane.name or f"thread {lane.tid}"
        return None, staging.track(rank, name, "thread", pid=pid, tid=lane.number), None
    if lane.role == "device":
        device = device_of(lane, rank)
        number = pd.to_numeric(lane.rows["stream"], errors="coerce").fillna(lane.number).to_numpy(np.int64)
        return device, staging.streams(rank, device, number), number
    if lane.role == "steps":
        return None, staging.track(rank, "Step Trace", "thread"), None
    label = "AI CPU" if lane.role == "aicpu" else f"communication {lane.name or lane.tid}"
    return rank, staging.track(rank, f"NPU {rank} {label}", "stream"), None


def _steps(lane: Lane, builder: TraceBuilder, move: int) -> None:
    if lane.role not in ("steps", "python") or builder.metadata.get("steps_source"):
        return
    rows = lane.rows
    if lane.role == "steps" and (rows["cat"] == "Iteration Time").any():
        rows = rows[rows["cat"] == "Iteration Time"]
        numbers = pd.to_numeric(rows["iteration"], errors="coerce")
    else:
        match = rows["name"].str.extract(f"^(?:{_STEP.pattern})$")
        numbers = pd.to_numeric(match[0].fillna(match[1]) if lane.role == "steps" else match[1])
    rows, numbers = rows[numbers.notna()], numbers[numbers.notna()].astype("int64")
    if len(rows):
        builder.steps(numbers, rows["ts"].to_numpy() + move, rows["dur"].to_numpy().clip(0), "file")


def _flows(timeline: Timeline, handles: IntArray, builder: TraceBuilder) -> None:
    """Add the arrows between starts of slices; a device slice gets one launch."""
    ends = timeline.ends
    if not len(ends):
        return
    slices = timeline.slices.assign(handle=handles)
    slices = slices[slices["handle"] >= 0]
    missing, launched = 0, np.empty(0, np.int64)
    for cat, kind in _FLOWS:
        of_category = ends[ends["cat"] == cat]
        begins = of_category[of_category["ph"] == "s"].drop_duplicates("id")
        source = _open_slices(begins, slices).set_index("id")["handle"]
        target = _open_slices(of_category[of_category["ph"] == "f"], slices, started=True)
        target = target.drop_duplicates("handle")
        src = source.reindex(target["id"]).fillna(-1).to_numpy(np.int64)
        dst = target["handle"].to_numpy(np.int64)
        new = ~np.isin(dst, launched)
        both = (src >= 0) & (dst >= 0)
        missing += int((new & ~both).sum())
        builder.flows(kind, src[both & new], dst[both & new])
        if kind == "launch":
            launched = np.append(launched, dst[both & new])
    builder.report.add("flow-without-slice", "info", missing, effect="arrows without a slice at an end")


def _open_slices(ends: pd.DataFrame, slices: pd.DataFrame, *, started: bool = False) -> pd.DataFrame:
    """Return the handle of the slice of the same thread in which each arrow's end lies; -1 without one."""
    # That is the longest that starts at that instant or else, unless `started` is set, the latest to start
    # before it, if it is still open.
    starts = slices.sort_values("dur", ascending=False, kind="stable").drop_duplicates(["pid", "tid", "ts"])
    starts = starts[["pid", "tid", "ts", "dur", "handle"]].sort_values("ts", kind="stable")
    starts["end"] = starts["ts"] + starts["dur"]
    ends, reach = ends.sort_values("ts", kind="stable"), 0 if started else None
    merged = pd.merge_asof(ends, starts, on="ts", by=["pid", "tid"], tolerance=reach)
    inside = merged["handle"].notna() & (merged["ts"] <= merged["end"])
    return merged.assign(handle=merged["handle"].where(inside, -1))
