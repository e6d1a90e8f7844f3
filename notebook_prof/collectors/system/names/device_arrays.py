"""Finds CuPy and JAX arrays by the addresses of their buffers, and the memory kept by their allocators."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from .buffers import HOST, Fields, fields_of, mro, type_dict, type_module, type_name
from .walk import Plan, Walk

ARRAY: Final = "array"
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
                fields = Fields(None, ()) if base is cls else fields_of(cls)
                return partial(self._of_cupy, _getters(base, "cupy", _OF_CUPY), fields)
            if package == "jaxlib" and name == "ArrayImpl":
                return partial(self._of_jax, _getters(base, "jax", _OF_JAX))
        return None

    def _of_cupy(self, get: _Getters, fields: Fields, obj: Any, name: str, kind: str) -> None:
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
    """Return the memory of each device as CuPy and JAX report it: ``used allocated cached``."""
    # ``used`` is in total, the largest value reported if a device has several allocators; ``allocated`` and
    # ``cached`` are by these libraries
    levels: dict[int, dict[str, int]] = {}
    for tell in (_levels_of_cupy, _levels_of_jax):
        with suppress(Exception):  # the library has no device, or is another version
            for device, level in tell().items():
                total = levels.setdefault(device, {"used": 0, "allocated": 0, "cached": 0})
                total["used"] = max(total["used"], level["used"])
                total["allocated"] += level["allocated"]
                total["cached"] += level["cached"]
    return levels


def _levels_of_cupy() -> dict[int, dict[str, int]]:
    cupy: Any = sys.modules.get("cupy")
    levels = {}
    for device in range(cupy.cuda.runtime.getDeviceCount()) if cupy is not None else ():
        with cupy.cuda.Device(device):
            pool = cupy.get_default_memory_pool()
            if reserved := int(pool.total_bytes()):  # do not create a context on an untouched device
                free, total = cupy.cuda.runtime.memGetInfo()
                allocated = int(pool.used_bytes())
                levels[device] = {
                    "used": total - free,
                    "allocated": allocated,
                    "cached": reserved - allocated,
                }
    return levels


def _levels_of_jax() -> dict[int, dict[str, int]]:
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    levels = {}
    # existing backends only: jax.devices() would create one
    backends = dict(getattr(bridge, "_backends", None) or {})
    for platform, backend in backends.items():
        for device in backend.local_devices() if platform != "cpu" else ():
            stats = device.memory_stats() or {}
            if allocated := int(stats.get("bytes_in_use", 0)):
                reserved = max(int(stats.get("pool_bytes", 0)), allocated)
                number = int(device.local_hardware_id or 0)
                levels[number] = {"used": reserved, "allocated": allocated, "cached": reserved - allocated}
    return levels
