"""CUDA events around annotated ranges, with a CuPy that plays a device with a clock of its own."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.collectors import cuda, journal
from notebook_prof.collectors import cuda as events
from notebook_prof.collectors.base import Availability
from notebook_prof.collectors.cuda import CudaCollector, CudaFacts


class Device:
    """Two cards with one clock; events cost nothing, and times between them are floats of 32 bits."""

    def __init__(self) -> None:
        self.now_ms = 5.0
        self.step_ms = 0.25
        self.fails = False
        self.current = 1
        stream = SimpleNamespace(ptr=7)
        self.cuda = SimpleNamespace(
            Event=lambda: Event(self),
            Device=lambda number=None: Card(self, self.current if number is None else number),
            Stream=lambda non_blocking: SimpleNamespace(ptr=99),
            get_current_stream=lambda: stream,
            get_elapsed_time=elapsed,
            runtime=SimpleNamespace(getDeviceCount=lambda: 2),
        )


class Card:
    """The current card inside of its block."""

    def __init__(self, device: Device, number: int) -> None:
        self.device, self.id, self.before = device, number, device.current

    def __enter__(self) -> None:
        self.before, self.device.current = self.device.current, self.id

    def __exit__(self, *_: object) -> None:
        self.device.current = self.before


def elapsed(begin: Event, end: Event) -> float:
    if begin.card != end.card:
        raise RuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return float(np.float32(end.at_ms - begin.at_ms))


class Event:
    """Takes the device's time when it is recorded."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.card = device.current
        self.at_ms = 0.0

    def record(self, stream: Any) -> None:
        if self.device.fails:
            raise RuntimeError("cudaErrorDevicesUnavailable")
        self.device.now_ms += self.device.step_ms
        self.at_ms = self.device.now_ms

    def synchronize(self) -> None:
        if self.device.fails:
            raise RuntimeError("cudaErrorDevicesUnavailable")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setitem(sys.modules, "cupy", device)
    monkeypatch.setattr(cuda, "survey", lambda *_: CudaFacts(Availability(True)))
    return device


def on_device(trace: Any) -> Any:
    streams = trace.tracks.loc[trace.tracks["kind"] == "stream", "track"]
    return trace.slices[trace.slices["track"].isin(streams)]


def test_ranges_are_timed_on_their_stream(device: Device) -> None:
    with nbp.profile(CudaCollector()) as p:
        with nbp.annotate("outer"), nbp.annotate("inner"):
            pass
        with nbp.annotate("alone"):
            pass
    assert p.trace.metadata["cuda_route"] == "counters"
    ranges = on_device(p.trace).set_index("name")
    assert ranges["dur"].to_dict() == {"outer": 750_000, "inner": 250_000, "alone": 250_000}
    assert (ranges["category"] == "annotation").all()
    assert set(ranges["device"]) == {1}
    assert p.kernels().empty  # a range is no kernel
    assert journal._watchers == ()


def test_short_ranges_are_as_long_late_in_a_recording(device: Device) -> None:
    """A float of 32 bits tells 62 µs ten minutes after the start."""
    with nbp.profile(CudaCollector()) as p:
        device.now_ms, device.step_ms = 600_000.0, 0.02
        for _ in range(200):
            with nbp.annotate("short"):
                pass
    ranges = on_device(p.trace).sort_values("ts")
    assert (ranges["dur"] - 20_000).abs().max() <= 1
    gaps = ranges["ts"].diff().dropna()[1:]  # the first tells the float's step
    assert (gaps - 40_000).abs().max() <= 200


@pytest.mark.parametrize("in_use", [{0, 1}, {1}])
def test_a_range_on_another_card(device: Device, monkeypatch: pytest.MonkeyPatch, in_use: set[int]) -> None:
    monkeypatch.setattr(events, "in_use", lambda: in_use)
    with nbp.profile(CudaCollector()) as p:
        with nbp.annotate("own"):
            pass
        device.current = 0
        with nbp.annotate("other"):
            device.current = 1  # the range ends on the card that it began on
    ranges = on_device(p.trace).set_index("name")["device"].to_dict()
    if 0 in in_use:
        assert ranges == {"own": 1, "other": 0}
        assert "events-failed" not in p.trace.report
    else:
        assert ranges == {"own": 1}
        assert "GPU 0 was not in use" in p.trace.report["events-failed"].example


def test_a_range_that_is_open_at_the_end(device: Device) -> None:
    recording = nbp.profile(CudaCollector())
    recording.start()
    span = nbp.annotate("open").begin()
    recording.stop()
    span.end()
    assert on_device(recording.trace)["dur"].tolist() == [250_000]


def test_too_many_are_counted(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_RANGES", 3)
    with nbp.profile(CudaCollector()) as p:
        for _ in range(5):
            with nbp.annotate("again"):
                pass
    assert len(on_device(p.trace)) == 3
    assert p.trace.report["ranges-dropped"].count == 2


@pytest.mark.parametrize("when", ["inside", "after"])
def test_a_device_lost_in_the_middle_leaves_the_cell_alone(device: Device, when: str) -> None:
    recording = nbp.profile(CudaCollector())
    recording.start()
    with nbp.annotate("work"):
        device.fails = when == "inside"
        done = sum(range(10))
    device.fails = True
    recording.stop()
    assert done == 45
    assert "cudaErrorDevicesUnavailable" in recording.trace.report["events-failed"].example
    assert on_device(recording.trace).empty


def test_without_cupy_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(cuda, "survey", lambda *_: CudaFacts(Availability(True)))
    assert CudaCollector.availability().ok
    with nbp.profile(CudaCollector()) as p:
        pass
    assert "CuPy is not imported" in p.trace.report["no-kernel-records"].example
    assert CudaCollector().claims() == frozenset()
