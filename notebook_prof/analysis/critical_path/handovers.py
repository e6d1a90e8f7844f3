"""Where one thread handed over to another: autograd's engine, worker threads, joins. Pure numpy."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...trace.arrays import BoolArray, IntArray
from ..time.host_states import waits_by_name
from .resources import WAITS, Resources
from .segments import FAR
from .waits import Waits

_ACTIVE: Final = (
    "operator",
    "launch",
    "sync",
    "memcpy",
    "memset",
    "collective",
    "io",
    "kernel",
)
_PASSIVE: Final = re.compile(
    r"run_backward|\.backward\(|\bwait\b|\bjoin\b|acquire|\bget\b|\bresult\b|select|poll|synchronize|autograd::engine::.*execute"
)
"""Python frames in which a thread may wait for another."""


def hand_overs(resources: Resources, main: int, cuts: IntArray) -> list[Waits]:
    """Find where a thread rested while another of its process was busy, and what began each burst.

    Parameters
    ----------
    resources : Resources
    main : int
        Track of the main thread, which nobody begins.
    cuts : ndarray of int64
        Instants at which stretches are cut, ascending: the bounds of steps, which lie back to back.

    Notes
    -----
    A thread is *busy* in operators, runtime calls and Python frames that are no waits by their names. Where a
    stretch in which it is not contains the begin and the end of another thread's last burst, and the bursts
    cover at least half of it, the thread waited for the end of that burst; so it did for a collective of
    another thread that ends in the stretch and was there for at least half of it, also if it had begun
    before: who waits for it has asked for it earlier. What belongs to nobody at all
    before a burst of a thread other than the main one ends when whoever was busy last in it asked for the
    burst.
    """
    if len(resources.threads) < 2:
        return []
    busy_slice, collective = _busy(resources), np.append(resources.category("collective"), False)
    exchanges: dict[int, tuple[IntArray, IntArray]] = {}
    spans: dict[int, tuple[IntArray, IntArray]] = {}
    rests: dict[int, tuple[IntArray, IntArray]] = {}
    for track in resources.threads:
        cut = resources.segments(track)
        until = cut.until()
        busy = (cut.owner >= 0) & busy_slice[cut.owner]
        spans[track] = _runs(cut.at, until, busy)
        exchanges[track] = _runs(cut.at, until, collective[cut.owner])
        rests[track] = _cut(*_runs(cut.at, until, ~busy), cuts)
    out = []
    for track, own in rests.items():
        others = {
            other: span
            for other, span in spans.items()
            if other != track and len(span[0]) and _same_process(resources, other, track)
        }
        if others:
            out.append(_of_thread(resources, track, own, others, exchanges, main))
    return out


def _same_process(resources: Resources, one: int, other: int) -> bool:
    a, b = resources.pid.get(one, -1), resources.pid.get(other, -1)
    return bool(a == b or a < 0 or b < 0)


def _busy(resources: Resources) -> BoolArray:
    """Return which slices keep their thread busy while they own it."""
    active = resources.category(*_ACTIVE)
    words = [str(word) for word in resources.trace.slices["name"].cat.categories]
    rests = [_PASSIVE.search(word) is not None or waits_by_name(word) for word in words]
    resting = resources.names(np.array([*rests, False], dtype=bool))
    return active | (resources.category("python", "module") & ~resting)


def _runs(at: IntArray, until: IntArray, mask: BoolArray) -> tuple[IntArray, IntArray]:
    """Return begins and ends of the runs of segments where `mask`."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return at[change[0::2]], until[change[1::2] - 1]


def _cut(begin: IntArray, end: IntArray, cuts: IntArray) -> tuple[IntArray, IntArray]:
    """Divide ascending, disjoint intervals at the instants that lie inside them.

    Examples
    --------
    >>> [part.tolist() for part in _cut(np.array([0, 7]), np.array([5, 9]), np.array([2, 3, 6, 9]))]
    [[0, 2, 3, 7], [2, 3, 5, 9]]
    """
    at = np.searchsorted(begin, cuts, side="left") - 1
    inner = cuts[(at >= 0) & (cuts < end[np.maximum(at, 0)])] if len(begin) else cuts[:0]
    return np.sort(np.concatenate([begin, inner])), np.sort(np.concatenate([end, inner]))


def _exchanged(start: IntArray, done: IntArray, begin: IntArray, end: IntArray, last: IntArray) -> BoolArray:
    """Return in which stretches a collective ended last, at `last`, that was there for at least half."""
    if not len(start):
        return np.zeros(len(begin), bool)
    at = np.maximum(np.searchsorted(done, end, side="right") - 1, 0)
    lasted = done[at] - np.maximum(start[at], begin)
    fits = (done[at] == last) & (done[at] <= end) & (lasted > 0) & (2 * lasted >= end - begin)
    return np.asarray(fits, dtype=bool)


def _of_thread(
    resources: Resources,
    track: int,
    rests: tuple[IntArray, IntArray],
    others: dict[int, tuple[IntArray, IntArray]],
    exchanges: dict[int, tuple[IntArray, IntArray]],
    main: int,
) -> Waits:
    """Return waits of a thread for the bursts of others."""
    begin, end = rests
    bounded = end < FAR  # before its first slice, a thread can be begun by another
    begin, end = begin[bounded], end[bounded]
    cut = resources.segments(track)
    empty = (cut.owner[np.searchsorted(cut.at, end - 1, side="right") - 1] < 0) & (track != main)
    best, second = np.full(len(begin), -FAR), np.full(len(begin), -FAR)
    source, joined = np.full(len(begin), -1), np.zeros(len(begin), bool)
    for other, (a, b) in others.items():
        k = np.searchsorted(b, end, side="right") - 1  # its last burst that ended by then
        last = np.maximum(k, 0)
        inside = (k >= 0) & (b[last] > begin) & (a[last] >= begin)
        # a helper that only ticks in between was not what this thread waited for
        opened = a[np.minimum(np.searchsorted(a, begin, side="left"), len(a) - 1)]
        inside &= 2 * (b[last] - opened) >= end - np.maximum(begin, opened - (end - opened))
        inside |= _exchanged(*exchanges[other], begin, end, b[last])
        later = inside & (b[last] > best)
        second = np.where(later, best, np.where(inside, np.maximum(second, b[last]), second))
        best, source = np.where(later, b[last], best), np.where(later, other, source)
        joined |= later
    for other, (a, b) in others.items():  # begun by who was busy when it was idle
        k = np.searchsorted(a, end, side="left") - 1
        request = np.where(k >= 0, np.minimum(b[np.maximum(k, 0)], end), -FAR)
        fits = ~joined & empty & (request > begin)
        later = fits & (request > best)
        second = np.where(later, best, np.where(fits, np.maximum(second, request), second))
        best, source = np.where(later, request, best), np.where(later, other, source)
    hit = source >= 0
    count = int(hit.sum())
    none, kind = np.full(count, -1), np.full(count, WAITS.index("hand-over"))
    margin = np.minimum(best - second, best - begin)[hit]
    return Waits(
        np.full(count, track), begin[hit], best[hit], end[hit], source[hit], none, none, kind, margin
    )
