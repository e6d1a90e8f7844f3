"""memory, its peak, and what is live."""

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Profile, Trace, TraceBuilder
from notebook_prof.analysis import memory, memory_live, memory_peak, memory_processes
from notebook_prof.errors import OptionError
from notebook_prof.units import format_bytes


@pytest.fixture
def trace():
    b = TraceBuilder()
    main = b.track("main", pid=1, tid=1)
    b.slices(
        ts=[0, 10, 12, 30], dur=[100, 20, 5, 20], track=main,
        name=["net", "aten::mm", "aten::empty", "aten::add"],
        module=["net", None, None, "net.0"], phase=["forward", None, None, None],
    )  # fmt: skip
    b.steps([0, 1], [0, 25], [25, 75], "loop")
    b.allocations(
        ts=[5, 13, 35, 40, 60], addr=[9, 1, 2, 1, 2], bytes=[-16, 64, 32, -64, -32], device=-1,
        allocated=[0, 64, 96, 32, 0], reserved=0, track=main,
    )  # fmt: skip
    return b.seal()


def test_the_curve_is_a_step_function_with_a_peak(trace):
    table = memory(trace)
    assert table[["ts", "allocated_bytes"]].values.tolist() == [[5, 0], [13, 64], [35, 96], [40, 32], [60, 0]]
    assert set(table["device"]) == {-1}
    assert set(table["source"]) == {"allocator"}
    table = memory(trace, window=(20, 40))
    assert table[["ts", "allocated_bytes"]].values.tolist() == [[20, 64], [35, 96]]
    assert memory(trace, device=0).empty
    table = memory_peak(trace)
    row = table.iloc[0]
    assert (row["ts"], row["peak_bytes"], row["end_bytes"], row["step"]) == (35, 96, 0, 1)
    assert memory_peak(trace, window=(0, 20))["peak_bytes"].tolist() == [64]


def test_live_blocks_name_who_made_them(trace):
    table = memory_live(trace, 36)
    assert table["bytes"].tolist() == [64, 32]
    assert table["operator"].tolist() == ["aten::mm", "aten::add"]  # aten::empty only allocates for mm
    assert table["module"].tolist() == ["net", "net.0"]
    assert table["phase"].tolist() == ["forward", "forward"]
    assert table["step"].tolist() == [0, 1]
    assert table["birth_ts"].tolist() == [13, 35]
    assert table["death_ts"].tolist() == [40, 60]
    assert trace.slices["name"].iloc[table["slice"].iloc[0]] == "aten::mm"


def test_live_by_default_at_the_peak_and_before_the_recording(trace):
    assert memory_live(trace).equals(memory_live(trace, 35))
    assert memory_live(trace, "35ns").equals(memory_live(trace, 35))
    with pytest.raises(OptionError, match="not a duration"):
        memory_live(trace, "soon")
    table = memory_live(trace, 0)
    assert table["bytes"].tolist() == [16]
    assert table["birth_ts"].isna().all()
    assert table["operator"].isna().all()
    assert memory_live(trace, 5).empty


def test_resident_memory_stands_in_where_no_allocator_spoke():
    b = TraceBuilder()
    rss = b.track("process memory (RSS)", "counter", pid=1, unit="bytes")
    share = b.track("CPU share", "counter", pid=1, unit="share")
    b.counter(rss, [0, 10], [1e6, 2e6])
    b.counter(share, [0, 10], [0.5, 0.5])
    trace = b.seal()
    table = memory(trace)
    assert table["allocated_bytes"].tolist() == [1_000_000, 2_000_000]
    assert table["source"].tolist() == ["rss", "rss"]
    assert table["reserved_bytes"].tolist() == [0, 0]
    assert memory_peak(trace)["source"].tolist() == ["rss"]
    assert memory_live(trace).empty


def test_blocks_of_the_host_lie_inside_its_resident_memory():
    b = TraceBuilder()
    rss = b.track("process memory (RSS)", "counter", pid=1, unit="bytes")
    b.counter(rss, [0, 5, 9], [1e6, 3e6, 2e6])
    b.allocations(ts=[3, 4], addr=[1, 2], bytes=[64, 8], device=[0, -1], allocated=[164, 8], reserved=128)
    trace = b.seal()
    peak = memory_peak(trace)
    assert peak[["device", "source"]].values.tolist() == [[-1, "rss"], [-1, "allocator"], [0, "allocator"]]
    assert peak["peak_bytes"].tolist() == [3_000_000, 8, 164]
    assert peak["base_bytes"].tolist() == [1_000_000, 0, 100]
    assert memory_peak(trace, window=(4, 9))["base_bytes"].tolist()[0] == 1_000_000


def recorded_beside(events: int, peak: float, collectors: list[str]) -> Trace:
    """A process grows from 300 MB to `peak`; of the operators that are recorded half come before that."""
    b = TraceBuilder(metadata={"collectors": collectors})
    rss = b.track("process memory (RSS)", "counter", pid=1, unit="bytes")
    b.counter(rss, [0, 10, 20], [300e6, peak, 300e6])
    main = b.track("main", tid=1)
    ts = np.repeat([5, 15], events // 2)
    b.slices(ts=ts, dur=np.zeros(len(ts), np.int64), name="aten::add", category="operator", track=main)
    b.slices(ts=[0], dur=[20], name="f", category="python", track=main)
    return b.seal()


@pytest.mark.parametrize(
    ("events", "peak", "collectors", "recorder", "tells"),
    [
        (200_000, 600e6, ["torch", "system"], 220_000_000, True),
        (200_000, 400e6, ["torch", "system"], 100_000_000, True),  # no more than what came
        (20_000, 600e6, ["torch", "system"], 22_000_000, False),  # below a tenth
        (200_000, 600e6, ["system"], 0, False),
        (200_000, 300e6, ["torch"], 0, False),
    ],
)
def test_memory_of_the_recording_itself(
    events: int, peak: float, collectors: list[str], recorder: int, tells: bool
) -> None:
    """The process holds what torch's profiler keeps, which no bare run has."""
    trace = recorded_beside(events, peak, collectors)
    (row,) = memory_peak(trace).to_dict("records")
    assert row["recorder_bytes"] == recorder
    line = Profile(trace).verdict.lines[-1]
    assert line.startswith("Memory: peak")
    assert ("held by the recording itself" in line) == tells
    assert format_bytes(recorder) in line or not tells


def with_children(*, size: float = 2.0**30) -> Trace:
    """One child has half a GiB until 30, a second one `size` from 20 to 40; the process has most at 60."""
    b = TraceBuilder(metadata={"cpu": {"pid": 1, "tid": 1, "cores": 2.0}})
    b.slices(ts=[0], dur=[100], name="f", category="python", track=b.track("main", pid=1, tid=1))
    rss = b.track("process RSS", "counter", pid=1, unit="bytes")
    b.counter(rss, [0, 25, 60], [2.0**28, 2.0**29, 2.0**29 + 2.0**20])
    rows = [
        (8, "python a.py", 5, 2**29),
        (8, "python a.py", 31, 0),
        (9, "make", 20, size),
        (9, "make", 41, 0),
    ]
    b.table(
        "child_memory", pd.DataFrame(rows, columns=["pid", "name", "ts", "bytes"]).astype({"bytes": "int64"})
    )
    return b.seal()


def test_process_and_children_when_they_have_most_together() -> None:
    trace = with_children()
    columns = ["name", "kind", "pid", "ts", "bytes", "start_bytes", "peak_bytes"]
    assert memory_processes(trace)[columns].values.tolist() == [
        ["process", "process", 1, 25, 2**29, 2**28, 2**29 + 2**20],
        ["make", "child", 9, 25, 2**30, 0, 2**30],
        ["python a.py", "child", 8, 25, 2**29, 0, 2**29],
    ]
    alone = memory_processes(trace, window=(50, 90)).iloc[0]
    assert (alone["ts"], alone["bytes"], alone["start_bytes"]) == (60, 2**29 + 2**20, 2**29)
    later = memory_processes(trace, window=(35, 40))
    found = later[["name", "bytes", "start_bytes"]].values.tolist()
    assert found == [["process", 2**29, 2**29], ["make", 2**30, 2**30]]
    assert memory_processes(trace, window=(50, 90))["name"].tolist() == ["process"]
    assert memory_processes(TraceBuilder().seal()).empty
