"""Reads the stacks of all threads in this process, in one of them."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable
from types import FrameType
from typing import Final, NamedTuple

import numpy as np

from ....trace.arrays import IntArray
from .call_tree import CallTree
from .walk import Walked, walk

_SERVANTS: Final = ("iopub", "control", "heartbeat", "shell channel", "subshell", "ipythonhistory")
_OWN: Final = "notebook_prof"
PROMPT_NS: Final = 300_000
"""Delay above which a sample has waited for the GIL."""


def is_servant(thread: str) -> bool:
    """Return whether a thread of this name, such as "IOPub", belongs to the notebook's kernel or to us."""
    lowered = thread.lower()
    return lowered.startswith((*_SERVANTS, _OWN)) or "_watch_pipe_fd" in lowered


class ObservedThread(NamedTuple):
    """The samples of one thread."""

    ident: int  # identifier in Python
    tid: int  # number in the operating system
    name: str
    when: array[int]  # times of samples
    node: array[int]  # stack up to each sample; 0 for threads of the kernel and ours

    @property
    def ts(self) -> IntArray:
        """Times of samples, absolute ns."""
        return np.array(self.when, dtype=np.int64)


class ThreadStacks:
    """Samples all threads on request. Only one thread may write at a time."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        below: FrameType | None = None,
        read: Callable[[Callable[[], int], FrameType | None], Walked] = walk,
    ) -> None:
        self._read = read
        self._now_ns = now_ns
        self._below = below
        self._when = array("q")
        self._by_key: dict[tuple[int, int], ObservedThread] = {}
        self._node: dict[tuple[int, int], int] = {}
        self.tree = CallTree()

    def look(self, due_ns: int | None = None) -> int:
        """Record the stack of each thread. Returns the CPU time, in ns, that reading them took."""
        # A sample that was due earlier had to wait for the GIL. If it got the GIL before the switch interval
        # forced the release, a thread has just released it, for example to sleep or to multiply matrices, and
        # was running something else until now. So the previous stacks apply to that time.
        walked = self._read(self._now_ns, self._below)
        late_ns = 0 if due_ns is None else walked.ts - due_ns
        waited = PROMPT_NS < late_ns < sys.getswitchinterval() * 1e9
        before_ns = self._when[-1] if self._when else 0
        self._when.append(walked.ts)
        for ident, codes, instructions in zip(walked.idents, walked.codes, walked.instructions, strict=True):
            # read the dict directly, since enumerate() takes a lock that a thread waiting for us may hold
            thread = getattr(threading, "_active", {}).get(ident)
            tid = (thread.native_id or ident) if thread is not None else ident
            if (seen := self._by_key.get((ident, tid))) is None:
                name = thread.name if thread is not None else ""
                seen = ObservedThread(ident, tid, name, array("q"), array("q"))
                self._by_key[ident, tid] = seen
            node = 0 if is_servant(seen.name) else self.tree.node(codes, instructions)
            was_seen = bool(seen.when) and seen.when[-1] == before_ns
            seen.when.append(walked.ts)
            seen.node.append(self._node[ident, tid] if waited and was_seen else node)
            self._node[ident, tid] = node
        return walked.took_ns

    def thin(self, oldest: int) -> None:
        """Drop every second one of the oldest samples; the one after it then covers its time."""
        times = self.ts[:oldest:2]
        self._when = array("q", np.setdiff1d(self.ts, times, assume_unique=True))
        for key, thread in self._by_key.items():
            keep = ~np.isin(thread.ts, times)
            node = np.array(thread.node, dtype=np.int64)[keep]
            kept = thread._replace(when=array("q", thread.ts[keep]), node=array("q", node))
            self._by_key[key] = kept

    def let_go(self) -> None:
        """Release the frame at which stacks end, and so its variables."""
        self._below = None

    @property
    def ts(self) -> IntArray:
        """Times of the samples."""
        return np.array(self._when, dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self._when)

    @property
    def threads(self) -> list[ObservedThread]:
        """The user's threads, in order of appearance."""
        return [thread for thread in self._by_key.values() if not is_servant(thread.name)]

    @property
    def all_threads(self) -> list[ObservedThread]:
        """All threads. The kernel's and ours have no stacks."""
        return list(self._by_key.values())
