"""GPU counters, with a library that plays a driver."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from notebook_prof.collectors import nvml
from notebook_prof.collectors.nvml import NvmlCollector
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock


class NVMLError(Exception):
    """As pynvml's."""


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

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> int:
        return {b"GPU-b": 1}[uuid]

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


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    monkeypatch.setattr(nvml.importlib, "import_module", lambda name: driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml._availability.cache_clear()
    yield driver
    nvml._availability.cache_clear()


def recorded(collector: NvmlCollector) -> Trace:
    collector.start(Clock())
    time.sleep(0.12)
    collector.stop()
    builder = TraceBuilder()
    collector.result(builder)
    return builder.seal()


def test_counters_with_their_units(driver: Driver) -> None:
    trace = recorded(NvmlCollector())
    tracks = trace.tracks.set_index("name")
    assert tracks.loc["GPU 0 power", "unit"] == "W"
    assert tracks.loc["GPU 1 memory", "device"] == 1
    assert "GPU 1 power" not in tracks.index
    assert "GPU 1 memory of this process" not in tracks.index
    assert not any("PCIe" in name for name in tracks.index)
    values = trace.counters.merge(trace.tracks, on="track").groupby("name")["value"].agg(["first", "count"])
    assert values.loc["GPU 0 power", "first"] == 75.0
    assert values.loc["GPU 0 utilisation", "first"] == 0.4
    assert values.loc["GPU 0 memory", "count"] > values.loc["GPU 0 utilisation", "count"]
    assert driver.sessions == 0


def test_pcie_on_request(driver: Driver) -> None:
    assert "GPU 0 PCIe to the GPU" in set(recorded(NvmlCollector(pcie=True)).tracks["name"])


@pytest.mark.parametrize(
    ("visible", "handles"), [("1", [1]), ("1,0", [1, 0]), ("GPU-b", [1]), ("", []), ("0,-1,1", [0])]
)
def test_numbers_are_those_of_cuda(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, visible: str, handles: list[int]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert nvml._visible(driver) == list(enumerate(handles))


def test_availability_is_said_once_and_silently(driver: Driver, capfd: pytest.CaptureFixture[str]) -> None:
    assert NvmlCollector.availability() == (state := NvmlCollector.availability())
    assert (state.ok, state.reason) == (True, "2 GPUs")
    assert capfd.readouterr() == ("", "")


def test_without_a_driver_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NVMLError("library not found")

    driver = Driver(nvmlInit=fail)
    monkeypatch.setattr(nvml.importlib, "import_module", lambda name: driver)
    nvml._availability.cache_clear()
    try:
        assert NvmlCollector.availability().reason == "no NVIDIA driver: library not found"
    finally:
        nvml._availability.cache_clear()


def test_a_failing_driver_becomes_an_issue(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "nvmlDeviceGetMemoryInfo", lambda self, gpu: SimpleNamespace())
    collector = NvmlCollector()
    recorded(collector)
    assert "AttributeError" in collector.report["gpu-counters-failed"].example
    assert threading.active_count() >= 1


def test_throttling_and_other_processes(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Driver,
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        lambda self, gpu: [0x04 | 0x01, 0x01][gpu],
        raising=False,
    )
    processes = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=1), SimpleNamespace(pid=1, usedGpuMemory=1)]
    monkeypatch.setattr(Driver, "nvmlDeviceGetComputeRunningProcesses", lambda self, gpu: processes[gpu:])
    trace = recorded(NvmlCollector())
    values = trace.counters.merge(trace.tracks, on="track").groupby("name")["value"].first()
    assert values["GPU 0 throttle reasons"] == 4  # the power cap; being idle (1) is no reason
    assert values["GPU 1 throttle reasons"] == 0
    assert (values["GPU 0 other processes"], values["GPU 1 other processes"]) == (1, 0)


def test_a_slice_of_a_gpu_gives_what_it_has(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a MIG slice, NVML refuses utilisation, power and clocks."""

    def refuse(self: Driver, *_: object) -> None:
        raise NVMLError("Not Supported")

    for name in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetClockInfo"):
        monkeypatch.setattr(Driver, name, refuse)
    collector = NvmlCollector()
    assert "GPU 0 memory" in set(recorded(collector).tracks["name"])
    assert not collector.report


def test_no_permission_is_told_as_availability(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(nvmlDeviceGetCount=lambda: (_ for _ in ()).throw(NVMLError("Insufficient Permissions")))
    monkeypatch.setattr(nvml.importlib, "import_module", lambda name: driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml._availability.cache_clear()
    try:
        state = NvmlCollector.availability()
    finally:
        nvml._availability.cache_clear()
    assert (state.ok, "Insufficient Permissions" in state.reason) == (False, True)


def test_a_gpu_that_is_lost_in_the_middle(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def memory(self: Driver, gpu: int) -> Any:
        calls.append(gpu)
        if len(calls) > 2:
            raise NVMLError("GPU is lost")
        return SimpleNamespace(used=7)

    monkeypatch.setattr(Driver, "nvmlDeviceGetMemoryInfo", memory)
    collector = NvmlCollector()
    trace = recorded(collector)
    assert "GPU 0 memory" in set(trace.tracks["name"])  # what was read until then is kept
    issue = collector.report["gpu-counters-ended"]
    assert (issue.severity, issue.count, "GPU is lost" in issue.example) == ("loss", 2, True)
