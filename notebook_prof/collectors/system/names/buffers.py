"""The buffers found by a walk: each once, with the first name that leads to it and any other names."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pandas as pd

# First, functions that read the contents of types and instances without running their code.

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
"""Types whose instances refer to nothing of interest, as ids, since a metaclass may define ``__hash__``."""


def derives(cls: type, base: type | None) -> bool:
    # ``in`` on the MRO would call the metaclass's ``==``
    return base is not None and type.__subclasscheck__(base, cls)


def type_module(cls: type) -> str:
    """Return the name of a type's module; empty if that is not text."""
    try:
        module = _type_module(cls)
    except AttributeError:
        return ""
    return module if type(module) is str else ""


@dataclass(frozen=True, slots=True)
class AttributeGetters:
    """Getters of the attributes of a type's instances."""

    instance_dict: Callable[[object], Any] | None  # returns the dict of an instance
    slots: tuple[tuple[str, Callable[[object], Any]], ...]  # name and getter of each slot

    def __bool__(self) -> bool:
        return self.instance_dict is not None or bool(self.slots)

    def values(self, obj: object) -> Iterator[tuple[str, Any]]:
        """Yield the names and values of an instance's attributes, without those of its class."""
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


def fields_of(cls: type, *plain: type | None) -> AttributeGetters:
    """Return the interpreter's getters of ``__dict__`` and slots, even if hidden; none for `plain` types."""
    if any(cls is one for one in plain):
        return AttributeGetters(None, ())
    instance_dict: Callable[[object], Any] | None = None
    slots: list[tuple[str, Callable[[object], Any]]] = []
    for base in mro(cls):
        names = type_dict(base)
        for name, value in names.items():
            if type(value) is SLOT and "__slots__" in names:
                slots.append((name, value.__get__))
            elif name == "__dict__" and type(value) in _OF_DICT and instance_dict is None:
                instance_dict = value.__get__
    return AttributeGetters(instance_dict, tuple(slots))


def is_leaf(obj: object) -> bool:
    """Return whether an object refers to nothing of interest."""
    return id(type(obj)) in LEAVES


def referents(obj: object) -> list[Any]:
    """Return the objects to which an object refers for the garbage collector, without leaves and classes."""
    return [one for one in gc.get_referents(obj) if not is_leaf(one) and not derives(type(one), type)]


def own_values(obj: object) -> list[Any]:
    """Return the objects to which an object refers, with the values of its dict instead of the dict."""
    # ``__dict__`` is not read as an attribute, since a class may hide it. From Python 3.11 on, most objects
    # store their values without a dict.
    inside = referents(obj)
    if not _dict_offset(type(obj)):
        return inside
    values = [value for one in inside if type(one) is dict for value in one.values() if not is_leaf(value)]
    return [one for one in inside if type(one) is not dict] + values


HOST: Final = -1
LEAST_OBJECTS_BYTES: Final = 65_536
"""Names with fewer bytes of Python objects are not listed."""
MOST_OTHER_NAMES: Final = 4
NEW, EARLIER, NOT_COMPARED = 0, 1, -1

BUFFER_COLUMNS: Final = ("address", "bytes", "device", "name", "kind", "type", "kept_by")


class Buffer(NamedTuple):
    """Memory to which a name leads."""

    address: int  # 0 for Python objects, whose sizes are summed by name
    bytes: int
    device: int  # -1 for the host
    name: str
    kind: str
    type: str
    others: list[str]  # other names that lead to it


class BufferLog:
    """Collects buffers by address, and the sizes of Python objects by name."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, int], Buffer] = {}
        self._objects: dict[str, list[int]] = {}
        self._of_object: dict[int, tuple[int, int]] = {}
        self.looking_at = 0
        """Number of the object that is being visited."""

    def add(
        self,
        address: int,
        size: int,
        name: str,
        kind: str,
        *,
        device: int = HOST,
        text: str = "",  # its type, such as ``float32[32, 64]``
    ) -> None:
        """Add a buffer or, if it is listed already, another name of it."""
        if not address or not size:
            return
        self._of_object[self.looking_at] = device, address
        listed = self._buffers.get((device, address))
        if listed is None:
            self._buffers[device, address] = Buffer(address, size, device, name, kind, text, [])
            return
        if size > listed.bytes:
            self._buffers[device, address] = listed._replace(bytes=size)
        add_name(listed, name)

    def again(self, number: int, name: str) -> None:
        """Add another name of an object that was visited before."""
        if (key := self._of_object.get(number)) is not None:
            add_name(self._buffers[key], name)

    def objects(self, name: str, size: int) -> None:
        """Add bytes of Python objects to which a name leads."""
        total = self._objects.setdefault(name, [0, 0])
        total[0] += size
        total[1] += 1

    def table(self) -> pd.DataFrame:
        """Return one row per buffer, with `BUFFER_COLUMNS`, sorted by device and address."""
        # nested buffers become part of the outer one
        rows: list[Buffer] = sorted(_without_inner(self._buffers.values()))
        rows += [
            Buffer(0, size, HOST, name, "objects", _counted(count), [])
            for name, (size, count) in sorted(self._objects.items())
            if size >= LEAST_OBJECTS_BYTES
        ]
        table = pd.DataFrame(rows, columns=list(BUFFER_COLUMNS))
        table["kept_by"] = [", ".join(one.others) for one in rows]
        numbers = dict.fromkeys(("address", "bytes", "device"), "int64")
        return table.astype(numbers | dict.fromkeys(("name", "kind", "type", "kept_by"), "str"))


def add_name(buffer: Buffer, name: str) -> None:
    if name != buffer.name and len(buffer.others) < MOST_OTHER_NAMES and name not in buffer.others:
        buffer.others.append(name)


def _counted(count: int) -> str:
    return "Python object" if count == 1 else f"{count:,} Python objects"


def _without_inner(buffers: Iterable[Buffer]) -> list[Buffer]:
    """Drop buffers inside other buffers, which get their names."""
    kept: list[Buffer] = []
    end, device = 0, None
    for one in sorted(buffers, key=lambda one: (one.device, one.address, -one.bytes)):
        if one.device == device and one.address + one.bytes <= end:
            for name in (one.name, *one.others):
                add_name(kept[-1], name)
        else:
            kept.append(one)
            end, device = one.address + one.bytes, one.device
    return kept
