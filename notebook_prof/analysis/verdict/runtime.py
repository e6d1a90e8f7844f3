"""Operators that a runtime's own threads run while the steps' thread waits, as with XLA on a CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from ...trace import Intervals, union
from ...trace.arrays import IntArray
from ...units import format_items
from ..scope import Scope, ints, on_host
from .claims import Source, cite, cite_ns, say
from .facts import Facts
from .finding import Finding
from .lines import short
from .python import is_wait

_OPERATORS = ("operator", "collective")


def runtime_verdict(facts: Facts) -> Finding | None:
    """Judge a thread without operators: ``compute-bound`` if other threads' operators take longer than it; or
    None.
    """
    # Python frames that do not wait are work, even while operators run. In an annotation, and in a call that
    # waits, the thread is assumed to wait for the operators that run in the meantime.
    thread, trace = facts.thread, facts.trace
    others = on_host(trace, facts.window)
    others = others.only((others.ints("track") != _track(thread)) & others.among("category", _OPERATORS))
    if not len(others.rows) or not len(thread.rows):
        return None
    waits = is_wait(thread) | thread.among("category", ("annotation",))
    hidden = np.where(waits, _own_inside(thread, union(others.ts, others.end)), 0)
    total = int(hidden.sum())
    share = min(total / max(facts.total_ns, 1), 1.0)
    if total <= int(_own_without(facts.top, thread, hidden).max()):
        return None
    codes = others.codes("name")
    longest = int(np.bincount(codes, weights=others.self_ns).argmax())
    name = str(others.slices["name"].cat.categories[longest])
    longest_ns, calls = int(others.self_ns[codes == longest].sum()), int((codes == longest).sum())
    source = Source("operators", "self_ns", {"name": name}, {"category": _OPERATORS, **facts.arguments})
    counted = replace(source, column="count")
    sentence = say(
        "Compute-bound on the CPU: a runtime's threads run operators while Python waits for them; "
        f"the longest, {short(name, 60)}, takes ",
        cite_ns(longest_ns, source, {"name": name}),
        " in ",
        cite(format_items(calls, "call"), calls, counted, select={"name": name}),
        ".",
    )
    evidence = {"operator_ns": total, "name": name, "self_ns": longest_ns, "calls": calls}
    return Finding("compute-bound", sentence, share, evidence, {"name": name})


def _track(thread: Scope) -> int:
    return int(thread.slices["track"].to_numpy()[thread.rows[0]])


def _own_inside(thread: Scope, busy: Intervals) -> IntArray:
    """Return how much of each slice's self time is in `busy`: its overlap minus that of its children."""
    whole: IntArray = _length_until(busy, thread.end) - _length_until(busy, thread.ts)
    position = np.full(len(thread.slices), -1, np.int64)
    position[thread.rows] = np.arange(len(thread.rows))
    parent = ints(thread.slices["parent"])[thread.rows]
    parent = np.where(parent >= 0, position[parent], -1)
    child = parent >= 0
    last = np.minimum(thread.end[child], thread.end[parent[child]])
    inside = np.maximum(_length_until(busy, last) - _length_until(busy, thread.ts[child]), 0)
    covered = np.bincount(parent[child], weights=inside, minlength=len(whole)).astype(np.int64)
    return np.asarray(np.clip(whole - covered, 0, thread.self_ns))


def _length_until(intervals: Intervals, instants: IntArray) -> IntArray:
    """Return the time in the intervals up to each instant."""
    starts, ends = intervals
    if not len(starts):
        return np.zeros(len(instants), np.int64)
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    at = np.searchsorted(starts, instants, side="right") - 1
    row = np.maximum(at, 0)
    return np.where(at >= 0, before[row] + np.minimum(instants, ends[row]) - starts[row], 0)


def _own_without(top: pd.DataFrame, thread: Scope, hidden: IntArray) -> IntArray:
    """Return the self time of the rows of `top` without the hidden time."""
    words = thread.slices["name"].cat.categories
    hidden_ns = np.bincount(thread.codes("name"), weights=hidden, minlength=len(words))
    less = pd.Series(hidden_ns.astype(np.int64), index=words).reindex(top["name"].astype("str")).to_numpy()
    return np.asarray(top["self_ns"].to_numpy() - less, dtype=np.int64)
