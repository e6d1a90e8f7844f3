"""Where the time went: in the cell by part, for the strip above the views, and in every step by phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ... import analysis
from ...analysis.scope import sharing
from ...analysis.time.account import account_spans
from ...trace import PHASES, Trace
from ...trace.arrays import IntArray
from ..packing import Answer, pack
from ..selected_rows import Key, matching_key
from ..store import ViewStore

# The time of every step by phase.

_MOST_BARS: Final = 300


def phases(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return host time per step by phase, and its selected part, (bars, phases); at most 300 bars."""
    steps = store.trace.steps
    if not len(steps):
        empty = np.empty(0)
        names = ("first", "last", "ts", "end", "total", "part")
        return pack({"bars": 0, "phases": list(PHASES), "filtered": False}, dict.fromkeys(names, empty))
    number = steps["step"].to_numpy(np.int64)
    size = -(-len(number) // _MOST_BARS)
    heads = np.arange(0, len(number), size)
    count = np.diff(np.append(heads, len(number)))
    ends = (steps["ts"] + steps["dur"]).to_numpy(np.int64)
    total = np.add.reduceat(store.keep(("phase times",), lambda: _phase_times(store, number)), heads, axis=0)
    key = matching_key(state, without=("step", "phase", "window"))
    part = np.empty(0)
    if key:
        chosen = store.keep(("phase part", key), lambda: _selected_times(store, number, key))
        part = np.minimum(np.add.reduceat(chosen, heads, axis=0) / count[:, None], total / count[:, None])
    columns = {
        "first": number[heads].astype(np.int32),
        "last": number[np.minimum(heads + size, len(number)) - 1].astype(np.int32),
        "ts": steps["ts"].to_numpy(np.float64)[heads],
        "end": np.maximum.reduceat(ends, heads).astype(np.float64),
        "total": (total / count[:, None]).ravel(),
        "part": part.ravel(),
    }
    return pack({"bars": len(heads), "phases": list(PHASES), "filtered": bool(key)}, columns)


def _phase_times(store: ViewStore, number: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    """Return host ns, shape (steps, phases)."""
    frame = analysis.phases(store.trace)
    out = np.zeros((len(number), len(PHASES)))
    frame = frame[frame["step"].notna()]
    step = frame["step"].to_numpy(np.int64)
    at = np.searchsorted(number, step)
    matched = (at < len(number)) & (number[np.minimum(at, len(number) - 1)] == step)
    phase = np.array([PHASES.index(str(name)) for name in frame["phase"]], np.int64)
    np.add.at(out, (at[matched], phase[matched]), frame["host_ns"].to_numpy(np.float64)[matched])
    return out


def _selected_times(store: ViewStore, number: np.ndarray[Any, np.dtype[np.int64]], key: Key) -> Any:
    """Return self ns of selected slices, shape (steps, phases); of the host if any match, else of devices."""
    c = store.columns
    chosen = store.choices.slices(store.effective(key))
    chosen = np.arange(c.n) if chosen is None else chosen
    on_host = ~c.of_kind("stream")[chosen]
    chosen = chosen[on_host] if on_host.any() else chosen
    chosen = chosen[c.step[chosen] >= 0]
    at = np.minimum(np.searchsorted(number, c.step[chosen]), len(number) - 1)
    matched = number[at] == c.step[chosen]
    phase_column = np.array(
        [PHASES.index(name) if name in PHASES else len(PHASES) - 1 for name in c.phases] + [len(PHASES) - 1]
    )
    cell = at[matched] * len(PHASES) + phase_column[c.phase[chosen[matched]]]
    flat = np.bincount(cell, weights=c.self_ns[chosen[matched]], minlength=len(number) * len(PHASES))
    return flat.reshape(len(number), len(PHASES))


MOST_SPANS_DRAWN: Final = 1000
"""Maximum number of parts, about as many as a strip has pixels."""
_LONGEST_TEXT: Final = 300
_WHOLE: Final = ("line", "dur", "steps", "cpu_ns", "wait_ns", "device_ns", "loop")
_SPANS: Final = ("ts", "dur", "part", "steps")


def account(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the parts of the account and their stretches, ascending; neighbours of one part are joined."""
    content, columns = store.keep(("account",), lambda: _account(store))
    return pack(content, columns)


def _account(store: ViewStore) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    parts, spans = _parts_and_spans(store.trace)
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


@sharing
def _parts_and_spans(trace: Trace) -> tuple[pd.DataFrame, pd.DataFrame]:
    return analysis.account(trace), account_spans(trace)


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
