"""Finds the ends of steps in libraries that train without torch's optimizers: Keras 3 and fastai."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

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
