"""The slice in focus, and the way to others: same name, neighbours, search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...labels import merged_name
from ...selection import Query
from ...trace.arrays import IntArray
from ..filters import slices_passing
from ..packing import Answer, pack
from ..selected_rows import matching_key
from ..store import ViewStore
from .arguments import arguments_of
from .table import table

# Everything about the one slice in focus.

_MOST_FRAMES: Final = 40
_MOST_LINKS: Final = 20
_LONGEST: Final = 2000


def detail(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the slice in row ``request["id"]``: arguments, stack (root first) and launch links."""
    c = store.columns
    row = request.get("id")
    if row is None or not 0 <= int(row) < c.n:
        return pack({"found": False}, {})
    row = int(row)
    info = store.trace.slices.iloc[row]
    track = next(track for track in c.tracks if track.track == int(info["track"]))
    parent = None if pd.isna(info["parent"]) else int(info["parent"])
    content = {
        "found": True,
        "id": row,
        "name": str(info["name"])[:_LONGEST],
        "category": _text(info["category"]),
        "track_name": track.name,
        "group": track.group,
        "row": int(c.row[row]),
        "depth": int(info["depth"]),
        "ts": int(info["ts"]),
        "dur": int(info["dur"]),
        "self_ns": int(info["self_ns"]),
        "step": None if pd.isna(info["step"]) else int(info["step"]),
        "phase": _text(info["phase"]),
        "module": _text(info["module"]),
        "line": store.line_labels[int(c.line[row])],
        "shapes": _text(info["shapes"]),
        "parent": None if parent is None else {"id": parent, "name": c.names[c.name[parent]]},
        "arguments": arguments_of(store.trace, row),
        "stack": _stack(store.trace.stacks, info["stack"]),
        "links": _links(store, row),
    }
    return pack(content, {})


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)[:_LONGEST]


def _stack(stacks: pd.DataFrame, leaf: Any) -> list[str]:
    if pd.isna(leaf) or not len(stacks):
        return []
    parent = pd.Series(stacks["parent"].to_numpy(), stacks["stack"].to_numpy())
    keys: list[int] = []
    key: Any = int(leaf)
    while not pd.isna(key) and len(keys) < _MOST_FRAMES and int(key) in parent.index:
        keys.append(int(key))
        key = parent.loc[int(key)]
    return [str(text) for text in frame_texts(stacks.set_index("stack").loc[keys[::-1]])]


def frame_texts(stacks: pd.DataFrame) -> pd.Series:
    """Return ``function (file:line)`` of each frame."""
    place = stacks["file"] + (":" + stacks["line"].astype("str")).where(stacks["line"].notna(), "")
    return stacks["name"].where(stacks["file"] == "", stacks["name"] + " (" + place + ")")


def _links(store: ViewStore, row: int) -> list[dict[str, Any]]:
    flows, c = store.trace.flows, store.columns
    src, dst = flows["src"].to_numpy(), flows["dst"].to_numpy()
    kinds = flows["kind"].astype("str").to_numpy()
    out: list[dict[str, Any]] = []
    for own, other, direction in ((src, dst, "to"), (dst, src, "from")):
        for k in np.flatnonzero(own == row)[:_MOST_LINKS].tolist():
            end = int(other[k])
            link = {"kind": str(kinds[k]), "direction": direction, "name": c.names[c.name[end]][:200]}
            out.append({**link, **location(store, end)})
    return out


_MOST_MARKS: Final = 4000


def find(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the next (``by`` = 1) or previous (-1) slice on the track of slice `id` with the same name."""
    c = store.columns
    row, by = int(request.get("id", -1)), int(request.get("by", 1))
    if not 0 <= row < c.n:
        return pack({"id": None}, {})
    named = store.rows.order[store.choices.runs_of("name").chosen([int(c.name[row])]).positions()]
    same = np.sort(named[c.track[named] == c.track[row]])
    at = int(np.searchsorted(same, row)) + by
    return _location(store, int(same[at]) if 0 <= at < len(same) else None)


def neighbour(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the neighbour of slice `id`, or without one the first slice of a row that ends after `at`."""
    # `to` is ``next``, ``previous``, ``parent`` or ``child``
    c, index = store.columns, store.rows
    row, to = int(request.get("id", -1)), str(request.get("to", "next"))
    if not 0 <= row < c.n:
        lane, at = int(request.get("row", 0)), int(request.get("at", 0))
        first, _ = index.stretch(np.array([lane]), at, at + 1) if 0 <= lane < c.n_rows else (None, None)
        nearest = None if first is None or first[0] >= index.pointer[lane + 1] else int(index.order[first[0]])
        return _location(store, nearest)
    if to == "parent":
        return _location(store, int(c.parent[row]) if c.parent[row] >= 0 else None)
    lane = int(c.row[row])
    if to == "child":
        index, below = store.nested, int(c.row_below[c.nested_row[row]])
        if below < 0:
            return _location(store, None)
        edges = np.array([c.ts[row], c.ts[row] + c.drawn_ns[row]])
        first, stop = index.started_before(np.array([below]), edges)[0].tolist()
        child = int(index.order[first]) if first < stop else -1
        return _location(store, child if child >= 0 and c.parent[child] == row else None)
    start = index.started_before(np.array([lane]), np.array([c.ts[row]]))[0, 0]
    while start < len(index) - 1 and index.order[start] != row:  # instants that begin together
        start += 1
    start += 1 if to == "next" else -1
    inside_row = index.pointer[lane] <= start < index.pointer[lane + 1]
    return _location(store, int(index.order[start]) if inside_row else None)


def search(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return how many slices match a `Query`, the match to show, and where matches begin."""
    text = str(request.get("text", "")).strip()
    # a 1 in each of `px` bins in which a match begins
    bins = max(1, min(int(request.get("px", 1000)), _MOST_MARKS))
    nothing = {"count": 0, "place": None, "id": None, "error": ""}
    marks = np.zeros(bins, np.uint8)
    try:
        matches = matching_slices(store, text)
    except OptionError as error:
        return pack({**nothing, "error": str(error)}, {"marks": marks})
    if not len(matches):
        return pack(nothing, {"marks": marks})
    ts, span = store.columns.ts, store.trace.span
    share = (ts[matches] - span.start) / max(span.dur, 1)
    marks[np.minimum((share * bins).astype(np.int64), bins - 1)] = 1
    if request.get("id") is None:
        at = int(np.searchsorted(ts[matches], int(request.get("at", 0))))
    else:
        here, by = int(request["id"]), int(request.get("by", 1))
        at = int(np.searchsorted(matches, here, "right" if by > 0 else "left")) - (by < 0)
    at %= len(matches)
    location = _location(store, int(matches[at])).content
    return pack({**nothing, **location, "count": len(matches), "place": at}, {"marks": marks})


def calls(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Sum the calls of some names in a step, ignoring filters, and find one of their slices by number."""
    names, step, device = request["names"], request.get("step"), bool(request.get("device"))
    clauses = {"name": names, "step": None if step is None else [int(step)]}
    rows = table(store, clauses, {"by": "name", "scope": "device" if device else "host", "top": 1})
    labels, data = rows.content["label"], rows.arrays()
    own = np.isin(labels, [merged_name(name) for name in names]) if labels else np.zeros(0, bool)
    sums = {name: int(data[name][own].sum()) for name in ("count", "total_ns", "self_ns")}
    key = store.effective(matching_key(clauses))
    among = store.choices.slices(key) if key else np.arange(store.columns.n)
    assert among is not None  # the key is not empty
    among = among[store.columns.of_kind("stream")[among] == device]
    position, row = request.get("place"), request.get("id")
    if row is not None:
        position = next(iter(np.flatnonzero(among == int(row)).tolist()), None)
    position = int(position) if position is not None and 0 <= int(position) < len(among) else None
    at = None if position is None else location(store, int(among[position]))
    return pack({**sums, "slices": len(among), "place": position, "slice": at}, {})


def matching_slices(store: ViewStore, text: str) -> IntArray:
    """Return the rows of all slices that match a text, ascending; cached for the next question."""
    if not (text := text.strip()):
        return np.empty(0, np.int64)
    return store.keep(("search", text), lambda: np.flatnonzero(slices_passing(store, Query.parse(text))))


def _location(store: ViewStore, row: int | None) -> Answer:
    return pack({"id": None} if row is None else location(store, row), {})


def location(store: ViewStore, row: int) -> dict[str, Any]:
    """Return ``id ts dur row`` of a slice."""
    c = store.columns
    return {"id": row, "ts": int(c.ts[row]), "dur": int(c.dur[row]), "row": int(c.row[row])}
