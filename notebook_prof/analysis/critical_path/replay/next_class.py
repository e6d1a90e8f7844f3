"""What would determine step times if the largest classes of their critical path took no time."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from ....errors import OptionError
from ....trace import Trace
from ....trace.schema import Table
from ...scope import Numbers, WindowLike, sharing
from ..classes import ON_STREAM, ON_THREAD
from ..path import End, critical_path
from .what_if import what_if

_NEXT: Final = Table.of(
    "critical_path_next",
    "class:str path_ns:int64 share:float64 left_ns:Int64 left_share:float64 next:str next_ns:Int64 "
    "next_share:float64 reason:str",
)
_ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "data": {"data": 0},
    "launch-call": {"launch": 0},
    "launch-latency": {"launch": 0},
    "sync": {"remove": "sync"},
    "wait-wakeup": {"remove": "sync"},
}
"""Arguments of `what_if` that remove classes which are not defined by categories."""


@sharing
def critical_path_next(
    trace: Trace, *, count: int = 3, window: WindowLike = None, step: Numbers = None, end: End = "host"
) -> pd.DataFrame:
    """List what would determine step times if the largest classes of the critical path took no time.

    Parameters
    ----------
    trace : Trace
    count : int
        How many of the largest classes to list.
    window, step, end
        As `critical_path`.

    Returns
    -------
    DataFrame
        One row per class, by `path_ns`, largest first: ``class path_ns share left_ns left_share next next_ns
        next_share reason``. ``left_ns`` is the length of the paths without this class, according to
        `what_if`; `next` is the largest class that remains. Classes that cannot be changed on their own
        (``idle device-gap event-latency``) are left out. If `what_if` refuses to answer, `reason` says why.

    Raises
    ------
    OptionError
        If `count` is not a number of classes, or for the reasons of `critical_path`.
    SelectionError
        As `critical_path`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]  [sync     ]
    ... stream 7:     [gemm    ]
    ... ''', launches=[("mm", "gemm")], categories={"sync": "sync"})
    >>> table = critical_path_next(trace, count=1)
    >>> table[["class", "path_ns", "left_ns", "next", "next_ns"]].values.tolist()
    [['kernel', 10, 10, 'host-operator', 4]]
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise OptionError(f"count={count!r} is not a number of classes: give 1 or more")
    before = critical_path(trace, by="class", window=window, step=step, end=end)
    rows: list[dict[str, Any]] = []
    for row in before.to_dict("records"):
        arguments = _without(trace, str(row["class"]))
        if arguments is not None and len(rows) < count:
            answer = what_if(trace, **arguments, window=window, step=step, end=end)
            rows.append({"class": row["class"], "path_ns": row["path_ns"], "share": row["share"]})
            rows[-1] |= _left(answer.classes, answer.reason, int(before["path_ns"].sum()))
    return _NEXT.frame({name: [row[name] for row in rows] for name in _NEXT.names})


def _without(trace: Trace, name: str) -> dict[str, Any] | None:
    """Return the arguments of `what_if` with which a class takes no time; None if there are none."""
    if name in _ARGUMENTS:
        return _ARGUMENTS[name]
    existing = trace.slices["category"].cat.remove_unused_categories().cat.categories
    here = {word for word in existing if name in (ON_THREAD.get(word), ON_STREAM.get(word))}
    if not here:
        return None
    # everything else, including inner slices and launched work, stays as it is
    factors = {f"category={word}": 0.0 if word in here else 1.0 for word in existing}
    if (trace.slices["phase"] == "data").any():
        factors["phase=data"] = 1.0
    return {"scale": factors}


def _left(classes: pd.DataFrame, reason: str, total: int) -> dict[str, Any]:
    left = int(classes["after_ns"].sum())
    if reason or not left:
        none = (
            {"left_ns": 0, "left_share": 0.0}
            if not reason
            else {"left_ns": pd.NA, "left_share": float("nan")}
        )
        return {**none, "next": "", "next_ns": pd.NA, "next_share": float("nan"), "reason": reason}
    first = classes.iloc[0]
    spent = int(first["after_ns"])
    return {
        "left_ns": left, "left_share": left / max(total, 1), "next": str(first["class"]), "next_ns": spent,
        "next_share": spent / left, "reason": "",
    }  # fmt: skip
