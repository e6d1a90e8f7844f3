"""The engine that samples the stacks of this process's threads in a thread, and what every engine returns."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ...trace.arrays import IntArray
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from ..machine import has_gil
from .awaits import Awaits
from .frames import PackedStacks, PythonFrame, cell_runner, context_of, tell_folded
from .thread_stacks import CallTree, MemoryReader, ThreadStacks, decode, walk


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
    stacks: PackedStacks  # root first, not yet trimmed
    interval_ns: int  # between looks
    # the stack that started the recording, with the same frames as `stacks`
    context: Sequence[PythonFrame] = field(default=())

    def within(self, begin_ns: int, end_ns: int) -> Recorded:
        """Return the part within a window, without threads that are outside it."""
        threads = [thread.inside(begin_ns, end_ns) for thread in self.threads]
        return replace(self, threads=[thread for thread in threads if len(thread.stack)])

    def first_looks_ns(self) -> IntArray:
        """Return when each distinct frame was first seen."""
        stack_ns = np.full(len(self.stacks.lengths), np.iinfo(np.int64).max)
        for thread in self.threads:
            # py-spy's samples begin half an interval before the look
            looks_ns = thread.bounds[:-1] + np.minimum(np.diff(thread.bounds), self.interval_ns) // 2
            known = thread.stack >= 0
            np.minimum.at(stack_ns, thread.stack[known], looks_ns[known])
        result = np.full(len(self.stacks.distinct), np.iinfo(np.int64).max)
        np.minimum.at(result, self.stacks.frames, np.repeat(stack_ns, self.stacks.lengths))
        return result


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


def since_last_look(
    ts: IntArray, stack: IntArray, look_ns: IntArray, start_ns: int
) -> tuple[IntArray, IntArray]:
    """Return bounds and stacks of a thread's samples; each covers the time since the previous look."""
    at = np.searchsorted(look_ns, ts)
    begin = np.maximum(np.where(at > 0, look_ns[np.maximum(at, 1) - 1], start_ns), start_ns)
    return with_gaps(np.maximum(begin, np.append(begin[:1], ts[:-1])), ts, stack)


def join(parts: Sequence[Recorded]) -> Recorded:
    """Join consecutive recordings. Overlaps are taken from the earlier one."""
    # threads are matched by process and number; the result has the first recording's context and the longest
    # interval
    if len(parts) == 1:
        return parts[0]
    code_of: dict[PythonFrame, int] = {}
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
    stacks = PackedStacks(np.concatenate(frames), np.concatenate(lengths), list(code_of))
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


INTERVAL_S: Final = 0.002
"""Pause between samples. Waiting for the GIL takes additional time: up to 5 ms while the cell runs Python."""

CALM_S: Final = 0.05
"""Pause between samples while another sampler is running."""

AWAITS_NS: Final = 10_000_000
"""Shortest time between looks at the tasks of the cell's event loop."""

PAUSE_PER_LOOK: Final = 20
"""A pause is at least this many times as long as reading the stacks, so deep stacks do not cost more."""

THIN_AFTER: Final = 500_000
"""After this many samples the interval doubles, and again after as many more."""


class Sampler:
    """Samples all threads in a thread. Limits and failures are reported to `report`."""

    name = "thread"

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._now_ns = Clock().now_ns
        self.looks = ThreadStacks(self._now_ns)
        self._start_ns = 0
        self._is_calm = False
        self._interval_ns = 0
        self._own: tuple[int, CallTree] | None = None
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures: list[Exception] = []
        self.awaits: Awaits | None = None

    def start(self, clock: Clock) -> None:
        """Start sampling, in a new thread."""
        self._now_ns = clock.now_ns
        self._interval_ns = _most_apart_ns(INTERVAL_S)
        try:
            read = walk if has_gil() else MemoryReader()
        except (ImportError, OSError, RuntimeError) as error:
            effect = "without a GIL stacks can be read from Python 3.14 on; statements and lines are timed"
            self._report.failed("no-stacks", "loss", error, effect)
            return
        walked, own, here = read(clock.now_ns), CallTree(), threading.get_ident()
        if here in walked.idents:
            at = walked.idents.index(here)
            self._own = own.node(walked.codes[at], walked.instructions[at]), own
        self.looks = ThreadStacks(clock.now_ns, cell_runner(sys._getframe()), read)
        self.awaits = Awaits.of_this_thread()
        self._start_ns = clock.now_ns()
        self._thread = threading.Thread(target=self._run, name="notebook_prof sampler", daemon=True)
        self._thread.start()

    def calm(self, is_calm: bool) -> None:
        """Sample a few times a second only, or as before. May be called in any thread."""
        self._is_calm = is_calm

    def stop(self) -> None:
        """Stop and clean up. Safe to repeat."""
        self._quit.set()
        if self._thread is not None:
            self._thread.join()
        self.looks.let_go()

    def abandon(self) -> None:
        """End without a result."""
        self.stop()

    def recorded(self) -> Recorded:
        """Return the complete stacks of all threads."""
        for failure in self._failures:
            self._report.add("looks-failed", "loss", example=repr(failure), effect="samples are missing")
        tree, look_ns = self.looks.tree, self.looks.ts
        tell_folded(self._report, tree.folded, tree.deepest)
        if len(look_ns) > THIN_AFTER:
            example = f"every {self._interval_ns / 1e6:g} ms at the end"
            effect = "late parts of a long recording are coarser"
            self._report.add("sampling-thinned", "info", example=example, effect=effect)
        seen = self.looks.threads
        nodes = np.unique(np.concatenate([np.empty(0, np.int64), *(np.array(one.node) for one in seen)]))
        threads = []
        for one in seen:
            stack = np.searchsorted(nodes, np.array(one.node, dtype=np.int64))
            bounds, stack = since_last_look(one.ts, stack, look_ns, self._start_ns)
            threads.append(ThreadSamples(os.getpid(), one.tid, one.name, "", bounds, stack))
        context: list[PythonFrame] = []
        if self._own is not None:
            node, own = self._own
            context = context_of(decode(np.array([node]), own))
        return Recorded(threads, decode(nodes, tree), self._interval_ns, context)

    def _run(self) -> None:
        pause_s, looks, now_ns, since_ns = INTERVAL_S, 0, self._now_ns, self._start_ns
        while True:
            due_ns = now_ns() + round(pause_s * 1e9)
            if self._quit.wait(pause_s):
                return
            took_ns = 0
            try:
                took_ns = self.looks.look(due_ns)
                if self.awaits is not None and now_ns() - since_ns >= AWAITS_NS:
                    since_ns, before_ns = now_ns(), since_ns
                    with suppress(Exception):  # tasks are then left out
                        self.awaits.look(before_ns, since_ns)
                    took_ns += now_ns() - since_ns
            except Exception as error:
                if len(self._failures) < 3:
                    self._failures.append(error)
            looks += 1
            interval_s = INTERVAL_S * 2 ** (looks // THIN_AFTER)
            pause_s = max(CALM_S if self._is_calm else interval_s, PAUSE_PER_LOOK * took_ns * 1e-9)
            self._interval_ns = max(self._interval_ns, _most_apart_ns(interval_s))


def _most_apart_ns(interval_s: float) -> int:
    """Return the interval between samples while the cell holds the GIL in Python code."""
    return round((interval_s + sys.getswitchinterval()) * 1e9)
