"""A bounded breadth-first walk from names to buffers."""

from __future__ import annotations

import gc
import itertools
import time
import types
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import length_hint
from typing import Any, Final

from .buffers import (
    LEAST_OBJECTS_BYTES,
    LEAVES,
    AttributeGetters,
    BufferLog,
    derives,
    fields_of,
    is_leaf,
    own_values,
    referents,
    type_module,
    type_name,
)

Plan = Callable[[Any, str, str], None]
"""A function that visits an object, given its name and kind."""

BUDGET_NS: Final = 50_000_000
"""Limit on the thread's CPU time per walk."""
LARGE: Final = 4096
"""Larger containers are visited in parts."""
PART: Final = 512
SAMPLE: Final = 256
LONGEST_NAME: Final = 120
_SEQUENCES: Final = (list, tuple, set, frozenset, deque)
_HOLDERS: Final = (types.MethodType, partial, types.GeneratorType, types.CellType)
_FOREIGN: Final = ("IPython", "ipykernel", "notebook_prof", "zmq", "tornado", "traitlets", "comm")
"""Packages whose objects are not the user's data."""


class _Rest:
    """The unvisited elements of a large container."""

    __slots__ = ("elements", "pairs")

    def __init__(self, elements: Iterable[Any], pairs: bool) -> None:
        self.elements: Iterator[Any] = iter(elements)
        self.pairs = pairs


class Walk:
    """Follows names to buffers, within `budget_ns` of this thread's CPU time."""

    # No user code runs: the walk dispatches on ``type(obj)``, reads built-in containers with the methods of
    # the built-in types, instances with the interpreter's getters, and everything else as seen by the garbage
    # collector. Visited objects are kept alive until the walk is dropped, so no id occurs twice. `label_of`
    # has the names of objects that are dict keys, by id.
    def __init__(self, budget_ns: int) -> None:
        self.log = BufferLog()
        self.label_of: dict[int, str] = {}
        self.objects = self.spent_ns = 0
        self._budget_ns = budget_ns
        self._begun_ns = 0
        self._libraries: list[Callable[[type], Plan | None]] = []
        self._queue: deque[tuple[Any, str, str]] = deque()
        self._rests: dict[int, _Rest] = {}
        self._visited: dict[int, Any] = {}
        self._plans: dict[int, tuple[type, Plan]] = {}

    def use(self, plan: Callable[[type], Plan | None]) -> None:
        """Add the types of a library; `plan` returns None for others."""
        self._libraries.append(plan)

    def add(self, obj: Any, name: str, kind: str = "") -> None:
        if not is_leaf(obj):
            self._queue.append((obj, name, kind))
        elif type(obj) is str:
            self._text(obj, name)

    def forget(self) -> None:
        """Release all objects now."""
        # otherwise only a garbage collection would, since the libraries refer to the walk
        self._queue.clear()
        self._plans.clear()
        self._libraries.clear()
        self._rests.clear()
        self._visited.clear()

    @property
    def over(self) -> bool:
        return self._now_ns() >= self._budget_ns

    @property
    def waiting(self) -> int:
        """Number of objects not yet visited."""
        inside = sum(length_hint(large.elements) - 1 for large in self._rests.values())
        return len(self._queue) + inside

    @property
    def waiting_names(self) -> list[str]:
        """Names of some objects not yet visited."""
        return list(dict.fromkeys(name for _, name, _ in itertools.islice(self._queue, SAMPLE)))

    def run(self, until_ns: int | None = None) -> None:
        """Visit all queued objects until `until_ns` or the end of the budget; never raises an Exception."""
        limit_ns = self._budget_ns if until_ns is None else min(until_ns, self._budget_ns)
        queue, visited, plans, log = self._queue, self._visited, self._plans, self.log
        turns = 0
        with self.timed():
            while queue:
                turns += 1
                if not turns & 31 and self._now_ns() >= limit_ns:
                    return
                obj, name, kind = queue.popleft()
                number, cls = id(obj), type(obj)
                if number in visited:
                    log.again(number, name)
                    continue
                if id(cls) in LEAVES:
                    continue
                visited[number] = obj
                self.objects += 1
                log.looking_at = number
                cached = plans.get(id(cls))
                if cached is None:
                    cached = plans[id(cls)] = cls, self._plan(cls)
                try:
                    cached[1](obj, name, kind)
                except Exception:  # the object was changed meanwhile, or a library raised an error
                    continue

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of a block towards the budget, with garbage collection off."""
        collects = gc.isenabled()
        gc.disable()  # a collection would take unbounded time and run finalizers
        self._begun_ns = time.thread_time_ns()
        try:
            yield
        finally:
            if collects:
                gc.enable()
            self.spent_ns, self._begun_ns = self._now_ns(), 0

    def _now_ns(self) -> int:
        """Return the time spent so far."""
        return self.spent_ns + (time.thread_time_ns() - self._begun_ns if self._begun_ns else 0)

    def _plan(self, cls: type) -> Plan:
        try:
            return self._plan_of(cls)
        except Exception:  # no rule covers this type
            return partial(self.inside, own_values)

    def _plan_of(self, cls: type) -> Plan:
        if cls is _Rest:
            return self._part
        for plan_of in self._libraries:
            if (plan := plan_of(cls)) is not None:
                return plan
        if type_module(cls).partition(".")[0] in _FOREIGN:
            return lambda obj, name, kind: None
        for flat in (bytes, bytearray, array):
            if derives(cls, flat):
                return partial(self._flat, flat)
        if derives(cls, dict):
            return partial(self._mapping, fields_of(cls, dict))
        for base in _SEQUENCES:
            if derives(cls, base):
                return partial(self._sequence, base, fields_of(cls, base))
        if cls is types.FunctionType:
            return self._function
        if any(cls is one for one in _HOLDERS):
            return partial(self.inside, referents)
        fields = fields_of(cls)
        return partial(self._instance, fields) if fields else partial(self.inside, own_values)

    def _flat(self, base: Any, obj: Any, name: str, kind: str) -> None:
        size = base.__sizeof__(obj)
        if size >= LEAST_OBJECTS_BYTES:
            address = array.buffer_info(obj)[0] if base is array else id(obj)
            self.log.add(address, size, name, kind or "bytes", text=type_name(type(obj)))

    def _text(self, text: str, name: str) -> None:
        if (size := str.__sizeof__(text)) >= LEAST_OBJECTS_BYTES:
            self.log.add(id(text), size, name, "bytes", text="str")

    def attributes(self, fields: AttributeGetters, obj: Any, name: str, kind: str) -> set[int]:
        """Queue the attributes of an instance as ``name.attribute``. Returns the ids of their values."""
        numbers = set()
        for attribute, value in fields.values(obj):
            numbers.add(id(value))
            self.add(value, self.longer(name, f".{attribute}"), kind)
        return numbers

    def _instance(self, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        inside = referents(obj)
        if not inside and not _has_large_text(obj):
            return  # do not create a missing dict
        numbers = self.attributes(fields, obj, name, kind)
        instance_dict = None if fields.instance_dict is None else fields.instance_dict(obj)
        for one in inside:  # held by C code, such as the cache of functools.lru_cache
            if id(one) not in numbers and one is not instance_dict:
                self._queue.append((one, name, kind))

    def inside(self, contents: Callable[[object], list[Any]], obj: Any, name: str, kind: str) -> None:
        """Queue the contents of an object under the object's own name."""
        self._queue.extend([(one, name, kind) for one in contents(obj)])

    def _function(self, obj: Any, name: str, kind: str) -> None:
        for one in (*(obj.__closure__ or ()), *(obj.__defaults__ or ()), obj.__kwdefaults__, obj.__dict__):
            if not is_leaf(one):
                self._queue.append((one, self.longer(name, "()"), kind))

    def _mapping(self, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        count, size = dict.__len__(obj), dict.__sizeof__(obj)
        values = list(itertools.islice(dict.values(obj), SAMPLE))
        keys = list(itertools.islice(dict.keys(obj), SAMPLE))
        size += _leaf_bytes(values, count)
        if count >= SAMPLE:  # keys of small dicts are usually shared names
            size += _leaf_bytes(keys, count)
        self.log.objects(name, size)
        if count <= LARGE:
            self._pairs(list(dict.items(obj)), name, kind)
        elif not all(map(is_leaf, values)) or not all(map(is_leaf, keys)):
            self._later(_Rest(dict.items(obj), True), name, kind)
        if fields:
            self.attributes(fields, obj, name, kind)

    def _pairs(self, items: list[tuple[Any, Any]], name: str, kind: str) -> None:
        numbered = len(items) > 16
        for key, value in items:
            if not is_leaf(value):
                if type(key) is int:
                    label = "[]" if numbered else f"[{key}]"
                elif type(key) is str:
                    label = f"[{key!r}]" if len(key) < 40 else "[]"
                else:
                    label = f"[{self.label_of.get(id(key), '')}]"
                self._queue.append((value, self.longer(name, label), kind))
            elif type(value) is str:
                self._text(value, name)
            if not is_leaf(key):
                self._queue.append((key, name, kind))

    def _sequence(self, base: Any, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        count, label = base.__len__(obj), self.longer(name, "[]")
        sample = _sample(base, obj, count)
        self.log.objects(label, base.__sizeof__(obj) + _leaf_bytes(sample, count))
        if count <= LARGE:
            # a copy, since the user's profile function may append to it at each call made here
            for one in list(itertools.islice(base.__iter__(obj), count)):
                if not is_leaf(one):
                    self._queue.append((one, label, kind))
                elif type(one) is str:
                    self._text(one, label)
        elif not all(map(is_leaf, sample)):
            self._later(_Rest(base.__iter__(obj), False), label, kind)
        if fields:
            self.attributes(fields, obj, name, kind)

    def _later(self, large: _Rest, name: str, kind: str) -> None:
        self._rests[id(large)] = large
        self._queue.append((large, name, kind))

    def _part(self, obj: _Rest, name: str, kind: str) -> None:
        del self._rests[id(obj)]
        part = list(itertools.islice(obj.elements, PART))  # RuntimeError if it was changed meanwhile
        if obj.pairs:
            self._pairs(part, name, kind)
        else:
            self._queue.extend([(one, name, kind) for one in part if not is_leaf(one)])
        if len(part) == PART:
            del self._visited[id(obj)]
            self._later(obj, name, kind)

    @staticmethod
    def longer(name: str, more: str) -> str:
        """Return a name extended by `more`, or unchanged if it is long."""
        return name + more if len(name) < LONGEST_NAME else name


def _has_large_text(obj: Any) -> bool:
    return any(
        type(one) is str and str.__sizeof__(one) >= LEAST_OBJECTS_BYTES for one in gc.get_referents(obj)
    )


def _sample(base: Any, obj: Any, count: int) -> list[Any]:
    """Return some elements: evenly spaced ones of a list or tuple, otherwise the first ones."""
    if count > SAMPLE and (base is list or base is tuple):
        return [base.__getitem__(obj, i * count // SAMPLE) for i in range(SAMPLE)]
    return list(itertools.islice(base.__iter__(obj), SAMPLE))


def _leaf_bytes(sample: Iterable[Any], count: int) -> int:
    """Estimate the bytes of numbers and texts from a sample, in which each object counts once."""
    distinct = {id(one): one for one in sample}
    size = 0
    for one in distinct.values():
        cls: Any = type(one)
        if cls is str:
            text = str.__sizeof__(one)
            size += text if text < LEAST_OBJECTS_BYTES else 0
        elif cls is float or cls is complex or (cls is int and not -6 < one < 257):
            size += cls.__sizeof__(one)
    return size * count // min(count, SAMPLE) if count else 0
