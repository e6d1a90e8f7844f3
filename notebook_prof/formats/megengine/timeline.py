"""MegEngine's ``chrome_timeline.json`` of a dynamic graph."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ...errors import FormatError
from ...readers.codec.tolerant_json import decode_events
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from .counters import counters
from .kinds import DISPATCH, categories, is_device, scopes
from .nodes import Nodes, physical_nodes
from .rows import File, Ranges, Row, Timed, links, ranges, thread_track, timed
from .tensors import Operators, operators, tensors

_PHASES: Final = frozenset("BEXiICMstf")


def read_timeline(data: bytes, builder: TraceBuilder) -> None:
    """Read the timeline of a dynamic graph.

    Threads are told by their names, since their numbers differ from run to run. Operators are slices on
    the worker's thread, with the shapes of their inputs, linked to their kernels on the device's track by
    MegEngine's id (`correlation`). Each ``StopStep`` ends a step; steps count from 0.
    ``metadata["tables"]`` holds ``operators`` and ``tensors`` (see `tensors`), ``tensor_links`` (see
    `rows.links`), and ``counter_aliases`` (see `counters`).

    Raises
    ------
    FormatError
        If there are no events.
    """
    file, listed = decode_events(data, File, Row, builder.report)
    rows = listed if listed is not None else (file.rows if file is not None else [])
    events = timed(rows, _base_ns(file, rows), builder.report)
    if not events.rows:
        raise FormatError("there is no event with a time in it")
    for word in sorted({row.ph for row in events.rows} - _PHASES):
        count = sum(row.ph == word for row in events.rows)
        example = f"events of phase {word!r}"
        builder.report.add("row-not-used", "loss", count, example, "they are not in the tables")
    table = ranges(events, builder.report)
    nodes = Nodes(builder, physical_nodes(str(args["device"]) for args in table.args if "device" in args))
    operators_read = _slices(table, events, nodes, builder)
    tables = builder.metadata.setdefault("tables", {})
    tables["operators"], tables["tensors"] = operators_read.table, tensors(table)
    tables["tensor_links"] = links(events)
    tables["counter_aliases"] = counters(events, nodes, builder)
    _steps(events, builder)


def _base_ns(file: File | None, rows: list[Row]) -> int:
    """Return the Unix time at which the profile started; older files tell it in an event."""
    metadata = file.metadata if file is not None else None
    if not isinstance(metadata, dict) or "localTime" not in metadata:
        metadata = next((row.args for row in rows if row.name == "Metadata" and row.args), {})
    text = str(metadata.get("localTime", ""))
    return int(text) if text.isdecimal() and len(text) < 20 and int(text) < 1 << 62 else 0


def _slices(table: Ranges, events: Timed, nodes: Nodes, builder: TraceBuilder) -> Operators:
    devices, tracks = [], []
    for i in range(len(events.keys)):
        name = events.names.get(i, "")
        devices.append(nodes.device(name) if is_device(name) else -1)
        tracks.append(nodes.track(name) if is_device(name) else thread_track(events, i, builder))
    device = np.array(devices, np.int64)[table.thread]
    category = categories(table, device >= 0)
    operators_read = operators(table, category)
    module, phase = scopes(table, category)
    handles = builder.slices(
        ts=table.ts,
        dur=table.dur,
        track=np.array(tracks, np.int64)[table.thread],
        name=np.array(table.name, dtype=object),
        category=category,
        phase=phase,
        module=module,
        correlation=operators_read.id,
        device=device,
        shapes=operators_read.shapes,
    )
    _arrows(table, operators_read.id, category, device >= 0, handles, builder)
    return operators_read


def _arrows(
    table: Ranges,
    key: IntArray,
    category: npt.NDArray[np.object_],
    on_device: npt.NDArray[np.bool_],
    handles: IntArray,
    builder: TraceBuilder,
) -> None:
    """Link, by MegEngine's id, each dispatch on Python's thread to its operator, and that to its kernels."""
    dispatched = np.array([name == DISPATCH for name in table.name], bool)
    operator = category == "operator"
    for kind, source, target in (("link", dispatched, operator), ("launch", operator, on_device)):
        call, work = np.flatnonzero(source & (key >= 0)), np.flatnonzero(target & (key >= 0))
        call = call[np.argsort(key[call], kind="stable")]
        at = np.searchsorted(key[call], key[work], side="right") - 1
        same = (at >= 0) & (np.append(key[call], -1)[at] == key[work])
        builder.flows(kind, handles[call[at[same]]], handles[work[same]])


def _steps(events: Timed, builder: TraceBuilder) -> None:
    stops = [i for i, row in enumerate(events.rows) if row.name == "StopStep" and row.ph in "iI"]
    if not stops:
        return
    thread = events.thread[stops]
    named = [i for i in stops if events.names.get(int(events.thread[i])) in ("interpreter", "channel")]
    chosen = named or [i for i, owner in zip(stops, thread, strict=True) if owner == thread[0]]
    ends = np.sort(events.ts[chosen])
    own = events.ts[events.thread == events.thread[chosen[0]]]
    starts = np.concatenate([[own.min()], ends[:-1]])
    builder.steps(np.arange(len(ends)), starts, ends - starts, "file")
    builder.metadata.setdefault("steps_source", "file")
