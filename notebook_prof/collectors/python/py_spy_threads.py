"""Assigns py-spy's stacks to threads.

py-spy remembers the number and name of a thread as long as it sees the thread's identifier in Python. A new
thread often gets the identifier of an ended one, and py-spy then reports the old number and name. Samples
taken from inside have the right ones. For Python 3.10, py-spy does not know the numbers, and reports the
identifier instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np

from ...trace.arrays import IntArray
from .engine import Recorded, ThreadSamples, with_gaps
from .py_spy_file import CallPaths, Changes, StackOwner
from .thread_stacks import ObservedThread, is_servant

# Lifetimes of threads and child processes, since py-spy does not report when one ends.


class Children:
    """Records the child processes at each `look`. On systems other than Linux, it records none."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._look_ns: list[int] = []
        self.last: dict[int, int] = {}  # when each was last seen

    def look(self) -> None:
        """Record the live children and their children."""
        waiting, now = [os.getpid()] if _has_children() else [], self._now_ns()
        for _ in range(3):
            waiting = [child for pid in waiting for child in _children(pid)]
            self.last.update(dict.fromkeys(waiting, now))
        self._look_ns.append(now)

    def ends(self) -> dict[int, tuple[int, int]]:
        """Return when each child that ended was last seen, and when it was first missing."""
        look_ns = np.array(self._look_ns, dtype=np.int64)
        return {pid: pair for pid, last in self.last.items() if (pair := _missed(look_ns, last)) is not None}


def ended(
    recorded: Recorded,
    inside: Recorded,
    look_ns: IntArray,
    children: Mapping[int, tuple[int, int]],
    alive: Container[int],
    begin_ns: int,
) -> Recorded:
    """Cut threads where they ended, and drop those that ended before `begin_ns`."""
    # In `recorded`, the last stack of an ended thread lasts to the end. `inside` has the samples that were
    # taken from inside, of this process's threads, at `look_ns`. `children` and `alive` come from `Children`.
    last_seen = {thread.tid: int(thread.bounds[-1]) for thread in inside.threads}
    threads = []
    for thread in recorded.threads:
        changed = int(thread.bounds[-2])  # since the thread was alive when its last stack began
        is_alive = thread.tid in last_seen if thread.pid == os.getpid() else thread.pid in alive
        if changed <= begin_ns and not is_alive and len(look_ns):
            continue
        if thread.pid == os.getpid():
            missed = _missed(look_ns, max(last_seen.get(thread.tid, 0), changed))
        else:
            missed = children.get(thread.pid)
        if missed is not None:
            end = (max(missed[0], changed) + max(missed[1], changed)) // 2
            thread = thread.inside(int(thread.bounds[0]), max(end, changed + 1))
        threads.append(thread)
    return Recorded(threads, recorded.stacks, recorded.interval_ns, recorded.context)


def _missed(look_ns: IntArray, last: int) -> tuple[int, int] | None:
    later = int(np.searchsorted(look_ns, last, side="right"))
    return (last, int(look_ns[later])) if later < len(look_ns) else None


def _has_children() -> bool:
    """Return whether this process has children, alive or unreaped. One system call, not three per thread."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    except (OSError, AttributeError):  # unknown: macOS before Python 3.13 has no waitid
        pass
    return True


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as stream:
                children += map(int, stream.read().split())
    except OSError:
        return children
    return children


def samples_by_thread(
    changes: Changes, bounds: IntArray, paths: CallPaths, inside: Sequence[ObservedThread], look_ns: IntArray
) -> list[ThreadSamples]:
    """Return the samples of the user's threads that had the same identifier, in order of appearance."""
    # `bounds` are the times of `changes` in absolute ns. `inside` has the threads seen from inside at
    # `look_ns`. The returned stacks are nodes of `paths`.
    homes = _with_numbers([paths.home[node] for node in changes.node[:-1].tolist()], changes, paths)
    tid = np.array([home.tid for home in homes], dtype=np.int64)
    names = {home.tid: home.name for home in dict.fromkeys(homes) if home.name}  # the last of each thread
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


def _with_numbers(homes: list[StackOwner], changes: Changes, paths: CallPaths) -> list[StackOwner]:
    """Replace identifiers with numbers, for this process's running threads and a child's main thread."""
    of_ident = [at for at, home in enumerate(homes) if home.tid == changes.ident]
    if not of_ident:
        return homes
    number = changes.ident
    if changes.pid == os.getpid():
        number = {one.ident: one.native_id for one in threading.enumerate()}.get(number) or number
    else:
        path = paths.path(int(changes.node[of_ident[0]]))
        # the stacks of all other threads begin in `threading`
        number = number if path and path[0][0] == "_bootstrap" else changes.pid
    return [home._replace(tid=number) if home.tid == changes.ident else home for home in homes]


def _owners(
    tids: IntArray, begin: IntArray, with_ident: Sequence[ObservedThread], look_ns: IntArray
) -> IntArray:
    """Return the thread numbers, correcting those that py-spy remembered from ended threads."""
    # A stack belongs to the thread that was seen both before and after its begin. If only one of the two
    # looks saw a thread, py-spy's number is used if it ever reported that of this thread.
    at_look = np.zeros(len(look_ns) + 2, dtype=np.int64)  # with one more before the first and after the last
    for thread in with_ident:
        at_look[np.searchsorted(look_ns, thread.ts) + 1] = thread.tid
    later = np.searchsorted(look_ns, begin, side="right") + 1
    before, after = at_look[later - 1], at_look[later]
    either = np.where(after > 0, after, before)
    sure = (before == after) & (after > 0)
    unknown = (either > 0) & ~np.isin(either, tids)
    return np.where(sure | unknown, either, tids)
