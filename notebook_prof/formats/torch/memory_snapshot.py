"""A snapshot of PyTorch's CUDA caching allocator: blocks, stacks and the history of events."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import FormatError, bounded_repr
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder

_LIBRARY: Final = ("/torch/", "\\torch\\", "/site-packages/", "\\site-packages\\", "<frozen ")
_MOST: Final = 1000


class SnapshotStacks:
    """Interns the stacks of a snapshot."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        # by id: a snapshot repeats the same list object for the same stack, so each list is inspected once
        self._cache: dict[int, tuple[int, str]] = {}

    def of(self, frames: Any) -> tuple[int, str]:
        """Return the key of a stack, and the label of its clearest frame; -1 and empty without frames."""
        if not isinstance(frames, list) or not frames:
            return -1, ""
        stack = self._cache.get(id(frames))
        if stack is None:
            usable = [_frame(frame) for frame in frames[:_MOST] if isinstance(frame, dict)]
            stack = self._builder.stack(usable[::-1]), _label(usable)  # noqa: PD013 (no pandas here)
            self._cache[id(frames)] = stack
        return stack


def _frame(frame: dict[Any, Any]) -> tuple[str, str, int]:
    line = frame.get("line")
    line = line if isinstance(line, int) and 0 <= line < 2**31 else -1
    return str(frame.get("name", "")), str(frame.get("filename", "")), line


def _label(frames: list[tuple[str, str, int]]) -> str:
    """Return the innermost frame of the user's Python code, else of any Python code, else of anything."""
    python = [frame for frame in frames if frame[1].endswith(".py") or frame[1].startswith("<ipython")]
    own = [frame for frame in python if not any(part in frame[1] for part in _LIBRARY)]
    for name, file, line in (own or python or frames)[:1]:
        file_name = os.path.basename(file.replace("\\", "/"))
        return f"{name} ({file_name}:{line})" if file_name and line >= 0 else name
    return ""


ACTIONS: Final = (
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_map", "segment_free",
    "segment_unmap", "oom", "snapshot", "annotate",
)  # fmt: skip
_ALLOCATED: Final = {"alloc": 1, "free_requested": -1}
_RESERVED: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_SLICES: Final = {
    "segment_alloc": "cudaMalloc",
    "segment_map": "map memory",
    "segment_free": "cudaFree",
    "segment_unmap": "unmap memory",
    "oom": "out of memory",
}
_BEFORE_NS: Final = 1000
_MOST_DEVICES: Final = 1024


def read_snapshot(content: Any, builder: TraceBuilder) -> None:
    """Put the result of ``torch.cuda.memory._snapshot()``, a list before PyTorch 2.0, into `builder`."""
    # The history is a ring that keeps the latest events, so levels are counted back from the blocks that are
    # there at the end: level(t) = level(end) - Σ later changes. Allocated bytes are those tensors requested
    # (`requested_size`) and end with `free_requested`; reserved bytes are whole segments. Blocks from before
    # the history are allocated 1 µs before it begins. Each allocation is inside a slice of 1 ns named after
    # the code that requested it.
    segments, traces = _parts(content)
    stacks = SnapshotStacks(builder)
    blocks = _blocks(segments, stacks, builder)
    histories = []
    devices = sorted({*blocks["device"].unique().tolist(), *(i for i, rows in enumerate(traces) if rows)})
    for device in devices:
        rows = traces[device] if 0 <= device < len(traces) else []
        events = _events(rows, device, stacks, builder)
        _fill(device, events, blocks[blocks["device"] == device], builder)
        histories.append(events)
    if isinstance(content, dict):
        _annotations(content.get("external_annotations"), builder)
        # PyTorch 2.14's records of pinned host memory
        parts = [content.get("host_segments"), *_list(content.get("host_traces"))]
        builder.report.add(
            "host-memory-not-used", "loss", sum(len(_list(part)) for part in parts),
            "host_segments, host_traces", "pinned memory of the host is left out; the devices' is complete",
            "read them from the pickle",
        )  # fmt: skip
        if isinstance(settings := content.get("allocator_settings"), dict):
            builder.metadata["allocator_settings"] = settings
    # `memory_blocks` has every block at the time of the snapshot, `memory_events` the history; `stack` in
    # them is a key of `trace.stacks`
    tables = builder.metadata.setdefault("tables", {})
    tables["memory_blocks"] = blocks
    if histories:
        tables["memory_events"] = pd.concat(histories, ignore_index=True).drop(columns="label")


def _parts(content: Any) -> tuple[list[Any], list[list[Any]]]:
    if isinstance(content, list):
        content = {"segments": content}
    if not isinstance(content, dict) or not {"segments", "device_traces"} & set(content):
        keys = f"with the keys {list(content)[:6]}" if isinstance(content, dict) else ""
        raise FormatError(
            f"the pickle contains a {type(content).__name__} {keys}, not a memory snapshot, which has "
            "'segments' and 'device_traces'"
        )
    traces = _list(content.get("device_traces"))[:_MOST_DEVICES]
    return _list(content.get("segments")), [_list(rows) for rows in traces]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _blocks(segments: list[Any], stacks: SnapshotStacks, builder: TraceBuilder) -> pd.DataFrame:
    """Return one row per block, by segment and address."""
    segment_rows = _dicts(segments, "segment", builder)
    inner = [_dicts(_list(segment.get("blocks")), "block", builder) for segment in segment_rows]
    blocks = [block for rows in inner for block in rows]
    home = np.repeat(np.arange(len(segment_rows)), [len(rows) for rows in inner]).astype(np.int64)
    size = _ints(blocks, "size", 0)
    requested = _ints(blocks, "requested_size", -1)
    stacks_of_blocks = [stacks.of(_frames(block)) for block in blocks]
    sizes = np.array([len(rows) for rows in inner], np.int64)
    addresses = _addresses(blocks)
    if len(blocks) and not (addresses > 0).any():
        addresses = _laid_out(_addresses(segment_rows), home, size, sizes)
    frame = {
        "device": _ints(segment_rows, "device", 0)[home].astype(np.int16),
        "stream": _ints(segment_rows, "stream", 0)[home],
        "segment": _addresses(segment_rows)[home],
        "segment_bytes": _ints(segment_rows, "total_size", 0)[home],
        "segment_type": _texts(segment_rows, "segment_type")[home],
        "addr": addresses,
        "bytes": size,
        "requested_bytes": np.where(requested < 0, size, requested),
        "state": _texts(blocks, "state"),
        "stack": pd.array([key for key, _ in stacks_of_blocks], dtype="Int64"),
        "label": np.array([label for _, label in stacks_of_blocks], dtype=object),
    }
    table = pd.DataFrame(frame)
    table["stack"] = table["stack"].where(table["stack"] >= 0)
    return table


def _frames(block: dict[Any, Any]) -> Any:
    """Return frames of a block; before PyTorch 2.1 they are in its history."""
    history = block.get("history")
    if "frames" not in block and isinstance(history, list) and history and isinstance(history[0], dict):
        return history[0].get("frames")
    return block.get("frames")


def _laid_out(starts: Any, home: IntArray, size: IntArray, counts: IntArray) -> Any:
    """Place blocks without addresses one after another from the start of their segment."""
    before = np.cumsum(size) - size
    first = np.minimum(np.cumsum(counts) - counts, max(0, len(size) - 1))
    return starts[home] + (before - before[first][home]).astype(np.uint64)


def _events(rows: list[Any], device: int, stacks: SnapshotStacks, builder: TraceBuilder) -> pd.DataFrame:
    """Return the history of one device, oldest first."""
    events = _dicts(rows, "event", builder)
    code_of_action = {action: i for i, action in enumerate(ACTIONS)}
    actions = [event.get("action") for event in events]
    known = (code_of_action.get(action, -1) if isinstance(action, str) else -1 for action in actions)
    codes = np.fromiter(known, np.int8, len(actions))
    builder.report.add_where("unknown-action", "info", codes < 0, actions.__getitem__, "left aside")
    stacks_of_events = [stacks.of(event.get("frames")) for event in events]
    stack = np.array([key for key, _ in stacks_of_events], np.int64)
    return pd.DataFrame(
        {
            "unix_ns": _times(events, builder),
            "device": np.full(len(events), device, np.int16),
            "action": pd.Categorical.from_codes(codes, categories=list(ACTIONS)),
            "addr": _addresses(events),
            "bytes": _ints(events, "size", 0),
            "stream": _ints(events, "stream", 0),
            "stack": pd.arrays.IntegerArray(stack, stack < 0),
            "label": np.array([label for _, label in stacks_of_events], dtype=object),
        }
    )


def _times(events: list[dict[Any, Any]], builder: TraceBuilder) -> IntArray:
    """Convert microseconds to ns; events of one microsecond stay in order, a nanosecond apart."""
    micros = _ints(events, "time_us", -1)
    count = np.arange(len(events), dtype=np.int64)
    if not (micros >= 0).any():
        if len(events):
            example = f"{bounded_repr(events[0].get('action'))} has no time_us"
            effect = "events are in order, 1 µs apart"
            advice = "record the snapshot with PyTorch 2.1 or later"
            builder.report.add("no-times", "loss", len(events), example, effect, advice)
        return count * 1000
    sorted_ = np.minimum(np.maximum.accumulate(micros), 2**62 // 1000)
    builder.report.add(
        "unsorted-events", "info", int((sorted_ != micros).sum()), effect="moved to their place in time"
    )
    new = np.append(True, sorted_[1:] != sorted_[:-1])
    first = np.maximum.accumulate(np.where(new, count, 0))
    return sorted_ * 1000 + np.minimum(count - first, 999)


def _fill(device: int, events: pd.DataFrame, blocks: pd.DataFrame, builder: TraceBuilder) -> None:
    """Put allocations, slices and levels of one device."""
    ts = events["unix_ns"].to_numpy()
    action = events["action"].astype(object)
    size = events["bytes"].to_numpy()
    change = action.map(_ALLOCATED).fillna(0).to_numpy(np.int64) * size
    reserved_change = action.map(_RESERVED).fillna(0).to_numpy(np.int64) * size
    live = blocks[blocks["state"] == "active_allocated"]
    segments = blocks.drop_duplicates("segment")
    old_addr, old_bytes, old_labels = _from_before(events, live)
    begin = int(ts[0]) - _BEFORE_NS if len(ts) else 0
    level = np.concatenate([old_bytes, change])
    reserved = np.concatenate([np.zeros(len(old_bytes), np.int64), reserved_change])
    end_allocated, end_reserved = int(live["requested_bytes"].sum()), int(segments["segment_bytes"].sum())
    allocated = end_allocated - (level.sum() - np.cumsum(level))
    reserved_level = end_reserved - (reserved.sum() - np.cumsum(reserved))
    started = int(allocated[0] - level[0]) if len(level) else 0
    example = f"{started:,} bytes on device {device} are in no block"
    effect = "levels are counted back from the blocks at the end"
    builder.report.add("levels-do-not-meet", "info", int(started != 0), example, effect)
    times = np.concatenate([np.full(len(old_bytes), begin), ts])
    labels = np.concatenate([old_labels, events["label"].to_numpy()])
    track = builder.track(f"allocator of device {device}", device=device)
    no_stack = np.full(len(old_bytes), -1)
    stack = np.concatenate([no_stack, events["stack"].to_numpy(dtype=np.int64, na_value=-1)])
    _slices(times, labels, [*["alloc"] * len(old_bytes), *action], stack, track, builder)
    changes = np.flatnonzero((level != 0) | (reserved != 0))
    builder.allocations(
        ts=times[changes],
        addr=np.concatenate([old_addr, events["addr"].to_numpy()])[changes],
        bytes=level[changes],
        device=device,
        allocated=allocated[changes],
        reserved=reserved_level[changes],
        track=track,
    )
    ooms = events[(action == "oom").to_numpy()]
    if len(ooms):
        example = f"{int(ooms['bytes'].iloc[0]):,} bytes were requested"
        builder.report.add("out-of-memory", "info", len(ooms), example=example, effect="marked in the trace")


def _from_before(events: pd.DataFrame, live: pd.DataFrame) -> tuple[Any, IntArray, Any]:
    """Return blocks from before the history: freed without an allocation, or live without an event."""
    events_of_blocks = events[events["action"].isin(list(_ALLOCATED))]
    first = events_of_blocks.drop_duplicates("addr")
    freed = first[first["action"] == "free_requested"]
    silent = live[~live["addr"].isin(events_of_blocks["addr"])]
    return (
        np.concatenate([freed["addr"].to_numpy(np.uint64), silent["addr"].to_numpy(np.uint64)]),
        np.concatenate([freed["bytes"].to_numpy(), silent["requested_bytes"].to_numpy()]).astype(np.int64),
        np.concatenate([np.full(len(freed), "", object), silent["label"].to_numpy(object)]),
    )


def _slices(
    ts: IntArray,
    labels: npt.NDArray[Any],
    actions: list[Any],
    stack: IntArray,
    track: int,
    builder: TraceBuilder,
) -> None:
    kind = np.array(actions, dtype=object)
    alloc = np.flatnonzero(kind == "alloc")
    names = np.where(labels[alloc] == "", "allocation without a stack", labels[alloc])
    others = [(np.flatnonzero(kind == action), name, "overhead") for action, name in _SLICES.items()]
    for rows, name, category in [(alloc, names, "annotation"), *others]:
        if len(rows):
            dur = np.ones(len(rows), np.int64)
            builder.slices(ts=ts[rows], dur=dur, track=track, name=name, category=category, stack=stack[rows])


def _annotations(rows: Any, builder: TraceBuilder) -> None:
    """Put ranges of ``record_function`` that newer snapshots keep."""
    events = _dicts(_list(rows), "annotation", builder)
    events = [event for event in events if event.get("stage") in ("START", "END")]
    times = _ints(events, "time_us", -1)
    names, stages = _texts(events, "name"), _texts(events, "stage")
    if not len(events):
        return
    track = builder.track("annotations")
    begin, end = (stages == "START") & (times >= 0), (stages == "END") & (times >= 0)
    builder.begin(times[begin] * 1000, names[begin], track)
    builder.end(times[end] * 1000, track)


def _dicts(rows: list[Any], what: str, builder: TraceBuilder) -> list[dict[Any, Any]]:
    wrong = np.fromiter((not isinstance(row, dict) for row in rows), bool, len(rows))
    builder.report.add_where(f"broken-{what}", "loss", wrong, lambda i: bounded_repr(rows[i]), "left out")
    return [row for row in rows if isinstance(row, dict)]


def _ints(rows: list[dict[Any, Any]], key: str, missing: int) -> IntArray:
    values = [row.get(key, missing) for row in rows]
    # numbers this large are not sizes or times, and their sums would overflow
    return np.array([v if type(v) is int and -(2**53) < v < 2**53 else missing for v in values], np.int64)


def _addresses(rows: list[dict[Any, Any]]) -> npt.NDArray[np.uint64]:
    values = [row.get("addr", row.get("address", 0)) for row in rows]
    return np.array([v if type(v) is int and 0 <= v < 2**64 else 0 for v in values], np.uint64)


def _texts(rows: list[dict[Any, Any]], key: str) -> npt.NDArray[Any]:
    return np.array([str(row.get(key, "")) for row in rows], dtype=object)
