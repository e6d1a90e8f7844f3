"""Counters of a card, summed up, and in the overview."""

import numpy as np
import pytest

from notebook_prof import Trace, TraceBuilder
from notebook_prof.analysis import overview
from notebook_prof.analysis.device.busy import device_counters


def recording() -> Trace:
    b = TraceBuilder()
    stream = b.track("GPU 0 stream 7", "stream", device=0, stream=7)
    b.slices(ts=0, dur=100, name="gemm", category="kernel", track=stream, device=0)
    for name, values in {
        "GPU 0 power": [100.0, 200.0, 300.0],
        "GPU 0 energy": [1_000.0, 1_001.0, 1_005.0],
        "GPU 0 temperature": [40.0, 60.0, 50.0],
        "GPU 0 throttle reasons": [0.0, 4.0, 4.0],
        "GPU 1 memory": [5.0, 9.0, 7.0],
        "process RSS": [1.0, 1.0, 1.0],
    }.items():
        b.counter(b.track(name, "counter"), [0, 50, 99], values)
    return b.seal()


def test_sums_by_device_in_a_window_and_in_the_overview() -> None:
    table = device_counters(recording())
    assert table.index.tolist() == [0, 1]
    columns = ["power_w", "power_max_w", "energy_j", "temperature_max_c"]
    assert table.loc[0, columns].tolist() == [200, 300, 5, 60]
    assert table.loc[0, "throttled_share"] == pytest.approx(2 / 3)
    assert table.loc[1, "memory_used_bytes"] == 9
    assert np.isnan(table.loc[1, "power_w"])
    assert (table.dtypes == "float64").all()
    assert device_counters(recording(), window=(40, 99)).loc[0, "power_w"] == 200
    assert device_counters(recording(), window=(1, 2)).empty
    devices = overview(recording()).devices.set_index("device")
    assert devices.loc[0, "power_w"] == 200
    assert "power_w" not in overview(TraceBuilder().seal()).devices
