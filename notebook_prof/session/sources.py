"""The sources of steps: the values of ``step_by``, and their hooks, also in Keras 3 and fastai."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ..collectors import marks
from ..errors import OptionError, nearest
from ..trace.report import ImportReport
from .optimizer_loops import CodeLocation, OptimizerLoops
from .records import Run
from .window import Source, StepWindow

Remove = Callable[[], None]

_STEPS: Final = (
    ("keras.callbacks", "CallbackList", "on_train_batch_end", "_model"),
    ("fastai.optimizer", "Optimizer", "step", ""),
)
"""Module, class and method whose return ends a step, and the attribute with the trained object."""


def trainer_ticks(callback: Callable[[Any], None]) -> Remove:
    """Call `callback` with the trained object after each step of imported trainers."""
    undo = [_call_after(kind, method, who, callback) for kind, method, who in _classes()]

    def remove() -> None:
        while undo:
            undo.pop()()

    return remove


def _classes() -> list[tuple[type, str, str]]:
    classes = []
    for module, name, method, who in _STEPS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and callable(vars(kind).get(method)):
            classes.append((kind, method, who))
    return classes


def _call_after(kind: type, method: str, who: str, callback: Callable[[Any], None]) -> Remove:
    original = vars(kind)[method]

    @functools.wraps(original)
    def ticking(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = original(self, *args, **kwargs)
        callback(getattr(self, who, self) if who else self)
        return result

    setattr(kind, method, ticking)

    def remove() -> None:
        if vars(kind).get(method) is ticking:
            setattr(kind, method, original)

    return remove


STEP_BY: Final = ("auto", "loop", "optimizer", "dataloader", "mark")

_ALLOWED: Final = {
    "auto": frozenset(Source),
    "loop": frozenset({Source.LOOP, Source.WEAK_LOOP}),
    "optimizer": frozenset({Source.HOOK}),
    "dataloader": frozenset({Source.HOOK}),
    "mark": frozenset({Source.MARK}),
}
_HOOKS: Final = {"auto": "optimizer_ticks", "optimizer": "optimizer_ticks", "dataloader": "dataloader_ticks"}

_MODULES: Final = "notebook_prof.collectors.torch.modules"


def allowed(step_by: str) -> frozenset[Source]:
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
        self._runs: dict[Source, Run] = {}
        self._undo: list[Callable[[], object]] = []
        self._undo_hooks: list[Callable[[], object]] = []
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
        if "torch" not in sys.modules:
            return
        try:
            ticks = getattr(import_module("notebook_prof.collectors.torch.hooks"), name)
            self._undo_hooks.append(ticks(self._optimizer if name == "optimizer_ticks" else self._batch))
        except Exception as error:
            self._report.add(
                "step-hook-failed",
                "loss",
                example=f"{name}: {type(error).__name__}: {error}",
                effect="steps are not counted by torch",
                advice="count them yourself with nbp.step()",
            )

    def drop_hook(self) -> None:
        """Remove the library hooks, because a better source counts now, and a hook costs 4 µs per step."""
        while self._undo_hooks:
            self._undo_hooks.pop()()

    def disconnect(self) -> None:
        """Remove everything, and release the callbacks, since they refer to this object."""
        self.drop_hook()
        while self._undo:
            self._undo.pop()()
        self._loops.end()
        self._after = _nothing

    def tick(self, source: str = "mark") -> None:
        """End a step at an explicit mark. Called by `collectors.marks`."""
        __tracebackhide__ = True
        self._statement_tick(Source.MARK)

    def announce(self) -> None:
        """Stop weaker sources from counting, since marks will follow. Called by `collectors.marks`."""
        if Source.MARK in allowed(self._step_by):
            self._window.announce(Source.MARK)

    def _statement_tick(self, source: Source) -> None:
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
        self._window.tick(Source.HOOK, run=run, at_ns=at_ns)
        self._after()

    def _optimizer(self, optimizer: object) -> None:
        __tracebackhide__ = True
        if self._is_mine():
            forward = getattr(sys.modules.get(_MODULES), "first_forward", None)
            if forward is not None:
                self._loops.first_forward_ns, forward.ns = forward.ns, 0
            self._loops.stepped(optimizer)

    def _batch(self) -> None:
        __tracebackhide__ = True
        if self._is_mine():
            self._statement_tick(Source.HOOK)

    def _is_mine(self) -> bool:
        """Return whether this thread was the first to step. Steps in other threads belong to other loops."""
        me = threading.get_ident()
        if self._thread is None:
            self._thread, self.thread = me, threading.current_thread()
        return me == self._thread


def _nothing() -> None:
    """A callback that does nothing."""
