"""The engine inside the process: a thread that samples the others."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

import numpy as np

from ...trace.arrays import IntArray
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from ..machine import has_gil
from .engine import Recorded, ThreadSamples, with_gaps
from .frames import Frame, cell_runner, context_of, tell_folded
from .thread_stacks import CallTree, MemoryReader, ObservedThread, ThreadStacks, decode, walk

INTERVAL_S: Final = 0.002
"""Pause between samples. Waiting for the GIL takes additional time: up to 5 ms while the cell runs Python."""

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
        self._looks = ThreadStacks(self._now_ns)
        self._start_ns = 0
        self._can_look = False
        self._interval_ns = 0
        self._context: list[Frame] = []
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures: list[Exception] = []

    def start(self, clock: Clock) -> None:
        """Start sampling, in a new thread."""
        self.by_hand(clock, _most_apart_ns(INTERVAL_S))
        self.take_over()

    def by_hand(self, clock: Clock, interval_ns: int) -> Callable[[], object]:
        """Sample only when another thread calls the returned function, about every `interval_ns`."""
        self._now_ns = clock.now_ns
        self._interval_ns = interval_ns
        try:
            read = walk if has_gil() else MemoryReader()
        except (ImportError, OSError, RuntimeError) as error:
            self._report.add(
                "no-stacks",
                "loss",
                example=f"{type(error).__name__}: {error}",
                effect="without a GIL stacks can be read from Python 3.14 on; statements and lines are timed",
            )
            return lambda: None
        walked, own, here = read(clock.now_ns), CallTree(), threading.get_ident()
        if here in walked.idents:
            at = walked.idents.index(here)
            node = own.node(walked.codes[at], walked.instructions[at])
            self._context = context_of(decode(np.array([node]), own))
        self._looks = ThreadStacks(clock.now_ns, cell_runner(sys._getframe()), read)
        self._start_ns = clock.now_ns()
        self._can_look = True
        return self._looks.look

    def take_over(self) -> None:
        """Sample in a new thread from now on. May be called in any thread."""
        if not self._can_look:
            return
        self._thread = threading.Thread(target=self._run, name="notebook_prof sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop and clean up. Safe to repeat."""
        self._quit.set()
        if self._thread is not None:
            self._thread.join()
        self._looks.let_go()

    def abandon(self) -> None:
        """End without a result."""
        self.stop()

    def recorded(self) -> Recorded:
        """Return the complete stacks of all threads."""
        for failure in self._failures:
            self._report.add("looks-failed", "loss", example=repr(failure), effect="samples are missing")
        tree, look_ns = self._looks.tree, self.look_ns
        tell_folded(self._report, tree.folded, tree.deepest)
        if len(look_ns) > THIN_AFTER:
            self._report.add(
                "sampling-thinned",
                "info",
                example=f"every {self._interval_ns / 1e6:g} ms at the end",
                effect="late parts of a long recording are coarser",
            )
        seen = self._looks.threads
        nodes = np.unique(np.concatenate([np.empty(0, np.int64), *(np.array(one.node) for one in seen)]))
        threads = [self._samples(one, look_ns, nodes) for one in seen]
        return Recorded(threads, decode(nodes, tree), self._interval_ns, self._context)

    @property
    def look_ns(self) -> IntArray:
        """Times of the samples."""
        return self._looks.ts

    @property
    def deepest(self) -> int:
        """Depth of the deepest folded stack; 0 if none was folded."""
        return self._looks.tree.deepest

    @property
    def all_threads(self) -> list[ObservedThread]:
        """All sampled threads. The kernel's and ours have no stacks."""
        return self._looks.all_threads

    def _samples(self, one: ObservedThread, look_ns: IntArray, nodes: IntArray) -> ThreadSamples:
        """Return a thread's samples. Each covers the time since the previous look, if that saw the thread."""
        ts, stack = one.ts, np.searchsorted(nodes, np.array(one.node, dtype=np.int64))
        at = np.searchsorted(look_ns, ts)
        begin = np.where(at > 0, look_ns[np.maximum(at, 1) - 1], self._start_ns)
        begin = np.maximum(begin, np.concatenate([begin[:1], ts[:-1]]))
        bounds, stack = with_gaps(begin, ts, stack)
        return ThreadSamples(os.getpid(), one.tid, one.name, "", bounds, stack)

    def _run(self) -> None:
        pause_s, looks, now_ns = INTERVAL_S, 0, self._now_ns
        while True:
            due_ns = now_ns() + round(pause_s * 1e9)
            if self._quit.wait(pause_s):
                return
            took_ns = 0
            try:
                took_ns = self._looks.look(due_ns)
            except Exception as error:
                if len(self._failures) < 3:
                    self._failures.append(error)
            looks += 1
            interval_s = INTERVAL_S * 2 ** (looks // THIN_AFTER)
            pause_s = max(interval_s, PAUSE_PER_LOOK * took_ns * 1e-9)
            self._interval_ns = max(self._interval_ns, _most_apart_ns(interval_s))


def _most_apart_ns(interval_s: float) -> int:
    """Return the interval between samples while the cell holds the GIL in Python code."""
    return round((interval_s + sys.getswitchinterval()) * 1e9)
