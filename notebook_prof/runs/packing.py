"""The totals of a run as compressed JSON: at most 20 kB per row, without rounding."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from ..comparison.parts import MOST_KEYS, Parts, limited
from ..comparison.run import Summary
from ..statistics.steps import slow_steps

MOST_BYTES: Final = 19_000
"""Limit for source, steps and totals together. With the other columns, a row stays below 20 kB."""
_MOST_SOURCE: Final = 6_000
_MEMORY: Final = ("device", "source", "bytes")


def packed(summary: Summary) -> tuple[bytes, bytes]:
    """Compress the source and the rest of a summary. The smallest totals are dropped until both fit."""
    # together they have at most `MOST_BYTES`; a source of more than 6 kB when compressed is left out
    source = zlib.compress(summary.source.encode("utf-8", "replace"), 6)
    source = source if len(source) <= _MOST_SOURCE else zlib.compress(b"")
    keys = MOST_KEYS
    content = _content(summary)
    while len(content) + len(source) > MOST_BYTES:
        if keys > 3:
            keys //= 2
            summary = replace(
                summary, totals={name: limited(whole, keys) for name, whole in summary.totals.items()}
            )
        else:
            summary = replace(summary, steps=summary.steps.iloc[::2].reset_index(drop=True))
        content = _content(summary)
    return source, content


def unpacked(source: bytes, content: bytes, title: str) -> Summary:
    """Read the output of `packed`, as the run `title`. Raises ValueError, KeyError or zlib.error for other
    bytes.

    >>> from notebook_prof.comparison.run import TraceRun, summary_of
    >>> from notebook_prof.profiles.profile import Profile
    >>> from notebook_prof.testing import draw
    >>> summary = summary_of(TraceRun(Profile(draw("main: [mm      ][add ]"))), "mm(); add()")
    >>> again = unpacked(*packed(summary), "a run")
    >>> again.source, again.totals["operators"].total.tolist()
    ('mm(); add()', [10, 6])
    """
    whole = json.loads(zlib.decompress(content))
    dur, step, used = (np.array(whole[name], np.int64) for name in ("dur_ns", "step", "used"))
    used = used.astype(bool)
    slow = np.zeros(len(dur), bool)
    slow[used] = slow_steps(dur[used].astype(np.float64))
    ts = np.cumsum(np.append(0, dur[:-1]))[: len(dur)]
    columns = {"step": np.cumsum(step), "ts": ts, "dur_ns": dur, "used": used, "slow": slow}
    totals = {}
    for name, (keys, sums, calls, block_steps) in whole["totals"].items():
        shaped = np.array(sums, np.int64).reshape(len(block_steps), len(keys))
        counts = (np.array(values, np.int64) for values in (calls, block_steps))
        totals[name] = Parts([tuple(key) for key in keys], shaped, *counts)
    memory = pd.DataFrame(whole["memory"], columns=list(_MEMORY))
    text = zlib.decompress(source).decode("utf-8")
    return Summary(pd.DataFrame(columns), totals, text, whole["conditions"], memory, title)


def _content(summary: Summary) -> bytes:
    steps = summary.steps
    rows = summary.memory[list(_MEMORY)].astype({"device": "int64", "source": "str", "bytes": "int64"})
    whole = {
        "dur_ns": steps["dur_ns"].tolist(),
        # the differences are mostly 1, so they compress well
        "step": np.diff(steps["step"].to_numpy(np.int64), prepend=0).tolist(),
        "used": steps["used"].astype(int).tolist(),
        "totals": {
            name: [part.keys, part.sums.tolist(), part.calls.tolist(), part.block_steps.tolist()]
            for name, part in summary.totals.items()
        },
        "conditions": dict(summary.conditions),
        "memory": rows.to_numpy(dtype=object).tolist(),
    }
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode("utf-8", "replace"), 6)
