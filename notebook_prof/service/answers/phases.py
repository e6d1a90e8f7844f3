"""The time of every step by phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ... import analysis
from ...trace import PHASES
from ..packing import Answer, pack
from ..selected_rows import Key, matching_key
from ..store import ViewStore

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
