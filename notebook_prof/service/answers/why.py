"""Why a thread or stream did what it did at an instant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import analysis
from ...errors import SelectionError
from ..packing import Answer, pack
from ..store import ViewStore
from .find import location
from .path import path_segments


def why(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return `notebook_prof.analysis.why` for a slice, or for a track and an instant."""
    at, track, row = (int(request.get(name) or 0) for name in ("at", "track", "id"))
    of_slice = request.get("id") is not None
    try:
        why = analysis.why(store.trace, slice=row) if of_slice else analysis.why(store.trace, at, track)
    except SelectionError as error:
        return pack({"found": False, "lines": [str(error)]}, {})
    c, causes = store.columns, why.hops["cause_slice"].dropna().astype(int).tolist()[::-1]
    content = {
        "found": True,
        "lines": why.text.splitlines(),
        "window": [why.start_ns, why.end_ns],
        "call": f"p.why(slice={row})" if of_slice else f"p.why({at}, {track})",
        "causes": [{"name": c.names[c.name[row]], **location(store, row)} for row in causes],
    }
    pieces = why.pieces
    on = pieces["track"].fillna(-1).to_numpy(np.int64)
    return pack(content, path_segments(on, pieces["start_ns"].to_numpy(), pieces["end_ns"].to_numpy()))
