"""The timeline's picture: wide slices one by one, narrow ones as density."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...errors import OptionError
from ...trace.arrays import IntArray
from ..columns import DrawnTrack
from ..detail.density import Density, density
from ..detail.drawn import DrawnIndex, RowPicture
from ..detail.rows import RowIndex, spread
from ..packing import Answer, pack
from ..palette import HUES
from ..selected_rows import Key, matching_key
from ..store import ViewStore
from .find import matching_slices

MAX_QUADS: Final = 4000
MAX_ROWS: Final = 128
_NARROWEST_PX: Final = 2.0
_STRIP_ROWS: Final = 14
_STREAM_ROWS: Final = 4
_DEEPER_ROWS: Final = 256
_NOT_FILTERED_BY: Final = ("window", "track")


# Units: ``x0 dur`` ns; ``busy bright`` 0–255, 0 only where there is nothing. ``picture`` is the number of the
# part that does not depend on the selection: if the page already has it, only ``match`` and ``bright`` are
# sent.
def timeline_picture(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the slices of some rows in a window: wide ones one by one, and a density of the others."""
    a, b = float(request["a"]), float(request["b"])
    width = max(1, min(int(request.get("px", 1000)), 8000))
    limit = max(1, min(int(request.get("max_quads", MAX_QUADS)), MAX_QUADS))
    numbers = [int(row) for row in request.get("rows", ())][:MAX_ROWS]
    rows = np.array([row for row in numbers if 0 <= row < store.columns.n_rows], np.int64)
    tint = str(request.get("tint", "name"))
    key = matching_key(state, without=_NOT_FILTERED_BY)
    drawn = store.drawn(rows, key)
    where = ("timeline", a, b, width, limit, tuple(numbers), tint)
    number, picture = store.pictures.get(
        where, drawn.rows, lambda: _picture(store, drawn, rows, (a, b), width, limit)
    )
    content = {"total": picture.total, "quads": len(picture.at), "filtered": bool(key), "picture": number}
    marks = _marks(store, picture, key) | _search_marks(store, picture, str(request.get("find", "")))
    if request.get("picture") == number:
        return pack({**content, "same": True}, marks)
    slot_of = np.zeros(store.columns.n_rows + 1, np.uint16)
    slot_of[rows] = [numbers.index(row) for row in rows.tolist()]
    columns = _quads(store, picture, slot_of, tint)
    if picture.density is None:
        return pack({**content, "mode": "all", "bins": 0}, {**columns, **marks})
    cells = _cells(store, picture.index, picture.density, tint)
    return pack({**content, **_bins(picture.density)}, {**columns, **cells, **marks})


def strip(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return how busy the first tracks are over the whole recording, as density."""
    c = store.columns
    key = matching_key(state, without=_NOT_FILTERED_BY)
    pairs = [(k, row) for k, track in enumerate(c.tracks[:_STRIP_ROWS]) for row in _rows_of_busy_time(track)]
    busy_rows = len(pairs)
    if key:  # what is selected may lie deeper
        pairs += [
            (k, row)
            for k, track in enumerate(c.tracks[:_STRIP_ROWS])
            for row in range(track.first_row, track.first_row + track.depths)
            if row not in _rows_of_busy_time(track)
        ][:_DEEPER_ROWS]
    rows = np.array([row for _, row in pairs], np.int64)
    span = (float(store.trace.span.start), float(max(store.trace.span.end, 1)))
    drawn, px, tint = store.drawn(rows, key), int(request.get("px", 1000)), str(request.get("tint", "name"))

    def make() -> RowPicture:
        cells = density(drawn.rows, drawn.blocks, rows, span, px)
        return RowPicture(drawn.rows, c.n, np.empty(0, np.int64), cells)

    number, picture = store.pictures.get(("strip", px, tint, len(pairs)), drawn.rows, make)
    d = picture.density
    assert d is not None
    tracks = [k for k, _ in pairs]
    content = {"tracks": tracks, "busy_rows": busy_rows, "filtered": bool(key), "picture": number}
    marks = {"bright": _selected_brightness(store, picture.index, d, key)}
    if request.get("picture") == number:
        return pack({**content, "same": True}, marks)
    cells = _cells(store, picture.index, d, tint)
    del cells["count"]
    return pack({**content, **_bins(d)}, {**cells, **marks})


def selected(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Count the selected slices of every row before, in and after a window, as in ``Profile.selected``."""
    index, rows = store.rows, np.arange(store.columns.n_rows)
    chosen, window = store.chosen(matching_key(state)), state.get("window")
    first, stop = index.pointer[:-1], index.pointer[1:]
    if window is not None:
        first, stop = index.stretch(rows, int(window[0]), int(window[1]))
    in_view = index.stretch(rows, int(np.floor(request["a"])), int(np.ceil(request["b"])))
    left, right = (np.clip(edge, first, stop) for edge in in_view)
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
    last, next_ = numbers[1][before > 0] - 1, numbers[2][after > 0]
    if chosen is not None:
        last, next_ = chosen.nth(last), chosen.nth(next_)
    columns["end_before"][before > 0] = index.ends(last)
    columns["start_after"][after > 0] = index.starts(next_)
    if window is not None:
        _add_crossing(store, matching_key(state), int(window[0]), request, columns)
    count = columns["before"] + columns["inside"] + columns["after"]
    return pack({"count": int(count.sum())}, {name: values[count > 0] for name, values in columns.items()})


def _add_crossing(
    store: ViewStore, key: Key, start: int, request: Mapping[str, Any], columns: dict[str, npt.NDArray[Any]]
) -> None:
    """Count slices that touch the selected window but are drawn before it."""
    c = store.columns
    slices = c.crosses_parent
    until, rows = c.ts[slices] + c.drawn_ns[slices], c.row[slices]
    touch = np.flatnonzero((until <= start) & (c.ts[slices] + c.dur[slices] > start))
    touch = touch[store.matches(key, slices[touch])]
    where = np.where(until[touch] <= np.floor(request["a"]), 0, 1)
    where[c.ts[slices[touch]] >= np.ceil(request["b"])] = 2
    for part, name in enumerate(("before", "inside", "after")):
        np.add.at(columns[name], rows[touch[where == part]], 1)
    before, after = touch[where == 0], touch[where == 2]
    np.maximum.at(columns["end_before"], rows[before], until[before])
    first = columns["start_after"]
    first[first < 0] = np.inf
    np.minimum.at(first, rows[after], c.ts[slices[after]])
    first[np.isinf(first)] = -1


def _rows_of_busy_time(track: DrawnTrack) -> range:
    """Return the rows of a track that show how busy it is."""
    if track.kind == "stream":
        first = track.first_row + track.marks
        # A thread has frames around everything, and a stream may have annotations around its kernels.
        return range(first, first + min(track.depths - track.marks, _STREAM_ROWS))
    return range(track.first_row + track.outer_rows, track.first_row + track.outer_rows + 1)


def _picture(
    store: ViewStore, drawn: DrawnIndex, rows: IntArray, window: tuple[float, float], width: int, limit: int
) -> RowPicture:
    a, b = window
    first, stop = drawn.rows.stretch(rows, int(np.floor(a)), int(np.ceil(b)))
    total = int((stop - first).sum())
    if total <= limit:
        return RowPicture(drawn.rows, total, spread(first, stop), None)
    at = drawn.wide.find(first, stop, _NARROWEST_PX * (b - a) / width, limit)
    # only the part of the window inside the recording gets bins, as many as its share of the pixels
    first_ns, last_ns = float(store.trace.span.start), float(max(store.trace.span.end, 1))
    left = min(max(a, first_ns), last_ns)
    right = max(min(b, last_ns), left + 1)
    bins = max(1, int(np.ceil(width * (right - left) / (b - a))))
    return RowPicture(drawn.rows, total, at, density(drawn.rows, drawn.blocks, rows, (left, right), bins))


def _bins(d: Density) -> dict[str, Any]:
    return {"mode": "dense", "bins": d.busy_ns.shape[1], "bin_start": d.start, "bin_ns": d.width}


def _quads(
    store: ViewStore, picture: RowPicture, slot_of: npt.NDArray[np.uint16], tint: str
) -> dict[str, npt.NDArray[Any]]:
    c, index, at = store.columns, picture.index, picture.at
    slices = index.order[at]
    return {
        "x0": index.starts(at).astype(np.float64),
        "dur": index.lengths(at).astype(np.float64),
        "slot": slot_of[c.row[slices]],
        "name": _names(store, c.name[slices]),
        "tint": _tint(store, tint, slices),
        "id": slices.astype(np.uint32),
        **({"line": c.line[slices].astype(np.int32)} if c.lines else {}),
    }


def _cells(store: ViewStore, index: RowIndex, d: Density, tint: str) -> dict[str, npt.NDArray[Any]]:
    longest = _longest(index, d)
    c = store.columns
    busy = np.where(d.count > 0, np.clip(np.ceil(d.busy_ns / d.width * 255), 1, 255), 0).astype(np.uint8)
    cells: dict[str, npt.NDArray[Any]] = {
        "busy": busy,
        "count": np.minimum(d.count, 2**32 - 1).astype(np.uint32),
        "dname": _names(store, c.name[longest] if c.n else longest),
        "dtint": _tint(store, tint, longest) if c.n else longest.astype(np.uint8),
    }
    return {name: values.ravel() for name, values in cells.items()}


def _longest(index: RowIndex, d: Density) -> npt.NDArray[np.integer]:
    at = np.maximum(d.longest, 0)
    return index.order[at] if len(index) else at


def _marks(store: ViewStore, picture: RowPicture, key: Key) -> dict[str, npt.NDArray[Any]]:
    """Return the selected part of a picture: everything that a new selection changes."""
    slices = picture.index.order[picture.at]
    marks: dict[str, npt.NDArray[Any]] = {"match": store.matches(key, slices).astype(np.uint8)}
    if picture.density is not None:
        marks["bright"] = _selected_brightness(store, picture.index, picture.density, key)
    return marks


def _search_marks(store: ViewStore, picture: RowPicture, text: str) -> dict[str, npt.NDArray[Any]]:
    """Return a mask of the drawn slices that match a text; empty for a text without conditions."""
    try:
        matches = matching_slices(store, text)
    except OptionError:  # the answer to the search says what is wrong with it
        return {}
    if not len(matches):
        return {}
    slices = picture.index.order[picture.at]
    at = np.minimum(np.searchsorted(matches, slices), len(matches) - 1)
    return {"found": (matches[at] == slices).astype(np.uint8)}


def _selected_brightness(store: ViewStore, index: RowIndex, d: Density, key: Key) -> npt.NDArray[np.uint8]:
    """Return the selected part of every cell's busy time, 0–255."""
    any_ = (d.count > 0).ravel()
    chosen = store.chosen(key)
    if chosen is None:
        return np.where(any_, 255, 0).astype(np.uint8)
    share = (d.matched(chosen) / np.maximum(d.busy_ns, 1)).ravel()
    # a bin that holds instants only has no time to share: its longest slice speaks for it
    instants = np.flatnonzero((d.busy_ns.ravel() == 0) & any_)
    share[instants] = store.matches(key, _longest(index, d).ravel()[instants])
    return np.clip(np.ceil(share * 255), 0, 255).astype(np.uint8)


def _names(store: ViewStore, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.maximum(codes, 0), np.uint16 if len(store.columns.names) < 65_536 else np.uint32)


def _tint(store: ViewStore, tint: str, slices: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    c = store.columns
    if tint in ("phase", "category"):
        codes = getattr(c, tint)[slices].astype(np.int64)
        return np.where(codes < 0, 255, codes).astype(np.uint8)
    if tint == "step":
        codes = c.step[slices].astype(np.int64)
        return np.where(codes < 0, 255, codes % HUES).astype(np.uint8)
    if tint == "module":
        colours = np.append(store.module_colours, np.uint8(255))  # -1 (no module) reads the last
        return np.asarray(colours[store.grouping("module")[0][slices]], np.uint8)
    return np.asarray(store.name_styles.codes[np.maximum(c.name[slices], 0)], np.uint8)


# Curves over time: memory of a device with its peak, and counters as step lines.


def memory(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return allocated (or resident), reserved and selected bytes of a device, by default the first."""
    devices = store.memory_devices
    if not devices:
        empty = np.empty(0)
        return pack({"device": None}, dict.fromkeys(("x", "y", "rx", "ry", "sx", "sy"), empty))
    # the first one has the highest peak
    device = int(request.get("device", devices[0]) if request.get("device") is not None else devices[0])
    device = device if device in devices else devices[0]
    a, b, width = float(request["a"]), float(request["b"]), max(1, min(int(request.get("px", 1000)), 4000))
    curves = store.memory_curves(device)
    x, y = curves["allocated"].sample(a, b, width)
    rx = ry = sx = sy = np.empty(0)
    if (curves["reserved"].value > 0).any():
        rx, ry = curves["reserved"].sample(a, b, width)
    key = matching_key(state, without=("window",))
    chosen, part = store.selected_memory(device, key), "selection"
    if chosen is None and "blocks" in curves and len(curves["blocks"].ts):
        chosen, part = curves["blocks"], "blocks"
    if chosen is not None:
        sx, sy = chosen.sample(a, b, width)
    ts, value = curves["allocated"].ts, curves["allocated"].value
    top = int(value.argmax())
    content = {
        "device": device,
        "part": part,
        "peak": {"ts": int(ts[top]), "bytes": int(value[top])},
        "window_peak": _window_peak(state, ts, value),
        "highest": float(max(value.max(), curves["reserved"].value.max())),
        "lowest": float(min(value.min(), 0.0)),
    }
    return pack(content, {"x": x, "y": y, "rx": rx, "ry": ry, "sx": sx, "sy": sy})


def _window_peak(state: Mapping[str, Any], ts: Any, value: Any) -> dict[str, int] | None:
    if state.get("window") is None:
        return None
    start, end = state["window"]
    i = max(int(np.searchsorted(ts, start, "right")) - 1, 0)
    j = int(np.searchsorted(ts, end, "left"))
    if j <= i:
        return None
    top = i + int(value[i:j].argmax())
    return {"ts": int(ts[top]), "bytes": int(value[top])}


_MOST: Final = 24


def counters(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the values of some counter tracks in a window, one track after another."""
    a, b, width = float(request["a"]), float(request["b"]), max(1, min(int(request.get("px", 1000)), 4000))
    drawn_tracks = {drawn.track for drawn in store.counters}
    tracks = [int(key) for key in request.get("tracks", ()) if int(key) in drawn_tracks][:_MOST]
    parts = [store.counter_curve(key).sample(a, b, width) for key in tracks]
    x, y = map(np.concatenate, zip(*parts, strict=True)) if parts else (np.empty(0), np.empty(0))
    columns = {"x": x, "y": y}
    return pack({"tracks": tracks, "sizes": [len(x) for x, _ in parts]}, columns)
