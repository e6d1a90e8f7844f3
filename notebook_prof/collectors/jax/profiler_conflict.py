"""Make room when the user's code starts JAX's profiler, which would raise in it otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

_START: Final = "start_trace"


class ConflictWatch:
    """Calls back before ``jax.profiler.start_trace``, which ``jax.profiler.trace`` calls too.

    JAX has room for one profiler and raises for a second one. So its public function is wrapped, where it is
    defined and where it is exported, between `watch` and `unwatch`. A name that was imported from there
    beforehand (``from jax.profiler import start_trace``) is not reached.

    Parameters
    ----------
    jax : module
    make_room : callable
        Called before the user's profiler starts.
    """

    def __init__(self, jax: Any, make_room: Callable[[], None]) -> None:
        self._make_room = make_room
        original = getattr(jax.profiler, _START, None)
        home = sys.modules.get(getattr(original, "__module__", ""), jax.profiler)
        self._modules: list[Any] = [] if original is None else [jax.profiler, home]
        self._original: Any = original
        self._wrapper: Any = None

    def watch(self) -> None:
        """Begin to listen."""
        original, make_room = self._original, self._make_room

        def start_trace(*args: Any, **kwargs: Any) -> Any:
            make_room()
            return original(*args, **kwargs)

        self._wrapper = start_trace
        for module in self._modules:
            setattr(module, _START, start_trace)

    def unwatch(self) -> None:
        """Put the original back."""
        for module in self._modules:
            if getattr(module, _START, None) is self._wrapper:
                setattr(module, _START, self._original)
