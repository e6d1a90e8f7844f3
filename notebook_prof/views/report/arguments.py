"""Arguments of slices for a report; ``js/src/report/arguments.js`` reads them."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...service.answers.arguments import OF_SLICE, pairs
from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.event_tables import ARGUMENTS, DEVICE_TABLES, distinct_facts, event_table, slice_rows_of
from ...units import format_count
from .html_file import deflated

MOST_BYTES: Final = 200_000
"""Limit of the arguments in a file, as base64; those of the longest slices come first."""
_MOST_DISTINCT: Final = 40_000


def arguments_in_file(trace: Trace, keep: npt.NDArray[np.bool_] | None) -> dict[str, Any] | None:
    """Return arguments of the slices in a file (`keep`, or all), each distinct set once; None without any."""
    # ``columns``: ``row``, ascending numbers in the file, and ``code``; ``texts``: base64 of deflated JSON, a
    # list of lists of names and values; ``left``: a sentence if some did not fit.
    rows, codes, facts = _coded(trace)
    if keep is not None and len(rows):
        inside = keep[rows]
        rows, codes = (np.cumsum(keep) - 1)[rows[inside]], codes[inside]
    if not len(rows):
        return None
    dur = trace.slices["dur"].to_numpy()
    dur = dur if keep is None else dur[keep]
    order = np.argsort(-dur[rows], kind="stable")
    _, first = np.unique(codes[order], return_index=True)
    is_new = np.zeros(len(order), bool)
    is_new[first] = True
    most = int(np.searchsorted(np.cumsum(is_new), _MOST_DISTINCT, side="right"))
    while True:
        chosen = np.sort(order[:most])
        packed = _packed(rows[chosen], codes[chosen], facts)
        size = sum(len(text) for text in (packed["texts"], *(c["data"] for c in packed["columns"].values())))
        if size <= MOST_BYTES or most <= 1:
            break
        most = max(1, int(most * min(0.9, 0.95 * MOST_BYTES / size)))
    left = len(rows) - most
    note = (
        "Arguments of the {} longest of {} slices are in this file: open the profile in a notebook for all."
    )
    packed["left"] = note.format(format_count(most), format_count(len(rows))) if left > 0 else ""
    return packed


def _packed(rows: IntArray, codes: IntArray, facts: list[tuple[Any, ...]]) -> dict[str, Any]:
    distinct, code = np.unique(codes, return_inverse=True)
    order = np.argsort(rows, kind="stable")
    texts = json.dumps(
        [_pairs(facts[i]) for i in distinct.tolist()], separators=(",", ":"), ensure_ascii=False
    )
    packed = zlib.compress(texts.encode("utf-8", "replace"), 9)
    return {
        "columns": {"row": deflated(rows[order], delta=True), "code": deflated(code[order])},
        "texts": base64.b64encode(packed).decode("ascii"),
    }


def _pairs(parts: tuple[Any, ...]) -> list[list[str]]:
    text, *tables = parts
    values: dict[str, Any] = json.loads(text) if text else {}
    for facts in tables:
        values |= facts
    return pairs(values)


def _coded(trace: Trace) -> tuple[IntArray, IntArray, list[tuple[Any, ...]]]:
    """Return the slices with arguments, the distinct set of each, and these sets."""
    n = len(trace.slices)
    parts: list[IntArray] = []
    words: list[list[Any]] = []
    for name in (ARGUMENTS, *DEVICE_TABLES):
        code = np.zeros(n, np.int64)
        facts_of_part: list[Any] = ["" if name == ARGUMENTS else {}]
        if (table := event_table(trace, name)) is not None:
            rows = slice_rows_of(trace, name)
            if name == ARGUMENTS:
                column = table["arguments"].astype("category")
                fact_code, distinct = column.cat.codes.to_numpy(), column.cat.categories.tolist()
            else:
                fact_code, distinct = distinct_facts(table, OF_SLICE)
            has_row = rows >= 0
            code[rows[has_row]] = fact_code[has_row].astype(np.int64) + 1
            facts_of_part += distinct
        parts.append(code)
        words.append(facts_of_part)
    codes = pd.DataFrame(dict(enumerate(parts)))
    codes = codes[codes.any(axis=1)]
    facts = [
        tuple(facts_of_part[i] for facts_of_part, i in zip(words, each, strict=True))
        for each in codes.drop_duplicates().to_numpy().tolist()
    ]
    code = codes.groupby([*codes], sort=False).ngroup()  # in the order of the distinct ones
    return codes.index.to_numpy(np.int64), code.to_numpy(np.int64), facts
