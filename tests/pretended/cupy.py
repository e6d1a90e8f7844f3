"""The part of CuPy that ``tests/gpu`` uses, over NumPy; launches become records of the simulated CUPTI."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy

__version__ = "14.2.0"
float32 = numpy.float32
CARD_BYTES = 80 << 30
LAUNCH_NS = KERNEL_NS = 5_000


class MemoryHook:
    """Like CuPy's: entered hooks are called by name, one per name."""

    hooks: ClassVar[dict[str, Any]] = {}
    name = "MemoryHook"

    def __enter__(self) -> MemoryHook:
        if self.name in self.hooks:
            raise KeyError(self.name)
        self.hooks[self.name] = self
        return self

    def __exit__(self, *_: object) -> None:
        del self.hooks[self.name]


class Pool:
    """A pool of 512-byte blocks that never gives memory back to the driver."""

    def __init__(self) -> None:
        self.used, self.total, self.free_blocks, self.next = 0, 0, 0, 4096

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return self.total

    def n_free_blocks(self) -> int:
        return self.free_blocks

    def malloc(self, size: int, *, hooked: bool = True) -> tuple[int, int]:
        rounded = -(-size // 512) * 512
        self.next += rounded
        hooks = list(MemoryHook.hooks.values()) if hooked else []
        arguments = {"device_id": 0, "mem_size": rounded, "mem_ptr": self.next}
        if self.used + rounded > self.total:
            self.total += rounded
            for hook in hooks:
                hook.alloc_postprocess(**arguments)
        self.used += rounded
        for hook in hooks:
            hook.malloc_postprocess(size=size, pmem_id=1, **arguments)
        return self.next, rounded

    def free(self, block: tuple[int, int]) -> None:
        address, rounded = block
        self.used -= rounded
        for hook in list(MemoryHook.hooks.values()):
            hook.free_postprocess(device_id=0, mem_size=rounded, mem_ptr=address, pmem_id=1)


_pool, _pinned = Pool(), Pool()


class _Memory:
    def __init__(self, size: int) -> None:
        self.ptr, self.size = _pool.malloc(size)
        self.device_id = 0

    def __del__(self) -> None:
        _pool.free((self.ptr, self.size))


class ndarray:
    """An array that holds a block of the pool."""

    __slots__ = ("data", "dtype", "host", "shape")

    def __init__(self, host: Any, data: Any = None) -> None:
        self.host = host
        self.dtype, self.shape = host.dtype, host.shape
        self.data = data if data is not None else SimpleNamespace(mem=_Memory(host.nbytes))

    def __add__(self, other: ndarray) -> ndarray:
        return add(self, other)

    def __matmul__(self, other: ndarray) -> ndarray:
        return _computed("sgemm", self.host @ other.host)

    def __getitem__(self, where: slice) -> ndarray:
        return ndarray(self.host[where], self.data)

    def __dlpack__(self, **options: Any) -> Any:
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.host.__dlpack_device__()

    def sum(self) -> ndarray:
        return _computed("cupy_sum", numpy.asarray(self.host.sum()))


class Stream:
    """The current stream inside its block."""

    ptr = 7

    def __init__(self, non_blocking: bool = False) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


class Device:
    """The only card."""

    def __init__(self, number: int = 0) -> None:
        self.id = number

    __enter__ = __exit__ = synchronize = lambda self, *_: None


class Event:
    """The time at which the event was recorded."""

    def record(self, stream: Stream) -> None:
        self.at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        pass


class RawKernel:
    """Launched without any effect."""

    def __init__(self, source: str, name: str) -> None:
        self.name = name

    def __call__(self, grid: Any, block: Any, arguments: Any) -> None:
        _launch(self.name)


_idle_ns = 0


def _launch(name: str) -> None:
    global _idle_ns
    if (cupti := sys.modules.get("cupti.cupti")) is not None:
        begin = max(time.time_ns() + LAUNCH_NS, _idle_ns)
        _idle_ns = begin + KERNEL_NS
        cupti.launch(name, begin, _idle_ns)


def _computed(name: str, host: Any) -> ndarray:
    _launch(name)
    return ndarray(host)


def _made(fill: Callable[..., Any]) -> Callable[..., ndarray]:
    return lambda shape, dtype=numpy.float64: _computed("cupy_fill", fill(shape, dtype))


ones, zeros = _made(numpy.ones), _made(numpy.zeros)
fft = SimpleNamespace(fft=lambda x: _computed("vector_fft", numpy.fft.fft(x.host)))


def add(x: ndarray, y: ndarray, out: ndarray | None = None) -> ndarray:
    _launch("cupy_add__float32_float32_float32")
    return ndarray(x.host + y.host) if out is None else out  # the content is never read


def from_dlpack(tensor: Any) -> ndarray:
    return ndarray(numpy.from_dlpack(tensor))


def get_default_memory_pool() -> Pool:
    return _pool


def get_default_pinned_memory_pool() -> Pool:
    return _pinned


cuda = SimpleNamespace(
    Device=Device,
    Event=Event,
    MemoryHook=MemoryHook,
    MemoryPool=Pool,
    Stream=Stream,
    get_allocator=lambda: _pool.malloc,
    get_current_stream=Stream,
    get_elapsed_time=lambda begin, end: (end.at_ns - begin.at_ns) / 1e6,
    runtime=SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda number: {"name": b"Pretended H100"},
        memGetInfo=lambda: (CARD_BYTES - _pool.total, CARD_BYTES),
    ),
)
