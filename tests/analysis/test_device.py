"""Busy and idle time of devices."""

from __future__ import annotations

from notebook_prof.analysis import device
from notebook_prof.testing import draw
from notebook_prof.trace import TraceBuilder

KINDS = {"copy": "memcpy", "fill": "memset", "reduce": "collective", "range": "annotation"}


def test_streams_are_united_and_ranges_do_not_count():
    trace = draw(
        """
        stream 7: [gemm  ]   [copy]
        stream 8:     [reduce    ]      [fill]
        stream 9: [range                              ]
        """,
        categories=KINDS,
    )
    row = device(trace).iloc[0].to_dict()
    assert row == {
        "device": 0,
        "window_ns": 28,
        "busy_ns": 17 + 6,
        "idle_ns": 5,
        "compute_ns": 8,
        "communication_ns": 12,
        "memory_ns": 12,
        "exposed_communication_ns": 8,
    }


def test_a_window_cuts():
    trace = draw("stream 7: [gemm  ]   [gemm]")
    assert device(trace, window=(4, 30))[["window_ns", "busy_ns", "idle_ns"]].values.tolist() == [
        [26, 10, 16]
    ]


def test_each_device_has_a_row():
    b = TraceBuilder()
    one, two = (b.track("", "stream", device=number, stream=7) for number in (3, 1))
    b.slices(ts=[0, 5], dur=[10, 1], track=[one, two], name="k", category="kernel")
    assert device(b.seal())[["device", "busy_ns"]].values.tolist() == [[1, 1], [3, 10]]


def test_empty():
    assert device(TraceBuilder().seal()).empty
    assert device(draw("main: [mm ]")).empty
