"""The event log: slices in the order in which they began."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ..scope import Numbers, Scope, Texts, WindowLike, bounds
from .line_calls import shown_frames

_COLUMNS = ("ts", "dur", "self_ns", "depth", "name", "category", "track")


def event_log(
    trace: Trace,
    *,
    window: WindowLike = None,
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    track: int | Iterable[int] | None = None,
    line: Texts = None,
    fold_libraries: bool = False,
) -> pd.DataFrame:
    """List slices in the order in which they began, on the host and on devices.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: keep slices that touch it, with uncut times.
    step, track : int or iterable of int, optional
        Keep slices of these.
    name, phase, category, line : str or iterable of str, optional
        Keep slices of these; a line is written as ``cell:12``.
    fold_libraries : bool
        Leave out what `call_tree` folds.

    Returns
    -------
    DataFrame
        One row per slice, by start, then longest first.

        - ``slice`` int64: its row in ``trace.slices``;
        - ``ts``, ``dur``, ``self_ns`` int64: start, duration and self time, not cut at the window;
        - ``depth`` int64: number of slices of its track around it;
        - ``name``, ``category``, ``track_name`` category; ``track`` int64.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [linear ][relu ]
    ... stream 7:     [gemm  ]
    ... ''')
    >>> event_log(trace)[["ts", "name", "track_name"]].values.tolist()
    [[0, 'linear', 'main'], [4, 'gemm', 'stream 7'], [9, 'relu', 'main']]
    """
    slices = trace.slices
    ts, end = bounds(slices)
    keep = shown_frames(trace) if fold_libraries else np.ones(len(slices), dtype=bool)
    if window is not None:
        cut = Window.of(window)
        keep &= (ts < cut.end) & ((end > cut.start) | (ts >= cut.start))
    rows = np.flatnonzero(keep)
    scope = Scope(slices, rows, ts[rows], end[rows], slices["self_ns"].to_numpy()[rows])
    scope = scope.where(step=step, phase=phase, category=category, line=line, name=name, track=track)
    table = slices[list(_COLUMNS)].iloc[scope.rows].reset_index(drop=True)
    table = table.astype({"depth": "int64", "track": "int64"})
    table.insert(0, "slice", scope.rows)
    code, names = pd.factorize(trace.tracks["name"])
    at = pd.Index(trace.tracks["track"]).get_indexer(table["track"])
    table["track_name"] = pd.Categorical.from_codes(code[at], categories=names.astype("str"))
    return table
