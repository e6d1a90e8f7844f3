"""Finds arrays of NumPy, pandas, Arrow, CuPy and JAX by the addresses of their buffers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np

from .buffers import (
    HOST,
    AttributeGetters,
    derives,
    fields_of,
    is_leaf,
    mro,
    own_values,
    type_dict,
    type_module,
    type_name,
)
from .walk import Plan, Walk

ARRAY, COLUMN, FILE, ARROW = "array", "column", "file", "arrow"
_FRAMES: Final = ("DataFrame", "Series")
_MOST_ELEMENTS: Final = 50_000
_SAMPLE: Final = 256
_MOST_COLUMNS: Final = 3
_NDARRAY: Final[Any] = np.ndarray


class ArrayObjects:
    """Handles the types of NumPy, pandas and Arrow."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def plan(self, cls: type) -> Plan | None:
        """Return a function that visits instances; None for types of other libraries."""
        if derives(cls, _NDARRAY):
            return partial(self._array, fields_of(cls, _NDARRAY))
        if derives(cls, np.generic) or derives(cls, np.dtype):
            return lambda obj, name, kind: None
        pandas = [base for base in mro(cls) if type_module(base).partition(".")[0] == "pandas"]
        if any(type_name(base) in _FRAMES for base in pandas):
            return partial(self._frame, fields_of(cls))
        if pandas:
            return partial(self._walk.inside, own_values)
        if type_module(cls).partition(".")[0] == "pyarrow":
            if hasattr(cls, "column_names") and hasattr(cls, "columns"):
                return self._arrow_table
            if type_name(cls) == "Buffer" or hasattr(cls, "chunks") or hasattr(cls, "buffers"):
                return self._arrow
        return None

    def _array(self, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        owner, mapped = obj, False
        while True:
            mapped = mapped or type_name(type(owner)) == "memmap"
            base = _NDARRAY.base.__get__(owner)
            if base is None or not derives(type(base), _NDARRAY):
                break
            owner = base
        dtype = _NDARRAY.dtype.__get__(obj)
        text = f"{dtype.name}{list(_NDARRAY.shape.__get__(obj))}"
        start, size = self._extent(owner)
        self._walk.log.add(start, size, name, FILE if mapped else kind or ARRAY, text=text)
        if base is not None:
            self._walk.add(base, name, kind)
        if dtype.hasobject:
            self._elements(obj, name, kind)
        if fields:
            self._walk.attributes(fields, obj, name, kind)

    def _extent(self, owner: Any) -> tuple[int, int]:
        """Return address and length of the memory that an array spans."""
        # strided views count each element once
        start = int(_NDARRAY.__array_interface__.__get__(owner)["data"][0])
        size = int(_NDARRAY.nbytes.__get__(owner))
        if _NDARRAY.flags.__get__(owner).owndata or not size:
            return start, size
        low = high = 0
        for count, stride in zip(_NDARRAY.shape.__get__(owner), _NDARRAY.strides.__get__(owner), strict=True):
            low, high = low + min(0, (count - 1) * stride), high + max(0, (count - 1) * stride)
        return start + low, high - low + int(_NDARRAY.itemsize.__get__(owner))

    def _elements(self, obj: Any, name: str, kind: str) -> None:
        """Visit the objects in an object array. In a large one, visit the first and estimate the others."""
        flat, count = _NDARRAY.flat.__get__(obj), int(_NDARRAY.size.__get__(obj))
        first = [flat[i] for i in range(min(count, _SAMPLE))]
        distinct = {id(one): one for one in first}.values()
        sized: list[Any] = [one for one in distinct if type(one) in (str, bytes, int, float)]
        size = sum(one.__sizeof__() for one in sized)
        if first:
            self._walk.log.objects(f"{name}[]", size * count // len(first))
        if count <= _MOST_ELEMENTS and not all(map(is_leaf, first)):
            for one in flat:
                self._walk.add(one, f"{name}[]", kind)

    def _frame(self, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        """Queue the blocks of a frame by the names of their columns."""
        attributes = dict(fields.values(obj))
        manager: Any = attributes.pop("_mgr", None)
        if type_module(type(manager)).partition(".")[0] != "pandas":
            return
        walk, axes = self._walk, manager.axes
        for block in manager.blocks:
            label = ""
            if len(axes) == 2:
                places = block.mgr_locs.as_array
                columns = [_column_name(axes[0], i) for i in places[:_MOST_COLUMNS].tolist()]
                label = f"[{', '.join(columns)}{', …' if len(places) > _MOST_COLUMNS else ''}]"
            walk.add(block.values, walk.longer(name, label), COLUMN)
        for axis, attribute in zip(axes, ("columns", "index") if len(axes) == 2 else ("index",), strict=True):
            walk.add(axis, walk.longer(name, f".{attribute}"), COLUMN)
        for attribute, value in attributes.items():
            if attribute != "_item_cache":
                walk.add(value, walk.longer(name, f".{attribute}"), kind)

    def _arrow_table(self, obj: Any, name: str, kind: str) -> None:
        for column, values in zip(obj.column_names, obj.columns, strict=True):
            self._walk.add(values, self._walk.longer(name, f"[{column}]"), kind or ARROW)

    def _arrow(self, obj: Any, name: str, kind: str) -> None:
        cls = type(obj)
        if type_name(cls) == "Buffer":
            buffers, text = [obj], "buffer"
        else:
            chunks = obj.chunks if hasattr(cls, "chunks") else [obj]
            buffers = [one for chunk in chunks for one in chunk.buffers() if one is not None]
            text = f"{obj.type}[{len(obj)}]"
        for one in buffers:
            self._walk.log.add(one.address, one.size, name, kind or ARROW, text=text)


def _column_name(columns: Any, place_of: int) -> str:
    """Return a column's label if that is text or a number, otherwise the column's position."""
    label = columns[place_of] if type_module(type(columns)).partition(".")[0] == "pandas" else None
    return str(label) if type(label) in (str, int) else f"column {place_of}"


_CUPY: Final = ("ndarray", "_ndarray_base")
_OF_CUPY: Final = ("data", "dtype", "shape")
_OF_JAX: Final = (
    *("_arrays", "dtype", "shape"),
    *("is_deleted", "is_ready", "devices", "unsafe_buffer_pointer", "on_device_size_in_bytes"),
)

_Getters = dict[str, Callable[[Any], Any]]


class DeviceArrays:
    """Handles the arrays of CuPy and JAX, if these are imported."""

    # Only the library's getters are called, even for the user's subclasses.
    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def plan(self, cls: type) -> Plan | None:
        """Return a function that visits instances; None for types of other libraries."""
        for base in mro(cls):
            package, name = type_module(base).partition(".")[0], type_name(base)
            if package == "cupy" and name in _CUPY and "cupy" in sys.modules:
                return partial(self._of_cupy, _getters(base, "cupy", _OF_CUPY), fields_of(cls, base))
            if package == "jaxlib" and name == "ArrayImpl":
                return partial(self._of_jax, _getters(base, "jax", _OF_JAX))
        return None

    def _of_cupy(self, get: _Getters, fields: AttributeGetters, obj: Any, name: str, kind: str) -> None:
        """Add the memory of an array, which several views may share. In a pool, this is the block."""
        memory = get["data"](obj).mem
        text = _text(get, obj)
        self._walk.log.add(
            int(memory.ptr), int(memory.size), name, kind or ARRAY, device=int(memory.device_id), text=text
        )
        if fields:
            self._walk.attributes(fields, obj, name, kind)

    def _of_jax(self, get: _Getters, obj: Any, name: str, kind: str) -> None:
        """Add the buffers of an array, one per device, or none if it was donated."""
        if get["is_deleted"](obj)():
            return
        text = _text(get, obj)
        for one in get["_arrays"](obj):
            (device,) = get["devices"](one)()
            number = HOST if device.platform == "cpu" else int(device.local_hardware_id or 0)
            # do not wait for an array that is still being computed, since its type determines its size
            ready = get["is_ready"](one)()
            address = int(get["unsafe_buffer_pointer"](one)()) if ready else id(one)
            size = int(get["on_device_size_in_bytes"](one)())
            self._walk.log.add(address, size, name, kind or ARRAY, device=number, text=text)


def _getters(cls: type, package: str, names: tuple[str, ...]) -> _Getters:
    """Return the getters of a library type's attributes, bypassing subclasses."""
    getters: _Getters = {}
    for base in reversed(mro(cls)):
        own = type_dict(base)
        if type_module(base).startswith(package):
            getters |= {name: own[name].__get__ for name in names if name in own}
    return getters


def _text(get: _Getters, obj: Any) -> str:
    return f"{get['dtype'](obj).name}{list(get['shape'](obj))}"


def device_levels() -> dict[int, dict[str, int]]:
    """Return the memory of each device as torch, CuPy and JAX report it: ``used allocated cached``."""
    # ``used`` is in total, the largest value reported if a device has several allocators; ``allocated`` and
    # ``cached`` are by these libraries
    levels: dict[int, dict[str, int]] = {}
    for tell in (_levels_of_torch, _levels_of_cupy, _levels_of_jax):
        with suppress(Exception):  # the library has no device, or is another version
            for device, used, allocated, reserved in tell():
                total = levels.setdefault(device, {"used": 0, "allocated": 0, "cached": 0})
                total["used"] = max(total["used"], used)
                total["allocated"] += allocated
                total["cached"] += reserved - allocated
    return levels


_Levels = Iterator[tuple[int, int, int, int]]
"""Number of a device, and bytes that are used, allocated and reserved."""


def _levels_of_torch() -> _Levels:
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    for device in range(cuda.device_count()) if cuda is not None and cuda.is_initialized() else ():
        if reserved := int(cuda.memory_reserved(device)):
            free, total = cuda.mem_get_info(device)
            yield device, total - free, int(cuda.memory_allocated(device)), reserved


def _levels_of_cupy() -> _Levels:
    cupy: Any = sys.modules.get("cupy")
    for device in range(cupy.cuda.runtime.getDeviceCount()) if cupy is not None else ():
        with cupy.cuda.Device(device):
            pool = cupy.get_default_memory_pool()
            if reserved := int(pool.total_bytes()):  # do not create a context on an untouched device
                free, total = cupy.cuda.runtime.memGetInfo()
                yield device, total - free, int(pool.used_bytes()), reserved


def _levels_of_jax() -> _Levels:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    # existing backends only: jax.devices() would create one
    backends = dict(getattr(bridge, "_backends", None) or {})
    for platform, backend in backends.items():
        for device in backend.local_devices() if platform != "cpu" else ():
            stats = device.memory_stats() or {}
            if allocated := int(stats.get("bytes_in_use", 0)):
                reserved = max(int(stats.get("pool_bytes", 0)), allocated)
                yield int(device.local_hardware_id or 0), reserved, allocated, reserved
