"""Parts of a recording on several clocks, collected before they are put on one."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...readers.codec.columns import per_group
from ...readers.codec.numbers import to_ns
from ...readers.codec.tolerant_json import UNDECODABLE
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.report import ImportReport


def csv_frame(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Return a CSV file as text columns; empty if there is nothing that can be read."""
    # names come from the first row, without blanks; missing fields are empty text
    text = data.replace(b"\x00", b"").decode(errors="replace")
    try:
        with warnings.catch_warnings():
            # pandas only warns of a first row that is too long, and cuts it
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text), dtype="str", keep_default_na=False, skipinitialspace=True, index_col=False
            )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning, ValueError):
        frame = _without_broken_rows(text, report)
    frame = frame.fillna("").astype("str")
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame.loc[:, ~frame.columns.duplicated()]


def _without_broken_rows(text: str, report: ImportReport) -> pd.DataFrame:
    try:
        header, *rows = [row for row in csv.reader(io.StringIO(text), skipinitialspace=True) if row] or [[]]
    except csv.Error as error:
        report.add("broken-file", "loss", example=str(error), effect="this file is left out")
        return pd.DataFrame()
    long = [row for row in rows if len(row) > len(header)]
    report.broken_rows(len(long), ",".join(long[0])[:80] if long else "")
    filled = [row + [""] * (len(header) - len(row)) for row in rows if len(row) <= len(header)]
    return pd.DataFrame(filled, columns=pd.Index(header, dtype="object"), dtype="object")


def numbers(frame: pd.DataFrame, name: str, factor: float = 1.0) -> pd.Series:
    """Return a column as float64 times `factor`; NaN where it is no number or missing altogether."""
    if name not in frame:
        return pd.Series(float("nan"), index=frame.index, dtype="float64")
    return pd.to_numeric(frame[name], errors="coerce").astype("float64") * factor


def json_value(data: bytes, report: ImportReport, name: str) -> Any:
    """Return a whole JSON file; None and an issue ``broken-file`` if it cannot be decoded."""
    try:
        return msgspec.json.decode(data.strip(b"\x00 \t\r\n"))
    except UNDECODABLE as error:
        report.add("broken-file", "loss", example=f"{name}: {error}"[:160], effect="this file is left out")
        return None


def json_cells(column: pd.Series, report: ImportReport) -> list[Any]:
    """Return a column of JSON texts, decoded once per distinct text; None where it is empty or broken."""
    codes, texts = pd.factorize(column)
    values: list[Any] = []
    for text in texts:
        try:
            values.append(msgspec.json.decode(str(text)) if text else None)
        except UNDECODABLE as error:
            report.add("broken-cell", "loss", example=f"{error}: {str(text)[:60]}", effect="left empty")
            values.append(None)
    return [values[code] for code in codes]


CLOCKS: Final = ("unix", "device", "timeline", "msprof", "host")
"""The first of these that exists sets the clock of the recording."""

Emit = Callable[[int], None]


@dataclass(slots=True)
class Staging:
    """Collects the content of the files; `pour` puts it into the builder on one clock."""

    builder: TraceBuilder
    fp_point: str = ""  # operator that begins the forward; empty for that of the file
    bp_point: str = ""  # operator that ends the backward; empty for that of the file
    numbered: bool = True  # whether the files tell their rank; else tracks have none
    tables: dict[str, list[pd.DataFrame]] = field(default_factory=dict)  # by the key in `metadata["tables"]`
    _parts: list[tuple[str, int, int, Emit]] = field(default_factory=list)

    def at(self, clock: str, starts: IntArray, ends: IntArray, emit: Emit) -> None:
        """Register a call of ``emit(shift)`` for a part that spans these instants of `clock`, in ns."""
        if len(starts):
            self._parts.append((clock, int(starts.min()), int(ends.max()), emit))

    def track(self, rank: int, name: str, kind: str, **ids: Any) -> int:
        return self.builder.track(name, kind, rank=rank if self.numbered else None, **ids)

    def streams(self, rank: int, device: int, numbers: IntArray) -> IntArray:
        return per_group(
            lambda own: self.track(rank, f"NPU {device} stream {own}", "stream", device=device, stream=own),
            numbers,
        )

    def table(self, name: str, frame: pd.DataFrame, rank: int) -> None:
        """Add rows of one rank to a table of the metadata."""
        if len(frame):
            frame = frame.reset_index(drop=True)
            frame.insert(0, "rank", rank)
            self.tables.setdefault(name, []).append(frame)

    @property
    def used(self) -> bool:
        """Whether anything was collected."""
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
        shifts = {
            clock: spans[main][0] - begin if begin > spans[main][1] or end < spans[main][0] else 0
            for clock, (begin, end) in spans.items()
            if main
        }
        for clock, _, _, emit in self._parts:
            emit(shifts[clock])
        if main:
            builder.metadata["clock"] = main
        for clock, shift in shifts.items():
            effect = "drawn from the recording's start: their place beside the operators is unknown"
            builder.report.add("clock-not-shared", "info", int(shift != 0), f"{clock} and {main}", effect)
        tables = {name: pd.concat(frames, ignore_index=True) for name, frames in self.tables.items()}
        if (events := tables.get("event_arguments")) is not None:
            tables["event_arguments"] = events.astype({"name": "category", "arguments": "category"})
        builder.metadata.setdefault("tables", {}).update(tables)


def ns_of(values: Any, unit_ns: float) -> tuple[IntArray, BoolArray]:
    """Convert numbers or text in units of `unit_ns`, a power of ten, to ns; with a mask of the numbers."""
    texts = [str(value).strip().encode() for value in np.asarray(values, dtype=object)]
    return to_ns(texts, len(str(int(unit_ns))) - 1)
