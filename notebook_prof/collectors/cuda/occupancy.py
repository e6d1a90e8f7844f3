"""The occupancy of kernels, from the GPU properties that the driver reports."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..devices import driver

_WARP: Final = 32
_PARTS: Final = 4
"""A multiprocessor's registers are split into four partitions, and a warp takes all of its registers from
one."""
_REGISTER_UNIT: Final = 256
_ATTRIBUTES: Final = {
    "multiprocessors": 16,
    "threads": 39,
    "major": 75,
    "minor": 76,
    "shared_memory": 81,
    "registers": 82,
    "blocks": 106,
    "reserved_shared_memory": 111,
}
"""Numbers of ``CUdevice_attribute``; source: ``cuda.h``."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, its multiprocessors, and the resources of each."""

    name: str
    memory_bytes: int
    multiprocessors: int
    threads: int
    major: int
    minor: int
    shared_memory: int
    registers: int
    blocks: int
    reserved_shared_memory: int

    def resident_blocks(self, threads: int, registers: int, shared_memory: int) -> int:
        """Return how many blocks of a kernel one multiprocessor can hold. `registers` is per thread,
        `shared_memory` is bytes per block."""
        # As in *Occupancy* of NVIDIA's CUDA programming guide: warps, blocks, registers (256 at a time, from
        # one of four partitions) and shared memory (256 bytes at a time before compute capability 8, then
        # 128, with the system's reserve for each block) each set a limit, and the least counts. Agrees with
        # Kineto's figures for 39,000 kernels on a P100, V100s, an RTX 2080 Ti, A100s and an H100, except for
        # those with more than 48 KiB of shared memory, for which Kineto reports 0.
        warps = max(-(-threads // _WARP), 1)
        limits = [self.blocks, self.threads // _WARP // warps]
        if registers:
            of_warp = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
            limits.append(self.registers // _PARTS // of_warp * _PARTS // warps)
        unit = 256 if self.major < 8 else 128
        if allocated := -(-(shared_memory + self.reserved_shared_memory) // unit) * unit:
            limits.append(self.shared_memory // allocated)
        return min(limits)

    def occupancy(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], registers: int, shared_memory: int
    ) -> tuple[float, float, float]:
        """Return Kineto's ``blocks per SM``, ``warps per SM`` and ``est. achieved occupancy`` (0–1, not
        per cent)."""
        threads = block[0] * block[1] * block[2]
        each = grid[0] * grid[1] * grid[2] / max(self.multiprocessors, 1)
        resident = min(float(self.resident_blocks(threads, registers, shared_memory)), each)
        return each, each * threads / _WARP, resident * threads / max(self.threads, 1)


def read_devices(load: Callable[[str], Any] = ctypes.CDLL) -> dict[int, Device]:
    """Ask the driver for the GPUs that this process can see; {} if that fails."""
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None or cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return {}
    devices = {number: _device(cuda, number) for number in range(count.value)}
    return {number: device for number, device in devices.items() if device is not None}


def _device(cuda: Any, number: int) -> Device | None:
    handle, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    if cuda.cuDeviceGet(ctypes.byref(handle), number):
        return None
    cuda.cuDeviceGetName(name, len(name), handle)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    attributes: dict[str, int] = {}
    for attribute, code in _ATTRIBUTES.items():
        value = ctypes.c_int()
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), code, handle):
            return None
        attributes[attribute] = value.value
    return Device(name.value.decode(errors="replace"), memory.value, **attributes)
