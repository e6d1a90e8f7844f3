"""GPU counters, with a library that plays a driver."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.collectors import nvml
from notebook_prof.collectors.nvml import NvmlCollector
from notebook_prof.collectors.nvml.metrics import Readings, cuda_uuids, visible
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock

from ..pretend_nvml import UUIDS, Driver, NVMLError
from ..recorded import sealed

MISSING = "gpu-counters-missing"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    monkeypatch.setattr(nvml.importlib, "import_module", lambda name: driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml._asked.cache_clear()
    yield driver
    nvml._asked.cache_clear()


def recorded(collector: NvmlCollector) -> Trace:
    """Six rounds of readings, however long a loaded machine takes, or until it ends by itself."""
    rounds, wait = [], collector._quit.wait
    collector._quit.wait = lambda timeout: rounds.append(timeout) or wait(timeout)  # type: ignore[method-assign]
    collector.start(Clock())
    thread, until = collector._thread, time.monotonic() + 60
    while len(rounds) < 6 and thread is not None and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.005)
    collector.stop()
    return sealed(collector)


def counters(collector: NvmlCollector) -> dict[str, Readings]:
    """The counters of the first card, once there is one, by name."""
    gpus = collector._gpus
    return {metric.name: one for metric, one in gpus[0].counters.items()} if gpus else {}


def first_values(trace: Trace) -> pd.Series[float]:
    """The first reading of each counter, by name."""
    return trace.counters.merge(trace.tracks, on="track").groupby("name")["value"].first()


def failing(number: int, words: str = "") -> Callable[..., None]:
    """A function of NVML that fails with an error of this number."""

    def fail(*_: object, **__: object) -> None:
        error = NVMLError(words or f"error {number}")
        error.value = number  # type: ignore[attr-defined]
        raise error

    return fail


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
    ("variable", "handles"),
    [
        *(("1", [1]), ("1,0", [1, 0]), ("", []), ("0,-1,1", [0]), ("0,0,1", [0]), (UUIDS[1], [1])),
        *(("GPU-bbbb", [1]), ("GPU-b,GPU-a", [1, 0]), ("GPU-", []), ("GPU-c,0", [])),
    ],
)
def test_numbers_are_those_of_cuda(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, variable: str, handles: list[int]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    cards, sure = visible(driver)
    assert [(card.number, card.handle) for card in cards] == list(enumerate(handles))
    assert sure


class Cuda:
    """A driver of CUDA that is initialised, and counts the cards the other way round."""

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDeviceGetUuid_v2(self, raw: Any, device: Any) -> int:
        raw._obj[:] = bytes.fromhex(UUIDS[1 - device.value].removeprefix("GPU-").replace("-", ""))
        return 0


@pytest.mark.parametrize("initialised", [True, False])
def test_cards_of_several_kinds_are_found_by_uuid(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, initialised: bool
) -> None:
    """CUDA puts the fastest first, NVML follows the bus."""
    monkeypatch.setattr(Driver, "nvmlDeviceGetName", lambda self, gpu: f"card {gpu}")
    monkeypatch.setattr(nvml, "cuda_uuids", lambda: cuda_uuids(lambda name: Cuda()) if initialised else None)
    collector = NvmlCollector(devices=[1])
    trace = recorded(collector)
    memory = trace.counters.merge(trace.tracks, on="track").query("name == 'GPU 1 memory'")["value"]
    assert memory.unique().tolist() == [1000 if initialised else 2000]
    assert "GPU 0 memory" not in set(trace.tracks["name"])
    assert ("gpu-order-unknown" in collector.report) != initialised


def test_without_a_driver_the_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(nvmlInit=failing(9, "library not found"))
    monkeypatch.setattr(nvml.importlib, "import_module", lambda name: driver)
    nvml._asked.cache_clear()
    try:
        assert NvmlCollector.availability().reason == "no NVIDIA driver: library not found"
    finally:
        nvml._asked.cache_clear()


@pytest.mark.parametrize("where", ["nvmlInit", "nvmlDeviceGetPowerUsage"])
def test_a_driver_that_hangs_holds_none(driver: Driver, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """It answers only when the recording is over and its result is made."""
    monkeypatch.setattr(nvml, "LIMIT_S", 0.05)
    answer, reached = threading.Event(), threading.Event()

    def hang(self: Driver, *_: object) -> int:
        reached.set()
        assert answer.wait(60)
        return 0

    monkeypatch.setattr(Driver, where, hang)
    collector = NvmlCollector()
    if where == "nvmlInit":
        assert "did not answer" in NvmlCollector.availability().reason
    reached.clear()
    collector.start(Clock())
    thread = collector._thread
    assert reached.wait(60)
    collector.stop()
    trace = sealed(collector)
    assert thread is not None
    assert thread.is_alive()
    issue = collector.report["gpu-counters-late"]
    assert (issue.severity, "did not answer" in issue.example) == ("loss", True)
    assert ("GPU 0 memory" in set(trace.tracks["name"])) == (where != "nvmlInit")
    assert MISSING not in collector.report  # of what was not asked for, nothing is known
    answer.set()
    thread.join(60)
    assert not thread.is_alive()
    if where == "nvmlInit":  # the answer that came late counts from then on
        assert nvml._asked().result(60).ok
        assert NvmlCollector.availability().ok


def test_a_counter_that_takes_long_is_given_up(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIMIT_S", 0.0)
    collector = NvmlCollector()
    collector.start(Clock())
    until = time.monotonic() + 60
    while time.monotonic() < until and sum(bool(one.left_out) for one in counters(collector).values()) <= 5:
        time.sleep(0.005)
    collector._quit.set()
    assert collector._thread is not None
    collector._thread.join(60)
    collector._thread = None
    collector.result(TraceBuilder())
    assert "the driver took" in collector.report["gpu-counters-ended"].example


def test_a_failing_driver_becomes_an_issue(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "nvmlDeviceGetMemoryInfo", lambda self, gpu: SimpleNamespace())
    collector = NvmlCollector()
    recorded(collector)
    assert "AttributeError" in collector.report["gpu-counters-failed"].example


def test_throttling_and_other_processes(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons, asked = [0x400 | 0x200 | 0x04 | 0x01, 0x01], "nvmlDeviceGetCurrentClocksThrottleReasons"
    monkeypatch.setattr(Driver, asked, lambda self, gpu: reasons[gpu], raising=False)
    processes = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=1), SimpleNamespace(pid=1, usedGpuMemory=1)]
    monkeypatch.setattr(Driver, "nvmlDeviceGetComputeRunningProcesses", lambda self, gpu: processes[gpu:])
    values = first_values(recorded(NvmlCollector()))
    assert values["GPU 0 throttle reasons"] == 0x604  # being idle (1) is no reason
    assert values["GPU 1 throttle reasons"] == 0
    assert (values["GPU 0 other processes"], values["GPU 1 other processes"]) == (1, 0)


def test_throttling_by_a_driver_older_than_pynvml(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """pynvml has the new name, and the driver's library only the old one."""
    monkeypatch.setattr(Driver, "nvmlDeviceGetCurrentClocksEventReasons", failing(13), raising=False)
    monkeypatch.setattr(
        Driver, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda self, gpu: 0x48, raising=False
    )
    values = first_values(recorded(NvmlCollector()))
    assert values["GPU 0 throttle reasons"] == 0x48


def test_why_a_counter_is_missing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each error of NVML in words; a metric that may have none has none."""
    monkeypatch.setattr(Driver, "nvmlDeviceGetMemoryInfo", failing(3))
    monkeypatch.setattr(Driver, "nvmlDeviceGetPowerUsage", failing(4))
    monkeypatch.setattr(Driver, "nvmlDeviceGetClockInfo", failing(13))
    monkeypatch.setattr(Driver, "nvmlDeviceGetComputeRunningProcesses", lambda self, gpu: [])
    monkeypatch.setattr(Driver, "nvmlDeviceGetUtilizationRates", failing(99))
    collector = NvmlCollector()
    recorded(collector)
    text = collector.report[MISSING].example
    for sentence in (
        "memory: this card reports no figure, for example because it shares the system's memory",
        "power: no permission: the driver reports it to administrators only",
        "SM clock, memory clock: this driver is too old for it",
        "memory of this process: the driver lists no process of this number, as in most containers",
        "utilisation: error 99",
    ):
        assert sentence in text
    assert not [issue for issue in collector.report if issue.severity != "info"]


def test_one_passing_error_ends_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(10_000))

    def memory(self: Driver, gpu: int) -> Any:
        if gpu == 0 and next(calls) == 2:
            raise NVMLError("In use by another client")
        return SimpleNamespace(used=7)

    monkeypatch.setattr(Driver, "nvmlDeviceGetMemoryInfo", memory)
    collector = NvmlCollector()
    trace = recorded(collector)
    counts = trace.counters.merge(trace.tracks, on="track").groupby("name")["value"].count()
    assert counts["GPU 0 memory"] == counts["GPU 1 memory"] - 1
    assert collector.report["gpu-counters-gaps"].count == 1
    assert "gpu-counters-ended" not in collector.report


def test_what_the_driver_keeps_is_not_in_use(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def memory(self: Driver, gpu: int, version: int = 1) -> Any:
        if version == 2 and gpu == 1:
            failing(13)()
        return SimpleNamespace(used=500 if version == 2 else 900)

    monkeypatch.setattr(Driver, "nvmlDeviceGetMemoryInfo", memory)
    monkeypatch.setattr(Driver, "nvmlMemory_v2", 2, raising=False)
    values = first_values(recorded(NvmlCollector()))
    assert (values["GPU 0 memory"], values["GPU 1 memory"]) == (500, 900)


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


def test_nvlink_is_reported_a_second(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", 138, raising=False)
    monkeypatch.setattr(nvml, "SLOW_EVERY", 1)
    total = iter(range(0, 1_000_000, 1000))
    queries: list[int] = []

    def fields(self: Driver, gpu: int, ids: list[tuple[int, int]]) -> Any:
        assert ids == [(138, 0xFFFFFFFF)]
        queries.extend([gpu] if gpu == 0 else [])
        return [SimpleNamespace(nvmlReturn=gpu, value=SimpleNamespace(ullVal=next(total)))]

    monkeypatch.setattr(Driver, "nvmlDeviceGetFieldValues", fields, raising=False)
    collector = NvmlCollector()
    collector.start(Clock())
    until = time.monotonic() + 60
    while len(queries) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    collector.stop()
    trace = sealed(collector)
    tracks = trace.tracks.set_index("name")
    assert tracks.loc["GPU 0 NVLink sent", "unit"] == "bytes/s"
    assert not {"GPU 1 NVLink sent", "GPU 0 NVLink received"} & set(tracks.index)
    readings = counters(collector)["NVLink sent"]
    rate = trace.counters[trace.counters["track"] == tracks.loc["GPU 0 NVLink sent", "track"]]
    expected = np.diff(readings.values) / np.diff(readings.ts) * 1e9
    assert rate["value"].to_numpy() == pytest.approx(expected)
    assert [issue.severity for issue in collector.report] == ["info"]


def test_an_old_driver_and_an_old_pynvml(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that are not there, on either side, leave the counters that are."""
    monkeypatch.delattr(Driver, "nvmlDeviceGetPowerUsage")
    monkeypatch.setattr(Driver, "nvmlDeviceGetClockInfo", failing(13, "Function Not Found"))
    collector = NvmlCollector()
    names = set(recorded(collector).tracks["name"])
    assert {"GPU 0 memory", "GPU 0 utilisation"} <= names
    assert not {"GPU 0 power", "GPU 0 SM clock"} & names
    assert [issue.severity for issue in collector.report] == ["info"]
    assert "GPU 0: power, temperature, energy, " in collector.report[MISSING].example
    assert "the installed nvidia-ml-py does not know it" in collector.report[MISSING].example


def test_the_pcie_link_is_reported_for_copies(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def width(self: Driver, gpu: int) -> int:
        if gpu == 1:
            raise NVMLError("Not Supported")
        return 16

    monkeypatch.setattr(Driver, "nvmlDeviceGetMaxPcieLinkGeneration", lambda self, gpu: 4, raising=False)
    monkeypatch.setattr(Driver, "nvmlDeviceGetMaxPcieLinkWidth", width, raising=False)
    (link,) = recorded(NvmlCollector()).metadata["pcie_links"]
    assert (link["device"], link["generation"], link["width"]) == (0, 4, 16)
    assert link["bytes_per_s"] == pytest.approx(31.5e9, rel=0.001)  # 16 GT/s x 16 x 128/130 / 8
