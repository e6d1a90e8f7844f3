"""Events as columns, the input of all other parts of this reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import UNSET, Raw, Struct, UnsetType, field

from ...errors import FormatError, bounded_repr
from ...trace.arrays import IntArray, numbered
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport
from ...trace.strings import UNNAMED, Coded
from ..codec.numbers import to_ns
from ..codec.tolerant_json import NOTHING, UNDECODABLE, decode_events, decoded

# The JSON of trace events, loosely typed, since writers use any type in any field.


class EventRow(Struct, gc=False):
    """One event. Times stay text, since a double cannot represent them."""

    ph: Any = ""
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    tdur: Raw = NOTHING
    id: Any = None
    id2: Any = None
    scope: Any = None
    args: Raw = NOTHING
    attr: Raw = NOTHING
    bp: Any = None
    bind_id: Any = None
    flow_in: Any = None
    flow_out: Any = None
    sf: Any = None
    weight: Any = None

    def arguments(self) -> Raw:
        """Return its arguments; IBM's writers call them ``attr``."""
        return self.args if len(self.args) > 2 else self.attr


class TraceEventFile(Struct):
    """The object around the events."""

    rows: list[EventRow] | UnsetType = field(name="traceEvents", default=UNSET)
    base_ns: Any = field(name="baseTimeNanoseconds", default=None)
    unit: Any = field(name="displayTimeUnit", default=None)
    frames: Any = field(name="stackFrames", default=None)
    samples: Raw = field(name="samples", default=NOTHING)
    other: Any = field(name="otherData", default=None)
    viztracer: Any = field(name="viztracer_metadata", default=None)
    files: Any = field(name="file_info", default=None)
    system: Any = field(name="systemTraceEvents", default=None)


def decode(data: bytes, report: ImportReport) -> TraceEventFile:
    """Decode an object, an array with or without its end, or one event per line; FormatError for others."""
    text = data.strip(b"\x00 \t\r\n")
    if text.startswith(b"{") and (lines := _lines(text, report)) is not None:
        return TraceEventFile(rows=lines)
    if text.strip(b"[], \t\r\n") == b"":
        example = "the list of events is empty"
        report.add("no-events", "info", 1, example, "all tables are empty")
        return TraceEventFile(rows=[])
    try:
        envelope = decode_events(text, TraceEventFile, EventRow, report)
    except RecursionError as error:
        raise FormatError("its JSON is nested too deeply for a trace") from error
    samples = _samples(envelope.samples, report)
    _count_system_events(envelope.system, report)
    if envelope.rows is UNSET and not samples:
        raise FormatError("there is no list 'traceEvents' in it: this is not a file of trace events")
    envelope.rows = [*(envelope.rows or []), *samples]
    return envelope


def _samples(text: Raw, report: ImportReport) -> list[EventRow]:
    """Return the list ``samples`` beside the events as events of phase P."""
    if not bytes(text).startswith(b"["):
        return []
    try:
        rows = msgspec.json.decode(text, type=list[EventRow])
    except UNDECODABLE as error:
        report.add("broken-samples", "loss", example=str(error), effect="no samples are read")
        return []
    for row in rows:
        row.ph = "P"
    return rows


def _count_system_events(system: Any, report: ImportReport) -> None:
    """Report the operating system's events, which are not read: ftrace's text or Fuchsia's list."""
    if isinstance(system, str):
        lines = map(str.strip, system.splitlines())
        system = [line for line in lines if line and not line.startswith("#")]
    events = system.get("events") if isinstance(system, dict) else system
    if isinstance(events, list) and events:
        effect = "which thread ran on which core is unknown"
        advice = "open the file at ui.perfetto.dev to see them"
        report.add("system-events", "loss", len(events), str(events[0])[:80], effect, advice)


def _lines(text: bytes, report: ImportReport) -> list[EventRow] | None:
    """Return the events of a file with one object per line; None for any other file."""
    first, _, further = text.partition(b"\n")
    if not further.lstrip().startswith(b"{"):
        return None
    if (event := decoded(first, EventRow)) is None or not event.ph:
        return None
    try:
        return msgspec.json.Decoder(EventRow).decode_lines(text)
    except UNDECODABLE:
        pass
    rows = []
    for line in filter(None, map(bytes.strip, text.splitlines())):
        try:
            rows.append(msgspec.json.decode(line, type=EventRow))
        except UNDECODABLE as error:
            report.broken_rows(1, f"{error}: {line[:80].decode(errors='replace')}")
    return rows


# Tracks and their names, as given by the metadata events.

_USED: Final = {"process_name": "name", "thread_name": "name", "process_labels": "labels"}
_IGNORED: Final = ("process_sort_index", "thread_sort_index", "trace_buffer_overflowed", "num_cpus")


class Tracks:
    """Makes tracks in the builder as they are needed."""

    def __init__(self, events: EventColumns, builder: TraceBuilder) -> None:
        self._events, self._builder = events, builder
        self._threads, self.processes = _names(events, builder)
        if self.processes:
            builder.metadata["processes"] = {str(pid): name for pid, name in self.processes.items()}

    def of(self, rows: IntArray) -> IntArray:
        """Return the track of each event in `rows`."""
        codes, inverse = np.unique(self._events.thread_code[rows], return_inverse=True)
        tracks = np.array([self._of_thread(int(code)) for code in codes], np.int64)
        return tracks[inverse.ravel()] if len(rows) else np.empty(0, np.int64)

    def process(self, code: int) -> tuple[int | None, str]:
        """Return the process id (None if it is not a number), and the process's name."""
        pid = self._events.thread_ids[code][0]
        pid_number = number(pid)
        word = pid if isinstance(pid, str) and pid_number is None else "" if pid is None else f"process {pid}"
        return pid_number, self.processes.get(pid) or word

    def _of_thread(self, code: int) -> int:
        pid, tid = self._events.thread_ids[code]
        name = self._threads.get((pid, tid)) or (f"thread {tid}" if tid is not None else "")
        pid_number, tid_number = number(pid), number(tid)
        if tid_number is None or (pid_number is None and pid is not None):
            # ids that are words become part of the name, which distinguishes the tracks
            word = self.process(code)[1] if pid_number is None else ""
            name = " · ".join(part for part in (word, name) if part) or "events"
        return self._builder.track(name, pid=pid_number, tid=tid_number)


def _names(events: EventColumns, builder: TraceBuilder) -> tuple[dict[Any, str], dict[Any, str]]:
    threads: dict[Any, str] = {}
    processes: dict[Any, str] = {}
    for i in events.where("M").tolist():
        row = events.rows[i]
        kind = row.name if isinstance(row.name, str) else ""
        if kind in _IGNORED:
            continue
        args = decoded(row.args)
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
                "metadata-not-used", "info", example=bounded_repr(row.name), effect="its name is not used"
            )
    return threads, processes


_ATOMS: Final = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Events in the order of the file."""

    rows: list[EventRow]
    phase: npt.NDArray[np.str_]  # one letter
    ts: IntArray  # nanoseconds
    dur: IntArray  # nanoseconds; 0 for events without a duration
    thread_code: IntArray  # position in `thread_ids`
    thread_ids: list[tuple[Any, Any]]  # process and thread as the file writes them
    name: Coded
    cat: Coded

    def where(self, letters: str) -> IntArray:
        """Return the rows of events with these phases."""
        return np.flatnonzero(np.isin(self.phase, list(letters)))


def columns(rows: list[EventRow], base_ns: int, builder: TraceBuilder) -> EventColumns:
    """Turn events into columns, counting those without a time as ``broken-row``."""
    # Metadata events need no time.
    phase = np.array([row.ph[:1] if isinstance(row.ph, str) else "" for row in rows], dtype="U1")
    ts, ok = to_ns([row.ts for row in rows])
    timeless = ~ok & (phase != "M") & (phase != "")
    builder.report.broken_rows(
        timeless,
        lambda i: f"{rows[i].name!r}: ts {bytes(rows[i].ts).decode(errors='replace')[:80] or 'missing'}",
        "events without a usable time in microseconds are left out",
    )
    keep = ~timeless & (phase != "")
    builder.report.add("empty-event", "info", int((phase == "").sum()), effect="ignored")
    if not keep.all():
        rows = [row for row, good in zip(rows, keep.tolist(), strict=True) if good]
        phase, ts = phase[keep], ts[keep]
    process, processes = _coded(row.pid for row in rows)
    thread, threads = _coded(row.tid for row in rows)
    pair, pairs = pd.factorize(process * (len(threads) + 1) + thread)
    return EventColumns(
        rows=rows,
        phase=phase,
        ts=ts + base_ns,
        dur=_durations(rows, phase, builder),
        thread_code=np.asarray(pair, np.int64),
        thread_ids=[(processes[p // (len(threads) + 1)], threads[p % (len(threads) + 1)]) for p in pairs],
        name=texts(UNNAMED if row.name in (None, "") else row.name for row in rows),
        cat=texts("" if row.cat is None else row.cat for row in rows),
    )


def _durations(rows: list[EventRow], phase: npt.NDArray[np.str_], builder: TraceBuilder) -> IntArray:
    """Return the durations of complete events. Some writers provide only the CPU time."""
    at = np.flatnonzero(phase == "X")
    dur, ok = to_ns([rows[i].dur or rows[i].tdur for i in at])
    example = next((bounded_repr(rows[i].name) for i in at[~ok]), "")
    builder.report.add("duration-missing", "loss", int((~ok).sum()), example, "kept as instants")
    out = np.zeros(len(rows), np.int64)
    out[at] = dur
    return out


def atom(value: Any) -> Any:
    """Return a number or text unchanged, and any other value as text."""
    return value if isinstance(value, _ATOMS) else repr(value)


def number(value: Any) -> int | None:
    """Return a process or thread id as a number that fits into 64 bits; None if it is not one."""
    if isinstance(value, str):
        try:
            value = int(value, 0) if len(value) < 24 else None
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if -(1 << 63) <= value < (1 << 63):
        return value
    return value - (1 << 64) if 0 < value < (1 << 64) else None


def texts(values: Iterable[Any]) -> Coded:
    """Convert values of any type to a column of text."""
    codes, distinct = _coded(values)
    return Coded(codes, [str(value) for value in distinct])


def _coded(values: Iterable[Any]) -> tuple[IntArray, Sequence[Any]]:
    # type and value, since 1, 1.0 and True are the same dict key
    codes, pairs = numbered((type(v), v) for v in map(atom, values))
    return codes, [value for _, value in pairs]
