"""Reads what types and instances hold without running their code.

``isinstance`` reads ``__class__``, which may be a property; ``getattr``, ``len``, ``iter``, ``==``, ``hash``
and ``repr`` may all be user code; for a type, its metaclass's. These functions use getters of the
interpreter.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

mro: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
type_dict: Final[Callable[[type], Any]] = type.__dict__["__dict__"].__get__
type_name: Final[Callable[[type], str]] = type.__dict__["__name__"].__get__
_dict_offset: Final[Callable[[type], int]] = type.__dict__["__dictoffset__"].__get__
_type_module: Final[Callable[[type], Any]] = type.__dict__["__module__"].__get__

SLOT: Final = types.MemberDescriptorType
_OF_DICT: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)
_LEAVES: Final = (
    *(int, float, complex, bool, str, range, slice, type, property, object),
    *(type(None), type(Ellipsis), type(NotImplemented)),
    *(types.BuiltinFunctionType, types.CodeType, types.ModuleType, types.FrameType, types.TracebackType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType),
    *(weakref.ReferenceType, weakref.ProxyType, weakref.CallableProxyType),
)
LEAVES: Final = frozenset(map(id, _LEAVES))
"""Types whose instances hold nothing to follow. Stored as ids, since a metaclass may define ``__hash__``."""


def derives(cls: type, base: type | None) -> bool:
    """Return whether a type is `base` or derived from it. ``in`` would call the metaclass's ``==``."""
    return base is not None and type.__subclasscheck__(base, cls)


def type_module(cls: type) -> str:
    """Return the name of a type's module; empty if that is not text."""
    try:
        module = _type_module(cls)
    except AttributeError:
        return ""
    return module if type(module) is str else ""


@dataclass(frozen=True, slots=True)
class Fields:
    """How to read the attributes of a type's instances."""

    instance_dict: Callable[[object], Any] | None  # returns the dict of an instance
    slots: tuple[tuple[str, Callable[[object], Any]], ...]  # name and getter of each slot

    def __bool__(self) -> bool:
        return self.instance_dict is not None or bool(self.slots)

    def values(self, obj: object) -> Iterator[tuple[str, Any]]:
        """Yield the names and values of an instance's own attributes."""
        if self.instance_dict is not None:
            attributes = self.instance_dict(obj)
            if derives(type(attributes), dict):
                yield from [item for item in dict.items(attributes) if type(item[0]) is str]
        for name, get in self.slots:
            try:
                value = get(obj)
            except AttributeError:  # never set
                continue
            yield name, value


def fields_of(cls: type) -> Fields:
    """Return getters of ``__dict__`` and slots by the interpreter, even if the class hides them."""
    instance_dict: Callable[[object], Any] | None = None
    slots: list[tuple[str, Callable[[object], Any]]] = []
    for base in mro(cls):
        names = type_dict(base)
        for name, value in names.items():
            if type(value) is SLOT and "__slots__" in names:
                slots.append((name, value.__get__))
            elif name == "__dict__" and type(value) in _OF_DICT and instance_dict is None:
                instance_dict = value.__get__
    return Fields(instance_dict, tuple(slots))


def is_leaf(obj: object) -> bool:
    """Return whether an object holds nothing to follow."""
    return id(type(obj)) in LEAVES


def referents(obj: object) -> list[Any]:
    """Return the objects held by an object, as the garbage collector sees them, without leaves and
    classes."""
    return [one for one in gc.get_referents(obj) if not is_leaf(one) and not derives(type(one), type)]


def own_values(obj: object) -> list[Any]:
    """Return the objects held by an object, with the values of its ``__dict__`` in place of the dict."""
    # The attribute is not read, since a class may hide it. From Python 3.11 on most objects hold their values
    # without a dict.
    inside = referents(obj)
    if not _dict_offset(type(obj)):
        return inside
    values = [value for one in inside if type(one) is dict for value in one.values() if not is_leaf(value)]
    return [one for one in inside if type(one) is not dict] + values
