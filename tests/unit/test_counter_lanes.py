"""Counters and resident memory in the views."""

from __future__ import annotations

import numpy as np
import pytest

from notebook_prof import analysis
from notebook_prof.selection import Selection
from notebook_prof.service.answers import counters, memory
from notebook_prof.service.columns import drawn_counters
from notebook_prof.service.selected_rows import matching_key, matching_mask
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.dashboard import empty_reasons
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.report.report_columns import payload

from ..browser.drawn import drawn_trace

STATE = Selection().to_state()


@pytest.fixture
def trace() -> Trace:
    builder = TraceBuilder()
    builder.slices(ts=[0], dur=[1000], name="work", track=builder.track("main", pid=1, tid=1))
    rss = builder.track("process memory (RSS)", "counter", pid=1, unit="bytes")
    builder.counter(rss, [0, 400, 800], [2.0**30, 2.0**31, 2.0**30])
    builder.counter(builder.track("GPU 0 power", "counter", unit="W"), [0, 500], [70.5, 300.0])
    builder.track("never read", "counter")
    return builder.seal()


def test_values_come_as_steps_of_the_tracks_asked_for(trace: Trace) -> None:
    store = ViewStore(trace)
    power, rss = store.counters[1].track, store.counters[0].track
    answer = counters(store, STATE, {"a": 0, "b": 1000, "px": 100, "tracks": [power, 99, rss]})
    assert answer.content["tracks"] == [power, rss]
    assert answer.content["sizes"] == [3, 4]
    assert answer.arrays()["y"].tolist() == [70.5, 300, 300, 2**30, 2**31, 2**30, 2**30]
    assert counters(store, STATE, {"a": 0, "b": 1}).content["tracks"] == []


def test_memory_is_the_resident_memory_where_no_allocator_spoke(trace: Trace) -> None:
    assert "memory" not in empty_reasons(trace)
    store = ViewStore(trace)
    assert store.memory_devices == [-1]
    answer = memory(store, Selection(name="work").to_state(), {"a": 0, "b": 1000, "px": 100})
    assert answer.content["peak"] == {"ts": 400, "bytes": 2**31}
    assert len(answer.arrays()["sx"]) == 0, "the resident memory belongs to no slice"
    shown = answer.arrays()["y"][:-1]
    np.testing.assert_array_equal(shown, analysis.memory(trace)["allocated_bytes"])
    assert set(answer.arrays()["ry"]) == {shown[0]}, "what was there at the start"
    assert payload(store, None, 1000)["memory"][0]["resident"] is True


def test_without_any_memory_the_view_says_how_to_record_it() -> None:
    builder = TraceBuilder()
    builder.slices(ts=[0], dur=[1], name="x", track=builder.track("main"))
    assert "--memory" in empty_reasons(builder.seal())["memory"]


def test_recorded_blocks_are_drawn_inside_of_resident_memory() -> None:
    builder = TraceBuilder()
    main = builder.track("main")
    builder.slices(ts=[0, 20], dur=[10, 10], name=["mm", "add"], track=main)
    builder.counter(
        builder.track("process RSS", "counter", pid=1, unit="bytes"), [0, 12, 30], [900, 1000, 950]
    )
    sizes = {"bytes": [64, 8], "allocated": [64, 72], "reserved": 0}
    builder.allocations(ts=[5, 25], addr=[1, 2], device=-1, track=main, **sizes)
    store = ViewStore(builder.seal())
    assert store.memory_devices == [-1]
    request = {"a": 0, "b": 40, "px": 100}
    answer = memory(store, Selection().to_state(), request)
    assert answer.content["part"] == "blocks"
    assert answer.content["peak"]["bytes"] == 1000
    assert answer.arrays()["y"].max() == 1000
    assert answer.arrays()["sy"].max() == 72
    chosen = memory(store, Selection(name="add").to_state(), request)
    assert chosen.content["part"] == "selection"
    assert chosen.arrays()["sy"].max() == 8
    assert {"blocks", "blocks_ts"} <= payload(store, None, 1000)["memory"][0]["columns"].keys()


def test_selected_memory_is_that_of_the_selected_slices() -> None:
    protocol = PageQueries(drawn_trace(gpu=True), Selection(name="aten::conv2d"))
    store = protocol.store
    for device in store.memory_devices:
        curve = store.selected_memory(device, matching_key(protocol.selection.to_state()))
        assert curve is not None
        owner, size = store.memory_owners(device)
        events = store.trace.allocations
        ts = events.loc[events["device"] == device, "ts"].to_numpy()
        selected = (owner >= 0) & matching_mask(store.columns, (("name", ("aten::conv2d",)),))[owner]
        for instant in ts[:: max(len(ts) // 40, 1)].tolist():
            alive = int(size[selected & (ts <= instant)].sum())
            assert curve.value[np.searchsorted(curve.ts, instant, "right") - 1] == alive


def check_shares(trace: Trace) -> None:
    """A counter that is written as a share is one."""
    for counter in drawn_counters(trace):
        if counter.unit in ("1", "share"):
            assert 0 <= counter.low <= counter.high <= 1, counter
