"""Gives way when the user's code starts JAX's profiler, which would otherwise raise in that code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

_START: Final = "start_trace"


class ConflictWatch:
    """Calls `make_room` before ``jax.profiler.start_trace``, which ``jax.profiler.trace`` calls too."""

    # JAX has room for one profiler and raises for a second one. So its public function is wrapped between
    # `watch` and `unwatch`, in the module that defines it and in the one that exports it. A name imported
    # earlier (``from jax.profiler import start_trace``) is not wrapped.
    def __init__(self, jax: Any, make_room: Callable[[], None]) -> None:
        self._make_room = make_room
        original = getattr(jax.profiler, _START, None)
        home = sys.modules.get(getattr(original, "__module__", ""), jax.profiler)
        self._modules: list[Any] = [] if original is None else [jax.profiler, home]
        self._original: Any = original
        self._wrapper: Any = None

    def watch(self) -> None:
        """Start watching."""
        original, make_room = self._original, self._make_room

        def start_trace(*args: Any, **kwargs: Any) -> Any:
            make_room()
            return original(*args, **kwargs)

        self._wrapper = start_trace
        for module in self._modules:
            setattr(module, _START, start_trace)

    def unwatch(self) -> None:
        """Restore the original."""
        for module in self._modules:
            if getattr(module, _START, None) is self._wrapper:
                setattr(module, _START, self._original)
