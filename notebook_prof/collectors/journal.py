"""Records annotations as they open and close, in any thread."""

from __future__ import annotations

import copy
import os
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import numpy as np

from ..trace.arrays import IntArray
from .machine import live_threads

MOST_SPANS: Final = 1_000_000
"""Limit on the annotations in a recording. This many take about 150 MB."""
MOST_COUNTS: Final = 1_000_000
"""Limit on the steps of a recording for which numbers of tokens or samples are stored."""


_PACKAGE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


class AnnotationEdges(NamedTuple):
    """The begins and ends of a thread's annotations, sorted by time."""

    ts: IntArray  # absolute ns
    opener: IntArray  # position in `codes` of the function that opened the annotation
    codes: list[CodeType]

    @classmethod
    def none(cls) -> AnnotationEdges:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), [])


_watchers: tuple[Any, ...] = ()


def watch(watcher: Any) -> None:
    """From now on, call the watcher's `opened` and `closed` for every annotation, in the annotated thread."""
    # `opened` and `closed` must not raise
    global _watchers
    _watchers = (*_watchers, watcher)


def unwatch(watcher: Any) -> None:
    """Stop notifying `watcher`; safe to repeat."""
    global _watchers
    _watchers = tuple(one for one in _watchers if one is not watcher)


class Annotation:
    """An annotation, open or closed. Times are absolute ns."""

    __slots__ = ("_journal", "end_ns", "name", "opener", "phase", "start_ns", "tid")

    def __init__(self, journal: Journal, name: str, phase: str | None) -> None:
        self._journal = journal
        self.name = name
        self.phase = phase
        self.opener = _opener(sys._getframe(1))
        self.tid = threading.get_native_id()
        self.end_ns = 0
        self.start_ns = time.time_ns()

    def close(self) -> None:
        self.end_ns = time.time_ns()
        self._journal.closed(self)


class Journal:
    """Keeps open annotations, and those that closed between `start` and `stop`."""

    # Every change is a single operation on a dict or list, so threads need no lock.
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.dropped = 0
        self._start_ns = 0
        self._recording = False
        self._open: dict[int, Annotation] = {}
        self._spans: list[Annotation] = []
        self._names: dict[int, str] = {}
        self.counts: list[tuple[int, Any, Any]] = []

    def begin(self, name: str, phase: str | None) -> Annotation:
        span = Annotation(self, name, phase)
        if span.tid not in self._names:
            self._names[span.tid] = live_threads().get(span.tid, f"thread {span.tid}")
        self._open[id(span)] = span
        for watcher in _watchers:
            watcher.opened(span)
        return span

    def closed(self, span: Annotation) -> None:
        """Store a closed annotation, if a recording is running."""
        for watcher in _watchers:
            watcher.closed(span)
        if self._open.pop(id(span), None) is not None and self._recording:
            self._keep(span)

    def count(self, tokens: Any, samples: Any) -> None:
        """Store the numbers of a step that ends now, if a recording is running."""
        # not evaluated yet: a tensor would make the step wait
        if self._recording and len(self.counts) < MOST_COUNTS:
            self.counts.append((time.time_ns(), tokens, samples))

    def start(self, now_ns: int) -> None:
        """Start storing annotations as they close."""
        self._spans, self.counts = [], []
        self.dropped = 0
        self._start_ns, self._recording = now_ns, True

    def stop(self) -> None:
        """Cut off open annotations, and store no more. A second call does nothing."""
        if not self._recording:
            return
        self._recording = False
        now_ns = time.time_ns()
        for span in tuple(self._open.values()):
            cut = copy.copy(span)  # the original stays open for its owner
            cut.end_ns = now_ns
            self._keep(cut)
        for span in self._spans:
            span.start_ns = max(span.start_ns, self._start_ns)

    def threads(self) -> dict[int, str]:
        """Return the native ids and names of the threads with annotations, in order of appearance."""
        tids = {span.tid for span in self._spans}
        return {tid: name for tid, name in self._names.items() if tid in tids}

    def kept(self, tid: int) -> list[Annotation]:
        """Return a thread's closed annotations, in order of their ends."""
        return [span for span in self._spans if span.tid == tid]

    def edges(self, tid: int) -> AnnotationEdges:
        """Return where a thread's annotations begin and end."""
        spans = self.kept(tid)
        codes = {id(span.opener): span.opener for span in spans}
        number = {key: i for i, key in enumerate(codes)}
        opener = np.array([number[id(span.opener)] for span in spans for _ in range(2)], dtype=np.int64)
        ts = np.array([(span.start_ns, span.end_ns) for span in spans], dtype=np.int64).ravel()
        order = np.argsort(ts, kind="stable")
        return AnnotationEdges(ts[order], opener[order], list(codes.values()))

    def _keep(self, span: Annotation) -> None:
        if len(self._spans) < MOST_SPANS:
            self._spans.append(span)
        else:
            self.dropped += 1


def _opener(frame: FrameType) -> CodeType:
    """Return the innermost function that is not ours."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code
