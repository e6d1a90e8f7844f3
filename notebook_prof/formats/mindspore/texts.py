"""CSV, text and JSON files of a profiler folder as frames of text, with what is broken counted."""

from __future__ import annotations

import csv
import io
import warnings
from typing import Any

import msgspec
import pandas as pd

from ...trace.report import ImportReport


def csv_frame(data: bytes, report: ImportReport) -> pd.DataFrame:
    """Return a CSV file as text columns; empty if there is nothing that can be read.

    >>> csv_frame(b"a, b\\n1,2\\n3\\n", ImportReport()).to_dict("list")
    {'a': ['1', '3'], 'b': ['2', '']}
    """
    # names come from the first row, without blanks; missing fields are empty text
    text = data.replace(b"\x00", b"").decode(errors="replace")
    try:
        with warnings.catch_warnings():
            # a first row that is too long is only warned of, and cut
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text),
                dtype="str",
                keep_default_na=False,
                skipinitialspace=True,
                index_col=False,
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
    example = ",".join(long[0])[:80] if long else ""
    report.add("broken-row", "loss", len(long), example=example, effect="these rows are left out")
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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        report.add("broken-file", "loss", example=f"{name}: {error}"[:160], effect="this file is left out")
        return None


def json_cells(column: pd.Series, report: ImportReport) -> list[Any]:
    """Return a column of JSON texts, decoded once per distinct text; None where it is empty or broken."""
    codes, texts = pd.factorize(column)
    values: list[Any] = []
    for text in texts:
        try:
            values.append(msgspec.json.decode(str(text)) if text else None)
        except (msgspec.DecodeError, RecursionError) as error:
            report.add("broken-cell", "loss", example=f"{error}: {str(text)[:60]}", effect="left empty")
            values.append(None)
    return [values[code] for code in codes]
