"""Assigns py-spy's stacks to threads.

py-spy keeps the number and the name of a thread for as long as it sees the thread's identifier in Python. A
new thread often gets the identifier of an ended one, and then also its number and name. Samples taken from
inside are sure of both. For Python 3.10, py-spy knows no numbers at all, and reports the identifier instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import numpy as np

from ....trace.arrays import IntArray
from ..engine import ThreadSamples, with_gaps
from ..thread.thread_stacks import ObservedThread, is_servant
from .file import CallPaths, Changes, Home


def samples_by_thread(
    changes: Changes, bounds: IntArray, paths: CallPaths, inside: Sequence[ObservedThread], look_ns: IntArray
) -> list[ThreadSamples]:
    """Return the samples of the user's threads that had the same identifier one after another, in order of
    appearance."""
    # `bounds` are the times of `changes` in absolute ns; `inside` has the threads seen from inside at
    # `look_ns`. The stacks returned are nodes of `paths`.
    homes = _with_numbers([paths.home[node] for node in changes.node[:-1].tolist()], changes, paths)
    tid = np.array([home.tid for home in homes], dtype=np.int64)
    names = _names(homes)
    if changes.pid == os.getpid():
        with_ident = [thread for thread in inside if thread.ident == changes.ident]
        tid = np.where(tid > 0, _owners(tid, bounds[:-1], with_ident, look_ns), 0)
        names |= {thread.tid: thread.name for thread in with_ident if thread.name}
    threads = []
    for number in dict.fromkeys(tid[tid > 0].tolist()):
        name = names.get(number, "")
        if is_servant(name) and changes.pid == os.getpid():
            continue
        at = np.flatnonzero(tid == number)
        ts, stack = with_gaps(bounds[at], bounds[at + 1], changes.node[at])
        threads.append(ThreadSamples(changes.pid, number, name, homes[at[0]].command, ts, stack))
    return threads


def _with_numbers(homes: list[Home], changes: Changes, paths: CallPaths) -> list[Home]:
    """Replace the identifier with the number, for running threads of this process and the first thread of a
    child."""
    of_ident = [at for at, home in enumerate(homes) if home.tid == changes.ident]
    if not of_ident:
        return homes
    number = changes.ident
    if changes.pid == os.getpid():
        number = {one.ident: one.native_id for one in threading.enumerate()}.get(number) or number
    else:
        path = paths.path(int(changes.node[of_ident[0]]))
        # all other threads begin in `threading`
        number = number if path and path[0][0] == "_bootstrap" else changes.pid
    return [home._replace(tid=number) if home.tid == changes.ident else home for home in homes]


def _names(homes: Sequence[Home]) -> dict[int, str]:
    """Return the last name of each thread number."""
    return {home.tid: home.name for home in dict.fromkeys(homes) if home.name}


def _owners(
    tids: IntArray, begin: IntArray, with_ident: Sequence[ObservedThread], look_ns: IntArray
) -> IntArray:
    """Return the numbers of threads, correcting those that py-spy kept from earlier threads."""
    # A stack belongs to the thread that was seen both before and after its begin. If only one of the two
    # looks saw a thread, py-spy is believed if it ever reported that thread's number.
    at_look = np.zeros(len(look_ns) + 2, dtype=np.int64)  # with one more before the first and after the last
    for thread in with_ident:
        at_look[np.searchsorted(look_ns, thread.ts) + 1] = thread.tid
    later = np.searchsorted(look_ns, begin, side="right") + 1
    before, after = at_look[later - 1], at_look[later]
    either = np.where(after > 0, after, before)
    sure = (before == after) & (after > 0)
    unknown = (either > 0) & ~np.isin(either, tids)
    return np.where(sure | unknown, either, tids)
