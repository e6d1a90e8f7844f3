"""Counter tracks (memory of the process, load and power of a GPU …) as step lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..packing import Answer, pack
from ..store import ViewStore

_MOST: Final = 24


def counters(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Values of some counters in a window.

    Parameters
    ----------
    request : mapping
        ``a b`` (ns), ``px``, ``tracks`` (keys of counter tracks, at most 24).

    Returns
    -------
    Answer
        ``tracks`` and ``sizes`` (points of each); columns ``x`` (ns) and ``y`` (the track's unit), one
        track after the other. A value holds until the next one; see `StepCurve.sample`.
    """
    a, b, width = float(request["a"]), float(request["b"]), max(1, min(int(request.get("px", 1000)), 4000))
    known = {drawn.track for drawn in store.counters}
    tracks = [int(key) for key in request.get("tracks", ()) if int(key) in known][:_MOST]
    parts = [store.counter_curve(key).sample(a, b, width) for key in tracks]
    empty = np.empty(0)
    columns = {
        "x": np.concatenate([x for x, _ in parts]) if parts else empty,
        "y": np.concatenate([y for _, y in parts]) if parts else empty,
    }
    return pack({"tracks": tracks, "sizes": [len(x) for x, _ in parts]}, columns)
