"""``nbp.profile``: records, and afterwards behaves as the Profile of the recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast

from ..collectors.base import Collector
from ..collectors.marks import within
from ..collectors.options import CollectorOptions, EngineName, PythonMode
from ..collectors.system.names.watch import NameWatch, roots_of_process
from ..errors import NotRecordedError, OptionError
from ..interrupts import DelayedInterrupt
from ..profiles.deferred_trace import DeferredTrace
from ..profiles.profile import Profile
from ..runs import folder as folder  # imported early, since it stores the folder in which the script started
from ..trace.trace import Trace
from ..units import parse_ns, parse_share
from . import current
from .engine import Session
from .plan import EndOfWindow, Plan, recording_text
from .schedule import ScheduleFunction, StepsLike, WholeRun, step_range

_UNRECORDED = "has not recorded anything: use it in a with block, or call start() and stop()"
_F = TypeVar("_F", bound=Callable[..., Any])


class profile:
    """Record the code in a ``with`` block, a function, or between `start` and `stop`.

    Parameters
    ----------
    *collectors : str or Collector
        Names from `list_collectors`; by default ``python``, ``torch`` if it is imported, and always
        ``system`` and the marks.
    steps : tuple of int, slice, range, int or str, optional
        ``(3, 14)`` records steps 3 … 13 only, after a warm-up. By default everything is recorded.
    schedule : callable, optional
        Instead of `steps`: a function from step number to `RecordingState`, as made by `schedule`; schedules
        of ``torch.profiler`` work too. Each cycle gives its own Profile, see `cycles`.
    on_trace_ready : callable, optional
        Called with the Profile of each cycle when the cycle ends, including the one cut short by the end of
        the code. See `tensorboard_trace_handler` and `export_chrome_tracing`.
    step_by : {"auto", "optimizer", "dataloader", "mark", "loop"}
        What counts as a step. ``auto`` counts `step` and ``nbp.step()``, or else ``optimizer.step()``.
    warmup : int
        Number of steps before the first of `steps` in which collectors run but the data is dropped.
    shapes, memory, modules, stack : bool
        See `CollectorOptions`.
    python : {"sample", "calls"}, optional
        How the Python collector works.
    engine : {"auto", "py-spy", "thread"}
        The sampler of Python stacks, see `CollectorOptions`.
    min_duration : str or number
        Shorter Python calls are dropped: ``"5us"``, or nanoseconds.
    devices : iterable of int, optional
        Keep device work, memory and counters of these GPUs only.
    pcie : bool
        Also record PCIe throughput, in the thread that reads GPU counters.
    stop_after : bool
        Leave the ``with`` block after the last requested step, by an exception that does not propagate
        further.
    until : str or float, optional
        End the recording when the median step is known to within this fraction, such as ``"2%"``: half the
        width of its 95 % interval. Later steps are only counted.
    heap : bool
        Trace the host's heap: which code had allocated it at its peak, see ``p.memory.heap()``.
    children : str or path-like, optional
        A folder in which child processes write traces of ``torch.profiler``, such as an inference engine's.
        Traces that appear there during the recording become tracks of it.
    name : str, optional
        Add a row of this name to the project's history, see `notebook_prof.history`, and report changes since
        the previous run of the same name. Without a name there is no row.
    keep : bool
        Keep the recording in the history, not only its totals; needs `name`.

    Raises
    ------
    OptionError
        For an unknown collector, an impossible window, or `steps` and `schedule` together.

    Examples
    --------
    >>> with profile("python") as p:
    ...     total = sum(range(10))
    >>> p.trace.metadata["source"]
    'recording'
    """

    def __init__(
        self,
        *collectors: str | Collector,
        steps: StepsLike | None = None,
        schedule: ScheduleFunction | None = None,
        on_trace_ready: Callable[[Profile], object] | None = None,
        step_by: str = "auto",
        warmup: int = 1,
        shapes: bool = True,
        memory: bool = True,
        modules: bool = True,
        stack: bool = False,
        python: PythonMode | None = None,
        min_duration: str | float = 0,
        devices: Iterable[int] | None = None,
        pcie: bool = False,
        stop_after: bool = False,
        until: str | float | None = None,
        engine: EngineName = "auto",
        heap: bool = False,
        children: str | os.PathLike[str] = "",
        name: str | None = None,
        keep: bool = False,
    ) -> None:
        if any(isinstance(one, FunctionType) for one in collectors):
            raise OptionError("a function was given in place of a collector: write @nbp.profile() above it")
        if steps is not None and schedule is not None:
            raise OptionError("steps and schedule were both given: each decides when to record; give one")
        if (keep and not name) or (name or "").isdecimal():
            raise OptionError(f"a run of the history needs a name that is not a number; {name!r} is one")
        self._run_name, self._keep = name or "", keep
        kept = None if devices is None else tuple(devices)
        recorded = CollectorOptions(
            shapes, memory, modules, stack, python, parse_ns(min_duration), kept, pcie, engine, heap,
            os.fspath(children),
        )  # fmt: skip
        self._on_trace_ready = on_trace_ready
        self._cycles: list[Profile] = []
        self._session: Session | None = None
        self._plan = Plan(
            collectors=collectors,
            schedule=schedule or (WholeRun() if steps is None else step_range(steps, warmup)),
            step_by=step_by,
            options=recorded,
            stop_after=stop_after,
            until=None if until is None else parse_share(until),
            on_cycle=None if on_trace_ready is None else lambda trace: on_trace_ready(self._add(trace)),
            title="started by nbp.profile(...)",
        )
        Session(self._plan).let_go()  # raises for invalid options here, not in start()

    @property
    def cycles(self) -> tuple[Profile, ...]:
        """One Profile per finished cycle of the schedule, oldest first. This object behaves as the last."""
        return tuple(self._cycles)

    def start(self) -> profile:
        """Start recording, warming up, or waiting, depending on the steps.

        Returns
        -------
        profile
            This object.

        Raises
        ------
        AlreadyRecordingError
            If a recording runs in this process.
        """
        __tracebackhide__ = True
        session = Session(self._plan, names=NameWatch(roots_of_process))
        try:
            with DelayedInterrupt():
                session.open()
                self._session = session
                self._cycles.clear()
                return self
        except BaseException:
            if self._session is session:  # it had already begun when the interrupt came
                self._session = None
                session.give_up()
            raise

    def step(self) -> None:
        """End a step. Overrides any other source of steps.

        Raises
        ------
        NotRecordedError
            If this object is not recording.
        """
        if self._session is None:
            raise NotRecordedError("step() was called but this profile is not recording: call start() first")
        self._session.mark_step()

    def stop(self) -> None:
        """End the recording; `trace` and everything computed from it is then available.

        A second call does nothing.

        Raises
        ------
        NotRecordedError
            If it was never started.
        """
        self._stop(None)

    def __enter__(self) -> profile:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool:
        ended = isinstance(error, EndOfWindow)
        self._stop(None if ended else error)
        return ended

    def __call__(self, function: _F) -> _F:
        """Record every call of a function. After a call, this object and ``nbp.last`` are its Profile."""
        return cast("_F", within(function, self._unless_inside))

    def __repr__(self) -> str:
        if self._session is None and self._cycles:
            return repr(self._cycles[-1])
        return f"<profile: {'recording' if self._session is not None else 'not recorded yet'}>"

    def __getattr__(self, name: str) -> Any:
        session, cycles = (self.__dict__.get(own) for own in ("_session", "_cycles"))
        if not session and cycles and not name.startswith("__"):
            return getattr(cycles[-1], name)
        if name.startswith("_"):  # a front-end or `copy` is looking for protocols
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        state = "is still recording: call stop() first" if session else _UNRECORDED
        raise NotRecordedError(f"{name} was requested from a profile that {state}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(Profile)})

    @contextmanager
    def _unless_inside(self) -> Iterator[None]:
        """Record, except in a recursive call of a function that is already recorded."""
        if self._session is not None:
            yield
            return
        with self:
            yield

    def _stop(self, error: BaseException | None) -> None:
        try:
            with DelayedInterrupt():
                made = self._close(error)
        except KeyboardInterrupt:
            if self._session is not None:  # the error was raised before anything was done
                self._close(error)
            raise
        if self._on_trace_ready is not None:
            for one in made:
                if one.trace.metadata["collectors"]:  # if there are none, no step was reached
                    self._on_trace_ready(one)

    def _close(self, error: BaseException | None) -> list[Profile]:
        """End the session. Returns the Profiles that were not passed to `on_trace_ready`."""
        session = self._session
        if session is not None and session.is_of_parent:
            return []
        self._session = None
        if session is None:
            if not self._cycles:
                raise NotRecordedError("stop() was called but nothing was started: call start() first")
            return []
        already = len(self._cycles)
        for trace in session.close(failed=error is not None, error=error)[already:]:
            self._add(trace)
        current.remember(self._cycles[-1])
        if self._run_name:
            self._remember(failed=error is not None)
        return self._cycles[already:]

    def _remember(self, failed: bool) -> None:
        from ..runs.writing import remember  # imported late: a script without a history needs no SQLite

        plan = self._plan
        steps = None if isinstance(plan.schedule, WholeRun) else plan.schedule
        options = recording_text(plan.collectors, steps, plan.step_by, plan.options)
        remember(
            self._cycles[-1],
            name=self._run_name,
            options=options,
            failed=failed,
            kept=self._keep,
            hold=current.is_recording,
        )()

    def _add(self, trace: Trace | DeferredTrace) -> Profile:
        made = Profile(trace)
        self._cycles.append(made)
        return made
