"""Occupancy of kernels against the figures that Kineto wrote on five generations of cards."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.collectors.cuda.records import DeviceProperties, read_devices

from ..pretend_cupti import Driver

MOST_BLOCKS = {60: 32, 70: 32, 75: 16, 80: 32, 90: 32}
"""By compute capability; from the table of technical specifications in the CUDA programming guide."""
FILES = {
    "kineto_2021/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz": 8_868,
    "hta/nccl_data.json.gz": 2_286,
    "kineto_sync/after_fix_trace.json": 1,
    "param_linear/linear_kineto.json.gz": 8_716,
    "hta/with_gpu_user_annotation/step_based_trace_2543932.json.gz": 130,
}


def device_of(properties: dict[str, Any]) -> DeviceProperties:
    return DeviceProperties(
        name=properties["name"],
        memory_bytes=properties["totalGlobalMem"],
        multiprocessors=properties["numSms"],
        threads=properties["maxThreadsPerMultiprocessor"],
        major=properties["computeMajor"],
        minor=properties["computeMinor"],
        shared_memory=properties["sharedMemPerMultiprocessor"],
        registers=properties["regsPerMultiprocessor"],
        blocks=MOST_BLOCKS[10 * properties["computeMajor"] + properties["computeMinor"]],
        reserved_shared_memory=1024 if properties["computeMajor"] >= 8 else 0,
    )


def kernels_of(path: Path) -> Iterator[tuple[DeviceProperties, dict[str, Any]]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = json.load(file)
    devices = {properties["id"]: device_of(properties) for properties in content["deviceProperties"]}
    for event in content["traceEvents"]:
        arguments = event.get("args") or {}
        share = arguments.get("est. achieved occupancy %")
        # for more than 48 KiB Kineto's own calculation gives up and says 0
        if share is not None and (share or arguments["shared memory"] <= 49_152):
            yield devices[arguments["device"]], arguments


@pytest.mark.parametrize("name", FILES)
def test_the_figures_are_kinetos(shared_traces: Path, name: str) -> None:
    count = 0
    for device, arguments in kernels_of(shared_traces / name):
        shape = (tuple(arguments[name]) for name in ("grid", "block"))
        takes = (arguments[name] for name in ("registers per thread", "shared memory"))
        blocks, warps, share = device.occupancy(*shape, *takes)
        assert blocks == pytest.approx(float(arguments["blocks per SM"]), rel=1e-4, abs=1e-6)
        assert warps == pytest.approx(float(arguments["warps per SM"]), rel=1e-4, abs=1e-6)
        told = arguments["est. achieved occupancy %"]  # whole per cents
        assert 100 * share == pytest.approx(told, abs=1.01)
        count += 1
    assert count == FILES[name]


def test_the_driver_is_asked() -> None:
    (device,) = read_devices(Driver().load).values()
    assert (device.name, device.memory_bytes, device.multiprocessors) == ("NVIDIA H100", 80 << 30, 132)
    assert device.resident_blocks(1024, 32, 0) == 2
    assert device.resident_blocks(128, 32, 200_000) == 1
    assert device.resident_blocks(1024, 255, 0) == 0  # cannot be launched


def test_a_driver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_devices(Driver(code=100).load) == {}
    monkeypatch.setattr(Driver, "cuDeviceGetAttribute", lambda *_: 1)
    assert read_devices(Driver().load) == {}
