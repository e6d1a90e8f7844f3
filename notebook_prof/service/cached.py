"""A thread-safe cached property."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from ..background import at_once

T = TypeVar("T")


class locked_cached_property(Generic[T]):
    """Like ``functools.cached_property``, with a separate lock for each object and name."""

    # A second thread waits for the first. Properties must not depend on one another in a circle.
    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> locked_cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> locked_cached_property[T] | T:
        if instance is None:
            return self
        kept = instance.__dict__
        if self._name not in kept:
            with kept.setdefault(f"lock of {self._name}", threading.RLock()):
                if self._name not in kept:
                    with at_once():
                        kept[self._name] = self._make(instance)
        made: T = kept[self._name]
        return made
