"""Rows of MindSpore's and msprof's timelines: typed JSON, then columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...readers.codec.numbers import to_ns
from ...readers.codec.tolerant_json import NOTHING, UNDECODABLE, decode_rows
from ...trace.arrays import BoolArray, IntArray
from ...trace.report import ImportReport
from .operators import COUNT_NS, parted

Scalar = int | float | str | None


class MindSporeArguments(Struct, gc=False):
    """The arguments that matter."""

    name: Scalar = None
    labels: Scalar = None
    type: Scalar = None
    fullname: Scalar = None
    op_full_name: Scalar = None
    task: Scalar = field(name="Task Type", default=None)
    stream: Scalar = field(name="Stream Id", default=None)
    iteration: Scalar = field(name="Iteration ID", default=None)


Described = tuple[str, MindSporeArguments]
"""Arguments of a row: all as a compact JSON object (empty if none), and the ones we use."""


class MindSporeRow(Struct, gc=False):
    """One element of the list."""

    ph: str = ""
    name: Scalar = None
    cat: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    id: Scalar = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    scope_level: Scalar = None
    args: Raw = NOTHING


_NO_ARGUMENTS: Final[Described] = ("", MindSporeArguments())


@dataclass(frozen=True, slots=True)
class Timeline:
    """A decoded timeline file."""

    # `ts dur` (int64 ns, as in the file), text `name full type cat pid tid stream iteration args` (args: JSON
    # objects), and `scope` (bool)
    slices: pd.DataFrame
    ends: pd.DataFrame  # ends of arrows: `ph cat id pid tid ts`
    processes: dict[str, str]  # name or label by pid
    threads: dict[tuple[str, str], str]  # name by pid and tid


def timeline(data: bytes, report: ImportReport) -> Timeline:
    """Decode a JSON list of trace events into rows in the order of the file."""
    # times in it are µs, as numbers or as strings
    rows = decode_rows(data, MindSporeRow, report)
    cache: dict[bytes, Described] = {}
    named = [row for row in rows if row.ph == "M"]
    labels = _names(named, "process_labels", "labels", cache)
    processes = {pid: name for (pid, _), name in [*labels, *_names(named, "process_name", "name", cache)]}
    threads = dict(_names(named, "thread_name", "name", cache))
    other = sum(row.ph not in "XMstf" or not row.ph for row in rows)
    report.add("row-not-used", "info", other, effect="rows of a kind that these tools do not write")
    return Timeline(_slices(rows, cache, report), _ends(rows), processes, threads)


def _names(
    rows: list[MindSporeRow], kind: str, word: str, cache: dict[bytes, Described]
) -> list[tuple[tuple[str, str], str]]:
    """Return the names that rows of a kind give their process and thread; the last one counts."""
    return [
        ((_text(row.pid), _text(row.tid)), _text(getattr(_described(row.args, cache)[1], word)))
        for row in rows
        if row.name == kind and len(row.args) > 2
    ]


def _described(raw: Raw, cache: dict[bytes, Described]) -> Described:
    """Decode arguments, each distinct text once."""
    if len(raw) <= 2:
        return _NO_ARGUMENTS
    text = bytes(raw)
    if (described := cache.get(text)) is None:
        try:
            plain = msgspec.json.format(text, indent=-1)
            described = plain.decode(errors="replace"), msgspec.json.decode(plain, type=MindSporeArguments)
        except UNDECODABLE:
            described = _NO_ARGUMENTS
        cache[text] = described
    return described


def _slices(rows: list[MindSporeRow], cache: dict[bytes, Described], report: ImportReport) -> pd.DataFrame:
    rows = [row for row in rows if row.ph == "X"]
    ts, timed = to_ns([row.ts for row in rows])
    dur, lasting = to_ns([row.dur for row in rows])
    described = [_described(row.args, cache) for row in rows]
    args = [fields for _, fields in described]
    frame = pd.DataFrame(
        {
            "ts": ts,
            "dur": dur,
            "name": _texts([row.name for row in rows]),
            "full": _texts([a.fullname or a.op_full_name or r.name for a, r in zip(args, rows, strict=True)]),
            "type": _texts([a.type or a.task for a in args]),
            **{name: _texts([getattr(row, name) for row in rows]) for name in ("cat", "pid", "tid")},
            **{name: _texts([getattr(a, name) for a in args]) for name in ("stream", "iteration")},
            "args": pd.Series([text for text, _ in described], dtype="object"),
            "scope": np.fromiter((row.scope_level is not None for row in rows), bool, len(rows)),
        }
    )
    good = timed & lasting & (frame["name"] != "").to_numpy()
    report.broken_rows(~good, lambda i: frame["name"].iloc[i], "rows without a time or a name are left out")
    return frame[good].reset_index(drop=True)


def _ends(rows: list[MindSporeRow]) -> pd.DataFrame:
    rows = [row for row in rows if row.ph in ("s", "f") and row.id is not None]
    ts, good = to_ns([row.ts for row in rows])
    names = ("ph", "cat", "id", "pid", "tid")
    frame = pd.DataFrame({name: _texts([getattr(row, name) for row in rows]) for name in names})
    return frame.assign(ts=ts)[good].reset_index(drop=True)


def _text(value: Scalar) -> str:
    return "" if value is None else str(value)


def _texts(values: list[Scalar] | list[str]) -> pd.Series:
    return pd.Series([_text(value) for value in values], dtype="object")


# The device's own records (r0.5), before MindSpore made tables of them.

_NODE: Final = re.compile(
    rb"Node:(\S{1,200}?), Run s?tart:(\d{1,18}), Run end:(\d{1,18})[^\x00]{0,20}\x00"
    rb"[^\x00]{0,2000}?dispatchTime=(\d{1,12}) us, totalTime=(\d{1,12}) us"
)
_LINE: Final = re.compile(rb"^[ \t]*(\d{1,9})[ \t]+(\S{1,200})((?:[ \t]+[\d.]{1,20}){4,5})[ \t]*\r?$", re.M)
_RECORD: Final = np.dtype([("tag", "<u8"), ("task", "<u2"), ("stream", "<u2"), ("count", "<u8")])
_FP, _BP, _END, _MAX_TAG = 1, 2, 255, 255


def training_trace(data: bytes, report: ImportReport) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read steps and gradient exchanges, as `step_trace` does, from ``training_trace.*.slice_<n>``."""
    # Records of 20 bytes, little endian: tag, task, stream, count of 10 ns. Tags: 0 and those above 255 begin
    # a step, 1 is the forward's begin, 2 the backward's end, 255 the step's end; others come in pairs around
    # an exchange. The first step has no begin of its own: it begins with its forward.
    n, leftover = divmod(len(data), _RECORD.itemsize)
    report.broken_rows(int(leftover > 0), f"{leftover} bytes", "the last record is cut off")
    records = np.frombuffer(data, _RECORD, n)
    ns = (records["count"].astype(np.float64) < 4e17) * records["count"].astype(np.int64) * int(COUNT_NS)
    stream = records["stream"].astype(np.int64)
    tag = records["tag"].astype(np.int64)
    ends = np.flatnonzero(tag == _END)
    owner = np.searchsorted(ends, np.arange(n))
    inside = owner < len(ends)
    table = pd.DataFrame({"step": np.arange(1, len(ends) + 1), "end_ns": ns[ends]})
    for name, code in (("fp_ns", _FP), ("bp_ns", _BP)):
        rows = np.flatnonzero((tag == code) & inside)
        first = pd.Series(ns[rows], index=owner[rows])
        table[name] = first.groupby(level=0).agg("min" if code == _FP else "max").reindex(table.index)
    whole = table["fp_ns"].notna() & table["bp_ns"].notna()
    report.broken_rows(
        ~whole.to_numpy(), lambda i: f"step {i + 1}", "steps without forward or backward are left out"
    )
    table["start_ns"] = table["end_ns"].shift().fillna(table["fp_ns"])
    table = table[whole].astype("int64")
    return parted(table).assign(points="file"), _exchanges(stream, tag, ns, owner, inside)


def _exchanges(
    stream: IntArray, tag: IntArray, ns: IntArray, owner: IntArray, inside: BoolArray
) -> pd.DataFrame:
    rows = np.flatnonzero((tag > _BP) & (tag < _END) & inside)
    frame = pd.DataFrame({"step": owner[rows] + 1, "stream": stream[rows], "ns": ns[rows]})
    nth = frame.groupby(["step", "stream"]).cumcount()
    frame["pair"] = nth // 2
    keys = ["step", "stream", "pair"]
    pairs = frame[nth % 2 == 0].merge(frame[nth % 2 == 1], on=keys, suffixes=("", "_end"))
    name = "stream_" + pairs["stream"].astype(str) + "_parallel_" + pairs["pair"].astype(str)
    dur = (pairs["ns_end"] - pairs["ns"]).clip(lower=0)
    table = {"step": pairs["step"], "name": name, "stream": pairs["stream"]}
    return pd.DataFrame({**table, "start_ns": pairs["ns"], "dur_ns": dur})


def aicpu_records(data: bytes) -> pd.DataFrame:
    """Read ``DATA_PREPROCESS.dev.AICPU.<id>.slice_<n>``: columns as in ``aicpu_intermediate_<id>.csv``."""
    rows = [match.groups() for match in _NODE.finditer(data)]
    table = _aicpu_table([(str(i + 1).encode(), n, t, d, a, b) for i, (n, a, b, d, t) in enumerate(rows)])
    us = ["total_time", "dispatch_time"]
    return table.assign(**{name: pd.to_numeric(table[name]) / 1e3 for name in us})


def aicpu_lines(data: bytes) -> pd.DataFrame:
    """Read ``output_data_preprocess_aicpu_<id>.txt``: as `aicpu_records`."""
    rows = []
    for match in _LINE.finditer(data):
        total, dispatch, *_, start, end = match[3].split()
        rows.append((match[1], match[2], total, dispatch, start, end))
    return _aicpu_table(rows)


def _aicpu_table(rows: Sequence[tuple[bytes, ...]]) -> pd.DataFrame:
    columns = ["serial_number", "node_type_name", "total_time", "dispatch_time", "run_start", "run_end"]
    return pd.DataFrame([[cell.decode(errors="replace") for cell in row] for row in rows], columns=columns)


# The roles of a timeline's lanes. `runtime` is CANN; `result` is what the tool derived from other lanes.

_OF_PROCESS: Final = (
    ("ascend hardware", "device"),
    ("npu", "device"),
    ("cann", "runtime"),
    ("overlap anal", "result"),
    ("op overlap analyse", "result"),
    ("step trace", "steps"),
    ("scope layer", "scopes"),
    ("hccl", "communication"),
    ("communication", "communication"),
    ("aicpu", "aicpu"),
    ("ai cpu", "aicpu"),
    ("cpu op", "host"),
    ("host cpu op", "host"),
    ("python", "python"),
)
_OF_NUMBER: Final = {
    "9000": "aicpu",
    "10000": "communication",
    "11000": "host",
    "12000": "result",
    "13000": "device",
}
_STEPS_TID, _SCOPES_TID = "100000", "100001"
_STEP_CATS: Final = frozenset({"Iteration Time", "FP_BP Time", "Iteration Refresh", "Reduce"})
_DIGITS: Final = re.compile(r"(\d{1,18})\D*$")
_DEVICE_NUMBER: Final = re.compile(r"\d{1,3}")


class Lane(NamedTuple):
    """Rows of one process and thread."""

    role: str  # `python`, or one of those below
    pid: str
    tid: str
    name: str  # of the thread, or else of the process
    rows: pd.DataFrame  # part of `Timeline.slices`, with its index

    @property
    def number(self) -> int:
        """Last number in the thread's id; 0 if there is none."""
        return number_in(self.tid)


def lanes(timeline: Timeline) -> list[Lane]:
    """Split a timeline into lanes, in the order of their first rows."""
    # Process names decide. Files before 2.2 have none, and fixed numbers instead: 9000 AI CPU, 10000
    # communication, 12000 overlap; threads 100000 steps and 100001 scopes. A process without either is a
    # device, or the host where threads are called Ops or HostCpuOps.
    result = []
    for (pid, tid), rows in timeline.slices.groupby(["pid", "tid"], sort=False):
        process = timeline.processes.get(pid, "")
        thread = timeline.threads.get((pid, tid), "")
        result.append(Lane(_role(pid, tid, process, thread, rows), pid, tid, thread or process, rows))
    return result


def number_in(text: str) -> int:
    """Return the last number in `text`; 0 if there is none."""
    match = _DIGITS.search(text)
    return int(match[1]) if match else 0


def device_of(lane: Lane, rank: int) -> int:
    """Return the number of the device of a lane: the process of old files, else the file's."""
    return int(lane.pid) if _DEVICE_NUMBER.fullmatch(lane.pid) and not lane.name else rank


def _role(pid: str, tid: str, process: str, thread: str, rows: pd.DataFrame) -> str:
    if rows["scope"].any() or (tid == _SCOPES_TID and not process.startswith("Ascend")):
        return "scopes"
    if tid == _STEPS_TID or thread.startswith("Step Trace") or set(rows["cat"].unique()) & _STEP_CATS:
        return "steps"
    if tid.startswith("HostCpuOps") or tid == "Ops":
        return "host"
    lowered = process.lower()
    if (role := next((role for start, role in _OF_PROCESS if lowered.startswith(start)), None)) is not None:
        return role
    return _OF_NUMBER.get(pid, "python" if (rows["cat"] == "cpu_op").any() else "device")
