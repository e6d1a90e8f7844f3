"""Conditions of two recordings: what differs apart from the code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import pandas as pd

from ..trace import Trace
from ..trace.schema import Column, Table
from ..units import format_items

COLUMNS: Final = Table(
    "conditions",
    (
        Column("what", "str", "", "what differs"),
        Column("a", "str", "", "in a; empty where it is not recorded"),
        Column("b", "str", "", "in b"),
        Column("effect", "str", "", "what that does to the comparison"),
    ),
)


def _machine(trace: Trace, name: str) -> str:
    machine = trace.metadata.get("machine")
    value = machine.get(name) if isinstance(machine, dict) else None
    return "" if value is None else str(value)


def _text(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    counts = Counter(map(str, value))
    return ", ".join(f"{count} × {one}" if count > 1 else one for one, count in counts.items())


def _metadata(name: str) -> Callable[[Trace], str]:
    return lambda trace: _text(trace.metadata.get(name, ""))


def _loops(trace: Trace) -> str:
    loops = trace.steps["loop"].nunique()
    return format_items(int(loops), "loop") if loops > 1 else ""


_CONDITIONS: Final[tuple[tuple[str, Callable[[Trace], str], str], ...]] = (
    ("computer", _metadata("host"), "another machine is faster or slower by itself"),
    ("devices", _metadata("devices"), "another device is faster or slower by itself"),
    ("cores", lambda trace: _machine(trace, "cpus"), "operators use more or fewer threads"),
    ("torch threads", lambda trace: _machine(trace, "torch_threads"), "operators use more or fewer threads"),
    ("Python", _metadata("python"), "another interpreter is faster or slower by itself"),
    ("PyTorch", _metadata("torch_version"), "operators may be others"),
    ("collectors", _metadata("collectors"), "they cost time of their own, and see other things"),
    ("source", _metadata("source"), "other profilers cut time into other pieces"),
    ("format", _metadata("format"), "other profilers cut time into other pieces"),
    ("steps", _metadata("steps_source"), "a step may be another piece of work"),
    ("loops with steps", _loops, "only steps of the loop that took longest are compared"),
)


def facts_of(trace: Trace) -> dict[str, str]:
    """Return the facts that `conditions` compares, by name; empty if not recorded."""
    return {what: of(trace) for what, of, _ in _CONDITIONS}


def conditions(a: Mapping[str, str], b: Mapping[str, str]) -> pd.DataFrame:
    """List the recorded conditions, apart from the code, in which two recordings' `facts_of` differ."""
    rows = []
    for what, _, effect in _CONDITIONS:
        left, right = a.get(what, ""), b.get(what, "")
        if left != right and ((left and right) or what == "loops with steps"):
            rows.append((what, left, right, effect))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return COLUMNS.frame(dict(zip(COLUMNS.names, map(pd.Series, columns), strict=True)))
