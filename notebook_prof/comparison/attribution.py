"""The difference of two sides as an exact sum over parts, with an interval for each."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import pandas as pd

from ..statistics import LEVEL, FloatArray, t_probability, t_quantile, true_discoveries
from ..trace.arrays import BoolArray
from ..trace.schema import Table
from .changes import LINE, OF_B
from .parts import IDLE, StepParts
from .run import Side, TraceRun

_COLUMNS: Final = (
    "change:str matched:str a_ns:float64 b_ns:float64 delta_ns:int64 low_ns:float64 high_ns:float64 "
    "significant:bool a_calls:float64 b_calls:float64"
)
_LOOSER: Final = (("shapes", ("shapes",)), ("module", ("module",)), ("module", ("module", "shapes")))
_PHASES: Final = (("phase", ("phase",)), ("phase", ("phase", "shapes")))
_OFTEN: Final = 0.01


def attribution(a: StepParts, b: StepParts, by: Sequence[str], factor: float = 1.0) -> pd.DataFrame:
    """Divide the difference of two sides' mean steps among their parts, largest ``delta_ns`` first.

    `factor` widens intervals for the noise between two runs.
    """
    # Keys are matched in full; then the rest without shapes, without module, and in another phase. What
    # remains is new or gone: a fact, not a test. The others are tested with Welch's t over means of blocks of
    # steps, and the procedure of Benjamini and Hochberg.
    total_a, total_b, idle = a.total, b.total, set(IDLE.values())
    pairs = [
        (i, j, how)
        for i, j, how in _aligned(a.keys, b.keys, by)
        if (i >= 0 and total_a[i]) or (j >= 0 and total_b[j])
    ]
    steps_a, steps_b = max(a.steps, 1), max(b.steps, 1)
    sums_a, sums_b = [*total_a.tolist(), 0], [*total_b.tolist(), 0]  # the last is for row -1
    exact = [sums_b[j] * steps_a - sums_a[i] * steps_b for i, j, _ in pairs]
    delta_ns = np.array(rounded(exact, steps_a * steps_b), np.int64)
    left = np.array([i for i, _, _ in pairs], np.int64)
    right = np.array([j for _, j, _ in pairs], np.int64)
    names = [b.keys[j] if j >= 0 else a.keys[i] for i, j, _ in pairs]
    mean_a, spread_a, calls_a = _side(a, left)
    mean_b, spread_b, calls_b = _side(b, right)
    delta = mean_b - mean_a
    alone = (left < 0) | (right < 0)
    facts = alone & (calls_a + calls_b > 0)  # samples may have missed keys seen on one side only
    blocks = min(len(a.block_steps), len(b.block_steps))
    half, p = np.full(len(pairs), math.nan), np.full(len(pairs), math.nan)
    if blocks >= 2:
        error = np.sqrt(spread_a + spread_b) * factor
        half = t_quantile(0.5 + LEVEL / 2, blocks - 1) * error
        t = np.divide(delta, error, out=np.full(len(delta), np.inf), where=error > 0)
        p = np.where(facts, math.nan, np.where(delta == 0, 1.0, 1 - t_probability(t, blocks - 1)))
    sure = true_discoveries(p) | (facts & np.array([name[-1] not in idle for name in names], bool))
    columns = {
        **{key: [name[k] for name in names] for k, key in enumerate(by)},
        "matched": [how for _, _, how in pairs],
        "change": _changes(delta, sure, left, right, calls_a, calls_b),
        "a_ns": mean_a,
        "b_ns": mean_b,
        "delta_ns": delta_ns,
        "low_ns": delta - half,
        "high_ns": delta + half,
        "significant": sure,
        "a_calls": calls_a,
        "b_calls": calls_b,
    }
    order = np.argsort(-np.abs(delta_ns), kind="stable")
    frame = Table.of("attribution", " ".join([*(f"{name}:str" for name in by), _COLUMNS]))
    return frame.frame({name: np.asarray(values)[order] for name, values in columns.items()})


def rounded(values: Sequence[int], divisor: int) -> list[int]:
    """Divide whole numbers so that the parts sum to the rounded quotient: the largest remainders round up."""
    parts = [divmod(value, divisor) for value in values]
    down = [whole for whole, _ in parts]
    order = sorted(range(len(parts)), key=lambda i: (-parts[i][1], i))
    for i in order[: round(Fraction(sum(values), divisor)) - sum(down)]:
        down[i] += 1
    return down


def _side(side: StepParts, row: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[FloatArray, ...]:
    """Return the mean per step, the variance of that mean, and the calls per step for keys; 0 for row -1."""
    size = side.block_steps.astype(np.float64)
    sums = np.concatenate([side.sums, np.zeros((len(size), 1), np.int64)], axis=1)[:, row].astype(np.float64)
    means = sums / size[:, None]
    spread = means.var(axis=0, ddof=1) / len(size) if len(size) > 1 else np.full(len(row), math.nan)
    return sums.sum(axis=0) / size.sum(), spread, np.append(side.calls, 0)[row] / size.sum()


def _aligned(
    a: Sequence[tuple[str, ...]], b: Sequence[tuple[str, ...]], by: Sequence[str]
) -> list[tuple[int, int, str]]:
    """Return pairs of keys and how they differ; -1 for a key that only one side has."""
    left, right = dict(enumerate(a)), dict(enumerate(b))
    pairs: list[tuple[int, int, str]] = []
    idle = set(IDLE.values())
    levels: list[tuple[str, tuple[str, ...]]] = [("same", ())]
    if "name" in by:
        levels += [(how, drop) for how, drop in (*_LOOSER, *_PHASES) if any(one in by for one in drop)]
    for how, drop in levels:
        if not left or not right:
            break
        kept = [i for i, name in enumerate(by) if name not in drop]
        index: dict[tuple[str, ...], list[int]] = {}
        for j, key in reversed(right.items()):
            index.setdefault(tuple(key[k] for k in kept), []).append(j)
        for i, key in list(left.items()):
            if how != "same" and idle & set(key):
                continue
            if waiting := index.get(tuple(key[k] for k in kept)):
                pairs.append((i, waiting.pop(), how))
                del left[i], right[pairs[-1][1]]
    return [*pairs, *((i, -1, "") for i in left), *((-1, j, "") for j in right)]


def _changes(
    delta: FloatArray,
    sure: BoolArray,
    left: np.ndarray[tuple[int], np.dtype[np.int64]],
    right: np.ndarray[tuple[int], np.dtype[np.int64]],
    calls_a: FloatArray,
    calls_b: FloatArray,
) -> list[str]:
    words = np.where(delta > 0, "slower", "faster").astype(object)
    words[calls_b > (1 + _OFTEN) * calls_a] = "more-often"
    words[calls_b < (1 - _OFTEN) * calls_a] = "less-often"
    words[left < 0], words[right < 0] = "new", "gone"
    words[~sure] = "same"
    return [str(word) for word in words]


def share_of_both(table: pd.DataFrame) -> float | None:
    """Return the share of time in rows that both sides have; None without time."""
    time = table["a_ns"] + table["b_ns"]
    both = ~table["change"].isin(("new", "gone"))
    return float(time[both].sum() / time.sum()) if time.sum() > 0 else None


# Lines that samples may have missed on one side, which do not count as new or gone.

_STILL_THERE: Final = 0.5
"""If at least this share of a line's time is in names that the other side has too, that side does the line's
work."""


def missed_lines(
    table: pd.DataFrame,
    source: pd.DataFrame,
    sides: tuple[Side, Side],
    labels: Mapping[str, str],
    key: str = "line",
) -> set[str]:
    """Return the lines (as in the column `key`) of only one side that the other side may have run, too."""
    # Samples are milliseconds apart. A line that only ran between two of them has no time of its own: its
    # time counts for a sampled line, or for none. So the absence of a sampled line proves nothing if the
    # source does not show it as new or gone, and at least half of its time is in names (of operators, say)
    # that the other side has, too. Timed lines, and lines of runs with totals only, are never returned.
    if not all(isinstance(run, TraceRun) for side in sides for run in side.runs):
        return set()
    rows = source[source["a_line"].notna() & source["b_line"].isna()]
    gone = {f"{file}:{line}" for file, line in zip(rows["file"], rows["a_line"].astype(int), strict=True)}
    missed: set[str] = set()
    for number, change in enumerate(("gone", "new")):
        alone = {
            str(line)
            for line in table.loc[table["change"] == change, key]
            if LINE.fullmatch(str(line)) and not str(line).endswith(OF_B) and line not in gone
        }
        renamed = labels if number else {}
        if alone:
            runs = (run for run in sides[number].runs if isinstance(run, TraceRun))
            alone &= {renamed.get(line, line) for run in runs for line in run.sampled_lines}
        if alone:
            missed |= _still_there(alone, sides[number], sides[1 - number], renamed, key)
    return missed


def undecided_lines(table: pd.DataFrame, missed: set[str], key: str = "line") -> pd.DataFrame:
    """Return the table with the lines in `missed` counted as the same: no interval, not significant."""
    row = table[key].isin(missed) & table["change"].isin(("new", "gone"))
    if not row.any():
        return table
    table = table.copy()
    table.loc[row, ["low_ns", "high_ns"]] = np.nan
    table.loc[row, "change"] = "same"
    table.loc[row, "significant"] = False
    return table


def _still_there(alone: set[str], own: Side, other: Side, renamed: Mapping[str, str], key: str) -> set[str]:
    parts = own.parts((key, "name"), "host", renamed)
    counterpart = other.parts(("name",), "host")
    there = {key[0] for key, total in zip(counterpart.keys, counterpart.total, strict=True) if total}
    whole: dict[str, int] = defaultdict(int)
    shared: dict[str, int] = defaultdict(int)
    for (line, name), total in zip(parts.keys, parts.total.tolist(), strict=True):
        whole[line] += total
        shared[line] += total * (name in there)
    return {line for line in alone if whole[line] and shared[line] >= _STILL_THERE * whole[line]}
