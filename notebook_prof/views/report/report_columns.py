"""The columns of a trace in a report; ``js/src/report`` computes its answers from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...service.answers import account, legend, meta, names, path, phases
from ...service.answers.find import frame_texts
from ...service.columns import coded
from ...service.detail.curve import StepCurve
from ...service.packing import Answer
from ...service.store import ViewStore
from ...trace.nesting import by_track
from .arguments import arguments_in_file
from .html_file import deflated
from .residual_aggregates import (
    SIDES,
    BusyGrid,
    TotalsGrid,
    cells_left_out,
    kinds_of,
    totals_grid_left_out,
    totals_left_out,
)

_SHARED: Final = 0.5
"""Share of a file's slices reserved for the longest of every track, so that no track disappears."""
_CELLS: Final = 0.6
_TOTALS_SHARE: Final = 0.4
"""Entries of the two grids for each slice in the file."""
_MOST_WITH_PATH: Final = 2_000_000
_MOST_SEGMENTS: Final = 5_000
_MOST_FRAMES: Final = 100_000
"""Call stacks with more frames are left out of a file."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The slices in a file, and the sums of the others."""

    keep: npt.NDArray[np.bool_]
    cells: BusyGrid
    totals_grid: TotalsGrid
    # A slice of every kind in `totals_grid`.
    kinds: npt.NDArray[np.int64]
    # Kind of the longest slice left out of every cell.
    kind_of_cell: npt.NDArray[np.int64]

    @classmethod
    def of(cls, store: ViewStore, most: int) -> FilePart | None:
        """Return the `most` longest slices, and sums of half their size; None if these are all slices."""
        keep = longest_slices(store, most)
        if keep.all():
            return None
        cells = cells_left_out(store, keep, int(_CELLS * most))
        out = np.flatnonzero(~keep)
        kind, kinds = kinds_of(store, out)
        totals = totals_grid_left_out(store, keep, cells, kind, int(_TOTALS_SHARE * most))
        return cls(keep, cells, totals, kinds, kind[np.searchsorted(out, cells.longest)])

    @property
    def number(self) -> npt.NDArray[np.int64]:
        """The number in the file of every slice; -1 if it is not included."""
        return np.where(self.keep, np.cumsum(self.keep) - 1, -1)


def payload(store: ViewStore, part: FilePart | None, events: int) -> dict[str, Any]:
    """Return the data of a report's page; `part` None means all slices, `events` limits a memory curve."""
    kept: npt.NDArray[Any] | slice = slice(None) if part is None else np.flatnonzero(part.keep)
    c = store.columns
    columns: dict[str, Any] = {"ts": deflated(c.ts[kept], delta=True)}
    for name in ("dur", "row", "name", "category", "phase", "step", "line"):
        columns[name] = deflated(getattr(c, name)[kept])
    inside = c.dur - c.self_ns
    covered = store.nested.covered(c.row_below[c.nested_row], c.ts, c.ts + c.drawn_ns)
    if part or not np.array_equal(inside, covered + (c.dur - c.drawn_ns)):
        columns["inside"] = deflated(inside[kept])  # otherwise the page computes it from the rows
    if c.extent is not None:
        columns["extent"] = deflated((c.extent - c.drawn_ns)[kept])
    if c.nested_row is not c.row:
        columns["nested"] = deflated(c.nested_row[kept])
    columns |= _crossing(store, part)
    columns |= _relations(store, part)
    head = _contents(meta(store, {}, {}))
    groups: dict[str, Any] = {}
    for by in ("shapes", "module"):
        if by in head["content"]["groupings"]:
            codes, of_name, details = store.grouping(by)
            columns[by] = deflated(codes[kept])
            groups[by] = {"names": of_name.tolist(), "details": details}
            if by == "module":
                groups[by] = {"labels": details, "details": store.module_classes}
    return {
        "columns": columns,
        "meta": head["content"],
        "steps": head["data"],
        **_all_names(store),
        "lineLabels": store.line_labels[:-1],
        "colours": store.name_styles.codes.tolist(),
        "waits": np.flatnonzero(store.waits).tolist(),
        "moduleColours": store.module_colours.tolist() if "module" in groups else [],
        "legends": {tint: legend(store, {}, {"tint": tint}).content for tint in head["content"]["tints"]},
        "trackOfRow": c.track_of_row.tolist(),
        "trackOfNestedRow": c.track_of_nested_row.tolist(),
        "groups": groups,
        "account": _contents(account(store, {}, {})),
        "phases": _contents(phases(store, {}, {})),
        "path": _path(store),
        "memory": [_memory(store, part, device, events) for device in store.memory_devices],
        "counters": {str(one.track): _counter(store, one.track) for one in store.counters},
        "told": arguments_in_file(store.trace, None if part is None else part.keep),
        "stacks": _stacks(store, part),
        "flowKinds": coded(store.trace.flows["kind"])[1],
        "left": None if part is None else _left_out(store, part, head["content"]["groupings"]),
    }


def _crossing(store: ViewStore, part: FilePart | None) -> dict[str, Any]:
    """Return slices that are drawn shorter than they are, and by how much."""
    c = store.columns
    slices = c.crosses_parent
    shorter = (c.dur - c.drawn_ns)[slices]
    if part is not None:
        kept = part.keep[slices]
        slices, shorter = part.number[slices[kept]], shorter[kept]
    return {"straddling": deflated(slices, delta=True), "shorter": deflated(shorter)}


def _relations(store: ViewStore, part: FilePart | None) -> dict[str, Any]:
    """Return pairs of slices that are both in the file: launches, calls passed on, links."""
    flows = store.trace.flows
    src, dst = flows["src"].to_numpy(), flows["dst"].to_numpy()
    kind, _ = coded(flows["kind"])
    (work, launcher), (again, _) = store.launches, store.again
    if part is not None:
        number = part.number
        both_kept = part.keep[work] & part.keep[launcher]
        work, launcher = number[work[both_kept]], number[launcher[both_kept]]
        again = number[again[part.keep[again]]]
        ends = part.keep[src] & part.keep[dst]
        src, dst, kind = number[src[ends]], number[dst[ends]], kind[ends]
    marked = np.isin(store.columns.track, [track.track for track in store.columns.tracks if track.marks])
    inner = np.flatnonzero(marked if part is None else marked & part.keep)
    around = store.columns.parent[inner].astype(np.int64)
    if part is not None:
        inner, around = number[inner], np.where(around < 0, -1, number[around])
    return {
        "inner": deflated(inner, delta=True),
        "around": deflated(inner - around),
        "work": deflated(work, delta=True),
        "launcher": deflated(launcher),
        "again": deflated(again, delta=True),
        "flow_src": deflated(src),
        "flow_dst": deflated(dst),
        "flow_kind": deflated(kind),
    }


def has_stacks(store: ViewStore, whole: bool) -> bool:
    """Return whether call stacks are in the file: those of a part, or very many, are left out."""
    return whole and 0 < len(store.trace.stacks) <= _MOST_FRAMES


def _stacks(store: ViewStore, part: FilePart | None) -> dict[str, Any] | None:
    """Return the innermost frame of every slice, and of every frame its text and its caller; -1 for none."""
    if not has_stacks(store, part is None):
        return None
    stacks = store.trace.stacks
    place = pd.Index(stacks["stack"])
    code, texts = pd.factorize(frame_texts(stacks))
    columns = {
        "leaf": place.get_indexer(store.trace.slices["stack"].fillna(-1).astype("int64")),
        "frame": code,
        "parent": place.get_indexer(stacks["parent"].fillna(-1).astype("int64")),
    }
    return {"texts": texts.tolist(), "columns": {name: deflated(values) for name, values in columns.items()}}


def _left_out(store: ViewStore, part: FilePart, groupings: list[str]) -> dict[str, Any]:
    c, cells, grid = store.columns, part.cells, part.totals_grid
    columns = {
        "at": deflated(cells.at, delta=True),
        "busy": deflated(cells.busy_ns),
        "count": deflated(cells.count),
        "kind": deflated(part.kind_of_cell),
        "crumb_at": deflated(grid.at, delta=True),
        "crumb_kind": deflated(grid.kind),
        "crumb_weight": deflated(grid.weight),
    }
    kinds = {
        "name": c.name,
        "category": c.category,
        "phase": c.phase,
        "line": c.line,
        "module": store.grouping("module")[0],
    }
    names = ("count", "total_ns", "self_ns", "device_ns", "touched")
    totals = {
        f"{by} {side} {name}": deflated(getattr(left, name))
        for by in groupings
        for side in SIDES
        for left in (totals_left_out(store, part.keep, by, side),)
        for name in names
    }
    return {
        "origin": cells.origin,
        "cell": cells.width_ns,
        "cells": cells.per_row,
        "fine": grid.fine,
        "coarse": grid.per_group,
        "placeOfRow": grid.group_of_row.tolist(),
        "slices": int((~part.keep).sum()),
        "columns": columns,
        "kinds": {name: deflated(codes[part.kinds].astype(np.int64)) for name, codes in kinds.items()},
        "totals": totals,
    }


def _counter(store: ViewStore, track: int) -> dict[str, Any]:
    curve = store.counter_curve(track)
    return {"ts": deflated(curve.ts, delta=True), "value": deflated(curve.value, real=True)}


def _memory(store: ViewStore, part: FilePart | None, device: int, most: int) -> dict[str, Any]:
    curves = store.memory_curves(device)
    allocated, reserved = curves["allocated"], curves["reserved"]
    resident = device == -1 and store.resident is not None
    none = np.zeros(0, np.int64)
    rows = extremes(allocated.value, most) if len(allocated.ts) > most else slice(None)
    # the slice that allocated a block is known only if every event is included
    blocks = curves.get("blocks", allocated)
    with_blocks = len(blocks.ts) <= most
    owner, size = store.memory_owners(device) if with_blocks else (none, none)
    top = int(allocated.value.argmax())
    return {
        "device": device,
        "resident": resident,
        "peak": {"ts": int(allocated.ts[top]), "bytes": int(allocated.value[top])},
        "highest": float(max(allocated.value.max(), reserved.value.max())),
        "reserved": bool((reserved.value > 0).any()),
        "columns": {
            **_blocks(curves.get("blocks"), most),
            "ts": deflated(allocated.ts[rows], delta=True),
            "allocated": deflated(allocated.value[rows].astype(np.int64)),
            "reserved": deflated(reserved.value[rows].astype(np.int64)),
            "bytes": deflated(size),
            "owner": deflated(_owners(part, owner)),
        },
    }


def _blocks(curve: StepCurve | None, most: int) -> dict[str, Any]:
    """Return blocks inside resident memory, at their own times."""
    if curve is None or not len(curve.ts):
        return {}
    rows = extremes(curve.value, most) if len(curve.ts) > most else slice(None)
    return {
        "blocks_ts": deflated(curve.ts[rows], delta=True),
        "blocks": deflated(curve.value[rows].astype(np.int64)),
    }


def _owners(part: FilePart | None, owner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return numbers in the file; the entries of `TotalsGrid` follow its last slice."""
    if part is None:
        return owner
    number = part.number
    number[~part.keep] = int(part.keep.sum()) + part.totals_grid.of_slice
    return np.where(owner >= 0, number[np.maximum(owner, 0)], -1)


def extremes(values: npt.NDArray[Any], most: int) -> npt.NDArray[np.int64]:
    """Return rows of the lowest, the highest and the last value of each stretch, about `most` in all."""
    wide = -(-len(values) // (most // 3))
    full = len(values) // wide * wide
    parts = values[:full].reshape(-1, wide)
    first = np.arange(0, full, wide)
    chosen = (first + parts.argmin(axis=1), first + parts.argmax(axis=1), first + wide - 1)
    return np.unique(np.concatenate([*chosen, np.arange(full, len(values))]))


def _all_names(store: ViewStore) -> dict[str, list[str]]:
    """Return ``names`` and their labels, ``short``."""
    out: dict[str, list[str]] = {"names": [], "short": []}
    start: int | None = 0
    while start is not None and store.columns.names:
        page = names(store, {}, {"start": start}).content
        for key, values in out.items():
            values += page[key]
        start = page["next"]
    return out


def _path(store: ViewStore) -> dict[str, Any]:
    """Return the critical path, without its shortest segments if they are too many for a file."""
    if len(store.columns.ts) > _MOST_WITH_PATH:
        text = "The critical path of so many slices is only computed in Python: p.critical_path()."
        return {"content": {"found": False, "text": text}, "columns": {}}
    answer = path(store, {}, {})
    segments = answer.arrays()
    if len(segments.get("end", ())) > _MOST_SEGMENTS:
        longest = np.sort(np.argsort(segments["start"] - segments["end"], kind="stable")[:_MOST_SEGMENTS])
        segments = {name: column[longest] for name, column in segments.items()}
    content = {name: value for name, value in answer.content.items() if name != "columns"}
    columns = {name: deflated(column.astype(np.int64)) for name, column in segments.items()}
    return {"content": content, "columns": columns}


def _contents(answer: Answer) -> dict[str, Any]:
    data = {name: column.tolist() for name, column in answer.arrays().items()}
    content = {name: value for name, value in answer.content.items() if name != "columns"}
    return {"content": content, "data": data}


def longest_slices(store: ViewStore, most: int) -> npt.NDArray[np.bool_]:
    """Return the `most` longest slices, of the whole recording and of every track, and those around them."""
    # Equally long slices, and slices that outlast the one around them, add a few more.
    c = store.columns
    if c.n <= most:
        return np.ones(c.n, bool)
    keep = _longest_of_tracks(c.track, c.dur, int(_SHARED * most))
    left = most - int(keep.sum())
    others = np.flatnonzero(~keep)
    if 0 < left < len(others):
        keep[others[np.argpartition(-c.dur[others], left)[:left]]] = True
    around = store.columns.parent[keep]
    while len(around := np.unique(around[around >= 0])) and not keep[around].all():
        around = around[~keep[around]]
        keep[around] = True
        around = store.columns.parent[around]
    return keep


def _longest_of_tracks(
    track: npt.NDArray[np.integer], dur: npt.NDArray[np.int64], most: int
) -> npt.NDArray[np.bool_]:
    """Return the longest slices of every track, as many of each as `most` allows."""
    keep = np.zeros(len(dur), bool)
    order, counts = by_track(track), np.bincount(track)
    each = most // max(int(np.count_nonzero(counts)), 1)
    for rows in np.split(order, np.cumsum(counts)[:-1]) if each else ():
        keep[rows[np.argpartition(-dur[rows], each)[:each]] if len(rows) > each else rows] = True
    return keep
