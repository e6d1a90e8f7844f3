"""Parses py-spy's output (``-f chrometrace``) into stacks with times, and finds the offset of its clock.

For the offset, a thread calls functions with known names at known times. The sampler notices each change with
its next sample, up to one interval later. If it is starved, it notices the change even later, but never
earlier. So the shortest delays give the offset, and the others show whether it was starved.
"""

from __future__ import annotations

import json
import re
import sys
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from types import FunctionType
from typing import Any, Final, NamedTuple, cast

import numpy as np

from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from ...trace.strings import readable
from ..line_sources import CodePart, cached_code, compiled, lines_now, parts_of
from .frames import CELL, FOLDED, KEPT_FRAMES, PackedStacks, PythonFrame, owner_of, tell_folded

QUICK: Final = 4
"""Number of quick beats after py-spy has attached, which give the offset of the clock soon.

There are only a few, since each takes the GIL once: if the cell's thread holds it during long calls into C,
it releases it at its next Python call and waits there until it is woken up. With 24 beats, up to a fifth of a
cell of 0.3 s was attributed to that call.
"""

QUICK_INTERVALS: Final = 3.3
"""Time between quick beats, in sampling intervals. Not a whole number, so the beats' phases differ."""

CALM_S: Final = 0.05
"""Time between beats after these."""

NAMES: Final = 32
BEAT: Final = re.compile(r"notebook_prof_beat_(\d+)\Z")
STARVED_INTERVALS: Final = 4.0
"""Spread of the delays, in sampling intervals, above which samples are missing."""

_LOW: Final = 0.05
_HIGH: Final = 0.75
_FEWEST: Final = 3


def _wait(event: Event, seconds: float) -> bool:
    return event.wait(seconds)


def _renamed_wait(name: str) -> Callable[[Event, float], bool]:
    """Copy `_wait` under another name, since the name is all that a sampler sees."""
    code = _wait.__code__.replace(co_name=name)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return cast("Callable[[Event, float], bool]", FunctionType(code, globals()))


_CALLS: Final = tuple(_renamed_wait(f"notebook_prof_beat_{i}") for i in range(NAMES))


class Heartbeat:
    """Makes the beats."""

    def __init__(self) -> None:
        self._ns = array("q")
        self._left, self._quick_s = 0, CALM_S

    def again(self, interval_ns: int) -> None:
        """Make some quick beats for another sampler."""
        self._left, self._quick_s = QUICK, QUICK_INTERVALS * interval_ns / 1e9

    def wait(self, event: Event) -> None:
        """Make one beat, and wait for the next or for `event`."""
        seconds = self._quick_s if self._left > 0 else max(CALM_S, self._quick_s)
        self._left -= 1
        number = len(self._ns) % NAMES
        self._ns.append(time.perf_counter_ns())
        _CALLS[number](event, seconds)

    @property
    def monotonic_ns(self) -> IntArray:
        """Times of the beats on Python's monotonic clock. Beat i used name i % `NAMES`."""
        return np.array(self._ns, dtype=np.int64)


class Offset(NamedTuple):
    """The offset of the sampler's clock."""

    ns: int  # added to the sampler's times, it gives times on Python's monotonic clock
    spread_ns: int  # delay of the slower quarter of the beats behind the promptest; -1 if too few were seen

    def is_starved(self, interval_ns: int) -> bool:
        """Return whether the sampler has missed samples."""
        return self.spread_ns > STARVED_INTERVALS * interval_ns


def align(seen_ns: IntArray, number: IntArray, beats_ns: IntArray, guess_ns: int) -> Offset:
    """Find the offset of a sampler's clock; with fewer than three beats, it is `guess_ns` (± 0.1 s)."""
    if len(seen_ns) == 0 or len(beats_ns) == 0:
        return Offset(guess_ns, -1)
    times = seen_ns + guess_ns
    delay = np.sort(np.concatenate([_delays(times[number == i], beats_ns[i::NAMES]) for i in range(NAMES)]))
    if len(delay) < _FEWEST:
        return Offset(guess_ns, -1)
    low = int(delay[int(_LOW * len(delay))])
    return Offset(guess_ns - low, int(delay[int(_HIGH * len(delay))]) - low)


def _delays(seen_ns: IntArray, beats_ns: IntArray) -> IntArray:
    """Return how long each time is after its nearest beat."""
    if len(seen_ns) == 0 or len(beats_ns) == 0:
        return np.empty(0, np.int64)
    behind = np.searchsorted(beats_ns, seen_ns).clip(1, max(len(beats_ns) - 1, 1))
    before, after = beats_ns[behind - 1], beats_ns[np.minimum(behind, len(beats_ns) - 1)]
    nearest = np.where(seen_ns - before <= after - seen_ns, before, after)
    return np.asarray(seen_ns - nearest, dtype=np.int64)


# Finds the function that contains a line, in source or byte code, for stacks sampled from outside the
# process.


class Functions:
    """Finds functions by file, name and executed line. Reads each file only once."""

    # Python's cached byte code is tried first, then the source. A file that cannot be read is assumed to have
    # one function of each name, which begins at the first requested line.
    def __init__(self) -> None:
        self._parts: dict[str, dict[str, list[CodePart]]] = {}
        self._frames: dict[tuple[str, str, int], PythonFrame] = {}
        self._unknown: dict[tuple[str, str], int] = {}

    def frame(self, function: str, file: str, line: int) -> PythonFrame:
        """Return the frame of an executed line. `function` may or may not be qualified."""
        key = (function, file, line)
        if (existing := self._frames.get(key)) is None:
            function, file = readable(function), readable(file)
            first_line, name = self._begin(function, file, line)
            existing = self._frames[key] = PythonFrame(name, file, first_line, line, owner_of(file))
        return existing

    def _begin(self, function: str, file: str, line: int) -> tuple[int, str]:
        """Return the first line and the qualified name of the function that has this line."""
        if (parts := self._parts.get(file)) is None:
            parts = self._parts[file] = _parts_by_name(file)
        holding = [
            (part.first_line, part.last_line, part.function)
            for part in parts.get(function.rpartition(".")[2], ())
            if part.first_line <= line <= part.last_line
        ]
        if holding:
            first_line, _, name = max(holding)
            return first_line, name
        return self._unknown.setdefault((function, file), line), function


def _parts_by_name(file: str) -> dict[str, list[CodePart]]:
    code = None if owner_of(file) == CELL else cached_code(file)
    if code is None and (lines := lines_now(file)):
        code = compiled(lines, file)
    parts: defaultdict[str, list[CodePart]] = defaultdict(list)
    for part in parts_of(code) if code is not None else ():
        parts[part.name].append(part)
    return parts


_PROCESS: Final = re.compile(r'process \d+:"(.*)"\Z', re.DOTALL)
_THREAD: Final = re.compile(r"thread \((\d+|0x[0-9A-Fa-f]+)\)(?:: (.*))?\Z", re.DOTALL)
_NEXT_EVENT: Final = b'},{"args"'
_PIECE_BYTES: Final = 1 << 20


class StackOwner(NamedTuple):
    """The thread of a stack and the command of its process, both read from the root of the stack."""

    # for Python 3.10, py-spy does not know the system's thread numbers, so `tid` is Python's identifier
    command: str
    tid: int
    name: str


_NOWHERE: Final = StackOwner("", 0, "")


@dataclass
class CallPaths:
    """Distinct call paths. Each node is a path, and node 0 is the empty one."""

    parent: list[int] = field(default_factory=lambda: [0])  # of every node
    # function, file and line of the last frame in each node's path
    frame: list[tuple[str, str, int]] = field(default_factory=lambda: [("", "", 0)])
    home: list[StackOwner] = field(default_factory=lambda: [_NOWHERE])
    beat: list[int] = field(default_factory=lambda: [-1])  # number of the path's beat, -1 for none
    _nodes: dict[tuple[int, str, str, int], int] = field(default_factory=dict)

    def below(self, parent: int, function: str, file: str, line: int) -> int:
        """Return the path `parent` extended by a frame."""
        key = (parent, function, file, line)
        if (node := self._nodes.get(key)) is None:
            self._nodes[key] = node = len(self.parent)
            self.parent.append(parent)
            self.frame.append((function, file, line))
            self.home.append(self.home[parent] if file else _home(self.home[parent], function))
            self.beat.append(int(beat[1]) if (beat := BEAT.match(function)) else self.beat[parent])
        return node

    def path(self, node: int) -> list[tuple[str, str, int]]:
        """Return the frames of a node, root first, without those that stand for its process and thread."""
        frames = []
        while node:
            if self.frame[node][1]:
                frames.append(self.frame[node])
            node = self.parent[node]
        return frames[::-1]


class Changes(NamedTuple):
    """The times at which a thread's stack changed, and the stacks."""

    pid: int
    ident: int  # Python's identifier, which a later thread may get too
    ts_us: IntArray  # on the writer's clock, ascending
    node: IntArray  # call path from then on


def parse(data: bytes) -> tuple[list[Changes], CallPaths]:
    """Parse a JSON list of ``B`` and ``E`` events into the changes of each thread, and the call paths."""
    # Any other content, such as the file of a killed py-spy, is a ValueError.
    paths = CallPaths()
    threads: dict[tuple[int, int], tuple[list[int], list[int]]] = {}  # times and stacks
    below, parent = paths.below, paths.parent
    # py-spy writes a stack as a difference from the last one with the same thread identifier. A forked child
    # has its parent's identifiers, so that last stack may be one of another process.
    now: dict[int, int] = {}
    for event in _events(data):  # one pass over the parsed JSON
        key = (event["pid"], event["tid"])
        if (thread := threads.get(key)) is None:
            thread = threads[key] = [], []
        if event["ph"] == "B":
            location = event["args"]
            file, line = location["filename"] or "", location["line"] or 0
            node = below(now.get(event["tid"], 0), event["name"], file, line)
        else:
            node = parent[now.get(event["tid"], 0)]
        now[event["tid"]] = node
        ts, nodes = thread
        if ts and ts[-1] == event["ts"]:
            nodes[-1] = node  # the last event of an instant has the whole stack
        else:
            ts.append(event["ts"])
            nodes.append(node)
    return [
        Changes(*key, np.array(ts, dtype=np.int64), np.array(nodes, dtype=np.int64))
        for key, (ts, nodes) in threads.items()
    ], paths


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    """Parse a list piece by piece, since its objects need twenty times the memory of their text.

    >>> [event["ts"] for event in _events(b'[{"args":{},"ts":1},{"args":{},"ts":2}]')]
    [1, 2]
    """
    begin = data.find(b"[") + 1
    if not begin or not data.rstrip().endswith(b"]"):
        raise ValueError("not a list of events")
    while begin < len(data):
        end = data.find(_NEXT_EVENT, begin + _PIECE_BYTES)  # in a JSON string, the quotes would be escaped
        yield from json.loads(b"[" + (data[begin : end + 1] + b"]" if end >= 0 else data[begin:]))
        begin = end + 2 if end >= 0 else len(data)


def stacks_of(
    paths: CallPaths, nodes: IntArray, functions: Functions, report: ImportReport | None = None
) -> PackedStacks:
    """Return the stacks of call paths, in the same order. Reports folded stacks."""
    code_of: dict[PythonFrame, int] = {}
    frames: list[int] = []
    lengths = []
    deep = [0]
    for node in nodes.tolist():
        path = paths.path(node)
        numbers = [code_of.setdefault(functions.frame(*frame), len(code_of)) for frame in path]
        if len(path) > 2 * KEPT_FRAMES:
            deep.append(len(path))
            numbers[KEPT_FRAMES:-KEPT_FRAMES] = [code_of.setdefault(FOLDED, len(code_of))]
        frames += numbers
        lengths.append(len(numbers))
    if report is not None:
        tell_folded(report, len(deep) - 1, max(deep))
    return PackedStacks(np.array(frames, dtype=np.int64), np.array(lengths, dtype=np.int64), list(code_of))


def _home(outer: StackOwner, text: str) -> StackOwner:
    if match := _PROCESS.match(text):
        return StackOwner(match[1], 0, "")
    if match := _THREAD.match(text):
        return outer._replace(tid=int(match[1], 0), name=match[2] or "")
    return outer
