"""The timeline's picture: wide slices one by one, all others as density."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..lod import DrawnIndex, density
from ..lod.rows import RowIndex, spread
from ..matching import matching_key
from ..packing import Answer, pack
from ..palette import NAMES
from ..store import ViewStore

MAX_QUADS: Final = 4000
MAX_ROWS: Final = 128
_NARROWEST_PX: Final = 2.0
_STRIP_ROWS: Final = 14
_NOT_FILTERED_BY: Final = ("window", "track")


def lod(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Slices of some rows in a window of time.

    Parameters
    ----------
    request : mapping
        ``a b`` (ns), ``px`` (width of the window in pixels), ``rows`` (drawn rows, at most 128),
        ``max_quads`` (at most 4,000), ``tint`` (``name category phase module step``).

    Returns
    -------
    Answer
        One entry a drawn slice: ``x0 dur`` (f8, ns), ``slot`` (place in `rows`), ``name``, ``tint``
        (code to colour by), ``id`` (row of ``trace.slices``), ``match`` (1 selected). If not all slices
        of the window are there, one entry a cell of ``rows × bins``: ``busy`` (0–255, 0 only where
        nothing is), ``bright`` (selected part of it, 0–255), ``count``, ``dname``, ``dtint`` of the
        longest slice; ``bin_start bin_ns bins`` place them.
    """
    a, b = float(request["a"]), float(request["b"])
    width = max(1, min(int(request.get("px", 1000)), 8000))
    limit = max(1, min(int(request.get("max_quads", MAX_QUADS)), MAX_QUADS))
    asked = [int(row) for row in request.get("rows", ())][:MAX_ROWS]
    rows = np.array([row for row in asked if 0 <= row < store.columns.n_rows], np.int64)
    slot_of = np.zeros(store.columns.n_rows + 1, np.uint16)
    slot_of[rows] = [asked.index(row) for row in rows.tolist()]
    key = matching_key(state, without=_NOT_FILTERED_BY)
    drawn = store.drawn(rows, key)
    first, stop = drawn.rows.stretch(rows, int(np.floor(a)), int(np.ceil(b)))
    total = int((stop - first).sum())
    if total <= limit:
        at = spread(first, stop)
        bins: dict[str, npt.NDArray[Any]] = {}
        where: dict[str, Any] = {"mode": "all", "bins": 0}
    else:
        at = drawn.wide.find(first, stop, _NARROWEST_PX * (b - a) / width, limit)
        where, bins = _bins(store, drawn, key, rows, (a, b), width, str(request.get("tint", "name")))
    content = {"total": total, "quads": len(at), "filtered": bool(key), **where}
    tint = str(request.get("tint", "name"))
    return pack(content, {**_quads(store, drawn.rows, key, at, slot_of, tint), **bins})


def strip(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """The whole recording in one strip: outermost slices of the busiest tracks, as density.

    Parameters
    ----------
    request : mapping
        ``px``: number of bins.

    Returns
    -------
    Answer
        Columns ``busy bright dname dtint`` as in `lod`, ``content["rows"]`` rows of them.
    """
    c = store.columns
    chosen = c.tracks[:_STRIP_ROWS]
    rows = np.array([track.first_row for track in chosen], np.int64)
    key = matching_key(state, without=_NOT_FILTERED_BY)
    span = (float(store.trace.span.start), float(max(store.trace.span.end, 1)))
    drawn, px, tint = store.drawn(rows, key), int(request.get("px", 1000)), str(request.get("tint", "name"))
    where, bins = _bins(store, drawn, key, rows, span, px, tint)
    del bins["count"]
    return pack({"rows": len(rows), "filtered": bool(key), **where}, bins)


def _quads(
    store: ViewStore,
    index: RowIndex,
    key: tuple[Any, ...],
    at: npt.NDArray[np.int64],
    slot_of: npt.NDArray[np.uint16],
    tint: str,
) -> dict[str, npt.NDArray[Any]]:
    c = store.columns
    slices = index.order[at]
    return {
        "x0": index.starts(at).astype(np.float64),
        "dur": index.lengths(at).astype(np.float64),
        "slot": slot_of[c.row[slices]],
        "name": _names(store, c.name[slices]),
        "tint": _tint(store, tint, slices),
        "id": slices.astype(np.uint32),
        "match": store.matches(key, slices).astype(np.uint8),
    }


def _bins(
    store: ViewStore,
    drawn: DrawnIndex,
    key: tuple[Any, ...],
    rows: npt.NDArray[np.int64],
    window: tuple[float, float],
    width: int,
    tint: str,
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    window, width = _inside(store, window, width)
    index = drawn.rows
    d = density(index, drawn.blocks, rows, window, width, store.chosen(key))
    longest = index.order[np.maximum(d.longest, 0)] if len(index) else np.maximum(d.longest, 0)
    any_ = d.count > 0
    busy = np.where(any_, np.clip(np.ceil(d.busy_ns / d.width * 255), 1, 255), 0).astype(np.uint8)
    if d.matched_ns is None:
        bright = np.where(any_, 255, 0).astype(np.uint8)
    else:
        # a bin that holds instants only has no time to share: its longest slice speaks for it
        share = d.matched_ns / np.maximum(d.busy_ns, 1)
        instants = (d.busy_ns == 0) & any_
        share[instants] = store.matches(key, longest[instants])
        bright = np.clip(np.ceil(share * 255), 0, 255).astype(np.uint8)
    where = {"mode": "dense", "bins": d.busy_ns.shape[1], "bin_start": d.start, "bin_ns": d.width}
    c = store.columns
    names = c.name[longest] if c.n else longest
    tints = _tint(store, tint, longest) if c.n else longest.astype(np.uint8)
    cells: dict[str, npt.NDArray[Any]] = {
        "busy": busy,
        "bright": bright,
        "count": np.minimum(d.count, 2**32 - 1).astype(np.uint32),
        "dname": _names(store, names),
        "dtint": tints,
    }
    return where, {name: values.ravel() for name, values in cells.items()}


def _inside(store: ViewStore, window: tuple[float, float], width: int) -> tuple[tuple[float, float], int]:
    """The part of a window that lies in the recording, and its share of the pixels."""
    first, last = float(store.trace.span.start), float(max(store.trace.span.end, 1))
    a = min(max(window[0], first), last)
    b = max(min(window[1], last), a + 1)
    return (a, b), max(1, int(np.ceil(width * (b - a) / (window[1] - window[0]))))


def _names(store: ViewStore, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.maximum(codes, 0), np.uint16 if len(store.columns.names) < 65_536 else np.uint32)


def _tint(store: ViewStore, tint: str, slices: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    c = store.columns
    if tint in ("phase", "category"):
        codes = getattr(c, tint)[slices].astype(np.int64)
        return np.where(codes < 0, 255, codes).astype(np.uint8)
    if tint in ("module", "step"):
        codes = (c.step if tint == "step" else store.grouping("module")[0])[slices].astype(np.int64)
        return np.where(codes < 0, 255, codes % len(NAMES)).astype(np.uint8)
    return np.asarray(store.name_colours[np.maximum(c.name[slices], 0)], np.uint8)
