"""Marks in the user's code: annotations, and the ends of steps.

Calls of the public functions here can stay in the user's code when nothing is recorded. They then only check
one module global (``python -m benchmarks.overhead`` measures that).
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

import numpy as np
import pandas as pd

from ..errors import OptionError, nearest
from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock
from ..trace.taxonomy import PHASES
from .base import Availability, Collector
from .journal import Annotation, AnnotationEdges, Journal

T = TypeVar("T")
P = ParamSpec("P")

# the session's `StepSources`: `tick` ends a step, `announce` says that a mark will end the one that has begun
_sink: Any = None
_journal: Journal | None = None


def install(sink: Any) -> None:
    """Send the ends of steps to `sink`, replacing any other, and record annotations that open from now on."""
    # so annotations that are open when the window starts are known, and their part inside it is kept
    global _sink, _journal
    _sink = sink
    if _journal is None:
        _journal = Journal()


def uninstall() -> None:
    """Turn every mark into a no-op again. Safe in every state."""
    global _sink, _journal
    _sink = None
    _journal = None


class annotate:
    """Name a part of the running code; in a profile it is a slice of category ``annotation``.

    Use it as a context manager, a decorator, or a pair of calls. The slice is on the track of the thread that
    opened it. It costs almost nothing when nothing is recorded.

    Parameters
    ----------
    name : str
        Name of the slice.
    phase : {"data", "forward", "backward", "optimizer", "communication", "evaluation", "other"}, optional
        Phase of the step to which this part belongs. Nested slices inherit it.

    Raises
    ------
    OptionError
        For an unknown phase, even when nothing is recorded.

    Examples
    --------
    >>> with annotate("augment", phase="data"):
    ...     batch = [1, 2]
    >>> @annotate("loss")
    ... def loss(x):
    ...     return x + 1
    >>> loss(1)
    2
    >>> span = annotate("copy").begin()
    >>> span.end()
    """

    __slots__ = ("_open", "name", "phase")

    def __init__(self, name: str, phase: str | None = None) -> None:
        self.name = name
        self.phase = phase
        self._open: list[Annotation] | None = None
        if phase is not None and phase not in PHASES:
            raise OptionError(f"no phase {phase!r} for annotate({name!r}): {nearest(str(phase), PHASES)}")

    def begin(self) -> annotate:
        """Open a slice now, in this thread; `end` closes it."""
        if _journal is not None:
            if self._open is None:
                self._open = []
            self._open.append(_journal.begin(self.name, self.phase))
        return self

    def end(self) -> None:
        """Close the latest open slice that this thread opened with this object, if any."""
        if self._open:
            spans, me = self._open, threading.get_native_id()
            from_here = next((span for span in reversed(spans) if span.tid == me), spans[-1])
            spans.remove(from_here)
            from_here.close()

    def __enter__(self) -> annotate:
        return self if _journal is None else self.begin()

    def __exit__(self, *exception: object) -> None:
        if self._open:
            self.end()

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate a function, which gets one slice per call.

        The slice of a coroutine lasts from its first to its last instruction, including waits; that of a
        generator from its first item to its end.
        """
        name, phase = self.name, self.phase
        made = within(function, lambda: annotate(name, phase), idle=lambda: _journal is None)
        return cast("Callable[P, T]", made)


def _number(value: Any) -> float | None:
    """Return an argument as a number: NaN if it was not given, None if it is not a number."""
    if value is None:
        return float("nan")
    try:
        number = float(value)
    except Exception:  # the user's own object may raise anything
        return None
    return number if 0 <= number < float("inf") else None


def within(
    function: Callable[..., Any],
    context: Callable[[], AbstractContextManager[object]],
    idle: Callable[[], bool] = lambda: False,
) -> Callable[..., Any]:
    """Wrap a function so that each call, including a whole coroutine or generator, runs in a context."""
    # while `idle()`, plain functions are called without the context
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with context():
                return await function(*args, **kwargs)

        return coroutine
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with context():
                return (yield from function(*args, **kwargs))

        return generator

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if idle():
            return function(*args, **kwargs)
        with context():
            return function(*args, **kwargs)

    return call


def step(*, tokens: Any = None, samples: Any = None) -> None:
    """Mark the end of one step of the loop. Does nothing when nothing is recorded.

    Parameters
    ----------
    tokens, samples : number, optional
        Number of tokens or samples in the step, for ``p.training()``. A tensor with a single number is read
        after the recording, so the step does not wait for it.

    Examples
    --------
    >>> for batch in range(3):
    ...     step(samples=32, tokens=32 * 1024)
    """
    if _sink is not None:
        if _journal is not None and (tokens is not None or samples is not None):
            _journal.count(tokens, samples)
        _sink.tick()


class steps(Generic[T]):
    """Iterate over anything, one step per item: ``for batch in nbp.steps(loader)``.

    A step begins when the item is fetched and ends when the loop's body ends, even if by ``break`` or an
    exception. The result has the length of `iterable`, so progress bars work. ``async for`` works too.

    Parameters
    ----------
    iterable : iterable or async iterable

    Examples
    --------
    >>> [batch for batch in steps("ab")]
    ['a', 'b']
    """

    def __init__(self, iterable: Any) -> None:
        self._iterable = iterable

    def __len__(self) -> int:
        return len(self._iterable)

    def __iter__(self) -> Iterator[T]:
        for item in self._iterable:
            sink = _begin_step()
            try:
                yield item
            finally:
                _end_step(sink)

    async def __aiter__(self) -> AsyncIterator[T]:
        async for item in self._iterable:
            sink = _begin_step()
            try:
                yield item
            finally:
                _end_step(sink)


def _begin_step() -> Any:
    # otherwise an optimizer, which steps before the first mark, would place the window
    if _sink is not None:
        _sink.announce()
    return _sink


def _end_step(sink: Any) -> None:
    # after an error, a generator may be closed late, perhaps during another recording
    if sink is not None and sink is _sink:
        sink.tick()


class MarksCollector(Collector):
    """Puts annotations in the user's code into the trace, on the tracks of their threads."""

    name: ClassVar[str] = "marks"
    holds: ClassVar[frozenset[str]] = frozenset({"annotations"})

    def __init__(self) -> None:
        self._journal: Journal | None = None

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, "nbp.annotate, nbp.step and nbp.steps in your code")

    def start(self, clock: Clock) -> None:
        """Record annotations from now on, including those already open."""
        install(_sink)
        if _journal is not None:
            self._journal = _journal
            self._journal.start(clock.now_ns())

    def stop(self) -> None:
        """Stop recording. Open annotations are cut off here."""
        if self._journal is not None:
            self._journal.stop()
            _uninstall_unused()

    def edges(self, tid: int) -> AnnotationEdges:
        """Return where annotations of thread `tid` begin and end, and in which functions."""
        return self._journal.edges(tid) if self._journal is not None else AnnotationEdges.none()

    def result(self, builder: TraceBuilder) -> None:
        if self._journal is None:
            return
        for tid, thread in self._journal.threads().items():
            spans = self._journal.kept(tid)
            begins = np.array([span.start_ns for span in spans], dtype=np.int64)
            builder.slices(
                ts=begins,
                dur=np.array([span.end_ns for span in spans], dtype=np.int64) - begins,
                track=builder.track(thread, pid=self._journal.pid, tid=tid),
                name=[str(span.name) for span in spans],
                category="annotation",
                phase=[span.phase for span in spans],
            )
        self._put_counts(builder, self._journal.counts)
        effect = "the last annotations are missing"
        advice = "annotate larger pieces, or record fewer steps"
        self.report.add("annotations-dropped", "loss", self._journal.dropped, effect=effect, advice=advice)

    def _put_counts(self, builder: TraceBuilder, counts: list[tuple[int, Any, Any]]) -> None:
        """Add a table ``step_counts`` with the columns ``ts tokens samples``, for steps with such numbers."""
        if not counts:
            return
        ts, *columns = zip(*counts, strict=True)
        values = [[_number(value) for value in column] for column in columns]
        unread = sum(value is None for column in values for value in column)
        tokens, samples = (
            np.array([np.nan if value is None else value for value in column]) for column in values
        )
        builder.table("step_counts", pd.DataFrame({"ts": ts, "tokens": tokens, "samples": samples}))
        example = "an argument of nbp.step(tokens=…, samples=…) is not a number, or is negative"
        effect = "these steps have no tokens or samples per second"
        advice = "give the number of tokens or samples of the step"
        self.report.add("step-count-unread", "loss", unread, example, effect, advice)

    def abandon(self) -> None:
        _uninstall_unused()
        self._journal = None


def _uninstall_unused() -> None:
    """Turn the marks off, unless they end the steps of a recording."""
    if _sink is None:
        uninstall()
