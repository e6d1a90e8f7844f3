"""More than a million slices on 64 tracks, made in a second: tables straight from NumPy, no builder."""

import numpy as np
import pandas as pd

from notebook_prof import Profile, Trace, TraceBuilder
from notebook_prof.trace import CATEGORIES
from notebook_prof.trace.schema import SLICES

TRACKS, EACH, PERIOD_NS, NAMES, PAUSES = 64, 8, 40_000, 5_000, 39


def many_on_tracks(n: int = 1_300_000) -> Trace:
    """Blocks of one slice with seven inside it, on every track at once; 200 steps."""
    # A track's blocks are busy for 55 to 95 % of the time; 39 times all tracks pause for a block.
    blocks = -(-n // (TRACKS * EACH))
    block, position, track = (
        part.ravel()
        for part in np.meshgrid(*map(np.arange, (blocks, EACH, TRACKS)), indexing="ij", copy=False)
    )
    outer = (PERIOD_NS * (95 - 40 * track // TRACKS)) // 100
    inner = 2_780 - 20 * track
    inside = np.where(position > 0, (position - 1) * 3_000 + 200, 0)
    ts = block * PERIOD_NS + inside + block * PAUSES // blocks * PERIOD_NS
    dur = np.where(position > 0, inner, outer).astype(np.int64)
    rows = len(ts)
    base = TraceBuilder()
    for k in range(TRACKS):
        base.track(f"worker {k}", pid=1 + k // 16, tid=k + 1)
    end = int(ts[-1] + PERIOD_NS)
    step = np.arange(200)
    base.steps(step=step, ts=step * (end // 200), dur=np.full(200, end // 200), source="loop")
    small = base.seal()
    missing = pd.array([pd.NA], dtype="Int64")
    name = (block * 7919 + track * 104_729 + position * 31) % 997 * (1 + position * 2 // 3) % NAMES
    tables = {
        key: getattr(small, key) for key in ("tracks", "counters", "flows", "stacks", "steps", "allocations")
    }
    tables["slices"] = SLICES.frame(
        {
            "ts": ts,
            "dur": dur,
            "name": pd.Categorical.from_codes(
                name.astype(np.int16), [f"aten::operator_{k}" for k in range(NAMES)]
            ),
            "category": pd.Categorical.from_codes(np.zeros(rows, np.int8), list(CATEGORIES)),
            "track": track.astype(np.int32),
            "depth": (position > 0).astype(np.int16),
            "parent": pd.arrays.IntegerArray(block * (TRACKS * EACH) + track, position == 0),
            "self_ns": np.where(position > 0, dur, outer - 7 * inner),
            "step": pd.arrays.IntegerArray((ts // (end // 200)).astype(np.int32), np.zeros(rows, bool)),
            "phase": pd.Categorical.from_codes(np.full(rows, -1, np.int8), []),
            "correlation": missing.take(np.zeros(rows, np.int64)),
            "device": missing.astype("Int16").take(np.zeros(rows, np.int64)),
            "stream": missing.take(np.zeros(rows, np.int64)),
            "shapes": pd.Categorical.from_codes(np.full(rows, -1, np.int8), []),
            "module": pd.Categorical.from_codes(np.full(rows, -1, np.int8), []),
            "line": pd.Categorical.from_codes(np.full(rows, -1, np.int8), []),
            "stack": missing.take(np.zeros(rows, np.int64)),
        }
    )
    return Trace(tables, metadata={"source": "drawn", "steps_source": "loop"})


def profile_of_many(n: int = 1_300_000) -> Profile:
    return Profile(many_on_tracks(n))
