"""Stacks of all threads of this process, as another of its threads or a signal handler sees them."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Final, NamedTuple

import numpy as np

from ...trace.intervals import IntArray
from .samples import Samples

_SERVANTS: Final = ("iopub", "control", "heartbeat", "shell channel", "subshell", "ipythonhistory")
_OWN: Final = "notebook_prof"


def is_servant(thread: str) -> bool:
    """Whether a thread of this name belongs to the notebook's kernel or to notebook_prof.

    Examples
    --------
    >>> is_servant("IOPub"), is_servant("MainThread")
    (True, False)
    """
    lowered = thread.lower()
    return lowered.startswith((*_SERVANTS, _OWN)) or "_watch_pipe_fd" in lowered


class Seen(NamedTuple):
    """What was seen of one thread.

    Attributes
    ----------
    tid : int
        Its number in the operating system.
    name : str
    samples : Samples
    """

    tid: int
    name: str
    samples: Samples


class Looks:
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
        self._seen: dict[tuple[int, int], Seen | None] = {}

    def look(self) -> None:
        """Note what every thread runs now."""
        frames = sys._current_frames()
        now = self._now_ns()
        self._ts.append(now)
        me = threading.get_ident()
        for ident, frame in frames.items():
            if ident != me and ident not in self._without:
                self._note(ident, frame, now)

    def let_go(self) -> None:
        """Forget the frames at which stacks end, and with them their variables."""
        self._below = (0, None)
        for seen in self.threads:
            seen.samples.let_go()

    @property
    def ts(self) -> IntArray:
        """When it looked."""
        return np.array(self._ts, dtype=np.int64)

    @property
    def threads(self) -> list[Seen]:
        """The threads that were seen, in order of appearance."""
        return [seen for seen in self._seen.values() if seen is not None]

    @property
    def codes(self) -> dict[int, CodeType]:
        """Code objects of all stacks, by their ids."""
        return {number: code for seen in self.threads for number, code in seen.samples.codes.items()}

    def _note(self, ident: int, frame: FrameType, now: int) -> None:
        # the dict itself: threading.enumerate() takes a lock that the interrupted code may hold
        thread = getattr(threading, "_active", {}).get(ident)
        tid = (thread.native_id or ident) if thread is not None else ident
        key = (ident, tid)
        if key not in self._seen:
            name = thread.name if thread is not None else ""
            below = self._below[1] if ident == self._below[0] else None
            self._seen[key] = None if is_servant(name) else Seen(tid, name, Samples(below))
        seen = self._seen[key]
        if seen is not None:
            seen.samples.add(now, frame)
