"""Reads the stacks of all threads in a single call into C, so no thread runs Python meanwhile."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import attrgetter, is_not, methodcaller
from time import thread_time_ns
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

MOST_FRAMES: Final = 30_000
"""Most frames that are read, from the innermost one. Reading holds the GIL for 0.1 to 0.3 µs per frame."""

_COLLECTS_IN_ALLOCATION: Final = sys.version_info < (3, 12)
_call: Final = methodcaller("__call__")


class Place(NamedTuple):
    """Replaces a code object if only copies of memory are available."""

    function: str
    file: str


class Walked(NamedTuple):
    """Stacks of all threads at one instant."""

    ts: int  # on the given clock
    took_ns: int  # CPU time
    idents: list[int]  # of the threads in Python
    # for each thread, the codes of its frames, innermost first; a `Place` already contains its line
    codes: list[list[CodeType | Place]]
    instructions: list[list[int]]


def walk(now_ns: Callable[[], int], below: FrameType | None = None) -> Walked:
    """Read the stacks of all threads, stopping before the frame `below`. The clock must be a C function."""
    # A loop in Python may lose the GIL between two frames, so their thread continues to run. Then the user's
    # variables are freed here, in the wrong thread. Up to Python 3.11, `f_back` makes an object for the
    # caller. A new object may start a garbage collection, in which a callback or a finalizer in Python may
    # lose the GIL. `f_back` then reads a frame that no longer exists: SIGSEGV. ipykernel registers such a
    # callback. So all steps run in one call of `deque`, each of them in C, with garbage collection off. It is
    # on again before any other thread can check that.
    frames: dict[int, FrameType | None] = {}
    walked: list[list[FrameType]] = []
    was_on: list[bool] = []
    times: list[int] = []
    used: list[int] = []
    idents: list[int] = []
    codes: list[list[CodeType | Place]] = []
    instructions: list[list[int]] = []
    read_cpu_time = partial(next, map(used.append, iter(thread_time_ns, None)))
    begun = map(chain, zip(chain(frames.values())), repeat(repeat("f_back")))
    callers: Any = map(accumulate, begun, repeat(getattr))
    for goes_on in (bool, partial(is_not, below)):
        callers = map(takewhile, repeat(goes_on), callers)
    steps: list[Callable[[], object]] = [
        read_cpu_time,
        partial(next, map(times.append, iter(now_ns, None))),
        partial(next, map(frames.update, iter(sys._current_frames, None))),
        partial(walked.extend, map(list, map(islice, callers, repeat(MOST_FRAMES)))),
        partial(idents.extend, chain(frames)),
        partial(codes.extend, map(list, map(map, repeat(attrgetter("f_code")), walked))),
        partial(instructions.extend, map(list, map(map, repeat(attrgetter("f_lasti")), walked))),
        walked.clear,
        frames.clear,
        read_cpu_time,
    ]
    if _COLLECTS_IN_ALLOCATION:
        restore = map(_call, map((bool, gc.enable).__getitem__, was_on))
        steps = [
            partial(next, map(was_on.append, iter(gc.isenabled, None))),
            gc.disable,
            *steps,
            partial(next, restore),
            was_on.clear,
        ]
    try:
        deque(map(_call, steps), maxlen=0)
    finally:  # even if a step fails
        walked.clear()  # it contains this function's frame, which makes a cycle
        frames.clear()
        del begun, callers, steps  # iterators keep a reference to their last frame
        if any(was_on):
            gc.enable()
    return Walked(times[0], used[1] - used[0], idents, codes, instructions)


class MemoryReader:
    """Reads stacks like `walk`, but while threads run, from copies of this process's memory."""

    # Without a GIL, any frame or object may be freed while it is read. Python's reader for debuggers
    # (`_remote_debugging`, from Python 3.14 on) copies memory with system calls, and fails if it is
    # inconsistent. The constructor raises ImportError, OSError or RuntimeError if the reader is missing or
    # forbidden.
    def __init__(self) -> None:
        reader = importlib.import_module("_remote_debugging")
        self._read: Callable[[], Any] = reader.RemoteUnwinder(os.getpid(), all_threads=True).get_stack_trace
        self._read()
        self._places: dict[Place, Place] = {}

    def __call__(self, now_ns: Callable[[], int], below: FrameType | None = None) -> Walked:
        """Read the complete stacks of all threads."""
        idents = {thread.native_id: thread.ident for thread in threading.enumerate()}
        walked = Walked(now_ns(), 0, [], [], [])
        begun_ns = thread_time_ns()
        found = self._read()
        took_ns = thread_time_ns() - begun_ns
        for thread in (thread for one in found for thread in getattr(one, "threads", (one,))):
            frames = thread.frame_info[:MOST_FRAMES]
            if (ident := idents.get(thread.thread_id)) is not None:
                places = [Place(frame.funcname, frame.filename) for frame in frames]
                walked.idents.append(ident)
                walked.codes.append([self._places.setdefault(place, place) for place in places])
                walked.instructions.append([_line(frame) for frame in frames])
        return walked._replace(took_ns=took_ns)


def _line(frame: Any) -> int:
    location = getattr(frame, "location", None)  # from Python 3.15 on
    return int(location[0] if location else getattr(frame, "lineno", 0))
