"""The critical path, as the timeline draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...analysis.critical_path.classes import IN_WORDS
from ...analysis.critical_path.path import critical_path, spans_of
from ...analysis.verdict.facts import judged_extent
from ...trace.arrays import IntArray
from ...units import format_ns, format_share
from ..packing import Answer, pack
from ..store import ViewStore

_SHOWN: Final = 4
_LEAST: Final = 0.01
_NONE: Final = "There is no critical path: no thread or stream of this recording holds slices that last."


def path(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the segments of the critical path by track and time."""
    content, columns = store.keep(("path",), lambda: _path(store))
    return pack(content, columns)


def _path(store: ViewStore) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    trace = store.trace
    begin, end = judged_extent(trace)
    extent = begin, end
    graph, spans = spans_of(trace, extent, None, "last")
    if not spans or (graph.main < 0 and not graph.streams):
        return {"found": False, "text": _NONE}, {}
    classes = critical_path(trace, by="class", window=extent, end="last")
    shown = classes[classes["share"] >= _LEAST].head(_SHOWN)
    words = [
        f"{IN_WORDS[str(name)]} {format_share(share)}"
        for name, share in zip(shown["class"], shown["share"].tolist(), strict=True)
    ]
    length = format_ns(int(classes["path_ns"].sum()))
    content = {
        "found": True,
        "text": f"Critical path, {length}: {' · '.join(words)}",
        "call": f"p.critical_path(window={extent}, end='last')",
    }
    runs = spans[0].path.runs
    return content, path_segments(runs.track[::-1], runs.start[::-1], runs.end[::-1])


def path_segments(track: IntArray, start: IntArray, end: IntArray) -> dict[str, npt.NDArray[Any]]:
    """Join neighbouring pieces of a path on the same track; return them as columns of an answer."""
    first = np.flatnonzero(np.diff(track, prepend=-2))
    last = np.append(first[1:], len(track)) - 1
    return {
        "track": track[first].astype(np.int32),
        "start": start[first].astype(np.float64),
        "end": end[last[: len(first)]].astype(np.float64),
    }
