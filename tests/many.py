"""A trace of which a report cannot hold every slice, once its limit is low."""

from __future__ import annotations

import numpy as np

from notebook_prof.trace import Trace, TraceBuilder

KEPT = 8_000
"""Slices that a file may hold one by one."""


def many_slices() -> Trace:
    """33,600 slices: long ones on one track, blocks of short ones on the other."""
    rng = np.random.default_rng(5)
    builder = TraceBuilder()
    blocks, inner = 800, 40
    start = np.arange(blocks) * 100_000
    long = rng.integers(60_000, 95_000, blocks)
    busy = builder.track("worker", pid=1, tid=2)
    builder.slices(ts=start, dur=long, name="block", track=busy)
    inside = (start[:, None] + 1_200 * np.arange(inner)[None, :]).ravel() + 500
    names = [f"operator_{k}" for k in range(7)] * (len(inside) // 7 + 1)
    dur = rng.integers(200, 1_100, len(inside))
    builder.slices(ts=inside, dur=dur, name=names[: len(inside)], track=busy)
    builder.slices(
        ts=start, dur=np.full(blocks, 50_000), name="wait", track=builder.track("main", pid=1, tid=1)
    )
    builder.steps(step=np.arange(8), ts=np.arange(8) * 10**7, dur=np.full(8, 10**7), source="loop")
    return builder.seal()
