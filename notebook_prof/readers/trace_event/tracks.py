"""Tracks and their names, from the metadata events."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from ...errors import bounded_repr
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from .events import Events, number

_USED: Final = {"process_name": "name", "thread_name": "name", "process_labels": "labels"}
_IGNORED: Final = ("process_sort_index", "thread_sort_index", "trace_buffer_overflowed", "num_cpus")


class Tracks:
    """Makes the builder's tracks of places as they are needed.

    Parameters
    ----------
    events : Events
    builder : TraceBuilder
        Gets ``metadata["processes"]``: names by process id.
    """

    def __init__(self, events: Events, builder: TraceBuilder) -> None:
        self._events, self._builder = events, builder
        self._threads, self.processes = _names(events, builder)
        self._track: dict[int, int] = {}
        if self.processes:
            builder.metadata["processes"] = {str(pid): name for pid, name in self.processes.items()}

    def of(self, rows: IntArray) -> IntArray:
        """Return the track of each of these events."""
        codes, inverse = np.unique(self._events.thread_code[rows], return_inverse=True)
        tracks = np.array([self._of_thread(int(code)) for code in codes], np.int64)
        return tracks[inverse.ravel()] if len(rows) else np.empty(0, np.int64)

    def process(self, code: int) -> tuple[int | None, str]:
        """Return the process id, where it is a number, and what the process is called."""
        pid = self._events.thread_ids[code][0]
        pid_number = number(pid)
        word = pid if isinstance(pid, str) and pid_number is None else "" if pid is None else f"process {pid}"
        return pid_number, self.processes.get(pid) or word

    def _of_thread(self, code: int) -> int:
        if (track := self._track.get(code)) is not None:
            return track
        pid, tid = self._events.thread_ids[code]
        name = self._threads.get((pid, tid)) or (f"thread {tid}" if tid is not None else "")
        pid_number, tid_number = number(pid), number(tid)
        if tid_number is None or (pid_number is None and pid is not None):
            # ids that are words: they tell the tracks apart by name
            word = self.process(code)[1] if pid_number is None else ""
            name = " · ".join(part for part in (word, name) if part) or "events"
        self._track[code] = track = self._builder.track(name, pid=pid_number, tid=tid_number)
        return track


def _names(events: Events, builder: TraceBuilder) -> tuple[dict[Any, str], dict[Any, str]]:
    threads: dict[Any, str] = {}
    processes: dict[Any, str] = {}
    for i in events.where("M").tolist():
        row = events.rows[i]
        kind = row.name if isinstance(row.name, str) else ""
        if kind in _IGNORED:
            continue
        args = _decoded(row.args)
        name = args.get(_USED[kind]) if kind in _USED and isinstance(args, dict) else None
        pid, tid = events.thread_ids[events.thread_code[i]]
        if kind == "thread_name" and name is not None:
            threads[pid, tid] = str(name)
        elif kind == "process_name" and name is not None:
            processes[pid] = str(name)
        elif kind == "process_labels" and name:
            processes[pid] = f"{processes.get(pid, '')} {name}".strip()
        else:
            builder.report.add(
                "metadata-not-used", "info", example=bounded_repr(row.name), effect="no name is taken from it"
            )
    return threads, processes


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, RecursionError):
        return None
