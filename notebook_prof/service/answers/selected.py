"""Where the selected slices lie: what a page says of those that are out of sight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...trace.arrays import IntArray
from ..lod.chosen import Chosen
from ..packing import Answer, pack
from ..selected_rows import matching_key
from ..store import ViewStore


def selected(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Count the selected slices of every drawn row before, in and after a stretch of time.

    They are those of ``Profile.selected``: of every clause, also of the window and of tracks.

    Parameters
    ----------
    request : mapping
        ``a b`` (ns).

    Returns
    -------
    Answer
        ``count``: the selected slices. One entry a row that has some: ``row``; ``before inside after``, which
        sum to `count`; ``end_before`` and ``start_after`` (ns, -1 for none) of the nearest ones outside.
    """
    index, rows = store.rows, np.arange(store.columns.n_rows)
    chosen, window = store.chosen(matching_key(state)), state.get("window")
    first, stop = index.pointer[:-1], index.pointer[1:]
    if window is not None:
        first, stop = index.stretch(rows, int(window[0]), int(window[1]))
    seen = index.stretch(rows, int(np.floor(request["a"])), int(np.ceil(request["b"])))
    left, right = (np.clip(edge, first, stop) for edge in seen)
    edges = np.stack([first, left, right, stop])
    numbers = edges if chosen is None else chosen.before(edges)
    before, inside, after = np.diff(numbers, axis=0)
    columns = {
        "row": rows.astype(np.uint32),
        "before": before.astype(np.uint32),
        "inside": inside.astype(np.uint32),
        "after": after.astype(np.uint32),
        "end_before": np.full(len(rows), -1.0),
        "start_after": np.full(len(rows), -1.0),
    }
    columns["end_before"][before > 0] = index.ends(_positions(chosen, numbers[1][before > 0] - 1))
    columns["start_after"][after > 0] = index.starts(_positions(chosen, numbers[2][after > 0]))
    some = numbers[3] > numbers[0]
    count = int((numbers[3] - numbers[0]).sum())
    return pack({"count": count}, {name: values[some] for name, values in columns.items()})


def _positions(chosen: Chosen | None, numbers: IntArray) -> IntArray:
    """Return the positions of some of the selected slices by number."""
    return numbers if chosen is None else chosen.nth(numbers)
