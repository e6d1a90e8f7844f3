"""The line that each slice ran for: its thread's, its caller's, its launch's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.readers.native import NativeReader
from notebook_prof.service.answers.find import detail
from notebook_prof.service.answers.table import table
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace, TraceBuilder


def training() -> TraceBuilder:
    """Forward on line 2 and 3, backward on line 4 in a thread of its own, one kernel each."""
    b = TraceBuilder()
    main, engine = b.track("main", pid=7, tid=7), b.track("autograd", pid=7, tid=8)
    stream = b.track("stream 7", "stream", device=0, stream=7)
    lines = {"category": "python", "track": main, "dur": [100, 100, 300]}
    b.slices(ts=[0, 100, 200], name=["cell:2  h = f(x)", "cell:3  y = g(h)", "cell:4  y.backward()"], **lines)
    forward = b.slices(ts=[10, 110], dur=[50, 50], name=["f", "g"], phase="forward", track=main)
    backward = b.slices(
        ts=[220, 320], dur=[50, 50], name=["gBackward", "fBackward"], phase="backward", track=engine
    )
    kernels = b.slices(
        ts=[1000, 1100, 1200, 1300], dur=[50] * 4, name="k", category="kernel", track=stream, device=0
    )
    b.slices(ts=390, dur=9, name="idle", track=engine)
    b.flows("launch", np.concatenate([forward, backward]), kernels)
    b.flows("fwdbwd", forward, backward[::-1])
    return b


def lines_by_name(trace: Trace) -> dict[str, list[str]]:
    table = trace.slices.assign(line=trace.slices["line"].astype(object).fillna(""))
    return {str(name): rows.tolist() for name, rows in table.groupby("name", observed=True)["line"]}


@pytest.fixture
def trace() -> Trace:
    return training().seal()


def test_operators_kernels_and_backward_threads_have_the_line_that_called_them(trace: Trace) -> None:
    lines = lines_by_name(trace)
    assert lines["f"] == ["cell:2"]
    assert lines["g"] == ["cell:3"]
    assert lines["gBackward"] == lines["fBackward"] == ["cell:4"]
    assert lines["k"] == ["cell:2", "cell:3", "cell:4", "cell:4"]
    assert lines["idle"] == [""], "a thread that does not run the backward waits for nobody"


def test_what_outlasts_a_line_ran_for_the_one_around_it() -> None:
    b = TraceBuilder()
    main = b.track("main")
    b.slices(
        ts=[0, 10], dur=[100, 20], name=["cell:9  out = net(x)", "cell:3  h = f(x)"],
        category="python", track=main,
    )  # fmt: skip
    b.slices(ts=[11, 12, 40], dur=[80, 5, 5], name=["Net", "in line", "later"], track=main)
    lines = lines_by_name(b.seal())
    assert (lines["Net"], lines["in line"], lines["later"]) == (["cell:9"], ["cell:3"], ["cell:9"])


def test_lines_are_saved(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "a.nbprof")
    pd.testing.assert_frame_equal(NativeReader().open(tmp_path / "a.nbprof").slices, trace.slices)


def test_chrome_events_tell_their_line(trace: Trace, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    trace.to_chrome(file)
    events = json.loads(file.read_text())["traceEvents"]
    lines = {event["name"]: event["args"].get("line") for event in events if event["ph"] == "X"}
    assert (lines["f"], lines["gBackward"], lines["idle"]) == ("cell:2", "cell:4", None)


def test_tables_group_by_line_and_filter_by_it(trace: Trace) -> None:
    p = Profile(trace)
    table = p.operators(by="line").set_index("line")
    assert table.loc["cell:4", ["self_ns", "device_ns"]].tolist() == [400, 100]
    assert table["self_ns"].sum() == p.operators()["self_ns"].sum()
    assert p.operators(where="line=2")["name"].tolist() == ["f", "cell:2  h = f(x)"]
    assert p.operators(line="cell:4")["device_ns"].sum() == 100
    assert p.kernels(by="line").set_index("line")["total_ns"].to_dict() == {
        "cell:2": 50, "cell:3": 50, "cell:4": 100,
    }  # fmt: skip
    assert p.lines(where="line=3")["line"].tolist() == [3]
    assert p.lines(where="line!=cell:3")["line"].tolist() == [4, 2]


def test_every_table_that_groups_groups_by_line() -> None:
    b, n = training(), np.arange(6)
    main, engine = b.track("main", pid=7, tid=7), b.track("autograd", pid=7, tid=8)
    shapes = {"name": "aten::mm", "shapes": "[[2, 3], [3, 4]]", "dur": [5, 5]}
    b.slices(ts=[20, 120], track=main, **shapes)
    b.slices(ts=[230, 330], track=engine, phase="backward", **shapes)
    b.steps(step=n, ts=n * 60, dur=np.full(6, 60), source="loop")
    kept = {"bytes": 64, "allocated": 64 * (n + 1), "reserved": 999, "device": 0}
    b.allocations(ts=[30, 70, 130, 190, 250, 310], addr=n + 1, track=main, **kept)
    p = Profile(b.seal())
    sums = {
        "operators": ("self_ns", p.operators(by="line"), p.operators()),
        "kernels": ("total_ns", p.kernels(by="line"), p.kernels()),
        "roofline": ("flops", p.device.roofline(by="line"), p.device.roofline()),
        "critical_path": ("path_ns", p.critical_path(by="line"), p.critical_path(by="class")),
        "memory.by": ("bytes", p.memory.by("line"), p.memory.by("device")),
        "memory.operators": ("increase_bytes", p.memory.operators(by="line"), p.memory.operators()),
    }
    for name, (column, by_line, whole) in sums.items():
        assert by_line[column].sum() == whole[column].sum() > 0, name
        assert by_line["line"].nunique() >= 2, name
    assert p.device.roofline(by="line").set_index("line")["count"].to_dict() == {
        "cell:2": 1,
        "cell:3": 1,
        "cell:4": 2,
    }
    blocks = p.memory.by("line").set_index("line")["blocks"].to_dict()
    assert blocks == {"cell:2": 2, "cell:3": 2, "cell:4": 2}
    growth = p.memory.growth(by="line")
    assert growth["bytes_per_step"].tolist() == []


def test_what_every_step_leaves_behind_has_a_line() -> None:
    b, n = TraceBuilder(), np.arange(6)
    main = b.track("main")
    b.slices(ts=n * 10, dur=np.full(6, 8), name="cell:3  kept.append(f(x))", category="python", track=main)
    b.steps(step=n, ts=n * 10, dur=np.full(6, 10), source="loop")
    kept = {"bytes": 64, "allocated": 64 * (n + 1), "reserved": 999, "device": 0}
    b.allocations(ts=n * 10 + 2, addr=n + 1, track=main, **kept)
    table = Profile(b.seal()).memory.growth(by="line")
    assert table[["line", "bytes_per_step"]].values.tolist() == [["cell:3", 64]]


def test_the_page_filters_by_line_and_tells_the_line_of_a_slice(trace: Trace) -> None:
    store = ViewStore(trace)
    answer = table(store, {"line": ["cell:2"]}, {"by": "name", "top": 10})
    assert int(answer.arrays()["device_ns"].max()) == 50
    row = trace.slices["name"].tolist().index("g")
    assert detail(store, {}, {"id": row}).content["line"] == "cell:3  y = g(h)"
