"""Reads the stacks of all threads in a single call into C, and stores them as a tree with shared prefixes."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import attrgetter, is_not, methodcaller
from time import thread_time_ns
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import numpy as np

from ...trace.arrays import IntArray
from ...trace.strings import readable
from ..patches import OWN_THREADS
from .frames import FOLDED, KEPT_FRAMES, PackedStacks, PythonFrame, owner_of
from .py_spy_file import Functions

MOST_FRAMES: Final = 30_000
"""Most frames that are read, from the innermost one. Reading holds the GIL for 0.1 to 0.3 µs per frame."""

_COLLECTS_IN_ALLOCATION: Final = sys.version_info < (3, 12)
_call: Final = methodcaller("__call__")


class CodeName(NamedTuple):
    """Replaces a code object if only copies of memory are available."""

    function: str
    file: str


class StackSnapshot(NamedTuple):
    """Stacks of all threads at one instant."""

    ts: int  # on the given clock
    took_ns: int  # CPU time
    idents: list[int]  # of the threads in Python
    # for each thread, the codes of its frames, innermost first; a `CodeName` already contains its line
    codes: list[list[CodeType | CodeName]]
    instructions: list[list[int]]


def in_one_call(steps: Sequence[Callable[[], object]]) -> None:
    """Run steps that are C code in a single call, so that no other thread runs between them."""
    # A loop in Python may lose the GIL between two frames, so their thread continues to run. Then the user's
    # variables are freed here, in the wrong thread. Up to Python 3.11, `f_back` makes an object for the
    # caller. A new object may start a garbage collection, in which a callback or a finalizer in Python may
    # lose the GIL. `f_back` then reads a frame that no longer exists: SIGSEGV. ipykernel registers such a
    # callback. So all steps run in one call of `deque`, each of them in C, with garbage collection off. It is
    # on again before any other thread can check that.
    was_on: list[bool] = []
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
    finally:
        del steps  # iterators over frames keep a reference to this frame
        if any(was_on):  # a step failed
            gc.enable()


def walk(now_ns: Callable[[], int], below: FrameType | None = None) -> StackSnapshot:
    """Read the stacks of all threads, stopping before the frame `below`. The clock must be a C function."""
    frames: dict[int, FrameType | None] = {}
    walked: list[list[FrameType]] = []
    times: list[int] = []
    used: list[int] = []
    idents: list[int] = []
    codes: list[list[CodeType | CodeName]] = []
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
    try:
        in_one_call(steps)
    finally:  # even if a step fails
        walked.clear()  # it contains this function's frame, which makes a cycle
        frames.clear()
        del begun, callers, steps  # iterators keep a reference to their last frame
    return StackSnapshot(times[0], used[1] - used[0], idents, codes, instructions)


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
        self._places: dict[CodeName, CodeName] = {}

    def __call__(self, now_ns: Callable[[], int], below: FrameType | None = None) -> StackSnapshot:
        """Read the complete stacks of all threads."""
        idents = {thread.native_id: thread.ident for thread in threading.enumerate()}
        walked = StackSnapshot(now_ns(), 0, [], [], [])
        begun_ns = thread_time_ns()
        found = self._read()
        took_ns = thread_time_ns() - begun_ns
        for thread in (thread for one in found for thread in getattr(one, "threads", (one,))):
            frames = thread.frame_info[:MOST_FRAMES]
            if (ident := idents.get(thread.thread_id)) is not None:
                places = [CodeName(frame.funcname, frame.filename) for frame in frames]
                walked.idents.append(ident)
                walked.codes.append([self._places.setdefault(place, place) for place in places])
                walked.instructions.append([_line(frame) for frame in frames])
        return walked._replace(took_ns=took_ns)


def _line(frame: Any) -> int:
    location = getattr(frame, "location", None)  # from Python 3.15 on
    return int(location[0] if location else getattr(frame, "lineno", 0))


_FOLD: Final = -1
"""Stands for the code of folded frames."""


class CallTree:
    """Stacks, with each distinct beginning stored once. Each node is a stack, and node 0 is the empty one."""

    def __init__(self) -> None:
        self.codes: dict[int, CodeType | CodeName] = {}
        self.folded = self.deepest = 0
        self._nodes: dict[tuple[int, int, int], int] = {}

    def node(self, codes: Sequence[CodeType | CodeName], instructions: Sequence[int]) -> int:
        """Return the node of a stack, innermost frame first."""
        numbers = list(map(id, codes))
        if len(codes) > 2 * KEPT_FRAMES:
            self.folded += 1
            self.deepest = max(self.deepest, len(codes))
            codes = [*codes[:KEPT_FRAMES], *codes[-KEPT_FRAMES:]]
            numbers[KEPT_FRAMES:-KEPT_FRAMES] = [_FOLD]
            instructions = [*instructions[:KEPT_FRAMES], 0, *instructions[-KEPT_FRAMES:]]
        node, count, known = 0, len(self._nodes), self._nodes.setdefault
        for code, instruction in zip(reversed(numbers), reversed(instructions), strict=True):
            node = known((node, code, instruction), len(self._nodes) + 1)
        if len(self._nodes) > count:
            self.codes.update(zip(map(id, codes), codes, strict=True))
        return node

    def table(self) -> IntArray:
        """Return ``parent code instruction`` of each node, zeros for node 0. Shape (n, 3)."""
        rows = np.array([(0, 0, 0), *self._nodes], dtype=np.int64)
        return rows.reshape(-1, 3)


def decode(nodes: IntArray, tree: CallTree) -> PackedStacks:
    """Return the stacks of nodes with their lines, root first."""
    table = tree.table()
    parent = table[:, 0]
    used, code_of = np.unique(table[1:, 1], return_inverse=True)
    packed_keys, frame_of = np.unique(code_of.ravel() * 2**32 + table[1:, 2] + 1, return_inverse=True)
    numbers: dict[PythonFrame, int] = {}
    line_of = []
    functions = Functions()
    for packed_key in packed_keys.tolist():
        code, position = tree.codes.get(int(used[packed_key >> 32])), (packed_key & 0xFFFFFFFF) - 1
        if code is None:
            frame = FOLDED
        elif isinstance(code, CodeName):
            frame = functions.frame(code.function, code.file, position)
        else:
            frame = _frame(code, position)
        line_of.append(numbers.setdefault(frame, len(numbers)))
    frames = np.append(0, np.array(line_of, dtype=np.int64)[frame_of.ravel()])
    levels, homes, now = [], [], nodes
    alive = np.flatnonzero(nodes > 0)
    while len(alive):  # go outwards, for all stacks at once
        levels.append(frames[now[alive]])
        homes.append(alive)
        now = np.where(now > 0, parent[now], 0)
        alive = np.flatnonzero(now > 0)
    empty = np.empty(0, np.int64)
    home, flat = np.concatenate([empty, *homes[::-1]]), np.concatenate([empty, *levels[::-1]])
    lengths = np.bincount(home, minlength=len(nodes)).astype(np.int64)
    return PackedStacks(flat[np.argsort(home, kind="stable")], lengths, list(numbers))


def _frame(code: CodeType, instruction: int) -> PythonFrame:
    function, file = readable(getattr(code, "co_qualname", code.co_name)), readable(code.co_filename)
    line = code.co_firstlineno
    for start, _, of_instruction in code.co_lines():
        if start > instruction:
            break
        line = of_instruction or line
    return PythonFrame(function, file, code.co_firstlineno, line, owner_of(file))


_SERVANTS: Final = ("iopub", "control", "heartbeat", "shell channel", "subshell", "ipythonhistory")
PROMPT_NS: Final = 300_000
"""Delay above which a sample has waited for the GIL."""


def is_servant(thread: str) -> bool:
    """Return whether a thread of this name, such as "IOPub", belongs to the notebook's kernel or to us."""
    lowered = thread.lower()
    return lowered.startswith((*_SERVANTS, OWN_THREADS)) or "_watch_pipe_fd" in lowered


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
        read: Callable[[Callable[[], int], FrameType | None], StackSnapshot] = walk,
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
        return np.array(self._when, dtype=np.int64)

    @property
    def count(self) -> int:
        return len(self._when)

    @property
    def threads(self) -> list[ObservedThread]:
        """The user's threads, in order of appearance."""
        return [thread for thread in self._by_key.values() if not is_servant(thread.name)]

    @property
    def all_threads(self) -> list[ObservedThread]:
        """All threads. The kernel's and ours have no stacks."""
        return list(self._by_key.values())
