"""Suspected memory leaks: blocks left behind in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.arrays import IntArray
from ..scope import ints, texts
from .blocks import FOREVER, lives, meaningful
from .level_growth import level_growth, other_growth

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
    trace : Trace
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
        - ``steps``, ``of_steps`` int64: in how many of the examined steps;
        - ``kept_bytes`` int64: what remains at the end of the recording;
        - ``growth_bytes`` int64: median growth of the device between ends of steps; ``share`` float64:
          `bytes_per_step` of it;
        - ``first_slice`` Int64: row of the slice in which the first of these blocks was born;
        - ``source`` str: ``allocator``, or ``rss`` for a row without names or blocks: growth of resident
          memory beyond these blocks (arrays, lists, other libraries).

    Raises
    ------
    OptionError
        If blocks cannot be grouped by `by`.

    Notes
    -----
    The first step may set things up, and the last step's blocks may still be needed, so both are left out. A
    block is left behind if it is born in one of the other steps and never freed in the recording. A group is
    a suspect if it leaves blocks behind in four of five of these steps, and only if the memory of its device
    is higher at the end of every step than at the end of the step before: a buffer that is freed again is no
    suspect. If every step makes a new module, such as a sliced ``Sequential``, these modules count as one,
    without the number. For resident memory see `notebook_prof.analysis.memory.level_growth.rising`.

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
    columns = [by] if isinstance(by, str) else list(by)
    for column in columns:
        if column not in _BY:
            raise OptionError(f"growth cannot be grouped by {column!r}: {nearest(column, _BY)}")
    growth = level_growth(trace)
    growth = growth[growth["grows"] & (growth["source"] == "allocator").to_numpy(bool)]
    grows = growth.set_index("device")["growth_bytes"]
    if device is not None:
        grows = grows[grows.index == device]
    events = trace.allocations
    events = events[events["device"].isin(grows.index)].reset_index(drop=True)
    blocks = _surviving_blocks(trace, events)
    inner_starts = np.sort(trace.steps["ts"].to_numpy())[1:-1]
    if len(inner_starts) < _FEWEST:
        blocks = blocks.iloc[:0]
    for column in columns:
        codes = np.append(trace.slices[_SOURCE[column]].cat.codes.to_numpy(), -1)
        blocks[column] = texts(trace.slices[_SOURCE[column]], codes[blocks["slice"].to_numpy()]).to_numpy()
    if "module" in columns:
        blocks["module"] = _without_numbers(blocks["module"], blocks["place"])
    table = _suspects(blocks, [*columns, "device"], len(inner_starts))
    table["growth_bytes"] = table["device"].map(grows).astype("int64")
    table["share"] = table["bytes_per_step"] / table["growth_bytes"].clip(lower=1)
    first = table["first_slice"].to_numpy()
    table["first_slice"] = pd.arrays.IntegerArray(first, first < 0)
    table["source"] = "allocator"
    if device in (None, -1):
        table = _with_others(trace, table, columns)
    return table.sort_values("bytes_per_step", ascending=False, kind="stable").reset_index(drop=True)


def _surviving_blocks(trace: Trace, events: pd.DataFrame) -> pd.DataFrame:
    """Return blocks that outlive the recording. ``place`` is the step's index; -1 in the first and last."""
    blocks = lives(events)
    stays = (blocks.birth >= 0) & (blocks.death == FOREVER)
    event, birth = blocks.event[stays], blocks.birth[stays]
    steps = trace.steps.sort_values("ts")
    start, end = steps["ts"].to_numpy(), (steps["ts"] + steps["dur"]).to_numpy()
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


def _with_others(trace: Trace, table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Add a row for growth outside the recorded blocks if it is certain."""
    trend = other_growth(trace)
    if not trend.grows:
        return table
    slope = trend.slope_bytes
    row = {"device": -1, "bytes_per_step": slope, "blocks_per_step": 0.0, "steps": trend.grown}
    row |= {"of_steps": trend.steps, "kept_bytes": slope * trend.steps, "growth_bytes": slope, "share": 1.0}
    more = pd.DataFrame([row]).astype({"device": "int16"}).assign(**dict.fromkeys(columns), source="rss")
    more["first_slice"] = pd.array([pd.NA], dtype="Int64")
    if not len(table):
        types = {name: table[name].dtype for name in table if name not in ("source", *columns)}
        return more[list(table)].astype(types)
    return pd.concat([table, more[list(table)]], ignore_index=True)


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
