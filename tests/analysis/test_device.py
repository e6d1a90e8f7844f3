"""Busy and idle time of devices."""

from __future__ import annotations

import pandas as pd

from notebook_prof import Trace, TraceBuilder
from notebook_prof.analysis import device, distributed, overview, steps
from notebook_prof.analysis.busy_time import device_of
from notebook_prof.analysis.scope import on_device
from notebook_prof.service.answers.meta import meta
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw

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
    columns = ("busy", "idle", "compute", "communication", "memory", "exposed_communication")
    assert (row["device"], row["window_ns"]) == (0, 28)
    assert [row[f"{column}_ns"] for column in columns] == [17 + 6, 5, 8, 12, 12, 8]


def test_each_device_has_a_row():
    b = TraceBuilder()
    one, two = (b.track("", "stream", device=number, stream=7) for number in (3, 1))
    b.slices(ts=[0, 5], dur=[10, 1], track=[one, two], name="k", category="kernel")
    assert device(b.seal())[["device", "busy_ns"]].values.tolist() == [[1, 1], [3, 10]]


def check_busy(trace: Trace) -> None:
    """Check that busy and idle time of each device sum to its window, and that no share exceeds all of it."""
    devices = device(trace).set_index("device")
    assert (devices["busy_ns"] + devices["idle_ns"] == devices["window_ns"]).all()
    assert (devices[["busy_ns", "idle_ns"]] >= 0).all(axis=None)
    parts = distributed(trace, by="trace").set_index("device")
    parts = parts.loc[parts.index.isin(devices.index)]
    assert parts["busy_ns"].tolist() == devices.loc[parts.index, "busy_ns"].tolist()
    step_table = steps(trace)
    assert (step_table[["host_busy_ns", "device_busy_ns"]].le(step_table["dur"], axis=0)).all(axis=None)
    of_device = overview(trace).devices
    of_device = of_device[of_device["device"] >= 0]
    for column in ("utilization", "busy_share", "sm_efficiency", "occupancy", "tensor_core_share"):
        shares = of_device[column].astype("float64").dropna()
        assert shares.between(0, 1 + 1e-9).all(), column
    check_streams(trace, devices["busy_ns"] / devices["window_ns"].clip(lower=1))


def check_streams(trace: Trace, busy_share: pd.Series[float]) -> None:
    """Check that the page tells of a device's only stream what `device` tells of the device."""
    store = ViewStore(trace)
    busy_of = {
        track["track"]: track["busy"] for track in meta(store, {}, {"doubts": "later"}).content["tracks"]
    }
    assert all(0 <= share <= 1 for share in busy_of.values())
    work = on_device(trace)
    pairs = pd.DataFrame({"device": device_of(trace, work), "track": work.ints("track")}).drop_duplicates()
    for number, tracks in pairs.groupby("device")["track"]:
        of_streams = [busy_of[track] for track in tracks]
        assert max(of_streams) <= busy_share[number] + 1e-6 <= sum(of_streams) + 2e-6
        if len(of_streams) == 1:
            assert abs(of_streams[0] - busy_share[number]) < 1e-6


def test_work_outside_the_steps_is_in_no_share_of_the_steps():
    trace = draw(
        """
        steps:    [0   ]
        stream 7: [gemm][gemm][gemm]
        """
    )
    [row] = overview(trace).devices.to_dict("records")
    assert (row["window_ns"], row["utilization"], row["busy_share"]) == (6, 1.0, 1.0)


def test_a_range_around_the_work_of_a_stream_is_not_work():
    trace = draw("stream 7: [ProfilerStep#1            ]", categories={"ProfilerStep#1": "annotation"})
    assert device(trace).empty
    b = TraceBuilder()
    stream = b.track("", "stream", device=0, stream=7)
    kinds = ["annotation", "kernel", "kernel"]
    b.slices(
        ts=[0, 10, 40], dur=[100, 10, 10], track=stream, name=["ProfilerStep#1", "a", "b"], category=kinds
    )
    trace = b.seal()
    check_busy(trace)
    [track] = meta(ViewStore(trace), {}, {}).content["tracks"]
    assert track["busy"] == 0.5
