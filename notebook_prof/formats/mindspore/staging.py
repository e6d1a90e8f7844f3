"""Parts of a recording on several clocks, collected before they are put on one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.intervals import as_ints

CLOCKS: Final = ("unix", "device", "timeline", "msprof", "host")
"""The first of these that exists sets the clock of the recording."""

Emit = Callable[[int], None]


@dataclass(slots=True)
class Staging:
    """Collects what the files hold; `pour` puts it into the builder on one clock."""

    builder: TraceBuilder
    fp_point: str = ""  # operator that begins the forward; empty for that of the file
    bp_point: str = ""  # operator that ends the backward; empty for that of the file
    named_by: str = ""  # how the two were named: `argument` or `environment`
    numbered: bool = True  # whether the files tell their rank; else tracks have none
    tables: dict[str, list[pd.DataFrame]] = field(default_factory=dict)  # by the key in `metadata["tables"]`
    _parts: list[tuple[str, int, int, Emit]] = field(default_factory=list)

    def at(self, clock: str, starts: IntArray, ends: IntArray, emit: Emit) -> None:
        """Remember to call ``emit(shift)`` for a part that spans these instants of `clock`, in ns."""
        if len(starts):
            self._parts.append((clock, int(starts.min()), int(ends.max()), emit))

    def table(self, name: str, frame: pd.DataFrame, rank: int) -> None:
        """Add rows of one rank to a table of the metadata."""
        if len(frame):
            frame = frame.reset_index(drop=True)
            frame.insert(0, "rank", rank)
            self.tables.setdefault(name, []).append(frame)

    def tag(self, rank: int) -> int | None:
        """Return the rank that tracks are given."""
        return rank if self.numbered else None

    @property
    def used(self) -> bool:
        """Whether there was anything at all."""
        return bool(self.tables or self._parts)

    def pour(self) -> None:
        """Put all parts into the builder on the first clock of `CLOCKS` that has parts."""
        builder = self.builder
        spans = {
            clock: (min(p[1] for p in parts), max(p[2] for p in parts))
            for clock in CLOCKS
            if (parts := [p for p in self._parts if p[0] == clock])
        }
        main = next(iter(spans), None)
        # a part of another clock that does not overlap the recording's is moved to its start, and reported
        shifts = {clock: _shift(spans[main], span) for clock, span in spans.items()} if main else {}
        for clock, _, _, emit in self._parts:
            emit(shifts[clock])
        if main:
            builder.metadata["clock"] = main
        for clock, shift in shifts.items():
            builder.report.add(
                "clock-not-shared",
                "info",
                int(shift != 0),
                example=f"{clock} and {main}",
                effect="drawn from the recording's start: where they lie beside the operators is not known",
            )
        tables = {name: pd.concat(frames, ignore_index=True) for name, frames in self.tables.items()}
        if (events := tables.get("event_arguments")) is not None:
            tables["event_arguments"] = events.astype({"name": "category", "arguments": "category"})
        builder.metadata.setdefault("tables", {}).update(tables)


def _shift(main: tuple[int, int], other: tuple[int, int]) -> int:
    apart = other[0] > main[1] or other[1] < main[0]
    return main[0] - other[0] if apart else 0


def ns_of(values: Any, unit_ns: float) -> tuple[IntArray, Any]:
    """Convert numbers or text in units of `unit_ns` to whole ns, with a mask of those that are numbers.

    >>> ns_of(["1.5", "x"], 1e6)
    (array([1500000,       0]), array([ True, False]))
    """
    column = pd.Series(np.asarray(values, dtype=object))
    whole = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        ok = np.isfinite(whole) & (np.abs(whole) * unit_ns < 4e18)
    ns = np.zeros(len(whole), np.int64)
    ns[ok] = _exact(column[ok], whole[ok], unit_ns)
    return ns, ok


def _exact(column: pd.Series, values: Any, unit_ns: float) -> IntArray:
    """Read numbers exactly: a double is too short for counts beyond 2**53 and for milliseconds since 1970."""
    if float(unit_ns).is_integer() and np.abs(values).max(initial=0) * unit_ns > 2**52:
        text = column.astype(str).str.strip()
        parts = text.str.extract(r"^([+-]?\d+)(?:\.(\d*))?$")
        if not parts[0].isna().any():
            digits = len(str(int(unit_ns))) - 1
            if 10**digits == int(unit_ns):
                tail = (
                    parts[1].fillna("").str.slice(0, digits).str.pad(digits, "right", "0") if digits else ""
                )
                return as_ints((parts[0] + tail).to_numpy(dtype=object).astype(np.int64))
    return as_ints(np.rint(values * unit_ns).astype(np.int64))
