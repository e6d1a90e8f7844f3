"""TraceBuilder and Trace: what goes in comes out sorted, nested, linked."""

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Trace, TraceBuilder
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.trace import TABLES, Coded, Window


@pytest.fixture
def trace() -> Trace:
    b = TraceBuilder(metadata={"source": "test"})
    main = b.track("main", pid=1, tid=7)
    stream = b.track("stream 3", "stream", device=0, stream=3)
    host = b.slices(
        ts=[1000, 1010, 1200, 1030],
        dur=[100, 40, 50, 5],
        name=["step", "aten::mm", "late", "cudaLaunchKernel"],
        category=["annotation", "operator", "operator", "launch"],
        phase=["forward", None, None, None],
        module=["net", None, None, None],
        track=main,
    )
    device = b.slices(
        ts=[1210], dur=[20], name="gemm", category="kernel", track=stream, device=0, stream=3, correlation=9
    )
    b.flows("launch", host[3], device[0])
    b.steps([4, 5], [1000, 1200], [150, 50], "loop")
    blocks = {"addr": [2**63, 1], "bytes": [64, -64], "allocated": [64, 0], "reserved": 0}
    b.allocations(ts=[1015, 1040], device=-1, track=main, **blocks)
    b.counter(b.track("rss", "counter", unit="bytes"), [1000, 1100], [5.0, 6.0])
    return b.seal()


def test_every_table_has_its_declared_columns_and_dtypes(trace):
    for table in TABLES:
        table.validate(getattr(trace, table.name))
    empty = TraceBuilder().seal()
    for table in TABLES:
        table.validate(getattr(empty, table.name))
        assert len(getattr(empty, table.name)) == 0


def test_times_start_at_zero_and_the_origin_is_remembered(trace):
    assert trace.slices["ts"].tolist() == [0, 10, 30, 200, 210]
    assert trace.metadata["start_unix_ns"] == 1000
    assert trace.span == Window(0, 250)


def test_slices_are_sorted_nested_and_inherit_from_above(trace):
    s = trace.slices
    assert s["name"].tolist() == ["step", "aten::mm", "cudaLaunchKernel", "late", "gemm"]
    assert s["depth"].tolist() == [0, 1, 2, 0, 0]
    assert s["parent"].fillna(-1).tolist() == [-1, 0, 1, -1, -1]
    assert s["self_ns"].tolist() == [60, 35, 5, 50, 20]
    assert s["phase"].tolist()[:3] == ["forward"] * 3
    assert s["module"].tolist()[:3] == ["net"] * 3


def test_a_kernel_takes_phase_module_and_step_of_its_launch_not_of_its_time(trace):
    kernel = trace.slices.iloc[-1]
    assert (kernel["phase"], kernel["module"], kernel["step"]) == ("forward", "net", 4)


def test_an_allocation_knows_its_innermost_slice_and_keeps_64_bit_addresses(trace):
    a = trace.allocations
    assert a["slice"].tolist() == [1, 1]
    assert a["addr"].tolist() == [2**63, 1]
    assert a["ts"].tolist() == [15, 40]


def test_collectors_share_a_thread_and_the_first_name_stays():
    b = TraceBuilder()
    first = b.track("", pid=1, tid=2)
    assert b.track("worker", pid=1, tid=2) == first
    assert b.track("other", pid=1, tid=2) == first
    assert b.track("worker", pid=1, tid=3) != first
    assert b.track("a", "counter") != b.track("b", "counter")
    assert b.seal().tracks["name"].tolist() == ["worker", "worker", "a", "b"]


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "a"],
        np.array(["a", "b", "a"]),
        pd.Series(["a", "b", "a"]),
        pd.Categorical(["a", "b", "a"]),
        Coded(np.array([1, 0, 1]), ["b", "a"]),
    ],
)
def test_names_come_in_any_form_that_columns_have(names):
    b = TraceBuilder()
    b.slices(ts=[0, 1, 2], dur=[1, 1, 1], track=b.track("t"), name=names)
    assert b.seal().slices["name"].tolist() == ["a", "b", "a"]


def test_begin_and_end_become_slices_and_leftovers_are_counted():
    b = TraceBuilder()
    t = b.track("t")
    b.end(5, t)
    b.begin([10, 20], ["outer", "inner"], t)
    b.end([30, 40], t)
    b.begin(50, "open", t)
    b.begin(60, "last", t)
    b.end(90, t)
    trace = b.seal()
    rows = trace.slices[["name", "ts", "dur", "depth"]].values.tolist()
    assert rows == [["outer", 0, 30, 0], ["inner", 10, 10, 1], ["open", 40, 40, 0], ["last", 50, 30, 1]]
    assert trace.report["end-without-begin"].count == 1
    assert trace.report["unclosed-begin"].count == 1


def test_negative_durations_are_kept_as_instants_and_counted():
    b = TraceBuilder()
    b.slices(ts=[0, 5], dur=[-3, 1], track=b.track("t"), name="a")
    trace = b.seal()
    assert trace.slices["dur"].tolist() == [0, 1]
    assert trace.report["negative-duration"].count == 1


def test_a_window_cuts_and_counts():
    b = TraceBuilder()
    b.slices(ts=[0, 8, 20, 12], dur=[10, 10, 5, 0], track=b.track("t"), name=list("abcd"))
    trace = b.seal(window=(9, 15))
    assert trace.slices[["name", "ts", "dur"]].values.tolist() == [["b", 0, 6], ["a", 0, 1], ["d", 3, 0]]
    assert trace.span == Window(0, 6)
    assert trace.report["cut-at-window"].count == 2
    assert trace.report["outside-window"].count == 1


def test_sel_keeps_what_fits_and_mends_the_links(trace):
    part = trace.sel(category=["operator", "kernel"])
    assert part.slices["name"].tolist() == ["aten::mm", "late", "gemm"]
    assert part.slices["parent"].isna().all()
    assert len(part.flows) == 0
    assert part.allocations["slice"].tolist() == [0, 0]
    skipped = trace.sel(name=["step", "cudaLaunchKernel"])
    assert skipped.slices["parent"].fillna(-1).tolist() == [-1, 0], "the nearest ancestor that is left"


def test_sel_by_window_step_track_and_phase(trace):
    assert trace.sel(window=(205, 208)).slices["name"].tolist() == ["late"]
    assert trace.sel(step=5).slices["name"].tolist() == ["late"]
    assert trace.sel(step=(number for number in [5, 9])).steps["step"].tolist() == [5]
    assert trace.sel(track=1).slices["name"].tolist() == ["gemm"]
    assert len(trace.sel(phase="forward")) == 4
    assert len(trace.sel(name="no such")) == 0
    with pytest.raises(SelectionError, match="did you mean 'forward'"):
        trace.sel(phase="foward")


def test_mistakes_are_reported_with_the_nearest_name():
    b = TraceBuilder()
    with pytest.raises(OptionError, match="did you mean 'thread'"):
        b.track("x", "thraed")
    t = b.track("x")
    with pytest.raises(OptionError, match="did you mean 'kernel'"):
        b.slices(ts=0, dur=1, name="a", category="kernle", track=t)
    with pytest.raises(OptionError, match="2 starts but 1 durations"):
        b.slices(ts=[0, 1], dur=[1], name="a", track=t)
    b = TraceBuilder()
    b.seal()
    with pytest.raises(OptionError, match="sealed already"):
        b.seal()


def test_what_a_launched_slice_encloses_takes_its_module_too():
    b = TraceBuilder()
    main, stream = b.track("main"), b.track("stream 7", "stream", device=0, stream=7)
    call = b.slices(ts=0, dur=5, name="launch", track=main, module="net", phase="forward")
    outer, _inner = b.slices(
        ts=[10, 12], dur=[9, 3], name=["graph", "kernel"], track=stream, category="kernel", device=0, stream=7
    )
    b.flows("launch", call, [outer])
    slices = b.seal().slices
    assert slices["module"].tolist() == ["net"] * 3
    assert slices["phase"].tolist() == ["forward"] * 3


def test_a_table_beside_moves_with_the_trace():
    b = TraceBuilder()
    b.slices(ts=[1000], dur=[50], track=b.track("main"), name=["mm"])
    b.table("account", pd.DataFrame({"ts": [900, 960], "dur": [60, 340], "kind": ["code", "steps"]}))
    b.table("pairs", pd.DataFrame({"begin": [900], "end": [1001], "n": [7]}), times=("begin", "end"))
    b.table("plain", pd.DataFrame({"ts": [900]}), times=())
    trace = b.seal()
    tables = trace.metadata["tables"]
    assert trace.slices["ts"].tolist() == [100]
    assert (tables["account"]["ts"].tolist(), tables["account"]["dur"].tolist()) == ([0, 60], [60, 340])
    assert tables["pairs"].values.tolist() == [[0, 101, 7]]
    assert tables["plain"]["ts"].tolist() == [900]
    assert trace.span == Window(0, 400)
    assert trace.metadata["table_times"] == {"account": ["ts"], "pairs": ["begin", "end"], "plain": []}


def test_a_table_beside_needs_its_times():
    b = TraceBuilder()
    for frame in (pd.DataFrame({"t": [1]}), pd.DataFrame({"ts": [1.5]}), pd.DataFrame({"ts": ["a"]})):
        with pytest.raises(OptionError, match="whole nanoseconds"):
            b.table("moments", frame)


def test_counters_begin_with_the_cell() -> None:
    """A recording starts before its cell does: what was read then holds at the cell's first instant."""
    b = TraceBuilder()
    rss, cpu = b.track("process RSS", "counter", pid=1), b.track("process CPU", "counter", pid=1)
    b.counter(rss, [700, 800, 900, 950], [1, 2, 3, 4])
    b.counter(cpu, [930], [0.5])
    b.table("account", pd.DataFrame({"ts": [900], "dur": [100], "kind": ["code"]}))
    trace = b.seal()
    assert trace.counters["ts"].tolist() == [0, 50, 30]
    assert trace.counters["value"].tolist() == [3, 4, 0.5]
    b = TraceBuilder()
    b.counter(b.track("process RSS", "counter", pid=1), [700, 800], [1, 2])
    b.table("account", pd.DataFrame({"ts": [900], "dur": [100], "kind": ["code"]}))
    trace = b.seal()
    assert (trace.counters["ts"].tolist(), trace.counters["value"].tolist()) == ([0], [2])
