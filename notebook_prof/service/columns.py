"""Slices and counters of a Trace as NumPy columns, and the rows in which they are drawn."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..analysis.source.line_calls import shown_frames
from ..analysis.time.host_states import waits_by_name
from ..labels import STEP_MARKS, evaluates, track_label, variants
from ..trace import Trace
from ..trace.arrays import IntArray
from ..trace.nesting import crossing_frames
from .cached import locked_cached_property

_BUSY_LEVELS: Final = 10
_WAITING: Final = 0.95
"""A thread counts as waiting if it waits for more than this share of its own time."""
_IDLE: Final = 0.005
"""A thread counts as idle if it is busy for less than this share of the busiest thread's time."""
_MOST_FOLDED: Final = 300_000
_AT_ONCE: Final = 50_000
"""Slices up to which library frames are folded; with more, finding them delays the first picture."""
_FEWEST_OUTER: Final = 3
_AROUND: Final = 0.9


@dataclass(frozen=True, slots=True)
class DrawnTrack:
    """A track that has slices; its rows are ``first_row : first_row + depths``, outermost slices first."""

    track: int
    name: str
    group: str
    kind: str
    first_row: int
    depths: int
    # -1 without a rank.
    rank: int = -1
    label: str = ""
    # Outermost rows with a single slice around nearly everything: Python frames without information.
    outer_rows: int = 0
    # Whether it is a thread that waits, or does next to nothing.
    quiet: bool = False
    # Number of a stream's first rows whose ranges only mark what runs below them.
    marks: int = 0
    # The last `folded` rows hold folded library frames and are not drawn.
    folded: int = 0


class DrawnCounter(NamedTuple):
    """A counter that has values, from `low` to `high`; `unit`: ``bytes``, ``1`` (share), ``W`` … or empty."""

    track: int
    name: str
    group: str
    unit: str
    low: float
    high: float


class SliceColumns:
    """NumPy columns of ``trace.slices``: times in ns, and texts as codes into a list."""

    # A code of -1 is a missing text; texts are not copied. Tracks are in drawing order: streams by device,
    # then threads (main, busiest, quiet), then the rest. With `fold`, frames of libraries leave the rows of
    # their stack (`row`) for rows that are not drawn; `nested_row` is where they are inside of one another, a
    # row of the tracks `unfolded`.
    def __init__(self, trace: Trace, fold: bool = False) -> None:
        slices = trace.slices
        self.n = len(slices)
        self.ts: IntArray = slices["ts"].to_numpy(np.int64)
        self.dur: IntArray = slices["dur"].to_numpy(np.int64)
        self.self_ns: IntArray = slices["self_ns"].to_numpy(np.int64)
        self.name, self.names = coded(slices["name"])
        self.category, self.categories = coded(slices["category"])
        self.phase, self.phases = coded(slices["phase"])
        self.line, self.lines = coded(slices["line"])
        self._step, self._parent = slices["step"], slices["parent"]
        self.track = slices["track"].to_numpy()
        self.depth = slices["depth"].to_numpy()
        deepest, busy = _sizes(self.track, self.depth, self.dur)
        # tracks on which autograd's engine runs operators
        evaluating = set(np.unique(self.track[self._among(self.name, self.names, evaluates)]).tolist())
        tracks = _drawn_tracks(trace.tracks, deepest, busy, evaluating, self._waiting(len(deepest)))
        self.busy_ns: IntArray = busy[[track.track for track in tracks]]
        level: npt.NDArray[np.integer] = self.depth
        marks = self._among(self.category, self.categories, lambda name: name == "annotation")
        marks &= self.of_kind("stream", tracks=tracks)
        if marks.any():
            # On streams, ranges that only mark are in the first rows. Work is drawn below as if they were
            # absent, so that a kernel has the same row with and without a range around it.
            level, tracks = self._apart(trace, tracks, level, marks, "marks")
        self.row = self.nested_row = self._rows(tracks, level)
        # the row of the children of each row's slices; -1 for a track's deepest row
        self.row_below: IntArray = np.arange(1, sum(track.depths for track in tracks) + 1, dtype=np.int64)
        self.row_below[[track.first_row + track.depths - 1 for track in tracks]] = -1
        self.track_of_row = self.track_of_nested_row = _track_of_row(tracks)
        self.unfolded: list[DrawnTrack] = []
        if fold and (folded := self._folded(trace, tracks)) is not None:
            self.unfolded = self._with_outer_rows(tracks)
            level, tracks = self._apart(trace, tracks, level, folded, "folded")
            self.row, self.track_of_row = self._rows(tracks, level), _track_of_row(tracks)
        self.n_rows = len(self.track_of_row)
        self.tracks = self._with_outer_rows(tracks)

    def _rows(self, tracks: list[DrawnTrack], level: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        narrow = np.uint16 if sum(track.depths for track in tracks) < 1 << 16 else np.int32
        offset = np.zeros(int(self.track.max(initial=0)) + 1, narrow)
        for track in tracks:
            offset[track.track] = track.first_row
        return np.asarray(offset[self.track] + level.astype(narrow), narrow)

    def _folded(self, trace: Trace, tracks: list[DrawnTrack]) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the folded library frames and step marks; None if there are none."""
        if self.n > _MOST_FOLDED:
            return None
        python = self._among(self.category, self.categories, lambda name: name == "python")
        folded = np.zeros(self.n, bool)
        if len(trace.steps):
            marks = self._among(self.name, self.names, lambda name: name.startswith(STEP_MARKS))
            folded = marks & ~self.of_kind("stream", tracks=tracks)
        if python.any():
            folded |= python & ~shown_frames(trace)
        return folded if folded.any() else None

    def _apart(
        self,
        trace: Trace,
        tracks: list[DrawnTrack],
        level: npt.NDArray[np.integer],
        apart: npt.NDArray[np.bool_],
        what: str,
    ) -> tuple[npt.NDArray[np.integer], list[DrawnTrack]]:
        """Return rows in which some slices are above the others (``marks``) or below (``folded``)."""
        # A slice is as deep as slices of its own kind are around it. So slices of a row do not overlap here
        # either: of two that do, one is around the other.
        slices = np.flatnonzero(np.isin(self.track, np.unique(self.track[apart])))
        parent = trace.slices["parent"].to_numpy(np.int64, na_value=-1)
        around = np.zeros(self.n + 1, np.int64)  # how many of them are around each; the last has no parent
        counted = np.append(apart, False).astype(np.int64)
        levels = np.split(
            slices[np.argsort(self.depth[slices], kind="stable")],
            np.cumsum(np.bincount(self.depth[slices]))[:-1],
        )
        for own in levels[1:]:
            around[own] = around[parent[own]] + counted[parent[own]]
        level = level.astype(np.int64)
        level[slices] -= around[slices]
        level[apart] = around[:-1][apart]
        rows_apart, rows = (np.zeros(int(self.track.max()) + 1, np.int64) for _ in range(2))
        others = slices[~apart[slices]]
        np.maximum.at(rows_apart, self.track[apart], level[apart] + 1)
        np.maximum.at(rows, self.track[others], level[others] + 1)
        if what == "marks":
            level[others] += rows_apart[self.track[others]]
        else:
            level[apart] += rows[self.track[apart]]
        out, first = [], 0
        for track in tracks:
            own_rows = int(rows_apart[track.track])
            depths = own_rows + int(rows[track.track]) if own_rows else track.depths
            given: dict[str, Any] = {what: own_rows} if own_rows else {}
            out.append(replace(track, first_row=first, depths=depths, **given))
            first += depths
        return level, out

    def _with_outer_rows(self, tracks: list[DrawnTrack]) -> list[DrawnTrack]:
        """Count each track's outermost rows that have a single slice around nearly everything below."""
        if not any(track.kind == "thread" and track.depths > _FEWEST_OUTER for track in tracks):
            return tracks
        count, length = np.bincount(self.row), np.bincount(self.row, weights=self.dur)
        out = []
        for track in tracks:
            rows = slice(track.first_row, track.first_row + track.depths)
            around = (count[rows] == 1) & (length[rows] >= _AROUND * length[track.first_row])
            around[len(around) - track.folded :] = False
            outer_rows = track.depths - 1 if around.all() else int(np.argmin(around))
            shown = outer_rows if track.kind == "thread" and outer_rows >= _FEWEST_OUTER else 0
            out.append(replace(track, outer_rows=shown))
        return out

    @staticmethod
    def _among(
        codes: npt.NDArray[np.integer], texts: list[str], fits: Callable[[str], bool]
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the slices whose text fits; a missing one (-1) reads the last entry."""
        return np.asarray(np.array([*map(fits, texts), False])[codes])

    def _waiting(self, tracks: int) -> npt.NDArray[np.float64]:
        """Return the share of each track's self time in functions that wait, judged by name."""
        frames = (variants(name)[0] if ".py(" in name else name for name in self.names)
        waiting = np.array([*map(waits_by_name, frames), False])
        if not waiting.any():
            return np.zeros(tracks)
        waits = waiting[self.name]
        whole = np.bincount(self.track, weights=self.self_ns, minlength=tracks)
        waited = np.bincount(self.track[waits], weights=self.self_ns[waits], minlength=tracks)
        return np.asarray(waited / np.maximum(whole, 1))

    @property
    def shown_rows(self) -> IntArray:
        """The rows without those of folded frames."""
        return np.concatenate(
            [np.arange(t.first_row, t.first_row + t.depths - t.folded) for t in self.tracks]
            or [np.empty(0, np.int64)]
        )

    @property
    def places(self) -> IntArray:
        """The position of each row among the drawn rows; -1 if it is not drawn."""
        places = np.full(self.n_rows, -1, np.int64)
        places[self.shown_rows] = np.arange(len(self.shown_rows))
        return places

    @locked_cached_property
    def _crossing(self) -> tuple[IntArray, IntArray]:
        # the annotation continues the rows of the frame, which is drawn until there
        if not {"annotation", "python"} <= set(self.categories):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        nesting = (self.depth, self._parent.to_numpy(np.int64, na_value=-1))
        marks = self.category == self.categories.index("annotation")
        return crossing_frames(self.track, self.ts, self.dur, nesting, marks)

    @property
    def crosses_parent(self) -> IntArray:
        """Python frames that end inside an annotation begun in them."""
        return self._crossing[0]

    @locked_cached_property
    def drawn_ns(self) -> IntArray:
        """The drawn length of every slice; with it, the slices of a row do not overlap."""
        slices, until = self._crossing
        if not len(slices):
            return self.dur
        drawn_ns = self.dur.copy()
        drawn_ns[slices] = until - self.ts[slices]
        return drawn_ns

    @locked_cached_property
    def parent(self) -> npt.NDArray[np.integer]:
        """The parent of each slice; -1 at the top."""
        narrow = np.int32 if self.n < 2**31 else np.int64
        return np.asarray(self._parent.to_numpy(narrow, na_value=-1))

    @locked_cached_property
    def extent(self) -> IntArray | None:
        """The length of each drawn slice with everything inside it; None if all end inside their parents."""
        parent = self.parent
        reach = self.ts + self.drawn_ns
        at = np.flatnonzero((parent >= 0) & (reach > reach[parent]))  # -1 reads any end
        if not len(at):
            return None
        while len(at):  # a slice that grew may now outlast its own parent
            for part in range(0, len(at), _AT_ONCE):  # ufunc.at does not release the interpreter
                some = at[part : part + _AT_ONCE]
                np.maximum.at(reach, parent[some], reach[some])
            around = np.zeros(len(reach), bool)
            around[parent[at]] = True
            grown = np.flatnonzero(around)
            at = grown[(parent[grown] >= 0) & (reach[grown] > reach[parent[grown]])]
        return np.asarray(reach - self.ts, np.int64)

    @locked_cached_property
    def step(self) -> npt.NDArray[np.int32]:
        """The step of every slice; -1 if missing."""
        return np.asarray(self._step.to_numpy(dtype=np.int32, na_value=-1))

    @locked_cached_property
    def code_of(self) -> dict[str, dict[str, int]]:
        """The code of every known value of ``name category phase line``."""
        lists = {"name": self.names, "category": self.categories, "phase": self.phases, "line": self.lines}
        return {column: {value: code for code, value in enumerate(lists[column])} for column in lists}

    def codes(self, column: str, values: Iterable[Any]) -> list[int]:
        """Return the codes of some values of ``name category phase line``, ascending, less unknown ones."""
        code_of = self.code_of[column]
        return sorted({code_of[value] for value in values if value in code_of})

    def of_kind(self, *kinds: str, tracks: list[DrawnTrack] | None = None) -> npt.NDArray[np.bool_]:
        """Return a mask of the slices on tracks of these kinds."""
        tracks = self.tracks if tracks is None else tracks
        numbers = [track.track for track in tracks if track.kind in kinds]
        if len(numbers) == len(tracks):
            return np.ones(self.n, bool)
        return np.isin(self.track, numbers)


def _track_of_row(tracks: list[DrawnTrack]) -> IntArray:
    return np.repeat(np.array([t.track for t in tracks], np.int64), [t.depths for t in tracks])


def coded(column: pd.Series[Any]) -> tuple[npt.NDArray[np.signedinteger[Any]], list[str]]:
    """Return codes (-1 missing) and values of a categorical or text column."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype("category")
    return column.cat.codes.to_numpy(), [str(value) for value in column.cat.categories]


def _sizes(
    track: npt.NDArray[Any], depth: npt.NDArray[Any], dur: IntArray
) -> tuple[npt.NDArray[np.integer], IntArray]:
    """Return every track's greatest depth (-1 without slices), and the time of its outermost slices in ns."""
    if not len(track):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    deepest = np.full(int(track.max()) + 1, -1, depth.dtype)
    np.maximum.at(deepest, track, depth)
    top = np.flatnonzero(depth == 0)
    # sums of whole nanoseconds stay exact in float64 below 2**53 (104 days)
    busy = np.bincount(track[top], weights=dur[top], minlength=len(deepest))
    return deepest, busy.astype(np.int64)


def _drawn_tracks(
    tracks: pd.DataFrame,
    deepest: npt.NDArray[np.integer],
    busy: IntArray,
    evaluating: set[int],
    waiting: npt.NDArray[np.float64],
) -> list[DrawnTrack]:
    used = np.flatnonzero(deepest >= 0).tolist()
    most = max(float(busy.max(initial=0)), 1.0)
    quiet = {key: bool(waiting[key] > _WAITING or busy[key] < _IDLE * most) for key in used}
    infos = tracks.set_index("track").to_dict("index")
    pids = {key: _int_or_missing(infos[key]["pid"]) for key in used if infos[key]["kind"] == "thread"}
    working = {pid for key, pid in pids.items() if not quiet[key]}
    # processes whose threads all wait while another process works
    still = set(pids.values()) - working if working else set()
    out: list[DrawnTrack] = []
    row = 0
    # about equally busy: by name
    level = {key: -round(_BUSY_LEVELS * float(busy[key]) / most) for key in used}
    for key in sorted(used, key=lambda key: _order(infos[key], key, level[key], quiet[key], still)):
        info = infos[key]
        kind, depths = str(info["kind"]), int(deepest[key]) + 1
        name = str(info["name"]) or f"{kind} {key}"
        rank, pid, tid = (_int_or_missing(info[column]) for column in ("rank", "pid", "tid"))
        label = track_label(name, pid, tid, key in evaluating)
        rests = kind == "thread" and quiet[key] and (label != "main" or pid in still)
        out.append(DrawnTrack(key, name, _group(info), kind, row, depths, rank, label, 0, rests))
        row += depths
    # use the full name where two tracks of a group would get the same label
    times = collections.Counter((track.group, track.label) for track in out)
    return [
        replace(track, label=track.name) if times[track.group, track.label] > 1 else track for track in out
    ]


def labels_without_heading(tracks: list[DrawnTrack]) -> list[str]:
    """Return the label of each track where no heading names its device or process."""
    labels = [track.name if track.kind == "stream" else track.label for track in tracks]
    times = collections.Counter(labels)
    return [track.name if times[label] > 1 else label for track, label in zip(tracks, labels, strict=True)]


def _order(
    info: dict[Any, Any], key: int, level: int, quiet: bool, quiet_processes: set[int]
) -> tuple[Any, ...]:
    kinds = ("stream", "thread", "process")
    kind = kinds.index(str(info["kind"])) if str(info["kind"]) in kinds else len(kinds)
    rank, pid, device, stream = (_int_or_missing(info[c]) for c in ("rank", "pid", "device", "stream"))
    if kind == 1:
        main = _int_or_missing(info["tid"]) != pid
        return rank, kind, pid in quiet_processes, pid, main, quiet, level, _natural(str(info["name"])), key
    return rank, kind, device, stream, level, _natural(str(info["name"])), key


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts thread 2 before thread 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _group(info: dict[Any, Any]) -> str:
    rank = "" if pd.isna(info["rank"]) else f"rank {int(info['rank'])} · "
    if info["kind"] == "stream":
        device = "device" if pd.isna(info["device"]) else f"GPU {int(info['device'])}"
        return rank + device
    if info["kind"] == "thread":
        return rank + ("threads" if pd.isna(info["pid"]) else f"process {int(info['pid'])}")
    return rank + str(info["kind"])


def _int_or_missing(value: Any) -> int:
    return -1 if pd.isna(value) else int(value)


def drawn_counters(trace: Trace) -> list[DrawnCounter]:
    """Return every counter with a finite value, in the order of ``trace.tracks``."""
    values = trace.counters
    finite = values[np.isfinite(values["value"].to_numpy())]
    ranges = finite.groupby("track")["value"].agg(["min", "max"])
    out = []
    for info in trace.tracks[trace.tracks["track"].isin(ranges.index)].to_dict("records"):
        key, rank = int(info["track"]), "" if pd.isna(info["rank"]) else f"rank {int(info['rank'])} · "
        name, unit = str(info["name"]) or f"counter {key}", "" if pd.isna(info["unit"]) else str(info["unit"])
        out.append(DrawnCounter(key, name, f"{rank}counters", unit, *map(float, ranges.loc[key])))
    return out
