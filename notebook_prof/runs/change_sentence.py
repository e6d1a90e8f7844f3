"""A sentence about what changed since the previous run, and the noise between two runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..analysis.source.lines import CELL
from ..comparison.comparison import Comparison
from ..comparison.tables import LITTLE_CORE
from ..comparison.verdict import (
    HUNDREDFOLD,
    believed_changes,
    conditions_text,
    interval_text,
    name_of,
    signed_ns,
    signed_percent,
    used_times,
)
from ..errors import NotebookProfError
from ..statistics import LEAST, MOST_PAIRS, factor_of_runs, learned_factor
from ..units import format_items, format_ns
from .entry import HistoryRun
from .store import Store

OTHER_KERNEL: Final = 20.0
"""Factor for runs of two kernels. They differ by more than two runs of one: measured, 16 to 20 half-widths
instead of 3 to 6."""
_SIMILAR_LOAD: Final = 2.0
_NOTHING_LEFT: Final = -0.99
"""An interval that starts at or below this allows steps of no duration, so it is useless."""
_PAIRS: Final = 400
_SHOWN: Final = 2
_CALL: Final = "%%profile_ab"


@dataclass(frozen=True)
class Noise:
    """The factor that widens the interval between two runs, and its basis."""

    factor: float
    pairs: int  # number of unchanged pairs that it was learned from, 0 if it is assumed
    other_kernel: bool


def noise_between(store: Store, before: HistoryRun, run: HistoryRun) -> Noise:
    """Return the noise between two runs, based on what was known before the second one."""
    # For runs of one kernel, it is learned from unchanged pairs of earlier runs on the same machine, from
    # those with a similar load (within a factor of two) if there are 19 of them. With fewer than 19 pairs it
    # is assumed (`factor_of_runs`). For runs of two kernels, 20 is assumed instead of 3.
    steps = min(int(one.steps["used"].sum()) for one in (before, run))
    assumed = factor_of_runs(steps)
    if before.kernel != run.kernel:
        return Noise(OTHER_KERNEL * assumed / factor_of_runs(0), 0, True)
    ratios = _learned_ratios(store, run)
    learned = learned_factor(ratios)
    return Noise(assumed, 0, False) if learned is None else Noise(learned, len(ratios), False)


def _learned_ratios(store: Store, run: HistoryRun) -> list[float]:
    """Return `ratio_of_halves` of unchanged pairs of earlier runs on this machine, oldest first."""
    try:
        rows = store.select(
            "noise, load",
            "WHERE noise IS NOT NULL AND environment = ? AND at_ns < ? ORDER BY at_ns DESC LIMIT ?",
            (run.environment, run.at_ns, _PAIRS),
        )
    except NotebookProfError:
        return []
    rows.reverse()  # oldest first
    load = run.load
    similar = [
        noise for noise, then in rows if load is not None and then is not None and _is_similar(then, load)
    ]
    ratios = similar if learned_factor(similar) is not None else [noise for noise, _ in rows]
    return ratios[-MOST_PAIRS:]


def _is_similar(a: float, b: float) -> bool:
    """Return whether two loads differ by no more than a factor of two."""
    # all loads below one half count as equal
    low, high = sorted((max(a, 0.5), max(b, 0.5)))
    return high <= _SIMILAR_LOAD * low


def sentence(c: Comparison, why: str, noise: Noise, core: float = 1.0) -> str:
    """Write how much faster or slower this run is than the previous one, where, and what changed."""
    # `c` compares the previous run with this one; `why` is that of `Link`. `core` is the share of runnable
    # time in which the threads had a core, the lower one of the two runs.
    before = "the run before" + ("" if why in ("cell", "name", "source") else f" ({why})")
    before += " in another kernel" if noise.other_kernel else ""
    source = _changed_source(c)
    parts = [_where(c)] if c.significant and core >= LITTLE_CORE else []
    parts += [part for part in (source, _conditions(c)) if part]
    if c.significant and core >= LITTLE_CORE:
        word = "faster" if c.change < 0 else "slower"
        amount = signed_percent(abs(c.change)).replace("+", "")
        said = f"{amount} {word} than {before} ({interval_text(c)}, {_basis(noise)})"
        return f"{said}: {'; '.join(filter(None, parts))}." if any(parts) else f"{said}."
    return "; ".join([_unclear(c, before, noise, core), *parts, f"{_CALL} tells more"]) + "."


def _unclear(c: Comparison, before: str, noise: Noise, core: float) -> str:
    if math.isnan(c.interval[0]):
        a, b = (format_ns(float(used_times(c, side).mean())) for side in range(2))
        if (c.steps["step"] == -1).any():
            return f"≈ It took {a} in {before} and {b} in this one, and one run of each cannot show a change"
        counts = [len(used_times(c, side)) for side in range(2)]
        return (
            f"≈ A step took {a} in {before} and {b} in this one, and {counts[0]} and "
            f"{format_items(counts[1], 'step')} cannot show a change: {LEAST} each can"
        )
    rests = f"{interval_text(c)}, {_basis(noise)}"
    if core < LITTLE_CORE:
        return (
            f"≈ No change against {before} can be shown, the machine was too busy: a thread that could run "
            f"had a core for {100 * core:.0f} % of the time ({rests})"
        )
    if c.interval[0] < _NOTHING_LEFT or c.interval[1] > HUNDREDFOLD:
        unlike = "steps of one run and two kernels" if noise.other_kernel else "steps of one run"
        return f"≈ No change against {before} can be shown: {unlike} differ too much from one another"
    return f"≈ No change against {before} is shown ({rests})"


def _basis(noise: Noise) -> str:
    learned = f"learned from {noise.pairs} pairs" if noise.pairs else "assumed"
    return f"two runs × {noise.factor:.3g}, {learned}"


def _where(c: Comparison) -> str:
    rows = believed_changes(c).head(_SHOWN).to_dict("records")
    parts = [f"{name_of(row, c.labels)} {signed_ns(float(row['delta_ns']))}" for row in rows]
    return f"{', '.join(parts)} a step" if parts else ""


def _changed_source(c: Comparison) -> str:
    """Write which lines of the cell were changed; empty if either source is unknown."""
    table = c.source[c.source["file"] == CELL]
    if not len(table):
        return ""
    edited, removed = edits(table)
    parts = [f"changed {edited}"] if edited else []
    parts += [f"removed {removed}"] if removed else []
    return f"you {' and '.join(parts)}" if parts else "the cell is the same"


def edits(changes: pd.DataFrame) -> tuple[str, str]:
    """Format `source_changes`: the changed and new lines, and the number of deleted lines."""
    edited = changes.loc[changes["change"].isin(["changed", "new"]), "b_line"]
    gone = int((changes["change"] == "gone").sum())
    return lines_text(edited) if len(edited) else "", format_items(gone, "line") if gone else ""


def lines_text(lines: pd.Series) -> str:
    """Write line numbers, with consecutive ones as ranges: "lines 4–6, 9"."""
    numbers = np.sort(lines.dropna().to_numpy(np.int64))
    groups = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    texts = [f"{group[0]}–{group[-1]}" if len(group) > 1 else str(group[0]) for group in groups]
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"


def _conditions(c: Comparison) -> str:
    text = conditions_text(c)
    return f"more than the code differs: {text}" if text else ""
