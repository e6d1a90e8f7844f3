"""The interface of engines, which sample the stacks of this process's threads and perhaps of its children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ...trace.arrays import IntArray
from ...trace.clocks import Clock
from .frames import Frame, Stacks


@dataclass(frozen=True, slots=True)
class ThreadSamples:
    """The sampled stacks of one thread."""

    pid: int
    tid: int  # number in the operating system
    name: str  # in Python; may be empty
    command: str  # command of the process; empty for this process
    # absolute ns, ascending, shape (n + 1,): stack i was seen from ``bounds[i]`` to ``bounds[i + 1]``
    bounds: IntArray
    stack: IntArray  # positions in the stacks of the `Recorded`, shape (n,); -1 if unknown
    looks: IntArray | None = None  # how many consecutive looks saw stack i; None: one each

    @property
    def samples(self) -> IntArray:
        """How many looks saw each stack; 0 if unknown. Shape (n,)."""
        looks = np.ones(len(self.stack), np.int64) if self.looks is None else self.looks
        return np.where(self.stack >= 0, looks, 0)

    def inside(self, begin_ns: int, end_ns: int) -> ThreadSamples:
        """Return the part within a window, which may be empty."""
        bounds = np.clip(self.bounds, begin_ns, end_ns)
        length = np.diff(bounds)
        keep = length > 0
        kept = np.append(bounds[:-1][keep], bounds[-1:] if not keep.any() else bounds[1:][keep][-1:])
        # spans that are cut keep a proportional number of looks
        looks = None
        if self.looks is not None:
            share = length[keep] / np.diff(self.bounds)[keep]
            looks = np.maximum(np.rint(self.looks[keep] * share), 1).astype(np.int64)
        return replace(self, bounds=kept, stack=self.stack[keep], looks=looks)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of an engine."""

    threads: list[ThreadSamples]
    stacks: Stacks  # root first, not yet trimmed
    interval_ns: int  # between looks
    # the stack that started the recording, with the same frames as `stacks`
    context: Sequence[Frame] = field(default=())

    def within(self, begin_ns: int, end_ns: int) -> Recorded:
        """Return the part within a window, without threads that are outside it."""
        threads = [thread.inside(begin_ns, end_ns) for thread in self.threads]
        return replace(self, threads=[thread for thread in threads if len(thread.stack)])

    @classmethod
    def nothing(cls, interval_ns: int) -> Recorded:
        """Return a result without threads."""
        empty = np.empty(0, np.int64)
        return cls([], Stacks(empty, empty, []), interval_ns)


class Engine(Protocol):
    """Samples stacks between `start` and `stop`."""

    name: str

    def start(self, clock: Clock) -> None:
        """Start sampling. Called in the thread whose cell is recorded."""

    def stop(self) -> None:
        """Stop sampling, quickly. Safe to repeat, even after an interrupt."""

    def recorded(self) -> Recorded:
        """Return the result, perhaps slowly. Called once, after `stop`."""

    def abandon(self) -> None:
        """Release everything without a result. Safe in every state."""


def with_gaps(begin: IntArray, end: IntArray, stack: IntArray) -> tuple[IntArray, IntArray]:
    """Return bounds and stacks, as in `ThreadSamples`, for disjoint pieces in order of time."""
    if len(begin) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    gap = np.append(begin[1:] > end[:-1], False)  # the stack of a gap is -1
    positions = np.arange(len(begin)) + np.cumsum(gap) - gap
    bounds = np.empty(len(begin) + int(gap.sum()) + 1, np.int64)
    stacks = np.full(len(bounds) - 1, -1, np.int64)
    bounds[positions], stacks[positions] = begin, stack
    bounds[positions[gap] + 1] = end[gap]
    bounds[-1] = end[-1]
    return bounds, stacks


def join(parts: Sequence[Recorded]) -> Recorded:
    """Join consecutive recordings. Overlaps are taken from the earlier one."""
    # threads are matched by process and number; the result has the first recording's context and the longest
    # interval
    if len(parts) == 1:
        return parts[0]
    code_of: dict[Frame, int] = {}
    frames, lengths, first = [], [], []
    count = 0
    for part in parts:
        number = np.array([code_of.setdefault(f, len(code_of)) for f in part.stacks.distinct], dtype=np.int64)
        frames.append(number[part.stacks.frames])
        lengths.append(part.stacks.lengths)
        first.append(count)
        count += len(part.stacks.lengths)
    threads: dict[tuple[int, int], ThreadSamples] = {}
    for part, shift in zip(parts, first, strict=True):
        for thread in part.threads:
            stack = np.where(thread.stack >= 0, thread.stack + shift, -1)
            shifted = replace(thread, stack=stack)
            key = (thread.pid, thread.tid)
            threads[key] = shifted if key not in threads else _appended(threads[key], shifted)
    stacks = Stacks(np.concatenate(frames), np.concatenate(lengths), list(code_of))
    interval_ns = max(part.interval_ns for part in parts)
    return Recorded(list(threads.values()), stacks, interval_ns, parts[0].context)


def _appended(one: ThreadSamples, other: ThreadSamples) -> ThreadSamples:
    other = other.inside(int(one.bounds[-1]), max(int(other.bounds[-1]), int(one.bounds[-1])))
    if len(other.stack) == 0:
        return one
    gap = [-1] if other.bounds[0] > one.bounds[-1] else []
    bounds = np.concatenate([one.bounds, other.bounds if gap else other.bounds[1:]])
    stack = np.concatenate([one.stack, np.array(gap, np.int64), other.stack])
    looks = None
    if one.looks is not None or other.looks is not None:
        looks = np.concatenate([one.samples, np.zeros(len(gap), np.int64), other.samples])
    return replace(one, name=one.name or other.name, bounds=bounds, stack=stack, looks=looks)
