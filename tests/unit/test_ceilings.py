"""Measured ceilings: sane, kept, and only used for recordings of the same device."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from notebook_prof.analysis.device.roofline import Ceilings, ceilings_of, forget, remember
from notebook_prof.collectors import ceilings
from notebook_prof.collectors.ceilings import measure_device
from notebook_prof.errors import OptionError
from notebook_prof.testing import draw
from notebook_prof.trace import TraceBuilder


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ceilings, "_CACHE", {})
    monkeypatch.setattr(ceilings, "_SECONDS", 0.0)
    monkeypatch.setattr(ceilings, "_HOST_SIZE", 64)
    monkeypatch.setattr(ceilings, "_HOST_BYTES", 2**16)
    forget()
    yield
    forget()


def test_the_host_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = measure_device("host", dtype="float64")
    assert rates.flops_per_s > 1e5
    assert rates.bytes_per_s > 1e5
    assert "64 × 64 float64" in rates.how
    assert measure_device("host", dtype="float64") is rates
    assert measure_device("host", dtype="float64", again=True) is not rates
    monkeypatch.setattr(ceilings, "_torch", lambda: None)
    assert "NumPy" in measure_device().how
    with pytest.raises(OptionError, match="bfloat16"):
        measure_device("host", dtype="bfloat16")


def test_rates_are_work_over_the_shortest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "_torch", lambda: None)
    times = np.array([1.0, 4.0, 2.0, 3.0, 0.1, 0.5, 0.25, 1.0])  # the first of each four is the warm-up
    ends = np.cumsum(times)
    clock = iter(np.ravel([ends - times, ends], order="F"))
    monkeypatch.setattr(ceilings, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    rates = measure_device("host")
    assert rates.limits == pytest.approx({"flops_per_s": 2 * 64**3 / 2.0, "bytes_per_s": 2 * 2**16 / 0.25})


def test_a_recording_has_the_ceilings_of_its_own_device() -> None:
    card = Ceilings("NVIDIA H100", 6e13, 2e12, "float32", "")
    host = Ceilings("host", 5e10, 1e10, "float32", "")
    on_host, on_card = draw("main: [mm ]"), TraceBuilder(metadata={"devices": ["NVIDIA H100"]})
    on_card.slices(
        ts=[0], dur=[5], name="gemm", category="kernel", track=on_card.track("s", "stream", device=0)
    )
    trace = on_card.seal()
    assert ceilings_of(on_host) is None
    assert ceilings_of(trace) is None
    remember(host)
    assert ceilings_of(trace) is None
    remember(card)
    assert ceilings_of(trace) is card
    assert ceilings_of(on_host) is host
    assert ceilings_of(TraceBuilder(metadata={"file": "other.json"}).seal()) is None
