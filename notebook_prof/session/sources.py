"""The sources of steps: the values of ``step_by``, their hooks, and the loop of an optimizer's steps."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from importlib import import_module
from typing import Any, Final

from ..collectors import marks
from ..collectors.patches import Patches
from ..errors import OptionError, nearest
from ..trace.report import ImportReport
from .records import Run
from .window import StepWindow, TickSource

CodeLocation = Callable[[], tuple[int, str, int]]
"""Returns line, source and start (Unix ns) of the cell's statement that runs in the calling thread; -1, an
empty string and 0 if unknown."""


class OptimizerLoops:
    """Distinguishes the steps of one loop from those of the next, by optimizers and the cell's statements."""

    # The first optimizer of a loop leads: its steps are the loop's steps. Others that step between two of its
    # steps (as in a GAN) belong to the loop and do not count. An optimizer that steps twice in a row leads a
    # new loop, which begins with the first of these steps. So does any optimizer that steps in another
    # statement of the cell, or after the leader was deleted. `first_forward_ns`, set from outside, is the
    # start of the first training forward since the last step, or 0 if unknown.
    def __init__(
        self,
        tick: Callable[[Run, int | None], None],
        location: CodeLocation,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._tick, self._location, self._now = tick, location, now
        self._leader: Callable[[], Any] = lambda: None
        self._line = -1
        self._run: Run | None = None
        self._steps_of_run = 0
        self._members: set[Hashable] = set()
        self._once: dict[Hashable, int] = {}
        self._numbers: dict[int, tuple[Callable[[], Any], int]] = {}
        self._serial = itertools.count()
        self._last_ns = 0
        self.first_forward_ns = 0

    def stepped(self, optimizer: Any) -> None:
        """Handle a step of an optimizer."""
        __tracebackhide__ = True
        line, text, since_ns = self._location()
        me = self._number(optimizer)
        leader = self._leader()
        if self._run is None or leader is None or line != self._line:
            self._become_leader(optimizer, me, line, text, since_ns)
            self._end_step(self._run)
        elif optimizer is leader:
            self._members.update(self._once)
            self._once.clear()
            self._end_step(self._run)
        elif me in self._once:
            first_ns = self._once.pop(me)
            if self._steps_of_run > 1:
                self._become_leader(optimizer, me, line, text, since_ns)
            else:  # not a loop yet, since the leader has stepped only once
                self._members.add(self._number(leader))
                self._leader = _reference(optimizer)
            self._end_step(self._run, first_ns)
            self._end_step(self._run)
        elif me not in self._members:
            self._once[me] = self._now()

    def end(self) -> None:
        """Stop reporting steps."""
        self._tick = lambda run, at_ns: None

    def _become_leader(self, optimizer: Any, me: int, line: int, text: str, since_ns: int) -> None:
        begin_ns = max(self._last_ns, since_ns)
        if self.first_forward_ns > begin_ns:
            begin_ns = self.first_forward_ns
        self._leader, self._line = _reference(optimizer), line
        self._run = Run((line, me), line, text, begin_ns)
        self._steps_of_run = 0
        self._members.clear()
        self._once.clear()

    def _end_step(self, run: Run | None, at_ns: int | None = None) -> None:
        __tracebackhide__ = True
        assert run is not None
        self._steps_of_run += 1
        self._last_ns = self._now() if at_ns is None else at_ns
        self.first_forward_ns = 0
        self._tick(run, at_ns)

    def _number(self, optimizer: Any) -> int:
        """Return a number that is unique to this object, even if ids are reused."""
        entry = self._numbers.get(id(optimizer))
        if entry is None or entry[0]() is not optimizer:
            entry = self._numbers[id(optimizer)] = _reference(optimizer), next(self._serial)
        return entry[1]


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:  # as for a Keras callback without a model
        return lambda: thing


Remove = Callable[[], None]

_STEPS: Final = (
    ("keras.callbacks", "CallbackList", "on_train_batch_end", "_model"),
    ("fastai.optimizer", "Optimizer", "step", ""),
)
"""Module, class and method whose return ends a step, and the attribute with the trained object."""


def trainer_ticks(callback: Callable[[Any], None]) -> Remove:
    """Call `callback` with the trained object after each step of imported trainers."""
    patches = Patches()
    for module, name, method, who in _STEPS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and callable(vars(kind).get(method)):
            patches.replace(kind, method, functools.partial(_call_after, who=who, callback=callback))
    return patches.restore


def _call_after(original: Callable[..., Any], who: str, callback: Callable[[Any], None]) -> Any:
    @functools.wraps(original)
    def ticking(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = original(self, *args, **kwargs)
        callback(getattr(self, who, self) if who else self)
        return result

    return ticking


_ALLOWED: Final = {
    "auto": frozenset(TickSource),
    "loop": frozenset({TickSource.LOOP, TickSource.WEAK_LOOP}),
    "optimizer": frozenset({TickSource.HOOK}),
    "dataloader": frozenset({TickSource.HOOK}),
    "mark": frozenset({TickSource.MARK}),
}
STEP_BY: Final = tuple(_ALLOWED)
_HOOKS: Final = {"auto": "optimizer_ticks", "optimizer": "optimizer_ticks", "dataloader": "dataloader_ticks"}


def allowed(step_by: str) -> frozenset[TickSource]:
    """Return the sources that count for a ``step_by``. Raises OptionError for an unknown value."""
    if step_by not in _ALLOWED:
        raise OptionError(f"step_by={step_by!r} is not a way to count steps: {nearest(step_by, STEP_BY)}")
    return _ALLOWED[step_by]


class StepSources:
    """Connects marks and torch's hooks to a window, and disconnects them again."""

    # `after` is called after each tick of a mark or a hook, and may raise to leave the user's code. `report`
    # gets an issue if a hook cannot be installed.
    def __init__(
        self,
        window: StepWindow,
        step_by: str,
        report: ImportReport,
        after: Callable[[], None],
        location: CodeLocation = lambda: (-1, "", 0),
    ) -> None:
        self._window, self._step_by, self._report, self._after = window, step_by, report, after
        self._location = location
        self._loops = OptimizerLoops(self._optimizer_tick, location)
        self._runs: dict[TickSource, Run] = {}
        self._undo: list[Callable[[], object]] = []
        self._undo_hooks: list[Callable[[], object]] = []
        self._torch_hook = ""
        self._thread: int | None = None
        self.thread: threading.Thread | None = None

    def connect(self, *, hooks: bool) -> None:
        """Connect the marks and, if `hooks` is set, the hooks for `step_by`."""
        marks.install(self)
        self._undo.append(marks.uninstall)
        name = _HOOKS.get(self._step_by)
        if not hooks or name is None:
            return
        if name == "optimizer_ticks":
            self._undo_hooks.append(trainer_ticks(self._optimizer))
        self._torch_hook = name
        if "torch" in sys.modules:
            self.connect_torch()

    def connect_torch(self) -> None:
        """Connect torch's hooks, unless a better source counts already."""
        name, self._torch_hook = self._torch_hook, ""
        if not name:
            return
        try:
            ticks = getattr(import_module("notebook_prof.collectors.torch.hooks"), name)
            self._undo_hooks.append(ticks(self._optimizer if name == "optimizer_ticks" else self._batch))
        except Exception as error:
            effect, advice = "steps are not counted by torch", "count them yourself with nbp.step()"
            self._report.failed("step-hook-failed", "loss", error, effect, advice)

    def drop_hook(self) -> None:
        """Remove the library hooks, because a better source counts now, and a hook costs 4 µs per step."""
        self._torch_hook = ""
        while self._undo_hooks:
            self._undo_hooks.pop()()

    def disconnect(self) -> None:
        """Remove everything, and release the callbacks, since they refer to this object."""
        self.drop_hook()
        while self._undo:
            self._undo.pop()()
        self._loops.end()
        self._after = lambda: None

    def tick(self) -> None:
        """End a step at an explicit mark. Called by `collectors.marks`."""
        __tracebackhide__ = True
        self._statement_tick(TickSource.MARK)

    def announce(self) -> None:
        """Stop weaker sources from counting, since marks will follow. Called by `collectors.marks`."""
        if TickSource.MARK in allowed(self._step_by):
            self._window.announce(TickSource.MARK)

    def _statement_tick(self, source: TickSource) -> None:
        """End a step of a loop of which only the cell's running statement is known."""
        __tracebackhide__ = True
        line, text, since_ns = self._location()
        run = self._runs.get(source)
        if run is None or line != run.line:
            begin_ns = max(since_ns, 0 if run is None else run.end_ns)
            run = self._runs[source] = Run((line, source), line, text, begin_ns)
        self._window.tick(source, run=run)
        self._after()

    def _optimizer_tick(self, run: Run, at_ns: int | None) -> None:
        __tracebackhide__ = True
        self._window.tick(TickSource.HOOK, run=run, at_ns=at_ns)
        self._after()

    def _optimizer(self, optimizer: object) -> None:
        __tracebackhide__ = True
        if self._is_mine():
            hooks = sys.modules.get("notebook_prof.collectors.torch.hooks")
            forward = getattr(hooks, "first_forward", None)
            if forward is not None:
                self._loops.first_forward_ns, forward.ns = forward.ns, 0
            self._loops.stepped(optimizer)

    def _batch(self) -> None:
        __tracebackhide__ = True
        if self._is_mine():
            self._statement_tick(TickSource.HOOK)

    def _is_mine(self) -> bool:
        """Return whether this thread was the first to step. Steps in other threads belong to other loops."""
        me = threading.get_ident()
        if self._thread is None:
            self._thread, self.thread = me, threading.current_thread()
        return me == self._thread
