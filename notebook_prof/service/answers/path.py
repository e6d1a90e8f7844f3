"""The critical path as the timeline draws it, why a track waited, and *what if*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ... import analysis
from ...analysis.critical_path.path import critical_path, spans_of
from ...analysis.critical_path.walk import IN_WORDS
from ...analysis.verdict.inputs import judged_extent
from ...errors import NotebookProfError, SelectionError
from ...trace import Trace
from ...trace.arrays import IntArray
from ...units import format_ns, format_share
from ..packing import Answer, pack
from ..store import ViewStore
from .find import location

# Step times if the selected work took longer, or less time.

MOST_SLICES: Final = 2_000_000
"""Maximum number of slices. A replay of more takes seconds for each position of a slider."""
_SCALED: Final = ("name", "line", "phase", "category")
_UNSCALED: Final = ("track", "rank", "group")
_SELECT: Final = (
    "Select a name, a line, a phase or a category first: a row of the table, or a slice by double-click."
)


def what_if(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return `notebook_prof.analysis.what_if` for the selected work and a factor."""
    return pack(what_if_content(store.trace, state, float(request.get("factor") or 0)), {})


def what_if_content(trace: Trace, state: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return one factor's answer: a sentence, the Python call, the path's classes before and after in ns."""
    arguments = arguments_of(state, factor)
    if isinstance(arguments, str):
        return {"found": False, "text": arguments}
    call = f"p.what_if({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    if len(trace.slices) > MOST_SLICES:
        text = f"More than {MOST_SLICES:,} slices take seconds to replay: ask in Python, {call}."
        return {"found": False, "text": text}
    try:
        answer = analysis.what_if(trace, **arguments)
    except NotebookProfError as error:
        return {"found": False, "text": f"{str(error)[:1].upper()}{str(error)[1:]}."}
    count = max(len(answer.steps), 1)
    classes = [] if answer.refused else answer.classes[["class", "before_ns", "after_ns"]].values.tolist()
    return {
        "found": True,
        "text": str(answer),
        "call": call,
        "refused": answer.refused,
        "classes": [[IN_WORDS[name], before / count, after / count] for name, before, after in classes],
    }


def arguments_of(state: Mapping[str, Any], factor: float) -> dict[str, Any] | str:
    """Return the arguments of `what_if` for the selection, or why there are none."""
    scaled = [dimension for dimension in _SCALED if state.get(dimension)]
    others = [dimension for dimension in _UNSCALED if state.get(dimension)]
    if not scaled:
        return _SELECT
    if len(scaled) > 1:
        return f"Select by one of {' and '.join(scaled)}: what_if takes one factor for each."
    if others:
        return f"A replay changes what is selected on all tracks: remove the {others[0]} from the selection."
    dimension = scaled[0]
    factors = dict.fromkeys(map(str, state[dimension]), factor)
    if dimension == "category":
        factors = {f"category={name}": factor for name in factors}
    out: dict[str, Any] = {"scale" if dimension in ("name", "category") else dimension: factors}
    if state.get("step"):
        out["step"] = [int(number) for number in state["step"]]
    if state.get("window"):
        out["window"] = tuple(int(edge) for edge in state["window"])
    return out


# Why a thread or stream did what it did at an instant.


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


_SHOWN: Final = 4
_LEAST: Final = 0.01
_NONE: Final = "There is no critical path: no thread or stream of this recording has slices with a duration."


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
