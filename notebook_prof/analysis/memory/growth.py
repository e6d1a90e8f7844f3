"""Whether memory is higher after every step, and suspected leaks: blocks left behind in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import checked_columns
from ...trace import Trace
from ...trace.arrays import IntArray
from ...trace.schema import Table
from ..scope import bounds, ints, texts
from .blocks import FOREVER, lives, meaningful
from .curve import EVENT_BYTES, SOURCES, memory, recorded_by_torch

_FEWEST_STEPS: Final = 12
"""Minimum number of differences between steps; with fewer, growth may be chance or warm-up."""
_SURE: Final = 3.0
"""Kendall's S is significant if it exceeds this many of its standard deviations."""
_LATE: Final = 0.25
"""Minimum share of the growth in the second half of the steps: memory that only fills up is not a leak."""
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


_LEVELS: Final = Table.of(
    "level_growth", "device:int16 growth_bytes:int64 steps:int64 grows:bool grown:int64"
)


def level_growth(trace: Trace, spans: pd.DataFrame | None = None) -> pd.DataFrame:
    """Compare the memory of each device from step to step; the first step may set things up.

    Parameters
    ----------
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
    rows, sources = [], []
    starts, ends = _borders(trace, spans)
    own = recorders_bytes(trace)
    for (device, source), part in memory(trace).groupby(["device", "source"], observed=True, sort=True):
        if source == "rss":
            trend = rising(_level(part, ends)[1:], own)
        else:
            level = _lowest(part, starts, ends)[1:]
            added = np.diff(level)
            trend = rising(level)
            if len(added) and (added > 0).all():  # exact: higher after every step
                trend = Trend(int(np.median(added)), len(added), len(added), True)
        rows.append((device, trend.slope_bytes, trend.steps, trend.grows, trend.grown))
        sources.append(source)
    return _LEVELS.of_tuples(rows).assign(source=pd.Categorical(sources, categories=list(SOURCES)))


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
    """Find a trend in a noisy level (bytes at the end of each step), and whether it is certain."""
    # `own_bytes` is roughly what the recording adds per step: it is subtracted, and the remaining growth must
    # be at least as large.
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
        len(added) >= _FEWEST_STEPS
        and grown > 0.5 * len(added)
        and float(np.sign(change).sum()) > _SURE * sigma
        and half >= _LATE * total
        and slope * len(added) > _NOISE * noise
        and slope >= max(_PAGES, own_bytes)
        and total >= _WORTH
    )
    return Trend(round(slope), grown, len(added), bool(certain))


def _borders(trace: Trace, spans: pd.DataFrame | None) -> tuple[IntArray, IntArray]:
    """Return begins and ends of the steps, by time."""
    steps = (trace.steps if spans is None else spans).sort_values("ts", kind="stable")
    return bounds(steps)


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


_BY: Final = ("operator", "module", "phase", "line")
_SOURCE: Final = {"operator": "name", "module": "module", "phase": "phase", "line": "line"}
_FEWEST: Final = 2
_MOST: Final = 0.8
_NUMBER: Final = r"_\d+(?=\.|$)"


def memory_growth(
    trace: Trace, *, by: str | Sequence[str] = ("operator", "module"), device: int | None = None
) -> pd.DataFrame:
    """List operators that leave blocks behind in every step: suspected leaks, with the evidence.

    Parameters
    ----------
    by : str or sequence of str
        Any of ``operator module phase line``: where the blocks were born.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        By `bytes_per_step`, most first. Empty if memory does not grow, was not recorded, or there are fewer
        than four steps.

        - the columns of `by` str, missing if unknown; ``device`` int16 (-1: host);
        - ``bytes_per_step`` int64: median over the steps of the bytes left behind; ``blocks_per_step``
          float64: mean;
        - ``steps``, ``of_steps`` int64: number of steps that left blocks behind, and of examined steps;
        - ``kept_bytes`` int64: what remains at the end of the recording;
        - ``growth_bytes`` int64: median growth of the device between ends of steps; ``share`` float64:
          `bytes_per_step` of it;
        - ``first_slice`` Int64: row of the slice in which the first of these blocks was born;
        - ``source`` str: ``allocator``, or ``rss`` for a row without names or blocks: growth of resident
          memory beyond these blocks (arrays, lists, other libraries).

    Notes
    -----
    The first step may set things up, and the last step's blocks may still be needed, so both are left out. A
    block is left behind if it is born in one of the other steps and never freed in the recording. A group is
    a suspect if it leaves blocks behind in four of five of these steps, and only if the memory of its device
    is higher at the end of every step than at the end of the step before: a buffer that is freed again is not
    a suspect. If every step makes a new module, such as a sliced ``Sequential``, these modules count as one,
    without the number. For resident memory see `notebook_prof.analysis.memory.growth.rising`.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b, n = TraceBuilder(), np.arange(5)
    >>> main = b.track("main")
    >>> _ = b.slices(ts=n * 10, dur=np.full(5, 8), name="cat", track=main)
    >>> b.steps(step=n, ts=n * 10, dur=np.full(5, 10), source="loop")
    >>> sizes = dict(bytes=64, allocated=64 * n, reserved=999)
    >>> b.allocations(ts=n * 10 + 2, addr=n + 1, device=0, track=main, **sizes)
    >>> columns = ["operator", "bytes_per_step", "steps", "of_steps", "kept_bytes"]
    >>> memory_growth(b.seal())[columns].values.tolist()
    [['cat', 64, 3, 3, 320]]
    """
    columns = checked_columns("growth cannot be grouped by", by, _BY)
    growth = level_growth(trace)
    growth = growth[growth["grows"] & (growth["source"] == "allocator").to_numpy(bool)]
    grows = growth.set_index("device")["growth_bytes"]
    if device is not None:
        grows = grows[grows.index == device]
    events = trace.allocations
    if not (concerned := events["device"].isin(grows.index)).all():
        events = events[concerned].reset_index(drop=True)
    blocks = _surviving_blocks(trace, events)
    inner_starts = np.sort(trace.steps["ts"].to_numpy())[1:-1]
    if len(inner_starts) < _FEWEST:
        blocks = blocks.iloc[:0]
    for column in columns:
        source, row = trace.slices[_SOURCE[column]], blocks["slice"].to_numpy()
        codes = np.where(row >= 0, source.array.codes[row], -1)
        blocks[column] = texts(source, codes).to_numpy()
    if "module" in columns:
        blocks["module"] = _without_numbers(blocks["module"], blocks["place"])
    table = _suspects(blocks, [*columns, "device"], len(inner_starts))
    table["growth_bytes"] = table["device"].map(grows).astype("int64")
    table["share"] = table["bytes_per_step"] / table["growth_bytes"].clip(lower=1)
    first = table["first_slice"].to_numpy()
    table["first_slice"] = pd.arrays.IntegerArray(first, first < 0)
    table["source"] = "allocator"
    if device in (None, -1) and (trend := other_growth(trace)).grows:
        slope = trend.slope_bytes
        row = {"device": -1, "bytes_per_step": slope, "blocks_per_step": 0.0, "steps": trend.grown}
        row |= {"of_steps": trend.steps, "kept_bytes": slope * trend.steps, "growth_bytes": slope}
        more = pd.DataFrame([row]).assign(**dict.fromkeys(columns), share=1.0, source="rss")
        more["first_slice"] = pd.array([pd.NA], dtype="Int64")
        types = {name: table[name].dtype for name in table if name not in ("source", *columns)}
        more = more[list(table)].astype(types)
        table = pd.concat([table, more], ignore_index=True) if len(table) else more
    return table.sort_values("bytes_per_step", ascending=False, kind="stable").reset_index(drop=True)


def _surviving_blocks(trace: Trace, events: pd.DataFrame) -> pd.DataFrame:
    """Return blocks that outlive the recording. ``place`` is the step's index; -1 in the first and last."""
    blocks = lives(events)
    stays = (blocks.birth >= 0) & (blocks.death == FOREVER)
    event, birth = blocks.event[stays], blocks.birth[stays]
    start, end = _borders(trace, None)
    step_index: IntArray = np.searchsorted(start, birth, side="right") - 1
    outside = (step_index < 1) | (step_index >= len(start) - 1)
    outside[~outside] = birth[~outside] >= end[step_index[~outside]]
    return pd.DataFrame(
        {
            "bytes": events["bytes"].to_numpy()[event],
            "device": events["device"].to_numpy()[event],
            "place": np.where(outside, -1, step_index),
            "slice": meaningful(trace, ints(events["slice"])[event]),
        }
    )


def _without_numbers(module: pd.Series, step_index: pd.Series) -> pd.Series:
    """Drop the number from modules seen in only one step if modules with other numbers were seen in more."""
    numbered = module.str.replace(_NUMBER, "", regex=True)
    inside = (step_index >= 0) & module.notna()
    steps_of_one = step_index[inside].groupby(module[inside]).nunique()
    steps_of_kind = step_index[inside].groupby(numbered[inside]).nunique()
    changes = (module.map(steps_of_one) <= 1) & (numbered.map(steps_of_kind) > 1)
    # outside the examined steps, drop the numbers of the same kinds
    kinds = set(numbered[changes])
    again = ~inside & numbered.isin(kinds)
    return module.where(~(changes | again), numbered)


def _suspects(blocks: pd.DataFrame, keys: list[str], step_count: int) -> pd.DataFrame:
    inside = blocks[blocks["place"] >= 0]
    each: Any = inside.groupby([*keys, "place"], dropna=False, sort=False)["bytes"].agg(["sum", "count"])
    groups = each.reset_index().groupby(keys, dropna=False, sort=False)
    table = groups.agg(bytes_per_step=("sum", "median"), blocks=("count", "sum"), steps=("place", "count"))
    whole = blocks.groupby(keys, dropna=False, sort=False)
    table["kept_bytes"] = whole["bytes"].sum().reindex(table.index).to_numpy()
    table["first_slice"] = whole["slice"].first().reindex(table.index).to_numpy()
    table = table.reset_index().assign(of_steps=step_count)
    table["blocks_per_step"] = table["blocks"] / max(step_count, 1)
    numbers = ["bytes_per_step", "steps", "of_steps", "kept_bytes", "first_slice"]
    table = table.astype(dict.fromkeys(numbers, "int64"))
    order = [*keys, "bytes_per_step", "blocks_per_step", "steps", "of_steps", "kept_bytes", "first_slice"]
    return table.loc[table["steps"] >= _MOST * step_count, order]
