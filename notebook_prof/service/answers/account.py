"""The account of the cell, for the strip above the views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ... import analysis
from ...analysis.time.account import account_spans
from ...trace.arrays import IntArray
from ..packing import Answer, pack
from ..store import ViewStore

MOST_SPANS_DRAWN: Final = 1000
"""About as many as a strip has pixels."""
_LONGEST_TEXT: Final = 300
_WHOLE: Final = ("line", "dur", "steps", "cpu_ns", "wait_ns", "device_ns", "loop")
_SPANS: Final = ("ts", "dur", "part", "steps")


def account(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the parts of the account and their stretches, ascending; neighbours of one part are joined."""
    content, columns = store.keep(("account",), lambda: _account(store))
    return pack(content, columns)


def _account(store: ViewStore) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    parts, spans = analysis.account(store.trace), account_spans(store.trace)
    ts, dur, part, steps = joined_spans(*(spans[name].to_numpy(np.int64) for name in _SPANS))
    too_many = len(ts) > MOST_SPANS_DRAWN
    if too_many:
        ts, dur, part = thinned(ts, dur, part, MOST_SPANS_DRAWN)
        steps = np.zeros(len(ts), np.int64)
    columns: dict[str, npt.NDArray[Any]] = {
        "ts": ts.astype(np.float64),
        "dur": dur.astype(np.float64),
        "part": part.astype(np.uint32),
        "steps": steps.astype(np.uint32),
    }
    with_code = parts["line"].notna() | parts["kind"].isin(["steps", "outside-window"])
    rows = [_row(row) for row in parts.to_dict("records")]
    return {"parts": rows, "shown": len(rows) > 1 and bool(with_code.any()), "thinned": too_many}, columns


def joined_spans(
    ts: IntArray, dur: IntArray, part: IntArray, steps: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Join neighbouring spans of the same part; spans are ascending and without gaps."""
    if not len(ts):
        return ts, dur, part, steps
    heads = np.flatnonzero(np.append(True, part[1:] != part[:-1]))
    return ts[heads], np.add.reduceat(dur, heads), part[heads], np.add.reduceat(steps, heads)


def thinned(ts: IntArray, dur: IntArray, part: IntArray, most: int) -> tuple[IntArray, IntArray, IntArray]:
    """Cut the time into `most` pieces of equal length, and assign each to one part."""
    edges = np.unique(np.linspace(int(ts[0]), int(ts[-1] + dur[-1]), most + 1).astype(np.int64))
    cuts = np.unique(np.concatenate([ts, edges]))
    owner = part[np.searchsorted(ts, cuts[:-1], side="right") - 1]
    piece = np.searchsorted(edges, cuts[:-1], side="right") - 1
    size, kinds = len(edges) - 1, int(part.max()) + 1
    filled = np.bincount(piece * kinds + owner, weights=np.diff(cuts), minlength=size * kinds)
    filled = filled.reshape(size, kinds)
    winner, due = np.empty(size, np.int64), np.zeros(kinds)
    # A part's share of a piece that is assigned to another part is carried to the next pieces, so that parts
    # that alternate faster than the pieces keep their shares.
    for k in range(size):  # a piece is a pixel
        due += filled[k]
        winner[k] = np.where(filled[k] > 0, due, -np.inf).argmax()
        due[winner[k]] -= edges[k + 1] - edges[k]
    joined = joined_spans(edges[:-1], np.diff(edges), winner, np.zeros(size, np.int64))
    return joined[0], joined[1], joined[2]


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"part": str(row["part"]), "kind": str(row["kind"]), "share": float(row["share"])}
    out["text"] = "" if pd.isna(row["text"]) else str(row["text"]).strip()[:_LONGEST_TEXT]
    return out | {name: None if pd.isna(row[name]) else int(row[name]) for name in _WHOLE}
