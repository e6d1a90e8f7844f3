"""Which lane of a timeline is what: the host, a stream, communication, scopes, steps, a result."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pandas as pd

from .rows import Timeline

ROLES: Final = ("host", "python", "runtime", "device", "aicpu", "communication", "scopes", "steps", "result")
"""``runtime`` is CANN; ``result`` is what the tool derived from other lanes (overlap analysis)."""

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

    role: str  # one of `ROLES`
    pid: str
    tid: str
    name: str  # of the thread, or else of the process
    rows: pd.DataFrame  # part of `Timeline.slices`, with its index

    @property
    def number(self) -> int:
        """Last number in the thread's id; 0 if there is none."""
        return number_in(self.tid)


def lanes(timeline: Timeline) -> list[Lane]:
    """Take a timeline apart into lanes, in the order of first rows."""
    # Process names decide. Files before 2.2 have none, and fixed numbers instead: 9000 AI CPU, 10000
    # communication, 12000 overlap; threads 100000 steps and 100001 scopes. A process without either is a
    # device, or the host where threads are called Ops or HostCpuOps.
    slices = timeline.slices
    result = []
    for (pid, tid), rows in slices.groupby(["pid", "tid"], sort=False):
        process = timeline.processes.get(pid, "")
        thread = timeline.threads.get((pid, tid), "")
        result.append(Lane(_role(pid, tid, process, thread, rows), pid, tid, thread or process, rows))
    return result


def number_in(text: str) -> int:
    """Return the last number in `text`; 0 if there is none.

    >>> number_in("HostCpuOps12"), number_in("Ops")
    (12, 0)
    """
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
