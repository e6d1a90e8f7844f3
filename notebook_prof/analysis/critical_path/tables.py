"""The columns of the critical path's tables."""

from __future__ import annotations

from typing import Final

from ...trace.schema import Column, Table
from .classes import CLASSES
from .walk import HOPS

PIECES: Final = Table(
    "critical_path",
    (
        Column("step", "Int32", "", "step that was walked; missing where a window was"),
        Column("start_ns", "int64", "ns", "from the start of the trace"),
        Column("end_ns", "int64", "ns", "where the next piece of the step starts"),
        Column("dur_ns", "int64", "ns", "sums to the step's length"),
        Column("class", "category", "", "what the time was: one of " + " ".join(CLASSES)),
        Column("slice", "Int64", "", "row in `trace.slices`; missing where none was open"),
        Column("name", "category", "", "of the slice"),
        Column("category", "category", "", "of the slice"),
        Column("track", "Int32", "", "row key into `trace.tracks`"),
        Column("resource", "category", "", "name of the thread or stream"),
        Column("line", "category", "", "line of the user's source that it ran for"),
        Column("phase", "category", "", "of the slice"),
        Column("module", "category", "", "of the slice"),
        Column(
            "margin_ns", "Int64", "ns", "by how much what came before it was later than the next candidate"
        ),
    ),
)
HOP_TABLE: Final = Table(
    "critical_path_hops",
    (
        Column("step", "Int32", "", "step that was walked; missing where a window was"),
        Column("at_ns", "int64", "ns", "when the cause was done"),
        Column("why", "category", "", "one of " + " ".join(HOPS)),
        Column("resource", "str", "", "thread or stream that waited"),
        Column("slice", "Int64", "", "row of the call or work that waited"),
        Column("name", "str", "", "its name; empty where it is no slice"),
        Column("cause_resource", "str", "", "thread or stream that it waited for"),
        Column("cause_slice", "Int64", "", "row of the call or work that it waited for"),
        Column("cause_name", "str", "", "its name; empty where it is no slice"),
        Column("margin_ns", "Int64", "ns", "by how much the cause was later than the next candidate"),
        Column("near_tie", "bool", "", "less than twice the noise of starts: the path may be another"),
    ),
)
SPANS: Final = Table(
    "critical_path_spans",
    (
        Column("step", "Int32", "", "missing where a window was walked"),
        Column("start_ns", "int64", "ns", "from the start of the trace"),
        Column("end_ns", "int64", "ns", "where the path ends"),
        Column("dur_ns", "int64", "ns", "length of the path"),
        Column("end", "str", "", "`host` or `device`: where the path ends"),
        Column("resource", "str", "", "thread or stream on which it ends"),
        Column("device_work_ns", "int64", "ns", "of the path, work of streams"),
        Column("host_ns", "int64", "ns", "of the path, all else"),
        Column("hops", "int64", "", "changes of resource"),
        Column("decisions", "int64", "", "starts and waits on the path with a second candidate"),
        Column("near_ties", "int64", "", "of these, those with less than twice `noise_ns` between"),
        Column("noise_ns", "int64", "ns", "by how much most starts are later than their latencies tell"),
        Column("behind_ns", "int64", "ns", "by how much the step's last device work ends after the step"),
    ),
)
DOUBTS: Final = Table(
    "critical_path_doubts",
    (
        Column("code", "str", "", "stable name"),
        Column("count", "int64", "", "how often"),
        Column("of", "int64", "", "of how many"),
        Column("path_ns", "int64", "ns", "time of the paths that it is about"),
        Column("share", "float64", "1", "of the paths"),
        Column("effect", "str", "", "what it does to the path"),
    ),
)
