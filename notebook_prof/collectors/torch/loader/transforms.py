"""Times each transform of a dataset: the children of a Compose, and the modules of a ``Sequential``.

Imports only the standard library. The objects remain the user's: only the container of their children is
replaced. It yields the same children and, while an item is being made, measures the time between two of them.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final

from .ring import Ring, clock

_DEPTH: Final = 3
_WIDTH: Final = 64
_CHILDREN: Final = ("transforms", "_modules")
"""The attributes that contain the transforms of a Compose and the modules of a Sequential."""
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

    def restore(self, compose: Any) -> None:
        """Return its list to a Compose."""
        compose.__dict__["transforms"] = self.original

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


class _TimedValues:
    """The values of a dict of modules, timed if a caller iterates over all of them."""

    __slots__ = ("_modules", "_ring")

    def __init__(self, modules: dict[str, Any], ring: Ring) -> None:
        self._modules, self._ring = modules, ring

    def __len__(self) -> int:
        return len(self._modules)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(dict.values(self._modules))

    def __iter__(self) -> Iterator[Any]:
        modules, ring = list(dict.values(self._modules)), self._ring
        bounds = [clock()]
        for module in modules:
            yield module
            bounds.append(clock())
        # not reached if the caller takes only one module
        kind = ring.first_kind((id(self._modules), len(modules)), [_name(module) for module in modules])
        if kind >= 0:
            for position in range(len(modules)):
                ring.item(kind + position, -1, bounds[position], bounds[position + 1])


class TimedModules(dict[str, Any]):
    """Replaces the dict of a ``Sequential``. Yields the same modules; each takes the time until the next."""

    def __init__(self, original: dict[str, Any]) -> None:
        super().__init__(original)
        self.original = original

    def values(self) -> Any:
        """Return the modules. They are timed while an item is being made, if all of them are called."""
        fetches = active[0]
        if fetches is None or fetches.thread != threading.get_ident():
            return dict.values(self)
        return _TimedValues(self, fetches.ring)

    def restore(self, sequential: Any) -> None:
        """Return its dict to a Sequential, with any changes made meanwhile."""
        self.original.clear()
        self.original.update(dict.items(self))
        sequential.__dict__["_modules"] = self.original

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(dict.items(self)),)


def is_sequential(item: Any) -> bool:
    """Return whether an object calls its modules in turn, by torch's ``Sequential.forward``."""
    sequential = getattr(sys.modules.get("torch.nn"), "Sequential", None)
    kind = type(item)
    if sequential is None or sequential not in kind.__mro__:
        return False
    return kind.forward is sequential.forward and kind.__iter__ is sequential.__iter__


def _name(child: Any) -> str:
    function = child.func if type(child) is functools.partial else child
    return function.__name__ if type(function) is FunctionType else type(function).__name__


def composes(item: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Yield the Sequentials and Compose objects in the fields of a dataset, without running its code."""
    fields = getattr(item, "__dict__", None) if depth else None
    if type(fields) is not dict:
        return
    if type(fields.get("_modules")) is dict and is_sequential(item):
        yield item
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
        fields = item.__dict__
        if type(fields.get("transforms")) is list:
            fields["transforms"] = TimedTransforms(fields["transforms"])
        else:
            fields["_modules"] = TimedModules(fields["_modules"])
        try:
            objects.append(weakref.ref(item))
        except TypeError:  # its class does not support weak references
            objects.append(lambda kept=item: kept)  # type: ignore[misc]
    return objects


def untime(item: Any) -> None:
    """Restore an object. None stands for one that was garbage-collected."""
    for attribute in _CHILDREN if item is not None else ():
        timed = item.__dict__.get(attribute)
        if type(timed) in (TimedTransforms, TimedModules):
            timed.restore(item)
