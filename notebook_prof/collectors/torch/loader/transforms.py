"""Times each transform of a dataset that is in a Compose.

The objects remain the user's: only the list of a Compose is replaced. It yields the same transforms and,
while an item is being made, measures the time between two of them.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final

from .ring import Ring, clock

_DEPTH: Final = 3
_WIDTH: Final = 64
_FOREIGN: Final = ("builtins", "torch", "numpy")


active: list[Any] = [None]
"""The fetches whose item is being timed. A module's global, since attributes of classes are slow to set."""


class TimedTransforms(list[Any]):
    """Replaces the list of a Compose. Yields the same transforms; each takes the time until the next one."""

    def __init__(self, original: list[Any]) -> None:
        super().__init__(original)
        self.original = original

    def __iter__(self) -> Iterator[Any]:
        fetches = active[0]
        if fetches is None or fetches.thread != threading.get_ident():
            return list.__iter__(self.original)
        return self._timed(fetches.ring)

    def _timed(self, ring: Ring) -> Iterator[Any]:
        kind = ring.first_kind((id(self), len(self)), [_name(child) for child in self.original])
        begin = clock()
        for position, child in enumerate(list.__iter__(self.original)):
            yield child
            end = clock()
            if kind >= 0:
                ring.item(kind + position, -1, begin, end)
            begin = end

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self.original),)


def _on_both(name: str) -> Callable[..., Any]:
    def change(self: TimedTransforms, *args: Any, **kwargs: Any) -> Any:
        result = getattr(self.original, name)(*args, **kwargs)
        list.__setitem__(self, slice(None), self.original)
        return self if result is self.original else result

    return change


_CHANGES: Final = "append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__"
for _change in _CHANGES.split():
    setattr(TimedTransforms, _change, _on_both(_change))


def _name(child: Any) -> str:
    function = child.func if type(child) is functools.partial else child
    return function.__name__ if type(function) is FunctionType else type(function).__name__


def composes(item: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Yield the Compose objects in the fields of a dataset, without running its code."""
    fields = getattr(item, "__dict__", None) if depth else None
    if type(fields) is not dict:
        return
    if type(fields.get("transforms")) is list and "Compose" in type(item).__name__:
        yield item
        return
    for value in list(fields.values())[:_WIDTH]:
        for one in value[:_WIDTH] if type(value) in (list, tuple) else (value,):
            if type(one).__module__ not in _FOREIGN:
                yield from composes(one, depth - 1)


def time_transforms(dataset: Any) -> list[Callable[[], Any]]:
    """Time the transforms of a dataset. Returns callables that return the objects for `untime`."""
    objects: list[Callable[[], Any]] = []
    for item in composes(dataset):
        item.__dict__["transforms"] = TimedTransforms(item.__dict__["transforms"])
        try:
            objects.append(weakref.ref(item))
        except TypeError:  # its class does not support weak references
            objects.append(lambda kept=item: kept)  # type: ignore[misc]
    return objects


def untime(item: Any) -> None:
    """Restore an object. None stands for one that was garbage-collected."""
    timed = item.__dict__.get("transforms") if item is not None else None
    if type(timed) is TimedTransforms:
        item.__dict__["transforms"] = timed.original
