"""Whether memory is higher after every step."""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace
from ...trace.arrays import IntArray
from .curve import EVENT_BYTES, SOURCES, memory, recorded_by_torch

_FEWEST: Final = 12
"""Fewest differences between steps; with fewer, growth may be chance or warm-up."""
_SURE: Final = 3.0
"""Kendall's S is no chance if it exceeds this many of its standard deviations."""
_LATE: Final = 0.25
"""Least share of the growth in the second half of the steps: memory that only fills up is no leak."""
_NOISE: Final = 4.0
_PAGES: Final = 16 * 2**10
_WORTH: Final = 2**20
_WORTH_SHARE: Final = 0.01
_MOST_PAIRS: Final = 400


class Trend(NamedTuple):
    """How a level changes from step to step."""

    # Growth per step.
    slope_bytes: int
    # How many of `steps` ended at a higher level than the step before.
    grown: int
    steps: int
    # Whether the growth is certain.
    grows: bool


def level_growth(trace: Trace, spans: pd.DataFrame | None = None) -> pd.DataFrame:
    """Compare the memory of each device from step to step; the first step may set things up.

    Parameters
    ----------
    trace : Trace
    spans : DataFrame, optional
        ``ts dur`` of the steps; default: all.

    Returns
    -------
    DataFrame
        One row per device and source (see `memory`): ``device`` int16, ``growth_bytes`` int64 (between ends
        of steps, 0 with fewer than three), ``steps`` int64 (compared ends), ``grows`` bool, ``grown`` int64
        (ends that were higher than the previous one), ``source`` category.

    Notes
    -----
    An allocator's figures are exact: memory grows if the lowest level of every step is higher than that of
    the step before; `growth_bytes` is the median. Unlike the level at the end, the lowest level does not
    depend on whether a buffer is freed just before or after the boundary of two steps. If buffers come and go
    across boundaries, and for resident memory, the trend must be certain.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b, n = TraceBuilder(), np.arange(4)
    >>> b.steps(step=n, ts=n * 10, dur=np.full(4, 10), source="loop")
    >>> b.allocations(ts=n * 10 + 1, addr=n + 1, bytes=8, device=0, allocated=8 * n, reserved=99)
    >>> level_growth(b.seal())[["device", "growth_bytes", "steps", "grows"]].values.tolist()
    [[0, 8, 2, True]]
    """
    curve = memory(trace)
    if not len(curve):
        return _without_rows().copy(deep=False)
    rows = []
    starts, ends = _borders(trace, spans)
    own = recorders_bytes(trace)
    for (device, source), part in curve.groupby(["device", "source"], observed=True, sort=True):
        if source == "rss":
            trend = rising(_level(part, ends)[1:], own)
        else:
            level = _lowest(part, starts, ends)[1:]
            trend = _exact_trend(level)
            trend = trend if trend.grows else rising(level)
        rows.append((device, trend.slope_bytes, trend.steps, trend.grows, trend.grown, source))
    return _table(rows)


def _table(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    names = ["device", "growth_bytes", "steps", "grows", "grown", "source"]
    table = pd.DataFrame(rows, columns=names)
    table["source"] = pd.Categorical(table["source"], categories=list(SOURCES))
    types = {"device": "int16", "growth_bytes": "int64", "steps": "int64", "grows": "bool", "grown": "int64"}
    return table.astype(types)


@functools.cache
def _without_rows() -> pd.DataFrame:
    return _table([])


def matters(growth_bytes: int, steps: int, peaks: pd.DataFrame, device: int, source: str) -> bool:
    """Return whether growth is worth reporting: over all steps, a mebibyte or a hundredth of the peak."""
    peaks_of_device = peaks.loc[(peaks["source"] == source) & (peaks["device"] == device), "peak_bytes"]
    least = min(_WORTH, _WORTH_SHARE * int(peaks_of_device.max())) if len(peaks_of_device) else _WORTH
    return growth_bytes * steps >= least


def other_growth(trace: Trace) -> Trend:
    """Return the growth of resident memory beyond the host allocator's blocks: arrays and other libraries."""
    curve = memory(trace, device=-1)
    resident = curve[curve["source"] == "rss"]
    if not len(resident):
        return Trend(0, 0, 0, False)
    _, ends = _borders(trace, None)
    level = _level(resident, ends)
    blocks = _level(curve[curve["source"] == "allocator"], ends[len(ends) - len(level) :])
    level = level[len(level) - len(blocks) :] - blocks if len(blocks) else level
    return rising(level[1:], recorders_bytes(trace))


def recorders_bytes(trace: Trace) -> int:
    """Return growth of resident memory per step that is not the program's: the recording and freed blocks."""
    # Torch's profiler keeps about `EVENT_BYTES` for each event, in the same process.
    # ``metadata["freed_bytes"]`` has the freed bytes that malloc had not returned to the system, at the start
    # and at the end of the recording.
    if not len(trace.steps):
        return 0
    freed = trace.metadata.get("freed_bytes") or (0, 0)
    own = max(int(freed[1]) - int(freed[0]), 0)
    if (recorded := recorded_by_torch(trace)).any():
        own += EVENT_BYTES * (int(recorded.sum()) + len(trace.allocations))
    return own // len(trace.steps)


def rising(level: npt.NDArray[np.integer[Any]], own_bytes: int = 0) -> Trend:
    """Find a trend in a noisy level (bytes at the end of each step), and whether it is certain.

    `own_bytes` is roughly what the recording adds per step: it is subtracted, and the remaining growth must
    be at least as large.
    """
    # The slope is the median slope between all pairs of ends (Theil 1950, Sen 1968). The level grows if
    # Kendall's S exceeds three standard deviations (Mann 1945, Kendall 1975; variance n (n - 1) (2 n + 5) /
    # 18), most steps grow, a quarter of the growth comes in the second half, the growth stands out from the
    # noise around the line, and it is at least a mebibyte in all and four pages per step.
    added = np.diff(level)
    if len(added) < 2:
        return Trend(0, 0, len(added), False)
    picked = np.unique(np.linspace(0, len(level) - 1, min(len(level), _MOST_PAIRS)).astype(np.int64))
    i, j = np.triu_indices(len(picked), 1)
    change = (level[picked[j]] - level[picked[i]]).astype(np.float64)
    change -= own_bytes * (picked[j] - picked[i])
    slope = float(np.median(change / (picked[j] - picked[i])))
    n = len(picked)
    sigma = np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    others = level - float(own_bytes) * np.arange(len(level))
    total, half = float(others[-1] - others[0]), float(others[-1] - others[len(level) // 2])
    line = others - slope * np.arange(len(level))
    noise = float(np.median(np.abs(line - np.median(line))))
    grown = int((added > own_bytes).sum())
    certain = (
        len(added) >= _FEWEST
        and grown > 0.5 * len(added)
        and float(np.sign(change).sum()) > _SURE * sigma
        and half >= _LATE * total
        and slope * len(added) > _NOISE * noise
        and slope >= max(_PAGES, own_bytes)
        and total >= _WORTH
    )
    return Trend(round(slope), grown, len(added), bool(certain))


def _exact_trend(level: IntArray) -> Trend:
    added = np.diff(level)
    grown = int((added > 0).sum())
    median = int(np.median(added)) if len(added) else 0
    return Trend(median, grown, len(added), bool(len(added) and grown == len(added)))


def _borders(trace: Trace, spans: pd.DataFrame | None) -> tuple[IntArray, IntArray]:
    """Return begins and ends of the steps, by time."""
    steps = (trace.steps if spans is None else spans).sort_values("ts", kind="stable")
    begin: IntArray = steps["ts"].to_numpy(dtype=np.int64)
    return begin, begin + steps["dur"].to_numpy(dtype=np.int64)


def _lowest(curve: pd.DataFrame, starts: IntArray, ends: IntArray) -> IntArray:
    """Return the lowest level of each step from its first event on; without an event, the unchanged level."""
    if not len(curve) or not len(starts):
        return np.empty(0, np.int64)
    ts = curve["ts"].to_numpy()
    level = np.append(curve["allocated_bytes"].to_numpy(dtype=np.int64), np.iinfo(np.int64).max)
    first = np.searchsorted(ts, starts, side="left")
    behind = np.searchsorted(ts, ends, side="left")
    first = np.where(behind > first, first, behind - 1)  # no event in this step: take the last one before it
    has_event = first >= 0
    first, behind = first[has_event], np.maximum(behind, first + 1)[has_event]
    pairs = np.column_stack([first, behind]).ravel()
    return np.minimum.reduceat(level, pairs)[::2] if len(pairs) else np.empty(0, np.int64)


def _level(curve: pd.DataFrame, ends: IntArray) -> IntArray:
    """Return the level at the ends of steps, without ends before the first event."""
    if not len(curve):
        return np.empty(0, np.int64)
    last_event = np.searchsorted(curve["ts"].to_numpy(), ends, side="right") - 1
    level: IntArray = curve["allocated_bytes"].to_numpy(dtype=np.int64)[last_event[last_event >= 0]]
    return level
