"""What is made when it is first needed, once, whichever thread needs it first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class locked_cached_property(Generic[T]):
    """A property that is made once an object and kept, as ``functools.cached_property``, but under a lock.

    A second thread that needs it waits for the first; others, of other objects or names, do not. What needs
    one another must not do so in a circle.

    Examples
    --------
    >>> class Book:
    ...     @locked_cached_property
    ...     def index(self):
    ...         print("made")
    ...         return 7
    >>> book = Book()
    >>> book.index, book.index
    made
    (7, 7)
    """

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
                    kept[self._name] = self._make(instance)
        made: T = kept[self._name]
        return made


def is_cached(instance: object, *names: str) -> bool:
    """Return whether all these properties are there."""
    return all(name in instance.__dict__ for name in names)
