"""Stacks of all threads of this process, as another of its threads or a signal handler sees them."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Final, NamedTuple

import numpy as np

from ...trace.arrays import IntArray
from .alarm.samples import Samples

_SERVANTS: Final = ("iopub", "control", "heartbeat", "shell channel", "subshell", "ipythonhistory")
_OWN: Final = "notebook_prof"


def is_servant(thread: str) -> bool:
    """Return whether a thread of this name belongs to the notebook's kernel or to notebook_prof.

    Examples
    --------
    >>> is_servant("IOPub"), is_servant("MainThread")
    (True, False)
    """
    lowered = thread.lower()
    return lowered.startswith((*_SERVANTS, _OWN)) or "_watch_pipe_fd" in lowered


class ObservedThread(NamedTuple):
    """What was seen of one thread.

    Attributes
    ----------
    ident : int
        Its identifier in Python.
    tid : int
        Its number in the operating system.
    name : str
    samples : Samples
    """

    ident: int
    tid: int
    name: str
    samples: Samples


class ThreadStacks:
    """Looks at all threads but some, when it is told to; one writer at a time.

    Parameters
    ----------
    now_ns : callable
        The recording's clock.
    below : (int, FrameType), optional
        A thread's identifier, and a frame at which its stacks end.
    without : collection of int
        Identifiers of threads to pass over.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        below: tuple[int, FrameType | None] = (0, None),
        without: Collection[int] = (),
    ) -> None:
        self._now_ns = now_ns
        self._below = below
        self._without = frozenset(without)
        self._ts = array("q")
        self._by_key: dict[tuple[int, int], ObservedThread] = {}

    def look(self) -> None:
        """Note what every thread runs now."""
        frames: dict[int, FrameType | None] = {**sys._current_frames()}
        now = self._now_ns()
        self._ts.append(now)
        # this frame in a dict of its own would be a cycle: all frames with their variables, the user's
        # tensors among them, would stay alive until the collector of garbage comes, in some thread
        frames[threading.get_ident()] = None
        for ident, frame in frames.items():
            if ident not in self._without:
                self._note(ident, frame, now)

    def let_go(self) -> None:
        """Forget the frames at which stacks end, and with them their variables."""
        self._below = (0, None)
        for thread in self.all_threads:
            thread.samples.let_go()

    @property
    def ts(self) -> IntArray:
        """When it looked."""
        return np.array(self._ts, dtype=np.int64)

    @property
    def threads(self) -> list[ObservedThread]:
        """The user's threads that were seen, in order of appearance."""
        return [thread for thread in self._by_key.values() if not is_servant(thread.name)]

    @property
    def all_threads(self) -> list[ObservedThread]:
        """The kernel's threads and ours too, these without stacks."""
        return list(self._by_key.values())

    @property
    def codes(self) -> dict[int, CodeType]:
        """Code objects of all stacks, by their ids."""
        return {number: code for thread in self.threads for number, code in thread.samples.codes.items()}

    def _note(self, ident: int, frame: FrameType | None, now: int) -> None:
        # the dict itself: threading.enumerate() takes a lock that the interrupted code may hold
        thread = getattr(threading, "_active", {}).get(ident)
        tid = (thread.native_id or ident) if thread is not None else ident
        key = (ident, tid)
        if key not in self._by_key:
            name = thread.name if thread is not None else ""
            below = self._below[1] if ident == self._below[0] else None
            self._by_key[key] = ObservedThread(ident, tid, name, Samples(below))
        entry = self._by_key[key]
        entry.samples.add(now, frame if not is_servant(entry.name) else None)
