"""Kineto's raw result as torch hands it over, played from a file: a recording on a card, without the card."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from notebook_prof.readers.kineto.columns import DEVICE_TYPES

COMMUNICATION = "record_param_comms"
_OF_KERNELS = frozenset(
    {
        *("queued", "device", "context", "stream", "correlation", "registers per thread", "shared memory"),
        *("blocks per SM", "warps per SM", "grid", "block", "est. achieved occupancy %", "occupancy"),
        *("graph id", "graph node id", "priority", "kind"),
    }
)
"""What Kineto itself tells of a kernel; torch's files add the rest from the range of the collective."""


class Activity:
    """As ``torch._C._autograd._ITraceActivity``, from an event of a file."""

    def __init__(self, event: dict[str, Any], base_ns: int) -> None:
        self._kind, self._name = event["cat"], event["name"]
        arguments = {key: value for key, value in event.get("args", {}).items() if key != "External id"}
        self._pid, self._tid = event["pid"], event["tid"]
        self._ts = base_ns + int(event["ts"] * 1000)
        self.dur = int(event["dur"] * 1000)
        self._correlation = int(arguments.get("correlation", 0))
        self._device = int(arguments.get("device", -1)) if self._kind in DEVICE_TYPES else -1
        stream = arguments.get("stream", -1)
        self._stream = stream if stream >= 0 or self._kind == "cuda_sync" else self._tid
        exchanged = {key: value for key, value in arguments.items() if key not in _OF_KERNELS}
        self._linked: Activity | None = None
        if self._kind == "kernel" and exchanged:
            parent = {**event, "cat": "cpu_op", "name": COMMUNICATION, "args": exchanged}
            self._linked = Activity(parent, base_ns)
            arguments = {key: value for key, value in arguments.items() if key in _OF_KERNELS}
        self._json = json.dumps(arguments, default=float)[1:-1]

    def type(self) -> str:
        return str(self._kind)

    def name(self) -> str:
        return str(self._name)

    def timestamp(self) -> int:
        return self._ts

    def device_id(self) -> int:
        return self._device if self._kind in DEVICE_TYPES else int(self._pid)

    def resource_id(self) -> int:
        return int(self._stream if self._kind in DEVICE_TYPES else self._tid)

    def correlation_id(self) -> int:
        return self._correlation

    def linked_activity(self) -> Activity | None:
        return self._linked

    def metadata_json(self) -> str:
        return self._json


class Event(Activity):
    """As ``torch._C._autograd._KinetoEvent``: the same without the metadata."""

    def activity_type(self) -> str:
        return self.type()

    def start_ns(self) -> int:
        return self.timestamp()

    def duration_ns(self) -> int:
        return self.dur

    def start_thread_id(self) -> int:
        return 1

    def device_index(self) -> int:
        return self._device

    def device_resource_id(self) -> int:
        return self.resource_id()

    def sequence_nr(self) -> int:
        return -1

    def fwd_thread_id(self) -> int:
        return 0


class Result:
    """As ``torch._C._autograd._ProfilerResult``, of the rows of a file of 2021 or later."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        file = json.loads(text, parse_float=Decimal, parse_int=int)
        base = int(file.get("baseTimeNanoseconds", 0))
        rows = [row for row in file["traceEvents"] if row.get("ph") == "X" and row["cat"] != "Trace"]
        self._rows, self._base = rows, base

    def events(self) -> list[Event]:
        return [Event(row, self._base) for row in self._rows]

    def trace_activities(self) -> list[Activity]:
        return [Activity(row, self._base) for row in reversed(self._rows)]
