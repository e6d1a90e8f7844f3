"""The slices that an analysis considers, their times inside its window, and tables of a recording."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..background import checkpoint
from ..errors import SelectionError, nearest
from ..trace import CATEGORIES, DEVICE_CATEGORIES, PHASES, Trace, Window, nest
from ..trace.arrays import BoolArray, IntArray
from ..trace.intervals import Intervals, as_ints, union
from ..trace.sealing import step_at


def length_before(intervals: Intervals, instants: IntArray) -> IntArray:
    """Return the length of disjoint, sorted intervals up to each instant, in ns."""
    starts, ends = intervals
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])
    begun = np.searchsorted(starts, instants, side="right")
    last = np.maximum(begun - 1, 0)
    over = np.zeros(len(instants), np.int64)
    if len(starts):
        over = np.where(begun > 0, np.maximum(ends[last] - instants, 0), 0)
    return np.asarray(total[begun] - over, dtype=np.int64)


def length_within(intervals: Intervals, start: IntArray, end: IntArray) -> IntArray:
    """Return the length of disjoint, sorted intervals inside each ``[start, end)``, in ns."""
    return length_before(intervals, np.maximum(end, start)) - length_before(intervals, start)


Texts: TypeAlias = str | Iterable[str] | None
Numbers: TypeAlias = int | Iterable[int] | None
WindowLike: TypeAlias = tuple[int, int] | None
P = ParamSpec("P")
R = TypeVar("R")


_FEW_CODES = 8
"""Maximum number of codes to compare with one by one; for more, a look-up table is faster."""


_shared = threading.local()
"""The `trace` of the analysis running in this thread, and `results` already computed from it."""


def sharing(analysis: Callable[Concatenate[Trace, P], R]) -> Callable[Concatenate[Trace, P], R]:
    """Let `once` cache results for everything that this analysis calls; drop them when it ends."""

    @functools.wraps(analysis)
    def run(trace: Trace, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if getattr(_shared, "trace", None) is not None:
            return analysis(trace, *args, **kwargs)
        _shared.trace, _shared.results = trace, {}
        try:
            return analysis(trace, *args, **kwargs)
        finally:
            _shared.trace = _shared.results = None

    return run


def once(trace: Trace, key: Hashable, make: Callable[[], R]) -> R:
    """Return the result of `make`, cached by key while an analysis is `sharing`."""
    if getattr(_shared, "trace", None) is not trace:
        return make()
    if key not in _shared.results:
        checkpoint()
        _shared.results[key] = make()
    result: R = _shared.results[key]
    return result


def matching_codes(codes: npt.NDArray[np.integer], matching: npt.ArrayLike) -> BoolArray:
    """Return a mask of the codes for which `matching` is true; -1 never matches."""
    some = np.flatnonzero(matching).tolist()
    if len(some) > _FEW_CODES:
        return np.asarray(np.append(matching, False)[codes], dtype=bool)
    out = np.zeros(len(codes), dtype=bool)
    for code in some:  # comparing narrow codes is ten times faster than looking them up
        out |= codes == code
    return out


@dataclass(frozen=True, slots=True)
class Scope:
    """The slices of some tracks that touch a window, as arrays."""

    # All slices of the trace.
    slices: pd.DataFrame
    # Rows of `slices`, by start.
    rows: IntArray
    # ns, cut at the edges of the window.
    ts: IntArray
    end: IntArray
    # Self time inside the window.
    self_ns: IntArray

    def only(self, keep: BoolArray) -> Scope:
        """Return the slices in `keep`; their self times still exclude all slices below them."""
        if keep.all():
            return self
        return Scope(self.slices, self.rows[keep], self.ts[keep], self.end[keep], self.self_ns[keep])

    def ints(self, column: str) -> IntArray:
        """Return a nullable integer column of these slices; -1 if missing."""
        values = self.slices[column]
        return ints(values if self._is_whole else values.iloc[self.rows])

    def values(self, column: str) -> npt.NDArray[Any]:
        """Return a column without missing values, in the narrow type in which it is stored."""
        values = self.slices[column].to_numpy()
        return np.asarray(values if self._is_whole else values[self.rows])

    def codes(self, column: str) -> IntArray:
        """Return the codes of a categorical column of these slices; -1 if missing."""
        return as_ints(self._narrow_codes(column))

    def where(
        self,
        *,
        step: Numbers = None,
        phase: Texts = None,
        category: Texts = None,
        line: Texts = None,
        name: Texts = None,
        track: Numbers = None,
    ) -> Scope:
        """Return the slices with one of the given steps, phases, categories, lines, names and tracks."""
        keep = np.ones(len(self.rows), dtype=bool)
        for column, numbers in (("track", track), ("step", step)):
            if numbers is not None:
                keep &= np.isin(self.ints(column), checked_numbers(column, numbers))
        for column, words in (("name", name), ("line", line)):
            if words is not None:
                keep &= self.among(column, many(words))
        for column, words, allowed in (("phase", phase, PHASES), ("category", category, CATEGORIES)):
            if words is not None:
                keep &= self.among(column, checked_words(column, words, allowed))
        return self.only(keep)

    def open(self, keep: BoolArray | IntArray) -> Intervals:
        """Return when any of these slices is open: a mask, or indices."""
        return union(self.ts[keep], self.end[keep])

    def named(self, fits: Callable[[str], object]) -> BoolArray:
        """Return a mask of the slices with a name for which `fits` is true."""
        names = self.slices["name"].array.categories
        return matching_codes(self._narrow_codes("name"), [bool(fits(str(name))) for name in names])

    def among(self, column: str, words: Sequence[str]) -> BoolArray:
        """Return a mask of the slices with one of `words` in a categorical column."""
        known = self.slices[column].array.categories.isin(list(words))
        return matching_codes(self._narrow_codes(column), known)

    @property
    def _is_whole(self) -> bool:
        """Whether these are all slices (`rows` is ascending, without repeats, so its length tells)."""
        return len(self.rows) == len(self.slices)

    def _narrow_codes(self, column: str) -> npt.NDArray[np.integer]:
        codes = self.slices[column].array.codes  # the accessor `cat` takes ten times as long
        return np.asarray(codes if self._is_whole else codes[self.rows])


def on_host(trace: Trace, window: WindowLike = None) -> Scope:
    """Return the slices of threads, cut at the window."""
    key = ("host", window and tuple(window))
    return once(trace, key, lambda: _scope(trace, of_kind(trace, ("thread", "process")), window))


def on_device(trace: Trace, window: WindowLike = None) -> Scope:
    """Return the work on device streams, cut at the window, without the ranges drawn above the work."""
    key = ("device", window and tuple(window))
    return once(
        trace,
        key,
        lambda: _scope(trace, of_kind(trace, ("stream",)), window).where(category=DEVICE_CATEGORIES),
    )


def of_kind(trace: Trace, kinds: Sequence[str]) -> BoolArray:
    """Return a mask of the slices on tracks of these kinds."""

    def mask() -> BoolArray:
        tracks, track = trace.tracks, trace.slices["track"].to_numpy()
        kind = tracks["kind"].array
        keys = tracks["track"].to_numpy()[matching_codes(kind.codes, kind.categories.isin(list(kinds)))]
        return matching_codes(track, np.isin(np.arange(int(track.max(initial=-1)) + 1), keys))

    return once(trace, ("kind", *kinds), mask)


def many(value: Any) -> list[Any]:
    """Return a value, or an iterable of values, as a list."""
    return [value] if isinstance(value, str | int | np.integer) else list(value)


def checked_numbers(what: str, value: Numbers) -> list[Any]:
    """Return the numbers as a list; SelectionError if one is a text or a slice."""
    items = [value] if isinstance(value, slice) else many(value)
    if wrong := [item for item in items if isinstance(item, str | slice)]:
        raise SelectionError(
            f"{what} takes whole numbers, as in {what}=3 or {what}=range(3, 6); got {wrong[0]!r}"
        )
    return items


def checked_words(what: str, value: Texts, allowed: Sequence[str]) -> list[str]:
    """Return the words as a list; SelectionError, with close matches, if one is unknown."""
    words = many(value)
    for word in words:
        if word not in allowed:
            raise SelectionError(f"there is no {what} {word!r}: {nearest(str(word), allowed)}")
    return words


def ints(column: pd.Series[Any]) -> IntArray:
    """Return a nullable integer column as int64; -1 if missing."""
    return as_ints(column.to_numpy(dtype=np.int64, na_value=-1))


def texts(column: pd.Series[Any], codes: IntArray) -> pd.Series[Any]:
    """Return the texts of these codes of a categorical column; missing for -1."""
    words = np.array([*column.cat.categories, None], dtype=object)
    return pd.Series(words[codes], dtype="str")


def _scope(trace: Trace, keep: BoolArray, window: WindowLike) -> Scope:
    if window is not None:
        return _cut(trace.slices, keep, Window.of(window))
    (ts, end), own = bounds(trace.slices), trace.slices["self_ns"].to_numpy()
    rows = np.flatnonzero(keep)
    return Scope(trace.slices, rows, ts[rows], end[rows], own[rows])


def _cut(slices: pd.DataFrame, keep: BoolArray, cut: Window) -> Scope:
    ts, end = bounds(slices)
    rows = np.flatnonzero(keep & (ts < cut.end) & ((end > cut.start) | (ts >= cut.start)))
    ts, end = ts[rows], end[rows]
    self_ns = _self_inside(slices["track"].to_numpy()[rows], ts, end, cut)
    return Scope(slices, rows, np.maximum(ts, cut.start), np.minimum(end, cut.end), self_ns)


def cut_slices(slices: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """Return the slices that touch a window, with `ts`, `dur` and `self_ns` cut at its edges."""
    inside = _cut(slices, np.ones(len(slices), bool), Window.of(window))
    times = {"ts": inside.ts, "dur": inside.end - inside.ts, "self_ns": inside.self_ns}
    return slices.iloc[inside.rows].assign(**times)


def _self_inside(track: npt.NDArray[Any], ts: IntArray, end: IntArray, window: Window) -> IntArray:
    """Return the self time before the end of the window minus that before its start."""
    # If ends of slices are cut (but never starts), the same slices own the instants before the cut, even if
    # slices overlap in part.
    inside = nest(track, ts, np.minimum(end, window.end) - ts).self_ns
    early = np.flatnonzero(ts < window.start)
    before = nest(track[early], ts[early], np.minimum(end[early], window.start) - ts[early]).self_ns
    inside[early] -= before
    return inside


def step_spans(trace: Trace, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Return ``step ts dur source`` of the steps that touch the window, cut at its edges."""
    table = trace.steps
    keep = np.ones(len(table), dtype=bool)
    if step is not None:
        keep &= table["step"].isin(checked_numbers("step", step)).to_numpy()
    if window is not None:
        cut = Window.of(window)
        end = np.minimum((table["ts"] + table["dur"]).to_numpy(), cut.end)
        ts = np.maximum(table["ts"].to_numpy(), cut.start)
        table = table.assign(ts=ts, dur=np.maximum(end - ts, 0))
        keep &= end > ts
    return table[keep].reset_index(drop=True)


def steps_at(trace: Trace, instants: IntArray) -> IntArray:
    """Return the number of the step at each instant; -1 outside of steps."""
    steps = {name: trace.steps[name].to_numpy() for name in ("step", "ts", "dur")}
    return step_at(instants, steps) if len(trace.steps) else np.full(len(instants), -1)


def bounds(table: pd.DataFrame) -> Intervals:
    """Return the starts and ends of the rows of a table with ``ts`` and ``dur``, in ns."""
    start = table["ts"].to_numpy(np.int64)
    return start, start + table["dur"].to_numpy(np.int64)


def recorded_table(trace: Trace, name: str) -> pd.DataFrame | None:
    """Return a table from the trace's metadata; None if missing or empty."""
    table = (trace.metadata.get("tables") or {}).get(name)
    return table if isinstance(table, pd.DataFrame) and len(table) else None


def recorded_steps(trace: Trace, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame | None:
    """Return the recorded ``step rank ts dur fp_ts bp_ts``, cut at the window; None if there are none."""
    table = recorded_table(trace, "step_trace")
    if table is None:
        return None
    origin = int(trace.metadata.get("start_unix_ns", 0))
    recorded = {"ts": "start_ns", "fp_ts": "fp_ns", "bp_ts": "bp_ns"}
    points = {name: table[column].to_numpy() - origin for name, column in recorded.items()}
    end = table["end_ns"].to_numpy() - origin
    keep = np.ones(len(table), dtype=bool)
    if step is not None:
        keep &= table["step"].isin(checked_numbers("step", step)).to_numpy()
    if window is not None:
        cut = Window.of(window)
        keep &= (points["ts"] < cut.end) & (end > cut.start)
        points = {name: np.clip(at, cut.start, cut.end) for name, at in points.items()}
        end = np.clip(end, cut.start, cut.end)
    steps = pd.DataFrame({"step": table["step"], "rank": table["rank"], **points})
    steps.insert(3, "dur", end - points["ts"])
    return steps[keep].reset_index(drop=True)
