"""Replaces functions of other libraries while a recording runs. Imports only the standard library."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any


def drop_frame(error: BaseException) -> None:
    """Remove the caller's frame from an error's traceback. A following ``raise`` does not add it again."""
    # Python 3.10 still shows the frame, since it keeps a copy of the traceback.
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


class Patches:
    """The functions of classes and modules that were replaced."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace ``owner.name`` by what `make` returns for it."""
        original = vars(owner)[name]
        new = make(original)
        new.__name__, new.__qualname__, new.__doc__ = name, original.__qualname__, original.__doc__
        setattr(owner, name, new)
        self._undo.append((owner, name, original, new))

    def watch(self, owner: Any, name: str, begin: Callable[..., Any], end: Callable[..., Any]) -> None:
        """Call `begin` before ``owner.name`` with its arguments, and `end` after it."""
        # `end` gets the object, what `begin` returned, the result, and whether the call failed. Another
        # version of torch may keep its state differently, so errors of both are dropped.

        def make(original: Any) -> Any:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                state = result = None
                failed = True
                with suppress(Exception):
                    state = begin(self, *args, **kwargs)
                try:
                    result = original(self, *args, **kwargs)
                    failed = False
                except BaseException as error:
                    drop_frame(error)
                    raise
                finally:
                    with suppress(Exception):
                        end(self, state, result, failed)
                return result

            return call

        self.replace(owner, name, make)

    def restore(self) -> None:
        """Restore all functions that nobody else has replaced since. A second call does nothing."""
        while self._undo:
            owner, name, original, new = self._undo.pop()
            if vars(owner).get(name) is new:
                setattr(owner, name, original)
