"""What to try, ranked by what it could gain."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..trace import Trace
from .rules import RULES, Run
from .scope import WindowLike, sharing


@sharing
def advice(trace: Trace, *, window: WindowLike = None, min_share: float = 0.01) -> pd.DataFrame:
    """Say what could make the run faster or smaller, with the evidence and the size of the gain.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: judge this part only.
    min_share : float
        Leave out advice about time whose gain is below this share of the measured time.

    Returns
    -------
    DataFrame
        By gain, largest first, time before memory; no rows where no rule applies.

        - ``rule`` str: ``input-bound dataloader-workers communication-exposed launch-bound small-operators
          unfused-optimizer sync-points pageable-copies low-occupancy tensor-cores-unused memory-growth
          memory-near-full memory-fragmented small-allocations compilation warm-up``;
        - ``finding`` str: what was found, with its numbers; ``remedy`` str: what to try;
        - ``gain_ns`` int64: what could be gained at most over the measured time (the steps or, without any,
          all of it); ``gain_share`` float64 of that time; ``gain_bytes`` int64: of memory, a step for
          ``memory-growth``;
        - ``count`` int64: slices that are the evidence; ``rows`` object: int64 array of their row numbers in
          ``trace.slices``, at most the 1,000 longest;
        - ``select`` object: a dict that shows the evidence: ``p.selection.update(**row.select)``.

    Notes
    -----
    Gains are upper bounds and not independent: work that is launched faster may then wait for data. Each rule
    with its condition is a function of `notebook_prof.analysis.rules`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0                               ]
    ... main:  [next/data          ][mm/forward]
    ... ''')
    >>> advice(trace)[["rule", "gain_ns", "select"]].values.tolist()
    [['dataloader-workers', 13, {'phase': 'data'}]]
    """
    run = Run(trace, window)
    found = [finding for rule in RULES if run.facts.total_ns and (finding := rule(run)) is not None]
    found = [item for item in found if item.gain_bytes or item.gain_ns >= min_share * run.total_ns]
    found.sort(key=lambda item: (-item.gain_ns, -item.gain_bytes))
    table = pd.DataFrame(
        {
            "rule": pd.Series([item.rule for item in found], dtype="str"),
            "finding": pd.Series([item.finding for item in found], dtype="str"),
            "remedy": pd.Series([item.remedy for item in found], dtype="str"),
            "gain_ns": pd.Series([item.gain_ns for item in found], dtype="int64"),
            "gain_share": pd.Series(
                [min(item.gain_ns / run.total_ns, 1.0) for item in found], dtype="float64"
            ),
            "gain_bytes": pd.Series([item.gain_bytes for item in found], dtype="int64"),
            "count": pd.Series([item.count for item in found], dtype="int64"),
        }
    )
    objects: dict[str, list[Any]] = {
        "rows": [item.rows for item in found],
        "select": [dict(item.select) for item in found],
    }
    for name, values in objects.items():
        table[name] = pd.Series(values, dtype="object")
    return table
