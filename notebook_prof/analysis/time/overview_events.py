"""Events by side, category and phase."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace import CATEGORIES, PHASES, Trace
from ...trace.intervals import IntArray
from ..grouping import covered
from ..scope import Scope, WindowLike, on_device, on_host

_NONE = "none"


def overview_events(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Count and time of what ran, by category and phase, on threads and on devices.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns; times are cut at its edges.

    Returns
    -------
    DataFrame
        The host's rows, then the devices', in the order of ``CATEGORIES`` and ``PHASES``; no rows for an
        empty trace.

        - ``side`` str: ``host`` or ``device``; ``category`` str; ``phase`` str, ``none`` outside all phases;
        - ``count`` int64;
        - ``total_ns`` int64: time with at least one such slice open, whatever the thread or stream;
        - ``self_ns`` int64: on the host, self times, which sum over the rows to the time that threads were
          busy; on devices, durations;
        - ``share`` float64: of `self_ns` on the same side.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("main: [mm/forward][add/forward]  [zero]")
    >>> overview_events(trace)[["category", "phase", "count", "total_ns"]].values.tolist()
    [['operator', 'forward', 2, 25], ['operator', 'none', 1, 6]]
    """
    host, device = on_host(trace, window), on_device(trace, window)
    parts = [_side("host", host, host.self_ns), _side("device", device, device.end - device.ts)]
    return pd.concat(parts, ignore_index=True)


def _side(side: str, scope: Scope, own: IntArray) -> pd.DataFrame:
    category = _place(scope, "category", CATEGORIES)
    phase = _place(scope, "phase", PHASES)
    code = category * (len(PHASES) + 1) + phase
    spent = covered(code, scope.ts, scope.end)
    size = (len(CATEGORIES) + 1) * (len(PHASES) + 1)
    count = np.bincount(code, minlength=size)
    seen = np.flatnonzero(count)
    words = np.array([*PHASES, _NONE], dtype=object)
    self_ns = np.bincount(code, own, minlength=size).astype(np.int64)
    return pd.DataFrame(
        {
            "side": pd.Series([side] * len(seen), dtype="str"),
            "category": pd.Series(np.array([*CATEGORIES, _NONE])[seen // (len(PHASES) + 1)], dtype="str"),
            "phase": pd.Series(words[seen % (len(PHASES) + 1)], dtype="str"),
            "count": count[seen].astype(np.int64),
            "total_ns": np.bincount(code, spent, minlength=size).astype(np.int64)[seen],
            "self_ns": self_ns[seen],
            "share": self_ns[seen] / max(int(self_ns.sum()), 1),
        }
    )


def _place(scope: Scope, column: str, known: tuple[str, ...]) -> IntArray:
    words = scope.slices[column].cat.categories
    place = [known.index(word) if word in known else len(known) for word in words]
    return np.array([*place, len(known)], dtype=np.int64)[scope.codes(column)]
