"""A module with the interface of ``nvidia-ml-py``: two cards."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """As pynvml's."""


UUIDS = ["GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000001"]


class Driver(SimpleNamespace):
    """Two GPUs of which the second cannot measure power."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_PCIE_UTIL_RX_BYTES = 1
    NVML_PCIE_UTIL_TX_BYTES = 0
    sessions = 0

    def nvmlInit(self) -> None:
        self.sessions += 1

    def nvmlShutdown(self) -> None:
        self.sessions -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if not 0 <= index < 2:
            raise NVMLError("no such GPU")
        return index

    def nvmlDeviceGetUUID(self, gpu: int) -> str:
        return UUIDS[gpu]

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return "Pretend H100"

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> Any:
        return SimpleNamespace(used=1000 * (gpu + 1))

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: int) -> Any:
        return [SimpleNamespace(pid=os.getpid(), usedGpuMemory=10)] if gpu == 0 else []

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> int:
        if gpu == 1:
            raise NVMLError("not supported")
        return 75_000

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> Any:
        return SimpleNamespace(gpu=40)

    def nvmlDeviceGetClockInfo(self, gpu: int, clock: int) -> int:
        return 1000 * clock

    def nvmlDeviceGetPcieThroughput(self, gpu: int, direction: int) -> int:
        return 5
