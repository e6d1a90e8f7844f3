"""Lifetimes of threads and child processes, since py-spy does not report when one ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping

import numpy as np

from ....trace.arrays import IntArray
from ..engine import Recorded


class Children:
    """Records the child processes at each `look`. Linux only; elsewhere it records none."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._look_ns: list[int] = []
        self._last: dict[int, int] = {}

    def look(self) -> None:
        """Record the live children and their children."""
        waiting, now = [os.getpid()] if _has_children() else [], self._now_ns()
        for _ in range(3):
            waiting = [child for pid in waiting for child in _children(pid)]
            self._last.update(dict.fromkeys(waiting, now))
        self._look_ns.append(now)

    @property
    def seen_pids(self) -> frozenset[int]:
        """Children that were alive at a look."""
        return frozenset(self._last)

    def ends(self) -> dict[int, tuple[int, int]]:
        """Return, for each child that was missing at a later look, when it was last seen and the time of that
        look."""
        look_ns = np.array(self._look_ns, dtype=np.int64)
        return {pid: pair for pid, last in self._last.items() if (pair := _missed(look_ns, last)) is not None}


def ended(
    recorded: Recorded,
    inside: Recorded,
    look_ns: IntArray,
    children: Mapping[int, tuple[int, int]],
    alive: Container[int],
    begin_ns: int,
) -> Recorded:
    """Cut threads where they ended, and drop those that ended before `begin_ns`."""
    # In `recorded`, the last stack of a thread that has ended lasts to the end. `inside` has the samples of
    # this process's threads taken from inside, at `look_ns`; `children` and `alive` come from `Children`.
    last_seen = {thread.tid: int(thread.bounds[-1]) for thread in inside.threads}
    threads = []
    for thread in recorded.threads:
        changed = int(thread.bounds[-2])  # the thread was alive when its last stack began
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
    """Return whether this process has children, alive or unreaped. One system call instead of three per
    thread."""
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
