"""Chrome trace JSON in Kineto's dialect, for Perfetto and TensorBoard."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from gzip import GzipFile
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..atomic_files import atomic_gzip
from ..trace import Trace
from ..trace.arrays import IntArray, TextArray, optional
from ..trace.intervals import as_ints
from ..trace.schema import TABLES
from ..trace.taxonomy import MODULE_PREFIX, STEP_PREFIX
from .values import event_texts

# The events as text, by column operations.

Rows: TypeAlias = Iterable[str]
"""Chunks of events, each joined with commas; a chunk may be empty."""

KIND: Final = {
    "operator": "cpu_op",
    "kernel": "kernel",
    "launch": "cuda_runtime",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "collective": "user_annotation",
    "python": "python_function",
    "annotation": "user_annotation",
    "module": "user_annotation",
    "io": "user_annotation",
    "sync": "cuda_runtime",
    "overhead": "overhead",
}
ON_DEVICE: Final = {"collective": "kernel", "annotation": "gpu_user_annotation"}
"""Kineto's names for our categories on streams, if they differ."""
_ARROWS: Final = {"launch": "ac2g", "fwdbwd": "fwdbwd", "link": "flow"}
_CHUNK: Final = 65_536
_NO_PROCESS: Final = 999_999
_FRACTIONS: Final = np.array([f".{ns:03d}" for ns in range(1000)], dtype=object)


def stack_frames(trace: Trace) -> dict[str, dict[str, Any]]:
    """Return frames of call stacks by key, as in Chrome's format; the lines are an addition."""
    columns = ("parent", "name", "file", "line")
    frames = trace.stacks[["stack", *columns]].astype(object)
    frames = frames.where(trace.stacks.notna(), None)
    frames_by_key = {}
    for key, parent, name, file, line in zip(*(frames[c] for c in frames), strict=True):
        frame: dict[str, Any] = {"name": name, "category": file}
        frame |= {"line": line} if line is not None else {}
        frames_by_key[str(key)] = frame | ({"parent": str(parent)} if parent is not None else {})
    return frames_by_key


def track_rows(trace: Trace) -> Rows:
    """Write names of processes and threads; metadata events."""
    out = []
    for kind, thread in _thread_names(trace):
        process = f"GPU {thread['pid']}" if kind == "stream" else f"process {thread['pid']}"
        out += [thread, {**thread, "name": "process_name", "tid": 0, "args": {"name": process}}]
    yield ",\n".join(dict.fromkeys(json.dumps(row) for row in out))


def _thread_names(trace: Trace) -> Iterator[tuple[str, dict[str, Any]]]:
    ids, tracks = _track_ids(trace), trace.tracks[["track", "name", "kind"]].to_numpy().tolist()
    for track, name, kind in tracks:
        if kind in ("thread", "process", "stream"):
            pid, tid = ids[track]
            yield kind, {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def slice_rows(trace: Trace) -> Rows:
    """Write complete events, with attributes from other tables."""
    slices = trace.slices
    streams = trace.tracks.loc[trace.tracks["kind"] == "stream", "track"]
    on_device = slices["track"].isin(streams).to_numpy()
    names = [str(name) for name in slices["name"].cat.categories]
    kinds = [f',"cat":"{KIND[word]}"' for word in slices["category"].cat.categories]
    plain = [f'{{"ph":"X","name":{json.dumps(name)}' for name in names]
    bare = [name.removeprefix(MODULE_PREFIX) for name in names]
    module = [f'{{"ph":"X","name":{json.dumps(MODULE_PREFIX + name)}' for name in bare]
    args = {
        "category": [f',"args":{{"category":"{word}"' for word in slices["category"].cat.categories],
        "phase": [f',"phase":"{word}"' for word in slices["phase"].cat.categories],
        "module": [f',"module":{json.dumps(path)}' for path in slices["module"].cat.categories],
        "shapes": [_dims(shape) for shape in slices["shapes"].cat.categories],
        "line": [f',"line":{json.dumps(line)}' for line in slices["line"].cat.categories],
    }
    texts, autograd = event_texts(trace), _sequence_numbers(trace)
    for chunk in _chunks(len(slices)):
        part = slices.iloc[chunk]
        text = _table(plain, part["name"])
        modules = np.flatnonzero((part["category"] == "module").to_numpy())
        text[modules] = _table(module, part["name"].iloc[modules])
        kind = _table(kinds, part["category"])
        for word, there in ON_DEVICE.items():
            kind[on_device[chunk] & (part["category"] == word).to_numpy()] = f',"cat":"{there}"'
        text = text + kind + _track_id_texts(trace, part["track"]) + _times(part) + _leaf(part)
        for column, words in args.items():
            text = text + _table(words, part[column])
        text = text + _numbers(part) + autograd[chunk]
        text = text if texts is None else text + texts[chunk]
        yield ",\n".join(text + "}}")


def step_rows(trace: Trace) -> Rows:
    """Write steps that are not slices as ranges of their own thread."""
    # They would cross slices of the thread that ran them: a step that an optimizer's hook ends is over before
    # the optimizer's slice is.
    there = set(trace.slices["name"].cat.categories)
    names = [f"{STEP_PREFIX}{number}" for number in trace.steps["step"]]
    times = _times(trace.steps)
    ids = f'"pid":{_NO_PROCESS},"tid":1'
    rows = [
        f'{{"ph":"X","name":"{name}","cat":"user_annotation",{ids}{when}}}'
        for name, when in zip(names, times, strict=True)
        if name not in there
    ]
    if rows:
        rows.insert(0, f'{{"ph":"M","name":"thread_name",{ids},"args":{{"name":"steps"}}}}')
    yield ",\n".join(rows)


def flow_rows(trace: Trace, first: int = 0) -> Rows:
    """Write flows from launches to device work and from forward to backward, numbered from `first`."""
    slices, flows = trace.slices, trace.flows
    for chunk in _chunks(len(flows)):
        part = flows.iloc[chunk]
        number = _digits(first + np.arange(chunk.start, chunk.start + len(part)))
        kind = [_ARROWS[str(kind)] for kind in flows["kind"].cat.categories]
        category = _table([f',"cat":"{k}","name":"{k}"' for k in kind], part["kind"])
        for phase, end in (("s", "src"), ("f", "dst")):
            at = slices.iloc[part[end].to_numpy()]
            bind = ',"bp":"e"' if phase == "f" else ""
            text = f'{{"ph":"{phase}"{bind},"id":' + number + category + _track_id_texts(trace, at["track"])
            yield ",\n".join(text + ',"ts":' + _decimal(at["ts"].to_numpy()) + "}")


def counter_rows(trace: Trace) -> Rows:
    """Write counter events, one series per track."""
    names = trace.tracks.set_index("track")["name"]
    pids = trace.tracks.set_index("track")["pid"].fillna(_NO_PROCESS)
    for chunk in _chunks(len(trace.counters)):
        part = trace.counters.iloc[chunk]
        part = part[np.isfinite(part["value"].to_numpy())]
        track = part["track"].astype("category")
        heads = [f'{{"ph":"C","name":{json.dumps(names[t])},"pid":{pids[t]}' for t in track.cat.categories]
        values = part["value"].to_numpy().astype("U24").astype(object)
        text = _table(heads, track) + ',"tid":0,"ts":' + _decimal(part["ts"].to_numpy())
        yield ",\n".join(text + ',"args":{"value":' + values + "}}")


def memory_rows(trace: Trace) -> Rows:
    """Write allocations and frees, as Kineto's ``[memory]`` instants."""
    events = trace.allocations
    for chunk in _chunks(len(events)):
        part = events.iloc[chunk]
        track = ints(part["track"])
        on_track = np.flatnonzero(track >= 0)
        where = np.full(len(part), f',"pid":{_NO_PROCESS},"tid":0', dtype=object)
        where[on_track] = _track_id_texts(trace, part["track"].iloc[on_track].astype(np.int64))
        text = '{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]"' + where
        text = text + ',"ts":' + _decimal(part["ts"].to_numpy()) + ',"args":{"Addr":'
        text = text + part["addr"].to_numpy().astype("U20").astype(object)
        for label, column in (
            ("Bytes", "bytes"),
            ("Total Allocated", "allocated"),
            ("Total Reserved", "reserved"),
            ("Device Id", "device"),
        ):
            text = text + f',"{label}":' + _digits(part[column].to_numpy())
        kind = np.where(part["device"].to_numpy() < 0, ',"Device Type":0', ',"Device Type":1')
        yield ",\n".join(text + kind.astype(object) + "}}")


def _leaf(part: pd.DataFrame) -> TextArray:
    """Return the innermost frame of each slice's stack, if any."""
    text = np.full(len(part), "", dtype=object)
    leaf = ints(part["stack"])
    with_stack = np.flatnonzero(leaf >= 0)
    text[with_stack] = ',"sf":' + _digits(leaf[with_stack])
    return text


def _numbers(part: pd.DataFrame) -> TextArray:
    text = np.full(len(part), "", dtype=object)
    for column in ("step", "correlation", "device", "stream"):
        values = part[column].to_numpy(dtype=np.int64, na_value=-1)
        with_value = np.flatnonzero(values >= 0)
        text[with_value] = text[with_value] + (f',"{column}":' + _digits(values[with_value]))
    return text


def _sequence_numbers(trace: Trace) -> TextArray:
    """Write autograd's sequence numbers, by which readers pair forward and backward operators."""
    slices, flows = trace.slices, trace.flows[(trace.flows["kind"] == "fwdbwd").to_numpy()]
    src, dst = (flows[end].to_numpy() for end in ("src", "dst"))
    forward = ((slices["category"] == "operator") & (slices["phase"] == "forward")).to_numpy(copy=True)
    forward[src] = True
    of_row = np.cumsum(forward) - 1
    text = np.full(len(slices), "", dtype=object)
    text[forward] = ',"Sequence number":' + _digits(of_row[forward]) + ',"Fwd thread id":0'
    thread = slices["track"].to_numpy()[src] + 1
    text[dst] = ',"Sequence number":' + _digits(of_row[src]) + ',"Fwd thread id":' + _digits(thread)
    return text


def _dims(shapes: str) -> str:
    try:
        json.loads(shapes)
    except ValueError:
        return f',"Input shapes":{json.dumps(shapes)}'
    return f',"Input Dims":{shapes}'


def _times(part: pd.DataFrame) -> TextArray:
    ts, dur = _decimal(part["ts"].to_numpy()), _decimal(part["dur"].to_numpy())
    return np.asarray(',"ts":' + ts + ',"dur":' + dur, dtype=object)


def _track_ids(trace: Trace) -> dict[int, tuple[int, int]]:
    """Return the process and thread id of each track; tracks without ids get new ones."""
    tracks = trace.tracks
    stream = (tracks["kind"] == "stream").to_numpy()
    pid = np.where(stream, ints(tracks["device"]), ints(tracks["pid"]))
    tid = np.where(stream, ints(tracks["stream"]), ints(tracks["tid"]))
    key = tracks["track"].to_numpy()
    pid, tid = np.where(pid < 0, _NO_PROCESS, pid), np.where(tid < 0, _NO_PROCESS + key, tid)
    return dict(zip(key.tolist(), zip(pid.tolist(), tid.tolist(), strict=True), strict=True))


def _track_id_texts(trace: Trace, track: pd.Series[Any]) -> TextArray:
    ids = _track_ids(trace)
    table = np.full(1 + max(ids, default=0), "", dtype=object)
    for number, (pid, tid) in ids.items():
        table[number] = f',"pid":{pid},"tid":{tid}'
    return np.asarray(table[track.to_numpy()], dtype=object)


def _table(texts: Sequence[str], column: pd.Series[Any]) -> TextArray:
    """Return the text of each row's category; empty if missing."""
    table = np.array([*texts, ""], dtype=object)
    return np.asarray(table[column.cat.codes.to_numpy()], dtype=object)


def _decimal(ns: IntArray) -> TextArray:
    """Write microseconds with three decimals."""
    return np.asarray(_digits(ns // 1000) + _FRACTIONS[ns % 1000], dtype=object)


def _digits(values: npt.NDArray[Any]) -> TextArray:
    return np.asarray(values.astype("U21").astype(object))


def ints(column: pd.Series[Any]) -> IntArray:
    """Return a nullable integer column as int64; -1 if missing."""
    return as_ints(column.to_numpy(dtype=np.int64, na_value=-1))


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK):
        yield slice(start, min(start + _CHUNK, count))


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a Trace as Chrome trace JSON, compressed if the path ends in ``.gz``."""
    # Slices become complete events with Kineto's category names; times are microseconds with three decimals
    # relative to ``baseTimeNanoseconds``, so no nanosecond is lost. Streams, launches, counters, allocations
    # and collectives are written as Kineto writes them. Attributes that Kineto lacks (phase, step, module,
    # line) are in ``args``; call stacks are Chrome's ``stackFrames``. Steps that are not slices become
    # ``ProfilerStep#N`` on their own thread. `read_trace` reads the file as one of Kineto's; only ``.nbprof``
    # keeps everything.
    with atomic_gzip(path) as file:
        _write(trace, file)


def _write(trace: Trace, file: IO[bytes] | GzipFile) -> None:
    # other programs cannot read half a surrogate
    head = json.dumps(_head(trace), ensure_ascii=False)[:-1] + ', "traceEvents": [\n'
    file.write(head.encode(errors="replace"))
    parts = (track_rows, slice_rows, step_rows, flow_rows, counter_rows, memory_rows)
    before = ""
    for text in chain.from_iterable(rows(trace) for rows in parts):
        if text:
            file.write((before + text).encode())
            before = ",\n"
    file.write(b"\n]}\n")


def _head(trace: Trace) -> dict[str, Any]:
    top: dict[str, Any] = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": int(trace.metadata.get("start_unix_ns", 0)),
        "deviceProperties": _devices(trace),
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


# The recordings of several ranks in one Chrome trace, on one clock.

_FIRST_PROCESS: Final = 1_000_000
_PROCESSES: Final = 1_000
_NO_PROCESS_TEXT: Final = f'"pid":{_NO_PROCESS}'
_CORRELATIONS: Final = 32


def write_chrome_ranks(
    ranks: Iterable[tuple[int, Trace]], path: str | os.PathLike[str], *, base_unix_ns: int
) -> None:
    """Write several ranks, each with its number and on the common clock, as one Chrome trace."""
    # Each rank has its own processes, named ``rank 3 · process 812`` and ``rank 3 · GPU 0`` and sorted by
    # rank. Devices are renumbered; flows and correlations of different ranks never coincide. Call stacks and
    # the tables of the metadata are not written.
    devices = flows = 0
    with atomic_gzip(Path(path)) as file:
        top = {"schemaVersion": 1, "displayTimeUnit": "ns", "baseTimeNanoseconds": base_unix_ns}
        file.write((json.dumps(top)[:-1] + ', "traceEvents": [\n').encode())
        for rank, trace in ranks:
            placed, names = _placed(trace, rank, devices)
            own = f'"pid":{_FIRST_PROCESS + rank * _PROCESSES + _PROCESSES - 1}'
            rows = (slice_rows(placed), step_rows(placed), flow_rows(placed, flows))
            for text in chain([names], *rows, counter_rows(placed), memory_rows(placed)):
                if text:
                    file.write((text.replace(_NO_PROCESS_TEXT, own) + ",\n").encode())
            devices = max([devices, *(ints(placed.tracks["device"]) + 1).tolist()])
            flows += len(trace.flows)
        # a last event, since every other one is followed by a comma
        file.write(b'{"ph":"M","name":"process_name","pid":"","tid":0,"args":{"name":""}}\n]}\n')


def _placed(trace: Trace, rank: int, first_device: int) -> tuple[Trace, str]:
    """Return the trace with processes and devices unique to this rank, and the rows that name them."""
    tables = {table.name: getattr(trace, table.name) for table in TABLES}
    tracks, slices = tables["tracks"], tables["slices"]
    on_device = (tracks["kind"] == "stream").to_numpy()
    device, pid = ints(tracks["device"]), ints(tracks["pid"])
    devices, processes = np.unique(device[on_device]), np.unique(pid[~on_device])
    first = _FIRST_PROCESS + rank * _PROCESSES
    pid[~on_device] = first + np.minimum(np.searchsorted(processes, pid[~on_device]), _PROCESSES - 2)
    pid[on_device] = first_device + np.searchsorted(devices, device[on_device])
    tables["tracks"] = tracks.assign(
        pid=optional(pid), device=optional(np.where(on_device, pid, -1), "Int16")
    )
    own, correlation = ints(slices["device"]), ints(slices["correlation"])
    at = np.searchsorted(devices, own)
    there = (own >= 0) & (at < len(devices))
    tables["slices"] = slices.assign(
        device=optional(np.where(there, first_device + at, -1), "Int16"),
        correlation=optional(np.where(correlation >= 0, correlation + (rank << _CORRELATIONS), -1)),
        stack=optional(np.full(len(own), -1)),  # all ranks would need a common list of call stacks
    )
    named = [(first + i, f"rank {rank} · process {pid}") for i, pid in enumerate(processes.tolist())]
    named += [(first_device + i, f"rank {rank} · GPU {d}") for i, d in enumerate(devices.tolist())]
    rows: list[dict[str, Any]] = []
    for process, name in named:
        head = {"ph": "M", "pid": process, "tid": 0}
        rows.append({**head, "name": "process_name", "args": {"name": name}})
        rows.append({**head, "name": "process_sort_index", "args": {"sort_index": rank}})
    placed = Trace(tables, metadata=trace.metadata, report=trace.report, span=trace.span)
    rows += [thread for _, thread in _thread_names(placed)]
    return placed, ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
