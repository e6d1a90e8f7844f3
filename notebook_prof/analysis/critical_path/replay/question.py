"""A what-if question: its steps or window, and what it changes: factors of slices, and removed waits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ....errors import OptionError, SelectionError, nearest
from ....labels import merged_name
from ....selection import Query, passing
from ....trace import PHASES, Trace, inherit
from ....trace.arrays import BoolArray, FloatArray, IntArray, positions
from ...scope import Numbers, WindowLike, ints, matching_codes
from ..dependences import Dependences
from ..path import End, windows
from ..resources import FAR, WAITS
from ..waits import waiting_calls
from .constraints import Constraints, DeviceWork
from .forward import Change, Replay

REMOVABLE: Final = ("sync", "copy")
"""Kinds of waits that can be removed: calls that wait for a device, and blocking copies."""
_WITHOUT: Final = {"sync": "no call waits for a device", "copy": "no copy blocks"}


@dataclass(frozen=True)
class WhatIfQuestion:
    """The arguments of `what_if`."""

    scale: Mapping[str, float] = field(default_factory=dict)
    line: Mapping[int | str, float] = field(default_factory=dict)
    phase: Mapping[str, float] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    data: float = 1.0
    launch: float = 1.0
    workers: int | None = None
    overlap_communication: bool = False

    def __post_init__(self) -> None:
        """Validate the question; raise OptionError or SelectionError."""
        for name, factors in (("scale", self.scale), ("line", self.line), ("phase", self.phase)):
            if not isinstance(factors, Mapping):
                raise OptionError(f"{name}={factors!r} is not a dict of what to scale and by how much")
            for key, value in factors.items():
                _check_factor(f"{name}[{key!r}]", value)
        _check_factor("data", self.data)
        _check_factor("launch", self.launch)
        for word in self.remove:
            if word not in REMOVABLE:
                raise OptionError(f"remove={word!r} is not known: {nearest(str(word), REMOVABLE)}")
        for word in self.phase:
            if word not in PHASES:
                raise SelectionError(f"there is no phase {word!r}: {nearest(str(word), PHASES)}")
        if self.workers is not None and (not isinstance(self.workers, int | np.integer) or self.workers < 0):
            raise OptionError(f"workers={self.workers!r} is not a number of workers: give 0 or more")
        if self.workers is not None and self.data != 1:
            raise OptionError("workers= already sets the wait for input: give workers= or data=, not both")

    def __str__(self) -> str:
        factors = [*self.scale.items(), *((f"line {key}", value) for key, value in self.line.items())]
        factors += [(f"phase {key}", value) for key, value in self.phase.items()]
        factors += [(name, own) for name, own in (("data", self.data), ("launch", self.launch)) if own != 1]
        parts = [f"{key} × {value:g}" for key, value in factors]
        both = {*self.remove} == {*REMOVABLE}
        parts += ["nothing waits for a device"] if both else [_WITHOUT[word] for word in self.remove]
        parts += [f"{self.workers} workers"] * (self.workers is not None)
        parts += ["communication overlaps"] * self.overlap_communication
        return ", ".join(parts)


def _check_factor(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise OptionError(f"{name}={value!r} is not a factor: 0 removes it, 0.5 halves it, 1 leaves it")


def change_of(graph: Dependences, question: WhatIfQuestion) -> Change:
    """Return the changes of a question; SelectionError for a name or line that does not occur."""
    resources = graph.resources
    factor = np.ones(len(resources.ts))
    if question.scale:
        factor *= _by_name(graph, question.scale)
    for key, value in question.line.items():
        factor[_of_line(graph, key)] *= value
    phases = resources.trace.slices["phase"].cat
    for key, value in question.phase.items():
        in_phase = _is_word(phases, key)
        if not in_phase.any():
            existing = phases.remove_unused_categories().cat.categories
            raise SelectionError(f"no slice is in phase {key!r}: {_choice(key, existing, 'phase')}")
        factor[in_phase] *= value
    by_data = question.data if question.workers is None else 0.0  # the schedule adds how long steps wait
    removed = np.zeros(len(factor), bool)
    if by_data != 1:
        factor[_is_word(phases, "data") | np.isin(resources.track, sorted(graph.loader_workers))] *= by_data
    if question.launch != 1:
        factor[resources.category("launch")] *= question.launch
    if "sync" in question.remove:
        removed |= waiting_calls(resources)
    if "copy" in question.remove:
        for waits in graph.threads.values():
            removed[waits.slice[waits.kind == WAITS.index("copy")]] = True
    gone = (factor == 0) & resources.on_threads()
    if question.launch == 0:  # calls that take no time still wait for their causes
        gone &= ~resources.category("launch")
    removed |= gone
    detached = None
    if question.overlap_communication:
        detached = communication(graph)
        if not detached.any():
            raise SelectionError("there is no communication on a device to overlap")
    return Change(factor, question.launch, removed=removed, detached=detached)


def communication(graph: Dependences) -> BoolArray:
    """Return which device work is communication: a mask of all work, stream after stream."""
    rows = np.concatenate([np.empty(0, np.int64), *(stream.rows for stream in graph.streams.values())])
    return graph.resources.category("collective", rows=rows)


def _is_word(column: Any, word: str) -> BoolArray:
    """Return which rows of a categorical column contain this word."""
    return matching_codes(column.codes.to_numpy(), column.categories == word)


def _choice(word: str, words: Iterable[Any], kind: str) -> str:
    existing = [str(one) for one in words]
    return nearest(word, existing) if existing else f"no {kind}s were recorded"


def _of_line(graph: Dependences, line: int | str) -> BoolArray:
    column = graph.resources.trace.slices["line"].cat
    labels = [str(label) for label in column.categories]
    if isinstance(line, str):
        if line not in labels:
            raise SelectionError(f"there is no line {line!r}: {_choice(line, labels, 'line')}")
        return _is_word(column, line)
    fits = [label for label in labels if label.rpartition(":")[2] == str(int(line))]
    cells = [label for label in fits if label.startswith("cell")]
    fits = cells if len(cells) == 1 else fits
    if not fits:
        numbers = sorted({label.rpartition(":")[2] for label in labels})
        raise SelectionError(f"there is no line {line}: {_choice(str(line), numbers, 'line')}")
    if len(fits) > 1:
        raise SelectionError(f"several files have a line {line}: choose from {', '.join(fits)}")
    return _is_word(column, fits[0])


def _by_name(graph: Dependences, scale: Mapping[str, float]) -> FloatArray:
    """Return each slice's factor; that of a name or filter includes inner slices and launched work."""
    resources = graph.resources
    own = np.full(len(resources.ts), np.nan)
    for key, value in scale.items():
        own[_matching(resources.trace, key)] = value
    nearest = inherit(
        ints(resources.trace.slices["parent"]), np.where(np.isnan(own), -1, np.arange(len(own)))
    )
    on_host = np.where(resources.on_threads(), np.append(own, np.nan)[nearest], np.nan)
    launched = np.append(on_host, np.nan)[resources.call]
    out = np.where(resources.on_threads(), on_host, np.where(np.isnan(own), launched, own))
    return np.where(np.isnan(out), 1.0, out)


def _matching(trace: Trace, key: str) -> BoolArray:
    """Return which slices match `key`: a name, a pattern with ``*``, or a filter."""
    names = trace.slices["name"].cat
    words = [str(word) for word in names.categories]
    hits = [word == key for word in words]
    if not any(hits):  # the merged name that tables show for several names
        hits = [merged_name(word) == key for word in words]
    if not any(hits) and "*" in key:
        pattern = re.compile(".*".join(map(re.escape, key.split("*"))), re.DOTALL)
        hits = [pattern.fullmatch(word) is not None for word in words]
    mask = matching_codes(names.codes.to_numpy(), hits)
    if mask.any():
        return mask
    query = Query.parse(key)
    if not query.conditions and not query.patterns:
        existing = names.remove_unused_categories().cat.categories
        raise SelectionError(f"no slice is called {key!r}: {_near(key, map(str, existing))}")
    mask = passing(trace.slices, query)
    if not mask.any():
        raise SelectionError(f"no slice passes the filter {key!r}: p.operators(where={key!r}) takes it too")
    return mask


def _near(key: str, words: Iterable[str]) -> str:
    words = list(words)
    plain = key.replace("*", "")
    text = nearest(plain, words)
    if text.startswith("choose"):
        inside = [word for word in words if plain.lower() in word.lower()][:3]
        if inside:
            return "did you mean " + " or ".join(map(repr, inside)) + "?"
        return "there are " + ", ".join(map(repr, words[:3])) + (" and others" if len(words) > 3 else "")
    return text


def mean_ns(lengths: IntArray) -> int:
    """Return the mean of lengths, in whole ns."""
    return round(float(lengths.sum()) / max(len(lengths), 1))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Begins and ends of spans (ns), in the recording or in a replay."""

    begin: IntArray
    until: IntArray
    # Recorded row of the device work that ends each span; -1 for spans that end on the thread.
    last: IntArray

    @property
    def lengths(self) -> IntArray:
        """Lengths, in ns."""
        return self.until - self.begin


@dataclass(frozen=True, slots=True)
class Spans:
    """The steps, or the window, of a question."""

    edges: Constraints
    # Number of the step; -1 for a window.
    number: IntArray
    # ns; times on the main thread, in the recording.
    begin: IntArray
    until: IntArray
    end: End
    # The span to which each piece of device work belongs; -1 if there is none.
    span_of_work: IntArray
    # The rank of these steps, if the Trace has several ranks; else -1.
    rank: int = -1

    @classmethod
    def of(cls, edges: Constraints, window: WindowLike, step: Numbers, end: End) -> Spans:
        """Look up the spans that are not empty; raise the same errors as `critical_path`."""
        spans = np.array(windows(edges.graph, window=window, step=step, end=end), np.int64).reshape(-1, 3)
        number, begin, until = spans[spans[:, 2] > spans[:, 1]].T
        return cls(edges, number, begin, until, end, _span_of_work(edges, number, begin, until))

    def __len__(self) -> int:
        return len(self.number)

    def bounds(self, one: Replay | None = None) -> Bounds:
        """Return the begins and ends in a replay or, without one, in the recording."""
        begin, until = self._on_thread(one)
        if self.end == "host":
            return Bounds(begin, until, np.full(len(begin), -1))
        ends, work = self._work_ends(one), np.flatnonzero(self.span_of_work >= 0)
        work = work[np.argsort(ends[work], kind="stable")]
        last = np.full(len(begin), -1)
        last[self.span_of_work[work]] = work  # repeated indices keep the last value
        done = np.append(ends, -FAR)[last]
        on_device = done > (until if self.end == "last" else begin)
        rows = np.append(self.edges.work.rows, -1)[np.where(on_device, last, -1)]
        return Bounds(begin, np.where(on_device, done, until), rows)

    def backlog(self, one: Replay | None = None) -> IntArray:
        """Return how much further (ns) devices fall behind the host during each span."""
        bounds = self.bounds(one)
        work, resources = self.edges.work, self.edges.graph.resources
        if self.rank >= 0:
            tracks = [track for track, rank in resources.rank.items() if rank == self.rank]
            own = np.isin(resources.track[work.rows], tracks)
            work = DeviceWork(*(column[own] for column in work))
        when = np.where(work.call >= 0, resources.ts[work.call], work.start)
        order = np.argsort(when, kind="stable")
        ends = self._work_ends(one) if self.rank < 0 else self._work_ends(one)[own]
        done = np.concatenate([[-FAR], np.maximum.accumulate(ends[order])])

        def behind(launched_before: IntArray, now: IntArray) -> IntArray:
            last = done[np.searchsorted(when[order], launched_before, side="left")]
            return np.maximum(last - now, 0)

        growth = behind(self.until, bounds.until) - behind(self.begin, bounds.begin)
        return np.where(bounds.last >= 0, 0, growth)

    def error(self, one: Replay) -> float:
        """Return the error of a replay's lengths as a share of the recorded lengths."""
        recorded = self.bounds().lengths
        return float(np.abs(self.bounds(one).lengths - recorded).sum() / max(int(recorded.sum()), 1))

    def more_backlog(self, one: Replay, reference: Replay | None = None) -> IntArray:
        """Return how much more (ns) devices fall behind than in a reference (default: the recording)."""
        growth = self.backlog(one) - self.backlog(reference)
        return growth if growth.sum() > 0 else np.zeros(len(self), np.int64)

    def after(self, one: Replay, reference: Replay | None = None) -> int:
        """Return the mean length in a replay, including the time by which devices fall behind."""
        return mean_ns(self.bounds(one).lengths + self.more_backlog(one, reference))

    def _on_thread(self, one: Replay | None) -> tuple[IntArray, IntArray]:
        if one is None:
            return self.begin, self.until
        graph = self.edges.graph
        main = np.full(len(self), graph.mains.get(self.rank, graph.main))
        return one.now(main, self.begin), one.now(main, self.until)

    def _work_ends(self, one: Replay | None) -> IntArray:
        return self.edges.work.end if one is None else one.end


def _span_of_work(edges: Constraints, number: IntArray, begin: IntArray, until: IntArray) -> IntArray:
    """Return the span of each piece of device work: its step's, or the window that launched it."""
    work, resources = edges.work, edges.graph.resources
    out = np.full(len(work.rows), -1)
    if not len(number):
        return out
    if number[0] < 0:
        launched = np.where(work.call >= 0, resources.ts[work.call], work.start)
        return np.where((launched >= begin[0]) & (launched < until[0]), 0, -1)
    return positions(number, ints(resources.trace.slices["step"])[work.rows])
