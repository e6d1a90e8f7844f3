"""What an engine is: whatever takes stacks of this process's threads, and perhaps of its children."""

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
    """What one thread was seen to run.

    Attributes
    ----------
    pid, tid : int
        Process, and the thread's number in the operating system.
    name : str
        The thread's name in Python; may be empty.
    command : str
        How the process was started; empty for this one.
    bounds : ndarray of int64, shape (n + 1,)
        Absolute ns, ascending: stack i was seen from ``bounds[i]`` to ``bounds[i + 1]``.
    stack : ndarray of int64, shape (n,)
        Positions in the stacks of the `Recorded`; -1 where nothing is known.
    looks : ndarray of int64, shape (n,), or None
        How many looks in a row saw stack i; None: one each.
    """

    pid: int
    tid: int
    name: str
    command: str
    bounds: IntArray
    stack: IntArray
    looks: IntArray | None = None

    @property
    def samples(self) -> IntArray:
        """How many looks saw each stack, 0 where nothing is known; shape (n,)."""
        looks = np.ones(len(self.stack), np.int64) if self.looks is None else self.looks
        return np.where(self.stack >= 0, looks, 0)

    def inside(self, begin_ns: int, end_ns: int) -> ThreadSamples:
        """Return the part within a window, perhaps empty; of what is cut, that part of its looks."""
        bounds = np.clip(self.bounds, begin_ns, end_ns)
        length = np.diff(bounds)
        keep = length > 0
        kept = np.append(bounds[:-1][keep], bounds[-1:] if not keep.any() else bounds[1:][keep][-1:])
        looks = None
        if self.looks is not None:
            share = length[keep] / np.diff(self.bounds)[keep]
            looks = np.maximum(np.rint(self.looks[keep] * share), 1).astype(np.int64)
        return replace(self, bounds=kept, stack=self.stack[keep], looks=looks)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an engine saw.

    Attributes
    ----------
    threads : list of ThreadSamples
    stacks : Stacks
        Root first and whole: nothing is cut yet.
    interval_ns : int
        Between looks.
    context : sequence of Frame
        The stack in which the recording was started, as the stacks spell it.
    """

    threads: list[ThreadSamples]
    stacks: Stacks
    interval_ns: int
    context: Sequence[Frame] = field(default=())

    def within(self, begin_ns: int, end_ns: int) -> Recorded:
        """Return the part within a window; without threads that are not in it."""
        threads = [thread.inside(begin_ns, end_ns) for thread in self.threads]
        return replace(self, threads=[thread for thread in threads if len(thread.stack)])

    @classmethod
    def nothing(cls, interval_ns: int) -> Recorded:
        """Return no threads."""
        empty = np.empty(0, np.int64)
        return cls([], Stacks(empty, empty, []), interval_ns)


class Engine(Protocol):
    """Takes stacks between `start` and `stop`."""

    name: str

    def start(self, clock: Clock) -> None:
        """Begin, in the thread whose cell is recorded."""

    def stop(self) -> None:
        """End quickly; safe to repeat, and after an interrupt it must be."""

    def recorded(self) -> Recorded:
        """Return what was seen; may take its time, called once after `stop`."""

    def abandon(self) -> None:
        """Give everything back without a result; safe in every state."""


def with_gaps(begin: IntArray, end: IntArray, stack: IntArray) -> tuple[IntArray, IntArray]:
    """Return bounds and stacks of pieces that do not overlap; where pieces do not touch nothing is known.

    Parameters
    ----------
    begin, end, stack : ndarray of int64, shape (n,)
        In order of time.

    Returns
    -------
    bounds, stack : ndarray of int64
        As in `ThreadSamples`.

    Examples
    --------
    >>> bounds, stack = with_gaps(np.array([0, 5, 9]), np.array([5, 7, 12]), np.array([1, 2, 3]))
    >>> bounds.tolist(), stack.tolist()
    ([0, 5, 7, 9, 12], [1, 2, -1, 3])
    """
    if len(begin) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    gap = np.append(begin[1:] > end[:-1], False)
    positions = np.arange(len(begin)) + np.cumsum(gap) - gap
    bounds = np.empty(len(begin) + int(gap.sum()) + 1, np.int64)
    stacks = np.full(len(bounds) - 1, -1, np.int64)
    bounds[positions], stacks[positions] = begin, stack
    bounds[positions[gap] + 1] = end[gap]
    bounds[-1] = end[-1]
    return bounds, stacks


def join(parts: Sequence[Recorded]) -> Recorded:
    """Put recordings that followed one another together; threads are the same by process and number.

    Parameters
    ----------
    parts : sequence of Recorded
        In order of time, at least one; what overlaps is taken from the earlier one.

    Returns
    -------
    Recorded
        With the context of the first and the longest interval.
    """
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
