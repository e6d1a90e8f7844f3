"""What a rank was doing before it came to a collective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.intervals import IntArray, as_ints
from ..scope import Scope, on_device, on_host
from ..time.phases import stepping_track

_NOT_WORK = ("annotation", "module", "collective", "overhead")


def preceding(trace: Trace, start: IntArray, end: IntArray) -> tuple[Any, IntArray]:
    """Name what took most self time between one collective and the next.

    Parameters
    ----------
    trace : Trace
    start, end : ndarray of int64, shape (n,)
        Of the collectives, by `start`.

    Returns
    -------
    name : Series of str, shape (n,)
        The name with most self time on the thread of the steps or on a device, among slices with their middle
        between the latest end so far and this start; missing where nothing ran.
    ns : ndarray of int64, shape (n,)
        That self time.
    """
    count = len(start)
    host = on_host(trace)
    host = host.only(host.ints("track") == stepping_track(trace))
    parts = [_work(scope) for scope in (host, on_device(trace))]
    middle = np.concatenate([(scope.ts + scope.end) // 2 for scope in parts])
    name = np.concatenate([scope.codes("name") for scope in parts])
    spent = np.concatenate([scope.self_ns for scope in parts])
    into = np.searchsorted(start, middle, side="left")
    reached = np.maximum.accumulate(np.concatenate([np.full(1, np.iinfo(np.int64).min), end]))[:count]
    keep = into < count
    keep[keep] = middle[keep] >= reached[into[keep]]
    sums = pd.DataFrame({"into": into[keep], "name": name[keep], "spent": spent[keep]})
    sums = sums.groupby(["into", "name"], as_index=False)["spent"].sum()
    most = sums.sort_values("spent", kind="stable").drop_duplicates("into", keep="last")
    code, ns = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    code[most["into"]] = most["name"]
    ns[most["into"]] = most["spent"]
    words = np.array([*trace.slices["name"].cat.categories, None], dtype=object)
    return pd.Series(words[code], dtype="str"), as_ints(ns)


def _work(scope: Scope) -> Scope:
    return scope.only(~scope.among("category", _NOT_WORK) & (scope.self_ns > 0))
