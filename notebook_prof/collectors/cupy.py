"""Records CuPy: allocations of its memory pool."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from types import ModuleType
from typing import Any, ClassVar, Final

import numpy as np

from ..optional import installed, require
from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock
from .base import Availability, Collector
from .devices import gpu_extra, in_use

_EVENT: Final = ("ts", "addr", "bytes", "device", "allocated", "reserved")
_left: dict[int, Any] = {}
"""Hooks that were stopped by another thread, keyed by their own thread, which is the only one that can remove
them."""
_numbers = count()
"""Make the names of hooks unique, since CuPy refuses a second hook of the same name on a thread."""


class CupyCollector(Collector):
    """Records every allocation and free in CuPy's memory pool, with address, size and the pool's totals."""

    # CuPy registers its hooks per thread, so allocations in other threads are not seen, and the report says
    # so. The totals start with those of the pool and follow the events. There is no event when the pool
    # returns memory to the driver (``free_all_blocks``). The pools of unused GPUs are not queried, since that
    # would create a context there. Kernels are recorded by the `cuda` collector.
    name: ClassVar[str] = "cupy"

    def __init__(self, options: object = None) -> None:
        self._cupy: Any = None
        self._hook: Any = None
        self._hidden = ""
        self._events = array("q")
        """Six numbers for each allocation or free: see `_EVENT`."""
        self._totals: dict[int, list[int]] = {}
        self._thread = 0
        self._pools: dict[int, tuple[int, int]] = {}

    @classmethod
    def availability(cls) -> Availability:
        if not installed("cupy"):
            return Availability(False, f'cupy is not installed: pip install "notebook-prof[{gpu_extra()}]"')
        cupy = sys.modules.get("cupy")
        if cupy is None:
            return Availability(True, "allocations of CuPy's memory pool; CuPy is not imported yet")
        return _with_a_gpu(cupy)

    def start(self, clock: Clock) -> None:
        cupy = self._cupy = require("cupy", extra=gpu_extra(), purpose="the cupy collector")
        state = _with_a_gpu(cupy)  # checked first, since a pool without a driver prints to stderr
        if not state.ok:
            raise RuntimeError(state.reason)
        self._thread = threading.get_ident()
        used = in_use()
        for device in range(cupy.cuda.runtime.getDeviceCount()):
            is_used = used is None or device in used
            self._totals[device] = [*_pool(cupy, device)] if is_used else [0, 0]
        self._look_at_allocator()
        if (left := _left.pop(self._thread, None)) is not None:
            with suppress(KeyError):  # that thread has ended, and this one has its number
                left.__exit__(None, None, None)
        hook = make_hook(cupy.cuda.MemoryHook, self._events, self._totals, clock.now_ns)
        hook.__enter__()
        self._hook = hook

    def stop(self) -> None:
        """Remove the hook. Only the thread that registered it can do that."""
        hook, self._hook = self._hook, None
        if hook is None:
            return
        if threading.get_ident() != self._thread:
            hook.muted = True
            _left[self._thread] = hook
            self.report.add(
                "cupy-hook-left",
                "info",
                example="the recording was stopped by another thread than the one that started it",
                effect="a hook that does nothing stays on that thread until it records again; no allocation "
                "is missing",
            )
            return
        hook.__exit__(None, None, None)
        self._look_at_allocator()
        used = in_use()
        touched = [device for device in self._totals if used is None or device in used]
        self._pools = {device: _pool(self._cupy, device) for device in touched}

    def result(self, builder: TraceBuilder) -> None:
        if self._events:
            columns = np.array(self._events).reshape(-1, len(_EVENT)).T
            builder.allocations(**dict(zip(_EVENT, columns, strict=True)))
        runtime = self._cupy.cuda.runtime
        names = [runtime.getDeviceProperties(device)["name"] for device in self._totals]
        texts = [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names]
        builder.metadata.setdefault("devices", texts)
        builder.metadata["cupy_version"] = str(self._cupy.__version__)
        self._compare()

    def abandon(self) -> None:
        self.stop()

    def _look_at_allocator(self) -> None:
        """Report an allocator that CuPy's hooks cannot see, since only CuPy's pool calls them."""
        allocator = self._cupy.cuda.get_allocator()
        pool = getattr(allocator, "__self__", None)
        if self._hidden or isinstance(pool, self._cupy.cuda.MemoryPool):
            return
        self._hidden = _allocator_name(allocator)
        self.report.add(
            "allocator-unseen",
            "loss",
            example=f"CuPy allocates with {self._hidden}, which calls no memory hooks",
            effect="what it allocates is not in the memory curve of CuPy",
            advice="see the card's own counter (nvml), or record with "
            "cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)",
        )

    def _compare(self) -> None:
        """Report any difference between the pool's total at the end and the sum of the events."""
        for device, (used, _) in self._pools.items():
            missing = used - self._totals[device][0]
            if missing:
                self.report.add(
                    "allocations-unseen",
                    "loss",
                    example=f"device {device}: the pool holds {abs(missing):,} bytes "
                    f"{'more' if missing > 0 else 'less'} than the recorded events add up to",
                    effect="the memory curve of CuPy is off by as much",
                    advice="allocations on other threads, and other allocators than the default pool, "
                    "are not recorded",
                )


def make_hook(
    base: type[Any], events: array[int], totals: dict[int, list[int]], now: Callable[[], int]
) -> Any:
    """Make the hook. Its base class ``cupy.cuda.MemoryHook`` is known only once CuPy is imported."""

    # `events` gets every allocation and free. `totals` (allocated and reserved bytes by device) is kept up to
    # date.
    class _PoolHook(base):  # type: ignore[misc]
        name = f"notebook_prof {next(_numbers)}"
        muted = False

        def alloc_postprocess(self, **facts: int) -> None:
            if facts["mem_ptr"]:
                totals.setdefault(facts["device_id"], [0, 0])[1] += facts["mem_size"]

        def malloc_postprocess(self, **facts: int) -> None:
            if facts["mem_ptr"] and not self.muted:
                self._note(facts["device_id"], facts["mem_ptr"], facts["mem_size"])

        def free_postprocess(self, **facts: int) -> None:
            if not self.muted:
                self._note(facts["device_id"], facts["mem_ptr"], -facts["mem_size"])

        def _note(self, device: int, address: int, size: int) -> None:
            total = totals.setdefault(device, [0, 0])
            total[0] += size
            events.extend((now(), address, size, device, total[0], max(total)))

    return _PoolHook()


def _allocator_name(allocator: Any) -> str:
    """Return the qualified name of a function, or of the class of a bound method's object."""
    if allocator is None:
        return "the driver itself (no pool)"
    pool = getattr(allocator, "__self__", None)
    of = allocator if pool is None or isinstance(pool, ModuleType) else type(pool)
    name = getattr(of, "__qualname__", None) or getattr(of, "__name__", "") or type(allocator).__name__
    return f"{getattr(of, '__module__', None) or type(of).__module__}.{name}"


def _with_a_gpu(cupy: Any) -> Availability:
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's error type; the message is the driver's
        return Availability(False, f"CuPy finds no GPU that it can use: {error}")
    if not count:
        return Availability(False, "CuPy finds no GPU: none is visible to this process")
    return Availability(True, "allocations of CuPy's memory pool on this thread")


def _pool(cupy: Any, device: int) -> tuple[int, int]:
    """Return used and held bytes of the default pool on a device."""
    with cupy.cuda.Device(device):
        pool = cupy.get_default_memory_pool()
        return int(pool.used_bytes()), int(pool.total_bytes())
