"""Only the devices that were asked for, and no launch that looks as if it had lost its kernel."""

from __future__ import annotations

import ctypes
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.analysis import trust
from notebook_prof.collectors.devices import in_use, settle
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.collectors.torch.result import of_devices
from notebook_prof.errors import OptionError
from notebook_prof.jupyter.options import parse
from notebook_prof.readers.kineto import assemble, read_columns
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.report import ImportReport


def events(at: int) -> list[dict[str, Any]]:
    """An operator, its launch, its kernel and its memory; cards take turns."""
    here = {"ph": "X", "pid": 9, "tid": 9}
    begin, card = 100 * at, at % 2
    memory = {"Device Type": 1, "Device Id": card, "Addr": 4096 + at, "Bytes": 64}
    totals = {"Total Allocated": 64, "Total Reserved": 64}
    launch, work = {"correlation": at + 1}, {"correlation": at + 1, "device": card, "stream": 7}
    return [
        here | {"cat": "cpu_op", "name": "aten::relu", "ts": begin, "dur": 50},
        here
        | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begin + 5, "dur": 10, "args": launch},
        here | {"cat": "kernel", "name": "relu", "pid": card, "ts": begin + 20, "dur": 60, "args": work},
        here | {"ph": "i", "s": "t", "name": "[memory]", "ts": begin + 3, "args": memory | totals},
    ]


FILE = json.dumps({"traceEvents": [event for at in range(20) for event in events(at)]}).encode()


def trace_of(devices: tuple[int, ...] | None) -> tuple[Trace, ImportReport]:
    report, builder = ImportReport(), TraceBuilder()
    assemble(of_devices(read_columns(FILE, report), devices, report), builder)
    return builder.seal(), report


def test_two_cards_of_which_one_was_asked_for() -> None:
    whole, _ = trace_of(None)
    assert set(whole.slices["device"].dropna()) == {0, 1}
    trace, report = trace_of((1,))
    kernels = trace.slices[trace.slices["category"] == "kernel"]
    assert (len(kernels), set(kernels["device"])) == (10, {1})
    assert (trace.slices["name"] == "cudaLaunchKernel").sum() == 10
    assert (trace.slices["name"] == "aten::relu").sum() == 20  # what the host did stays
    assert set(trace.allocations["device"]) == {1}
    assert report["other-devices"].count == 10
    assert not trust(trace)["code"].str.startswith("kernels-lost").any()


def test_operators_with_the_number_of_anothers_launch_stay() -> None:
    """A live recording has torch's own numbers on operators, which begin at 1 as CUPTI's do."""
    columns = read_columns(FILE, ImportReport())
    operator = np.array([kind == "cpu_op" for kind in columns.kind.values])[columns.kind.codes]
    numbered = replace(columns, correlation=np.where(operator, np.arange(len(columns)), columns.correlation))
    kept = of_devices(numbered, (1,), ImportReport())
    names = np.array(kept.name.values)[kept.name.codes]
    assert [(names == name).sum() for name in ("aten::relu", "cudaLaunchKernel", "relu")] == [20, 10, 10]


def test_how_it_is_asked_for() -> None:
    assert parse("p --devices 0,2 --pcie").options.devices == (0, 2)
    assert parse("p --devices 0,2 --pcie").options.pcie
    assert parse("p").options.devices is None
    for line, words in (("p --devices one", "list of numbers"), ("p --devices ,", "numbers of GPUs")):
        with pytest.raises(OptionError, match=words):
            parse(line)
    with pytest.raises(OptionError, match="numbers of GPUs"):
        nbp.profile("marks", devices=[])
    with pytest.raises(OptionError, match="numbers of GPUs"):
        CollectorOptions(devices=(-1,))


class Driver:
    """libcuda with three cards, of which this process uses those in `active`; it keeps a journal."""

    def __init__(self, active: tuple[int, ...] = (0, 2), fails: dict[str, int] | None = None) -> None:
        self.active, self.fails = active, fails or {}
        self.calls: list[str] = []
        self.current = -1

    def _code(self, name: str) -> int:
        return self.fails.get(name, 0)

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 3
        return self._code("cuDeviceGetCount")

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDevicePrimaryCtxGetState(self, device: Any, flags: Any, active: Any) -> int:
        active._obj.value = int(device.value in self.active)
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = 100 + device.value
        self.calls.append(f"retain {device.value}")
        return self._code("cuDevicePrimaryCtxRetain")

    def cuDevicePrimaryCtxRelease_v2(self, device: Any) -> int:
        self.calls.append(f"release {device.value}")
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self.current = context.value
        return self._code("cuCtxPushCurrent_v2")

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.current = -1
        return 0

    def cuCtxSynchronize(self) -> int:
        if self.current == -1:
            return 201
        self.calls.append(f"wait {self.current}")
        return self._code("cuCtxSynchronize")

    def cuGetErrorName(self, code: Any, name: Any) -> int:
        names = {700: b"CUDA_ERROR_ILLEGAL_ADDRESS", 2: b"CUDA_ERROR_OUT_OF_MEMORY"}
        name._obj.value = names.get(code.value)
        return 0


def absent(name: str) -> ctypes.CDLL:
    raise OSError("not found")


@pytest.mark.parametrize(("devices", "waited"), [(None, (0, 2)), ((2,), (2,)), ((1,), ())])
def test_the_cards_in_use_are_waited_for(devices: Any, waited: tuple[int, ...]) -> None:
    driver = Driver()
    assert settle(devices, lambda name: driver) == ""
    assert driver.calls == [f"{what}{n}" for n in waited for what in ("retain ", "wait 10", "release ")]
    assert driver.current == -1


def test_which_cards_are_in_use() -> None:
    assert in_use(lambda name: Driver()) == {0, 2}
    assert in_use(lambda name: Driver(fails={"cuDeviceGetCount": 3})) == set()  # CUDA was never initialised
    assert in_use(lambda name: Driver(fails={"cuDeviceGetCount": 999})) is None
    assert in_use(absent) is None


def test_failures_of_the_wait_in_the_drivers_words() -> None:
    lost = Driver(fails={"cuCtxSynchronize": 700})
    assert settle((0, 2), lambda name: lost) == (
        "GPU 0: CUDA_ERROR_ILLEGAL_ADDRESS (700); GPU 2: CUDA_ERROR_ILLEGAL_ADDRESS (700)"
    )
    assert lost.calls.count("release 0") == 1
    full = Driver(active=(1,), fails={"cuDevicePrimaryCtxRetain": 2})
    assert settle(None, lambda name: full) == "GPU 1: CUDA_ERROR_OUT_OF_MEMORY (2)"
    assert "release 1" not in full.calls  # nothing was taken
    push = Driver(active=(1,), fails={"cuCtxPushCurrent_v2": 999})
    assert settle(None, lambda name: push) == "GPU 1: error (999)"
    assert push.calls == ["retain 1", "release 1"]


def test_where_cuda_is_not_in_use_nothing_is_done() -> None:
    asleep = Driver(fails={"cuDeviceGetCount": 3})
    assert settle(None, lambda name: asleep) == ""
    assert asleep.calls == []
    assert settle(None, absent) == ""
