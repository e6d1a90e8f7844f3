"""Traces built slice by slice, for tests that need more than `notebook_prof.testing.draw` offers."""

from typing import Any

import numpy as np

from notebook_prof.trace import TraceBuilder


def add_slices(
    builder: TraceBuilder, track: Any, name: Any, ts: Any, dur: Any, category: Any = "operator", **more: Any
) -> Any:
    """Add slices that share one duration or have one each; return their handles."""
    starts = np.atleast_1d(ts)
    durs = np.broadcast_to(dur, starts.shape)
    return builder.slices(ts=starts, dur=durs, name=name, category=category, track=track, **more)
