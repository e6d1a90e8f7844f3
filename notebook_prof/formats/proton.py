"""Proton, Triton's profiler: a tree of kernels and scopes (``.hatchet``, ``.hatchet_msgpack``)."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from msgspec import Struct, field

from ..errors import FormatError
from ..readers.base import Probe, Reader
from ..readers.codec.tolerant_json import UNDECODABLE
from ..trace.builder import TraceBuilder

_MARKS: Final = tuple(re.compile(rb'"' + word + rb'"\s*:') for word in (b"frame", b"metrics"))
_PACKED: Final = re.compile(rb"(?:[\x91-\x9f]|\xdc..)[\x81-\x8f]\xa5frame", re.DOTALL)
"""MessagePack: a list whose first element is a map, and its first key."""
_LAUNCH: Final = "__proton_launch_metadata"
_TIME: Final = "time (ns)"
_MOST_COLUMNS: Final = 200
_MOST_NS: Final = 1 << 61


class ProtonReader(Reader):
    """Reads ``proton.start(…, data="tree")``: sums by call path, without a timeline."""

    # The kernels of a device are on one lane, one after another in the order of the tree, inside the scopes
    # in which they were launched. The file does not contain when they ran, nor how long a scope took on the
    # host unless that was measured. All metrics are in ``metadata["tables"]["proton"]``.
    name = "proton"
    priority = 407
    describes = "Proton, Triton's profiler: its tree of kernels and scopes (.hatchet, .hatchet_msgpack)"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is a list of nodes, in JSON or MessagePack."""
        head = probe.head
        if _PACKED.match(head):
            return True
        return head.lstrip()[:1] == b"[" and all(mark.search(head) is not None for mark in _MARKS)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        _read_tree(data, _PACKED.match(data) is not None, builder)


class _ProtonFrame(Struct):
    name: str = ""


class _ProtonNode(Struct):
    frame: _ProtonFrame = field(default_factory=_ProtonFrame)
    metrics: dict[str, Any] = field(default_factory=dict)
    children: list[_ProtonNode] = field(default_factory=list)


class _TreeRow(NamedTuple):
    """A node of the tree: its own time, and how many nodes below it follow."""

    name: str
    above: int
    depth: int
    device: str
    own_ns: int
    overhead: bool
    metrics: dict[str, Any]


def _read_tree(data: bytes, packed: bool, builder: TraceBuilder) -> None:
    """Put kernels and scopes, from JSON or (if `packed`) MessagePack, into `builder`."""
    rows = _rows(_roots(data, packed, builder))
    total = _totals(rows)
    devices = sorted({row.device for row in rows if row.own_ns > 0})
    if not devices:
        raise FormatError(f"Proton's tree has no {_TIME!r}: its metrics, such as cycles, are not times")
    for device in devices:
        _add(rows, total[device], builder.track(f"kernels of {device}, summed", "process"), builder)
    builder.metadata.setdefault("tables", {})["proton"] = _table(rows)
    builder.metadata["time_line"] = False
    builder.report.add(
        "no-time-line",
        "info",
        example="sums of kernels by call path",
        effect="durations are sums, placed one after another: when kernels ran, and what the device did "
        "between them, is unknown",
        advice='record with data="trace" to have a timeline',
    )


def _roots(data: bytes, packed: bool, builder: TraceBuilder) -> list[_ProtonNode]:
    """Return the trees; the last element of the list describes the devices."""
    decode = msgspec.msgpack.decode if packed else msgspec.json.decode
    mark = b"\xa5frame" if packed else b'"frame"'
    try:
        parts = decode(data, type=list[msgspec.Raw])
    except UNDECODABLE as error:
        raise FormatError(f"Proton's tree cannot be decoded: {error}") from error
    roots, broken = [], 0
    for part in parts:
        try:
            if mark in bytes(part):
                roots.append(decode(part, type=_ProtonNode))
            else:
                devices = decode(part, type=dict[str, dict[str, dict[str, Any]]])
                builder.metadata["proton_devices"] = devices
        except UNDECODABLE:
            broken += 1
    builder.report.broken_rows(broken, "a tree of another form", "these are left out")
    return roots


def _rows(roots: list[_ProtonNode]) -> list[_TreeRow]:
    """Return the nodes, parents before children."""
    rows: list[_TreeRow] = []
    waiting = [(root, -1, 0, False) for root in reversed(roots)]
    while waiting:
        node, above, depth, inside = waiting.pop()
        overhead = inside or node.frame.name == _LAUNCH
        metrics = node.metrics
        device = f"{metrics.get('device_type', 'device')} {metrics.get('device_id', 0)}"
        time = metrics.get(_TIME, 0)
        own = round(time) if isinstance(time, int | float) and 0 <= time < _MOST_NS else 0
        rows.append(_TreeRow(node.frame.name, above, depth, device, own, overhead, metrics))
        number = len(rows) - 1
        waiting += [(child, number, depth + 1, overhead) for child in reversed(node.children)]
    return rows


def _totals(rows: list[_TreeRow]) -> dict[str, list[int]]:
    """Return the time of each node with those below it, by device."""
    totals = {row.device: [0] * len(rows) for row in rows}
    for number in range(len(rows) - 1, -1, -1):
        row = rows[number]
        totals[row.device][number] += row.own_ns
        if row.above >= 0:
            for total in totals.values():
                total[row.above] += total[number]
    return totals


def _add(rows: list[_TreeRow], total: list[int], track: int, builder: TraceBuilder) -> None:
    """Put a lane into the builder: a node's children begin where its own time ends."""
    begins, next_begin = [0] * len(rows), [0] * len(rows)
    shown, at_top = [], 0
    for number, row in enumerate(rows):
        begin = at_top if row.above < 0 else next_begin[row.above]
        begins[number], next_begin[number] = begin, begin + (row.own_ns if total[number] else 0)
        if row.above < 0:
            at_top += total[number]
        else:
            next_begin[row.above] += total[number]
        if total[number] and (row.depth or row.name != "ROOT"):
            shown.append(number)
    kinds = [
        "overhead" if rows[i].overhead else "operator" if rows[i].own_ns else "annotation" for i in shown
    ]
    ts, dur = (np.array([times[i] for i in shown], np.int64) for times in (begins, total))
    builder.slices(ts=ts, dur=dur, track=track, name=[rows[i].name for i in shown], category=kinds)


def _table(rows: list[_TreeRow]) -> pd.DataFrame:
    """Return all nodes with all of their metrics, and the path of names that leads to each."""
    paths: list[str] = []
    for row in rows:
        paths.append(f"{paths[row.above]}/{row.name}" if row.above >= 0 else row.name)
    words = list(dict.fromkeys(str(word) for row in rows for word in row.metrics))[:_MOST_COLUMNS]
    columns: dict[str, Any] = {"path": paths, "name": [row.name for row in rows]}
    for word in words:
        values = [row.metrics.get(word) for row in rows]
        columns[word] = [value if isinstance(value, int | float | str) else None for value in values]
    return pd.DataFrame(columns)
