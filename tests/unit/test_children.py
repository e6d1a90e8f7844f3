"""Traces that child processes write while they are recorded here."""

from __future__ import annotations

import json
import os
from pathlib import Path

from notebook_prof import Profile
from notebook_prof.collectors.children import ChildrenCollector
from notebook_prof.trace.builder import TraceBuilder

from ..fake_clock import FakeClock

MS = 1_000_000


def write_trace(path: Path, begin_ns: int, pid: int = 4711) -> None:
    """As ``torch.profiler`` writes it: a launch, its kernel and an operator around the launch."""
    micro = {"pid": pid, "tid": pid, "ph": "X"}
    events = [
        {**micro, "cat": "cpu_op", "name": "aten::mm", "ts": 100.0, "dur": 50.0},
        {**micro, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 110.0, "dur": 5.0,
         "args": {"correlation": 7}},
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "gemm", "ts": 120.0, "dur": 900.0,
         "args": {"correlation": 7, "device": 0, "stream": 7}},
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": begin_ns, "traceEvents": events}))


def recorded(folder: Path, *traces: tuple[str, int]) -> tuple[ChildrenCollector, TraceBuilder]:
    """A recording of 100 ms in which these files appear; each begins so many ms after it."""
    clock = FakeClock()
    collector = ChildrenCollector(str(folder))
    collector.start(clock)
    begin_ns = clock.now_ns()
    for name, after in traces:
        write_trace(folder / name, begin_ns + after * MS)
    clock.advance(100 * MS)
    collector.stop()
    builder = TraceBuilder()
    track = builder.track("main", pid=os.getpid(), tid=1)
    builder.slices(ts=[begin_ns], dur=[100 * MS], name=["recv"], category="python", track=track)
    collector.result(builder)
    return collector, builder


def test_a_file_that_appears_becomes_tracks_on_the_same_clock(tmp_path: Path) -> None:
    write_trace(tmp_path / "before.pt.trace.json", FakeClock().now_ns())
    collector, builder = recorded(tmp_path, ("engine.pt.trace.json", 20))
    assert not list(collector.report)
    p = Profile(builder.seal())
    slices = p.trace.slices.set_index("name")
    assert slices.loc["gemm", ["ts", "dur"]].tolist() == [20 * MS + 120_000, 900_000]
    tracks = p.trace.tracks.set_index("track")
    assert tracks.loc[slices.loc["aten::mm", "track"], "pid"] == 4711
    assert tracks.loc[slices.loc["gemm", "track"], ["kind", "device", "stream"]].tolist() == ["stream", 0, 7]
    launched = p.trace.flows[p.trace.flows["kind"] == "launch"]
    names = p.trace.slices["name"]
    assert [names[row] for row in (*launched["src"], *launched["dst"])] == ["cudaLaunchKernel", "gemm"]
    assert p.kernels()["total_ns"].tolist() == [900_000]


def test_what_does_not_appear_or_is_of_another_time_is_said(tmp_path: Path) -> None:
    collector, _ = recorded(tmp_path)
    assert [issue.code for issue in collector.report] == ["child-traces-missing"]
    collector, builder = recorded(tmp_path, ("late.pt.trace.json", 5000))
    assert [issue.code for issue in collector.report] == ["child-trace-elsewhere"]
    assert len(builder.seal().slices) == 1
    (tmp_path / "broken.json").write_text("{")
    collector = ChildrenCollector(str(tmp_path))
    collector.start(FakeClock())
    (tmp_path / "broken.json").write_text("{]")
    collector.stop()
    collector.result(TraceBuilder())
    assert [issue.code for issue in collector.report] == ["child-trace-unread"]
