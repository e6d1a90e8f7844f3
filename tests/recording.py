"""Traces that tests write slice by slice; `notebook_prof.testing.draw` draws those that fit on a screen."""

from typing import Any

import numpy as np

from notebook_prof.trace import TraceBuilder


def add_slices(
    builder: TraceBuilder, track: Any, name: Any, ts: Any, dur: Any, category: Any = "operator", **more: Any
) -> Any:
    """Add slices of one duration, or of one each; gives their handles."""
    starts = np.atleast_1d(ts)
    durs = np.broadcast_to(dur, starts.shape)
    return builder.slices(ts=starts, dur=durs, name=name, category=category, track=track, **more)
