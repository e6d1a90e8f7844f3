"""What the thread of the steps did: each instant is in exactly one state."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ..trace import Intervals, Trace, Window, length, overlap, subtract, union
from ..trace.schema import Column, Table
from .phases import stepping_track
from .scope import Mask, Scope, WindowLike, on_host
from .spans import step_spans
from .waiting_calls import waiting

STATES: Final = ("waiting", "launch", "small operators", "operators", "python", "range", "idle")
"""States, those that own an instant first come first."""

SMALL_NS: Final = 10_000
"""An operator with less time of its own than this is mostly the framework's overhead."""

_OPERATORS: Final = ("operator", "collective")
_COLUMNS: Final = Table(
    "thread_time",
    (
        Column("state", "str", "", "one of " + ", ".join(STATES)),
        Column("ns", "int64", "ns", "time in this state"),
        Column("share", "float64", "1", "of the steps, or of the span"),
        Column("count", "int64", "", "slices that make up the state"),
    ),
)


def thread_time(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Divide the time of the thread that runs the steps among what it did.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        A row a state, always all of them, in this order; ``ns`` sums to the steps, or without steps to the
        window or the span of the trace.

        - ``state`` str: ``waiting`` for a device, as in `host_waits`; ``launch``: calls that start device
          work or copy; ``small operators``: operators with less than 10 µs of their own; ``operators``:
          the others; ``python``: Python frames outside of all these; ``range``: annotations and modules
          with nothing below them; ``idle``: nothing is open, so that nobody knows;
        - ``ns`` int64; ``share`` float64; ``count`` int64: slices that begin in it.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main: [step         ]
    ... main:    [mm   ]
    ... ''', categories={"step": "python"}, unit_ns=1_000_000)
    >>> table = thread_time(trace)
    >>> table.loc[table["ns"] > 0, ["state", "share"]].values.tolist()
    [['operators', 0.4666666666666667], ['python', 0.5333333333333333]]
    """
    spans = step_spans(trace, window)
    whole = Window.of(window) if window is not None else trace.span
    inside = union([whole.start], [whole.end])
    if len(spans):
        inside = union(spans["ts"].to_numpy(), (spans["ts"] + spans["dur"]).to_numpy())
    host = on_host(trace, window)
    mine = host.only(host.ints("track") == stepping_track(trace))
    operators = mine.among("category", _OPERATORS)
    kinds: dict[str, Mask] = {
        "waiting": waiting(trace, mine),
        "launch": mine.among("category", ("launch", "memcpy", "memset")),
        "operators": operators,
        "python": mine.among("category", ("python",)),
    }
    kinds["range"] = ~np.logical_or.reduce(list(kinds.values()))
    total = length(inside)
    spent, count = dict.fromkeys(STATES, 0), dict.fromkeys(STATES, 0)
    taken: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))
    for state, keep in kinds.items():
        own = overlap(subtract(union(mine.ts[keep], mine.end[keep]), taken), inside)
        spent[state], count[state] = length(own), int(keep.sum())
        taken = union(np.concatenate([taken[0], own[0]]), np.concatenate([taken[1], own[1]]))
    small = _small(mine, operators, taken_by=inside)
    spent["small operators"] = min(int(mine.self_ns[small].sum()), spent["operators"])
    spent["operators"] -= spent["small operators"]
    count["small operators"] = int(small.sum())
    count["operators"] -= count["small operators"]
    spent["idle"] = total - sum(spent.values())
    return _COLUMNS.frame(
        {
            "state": list(STATES),
            "ns": [spent[state] for state in STATES],
            "share": [spent[state] / max(total, 1) for state in STATES],
            "count": [count[state] for state in STATES],
        }
    )


def small_operators(scope: Scope) -> Mask:
    """Which operators have less time of their own than `SMALL_NS`, what they call in C included.

    Python frames and ranges inside an operator are not its own time.
    """
    return np.asarray(scope.among("category", _OPERATORS) & (scope.self_ns < SMALL_NS), dtype=bool)


def _small(mine: Scope, operators: Mask, taken_by: Intervals) -> Mask:
    starts, ends = taken_by
    if not len(starts):
        return np.zeros(len(mine.ts), dtype=bool)
    row = np.maximum(np.searchsorted(starts, mine.ts, side="right") - 1, 0)
    within = (mine.ts >= starts[row]) & (mine.end <= ends[row])
    return np.asarray(operators & small_operators(mine) & within, dtype=bool)
