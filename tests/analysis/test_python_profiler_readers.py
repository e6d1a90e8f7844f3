"""VizTracer, pyinstrument, Scalene, speedscope and pstats: one workload, and what each tool says of it."""

from __future__ import annotations

import contextlib
import cProfile
import gzip
import json
import marshal
import pstats
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import NotebookProfError, Trace, TraceBuilder, read_trace
from notebook_prof.errors import FormatError
from notebook_prof.readers.registry import readers
from notebook_prof.writers import export_stacks

from ..draws import draws

OURS = [
    "viztracer/numpy_loop.min.json.gz",
    "python_profilers/pyinstrument.json",
    "python_profilers/pyinstrument.speedscope.json",
    "python_profilers/session.pyisession.gz",
    "python_profilers/profile.pstats",
]


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def totals(trace: Trace) -> pd.Series[int]:
    """Time of each function in all, by its bare name; recursion counted once."""
    rows = trace.slices.assign(function=[str(name).split(" (")[0] for name in trace.slices["name"]])
    return rows.groupby("function")["dur"].sum()


@pytest.mark.parametrize("file", OURS)
def test_stacks_exported_and_read_again_are_the_same(data: Path, tmp_path: Path, file: str) -> None:
    trace = read_trace(data / file)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    export_stacks(trace, first)
    again = read_trace(first)
    export_stacks(again, second)
    assert second.read_bytes() == first.read_bytes()
    assert int(again.slices["self_ns"].sum()) == int(trace.slices["self_ns"].sum())
    own = [t.slices.groupby("name", observed=True)["self_ns"].sum() for t in (trace, again)]
    own = [sums[sums > 0].sort_index().to_dict() for sums in own]  # type: ignore[misc]
    assert own[0] == own[1]
    export_stacks(trace, tmp_path / "first.txt")
    export_stacks(again, tmp_path / "second.txt")
    assert (tmp_path / "first.txt").read_bytes() == (tmp_path / "second.txt").read_bytes()


def test_three_exports_of_one_pyinstrument_run_agree(data: Path) -> None:
    folder = data / "python_profilers"
    tree, evented, session = (
        totals(read_trace(folder / file))
        for file in ("pyinstrument.json", "pyinstrument.speedscope.json", "session.pyisession.gz")
    )
    for function in ("main", "step", "forward", "backward", "spin"):
        assert tree[function] == pytest.approx(session[function], abs=2000)  # written with six decimals
        assert abs(evented[function] - session[function]) <= 20  # sums of roundings
    assert session["forward"] / session["backward"] == pytest.approx(0.5, rel=0.1)
    said = read_trace(folder / "pyinstrument.json").report["no-time-line"].effect
    assert said.startswith("totals are estimates from samples")


def test_a_session_keeps_its_time_line_and_thread(data: Path) -> None:
    trace = read_trace(data / "python_profilers" / "session.pyisession.gz")
    assert trace.tracks["name"].tolist() == ["MainThread"]
    order = [str(name).split(" (")[0] for name in trace.slices.query("depth == 3")["name"]]
    assert order == ["forward", "backward"] * 3
    leaf = trace.stacks.set_index("stack").loc[trace.slices["stack"].iloc[-1]]
    assert trace.metadata["sample_count"] == 139
    assert str(leaf["name"]) in str(trace.slices["name"].iloc[-1])


def test_pyinstruments_own_time_is_the_functions(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "viztracer" / "pyinstrument.json")
    step = trace.slices[trace.slices["name"] == "step (gen_viz.py:9)"]
    assert step["dur"].tolist() == [89_499_000]
    # "[self]" of 36.728 ms is not a call of its own
    assert step["self_ns"].tolist() == [36_728_000 + 994_000]
    assert "[self]" not in set(trace.slices["name"])


def test_viztracer_gives_calls_counters_and_the_clock(data: Path) -> None:
    trace = read_trace(data / OURS[0])
    raw = json.loads(content(data / OURS[0]))
    calls = [event for event in raw["traceEvents"] if event["ph"] == "X"]
    assert len(trace.slices[trace.slices["category"] == "python"]) == len(calls) == 463
    expected = sorted(round(event["dur"] * 1000) for event in calls)
    assert sorted(trace.slices.query("category == 'python'")["dur"]) == expected
    first = min(event["ts"] for event in raw["traceEvents"] if "ts" in event)
    base = raw["viztracer_metadata"]["baseTimeNanoseconds"]
    assert trace.metadata["start_unix_ns"] == base + round(first * 1000)
    assert len(trace.counters) == 30
    assert trace.tracks["name"].tolist() == ["MainThread", "loader", "loss"]
    assert trace.counters["value"].iloc[0] == pytest.approx(2.4030428256338663)
    main = trace.stacks[trace.stacks["name"] == "main"].iloc[0]
    assert str(main["file"]).endswith("gen_viz.py")
    assert main["line"] == 15
    assert any(path.endswith("gen_viz.py") for path in trace.metadata["source_files"])


def test_viztracer_of_other_makes(shared_traces: Path) -> None:
    folder = shared_traces / "viztracer"
    threads = read_trace(folder / "multithread.json")
    assert len(threads.slices) == 582
    assert len(threads.tracks) == 5
    logged = read_trace(folder / "logging_integration.json")
    assert logged.slices["category"].value_counts().to_dict()["annotation"] == 41
    fib = logged.slices[logged.slices["name"] == "fib (src/logging_integration.py:7)"]
    assert len(fib) == 41
    assert fib["depth"].max() == 8


def test_scalene_shares_are_its_own(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "viztracer" / "scalene.json.gz")
    lines = trace.metadata["tables"]["lines"]
    elapsed = trace.metadata["elapsed_time_sec"] * 1e9
    own = trace.slices.groupby("name", observed=True)["self_ns"].sum() / elapsed * 100
    said = lines.set_index("lineno")[["n_cpu_percent_python", "n_cpu_percent_c", "n_sys_percent"]].sum(axis=1)
    assert own["<module> (gen/gen_viz.py:1)"] == pytest.approx(said[1], abs=1e-3)
    assert own["worker (gen/gen_viz.py:14)"] == pytest.approx(said[14], abs=1e-3)
    assert trace.slices["self_ns"].sum() == pytest.approx(elapsed, abs=20)
    assert {"softmax", "forward"} <= set(trace.metadata["tables"]["functions"]["line"])


def test_scalene_without_stacks_falls_back_to_lines(shared_traces: Path, tmp_path: Path) -> None:
    raw = json.loads(content(shared_traces / "viztracer" / "scalene.json.gz"))
    raw.update(stacks=[], samples=[[100_000_000, 10.0], [2.0e8, 12.5], "bad"])
    path = tmp_path / "s"
    path.write_text(json.dumps(raw))
    trace = read_trace(path)
    assert trace.slices["self_ns"].sum() == pytest.approx(raw["elapsed_time_sec"] * 1e9, abs=50)
    assert trace.counters["value"].tolist() == [10 * 2**20, 12.5 * 2**20]
    assert np.diff(trace.counters["ts"]).tolist() == [100_000_000]
    assert trace.span.dur < 2 * raw["elapsed_time_sec"] * 1e9


def test_pstats_agrees_with_pstats(data: Path) -> None:
    path = data / "python_profilers" / "profile.pstats"
    trace = read_trace(path)
    table = trace.metadata["tables"]["functions"].set_index("name")
    stats = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    assert len(table) == len(stats) == len(trace.slices)
    for (file, line, name), (primitive, calls, own, total, callers) in stats.items():
        row = table.loc[name]
        assert (row["calls"], row["primitive_calls"]) == (calls, primitive)
        assert (row["self_ns"], row["total_ns"]) == (round(own * 1e9), round(total * 1e9))
        assert (row["file"] or "~", row["line"]) == (file, line)
        edges = trace.metadata["tables"]["callers"].query("name == @name")
        assert len(edges) == len(callers)
    assert int(trace.slices["self_ns"].sum()) == int(table["self_ns"].sum())


def test_statistics_of_a_live_profile_are_read(tmp_path: Path) -> None:
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    profiler = cProfile.Profile()
    profiler.runcall(fib, 10)
    path = tmp_path / "unknown"
    profiler.dump_stats(path)
    row = read_trace(path).metadata["tables"]["functions"].set_index("name").loc["fib"]
    assert (row["calls"], row["primitive_calls"]) == (177, 1)


@pytest.mark.parametrize(
    "value",
    [
        {("a.py", 1, "f"): (1, 1, 0.5, 0.5, {})},
        {("a.py", 1, "é" * 300): (2**40, 1, 0.5, 0.5, {("b", 2, "g"): (1, 1, 0.1, 0.2)})},
        {},
    ],
)
@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_of_marshal(tmp_path: Path, value: dict[Any, Any], version: int) -> None:
    path = tmp_path / "p"
    path.write_bytes(marshal.dumps(value, version))
    assert len(read_trace(path, format="pstats").slices) == len(value)


def test_sampled_statistics_are_not_called_exact(tmp_path: Path) -> None:
    """Python 3.15's sampling profiler adds an entry that is not a function."""
    path = tmp_path / "p"
    functions: dict[Any, Any] = {("a.py", 1, "f"): (1, 1, 0.5, 0.5, {})}
    for marked, word in ((functions, "exact"), ({("__sampled__",): True, **functions}, "sampled")):
        path.write_bytes(marshal.dumps(marked))
        [issue] = read_trace(path, format="pstats").report
        assert (issue.code, f"own times are {word}" in issue.effect) == ("no-time-line", True)


@pytest.mark.parametrize(
    "hostile",
    [
        marshal.dumps({("a", 1, "f"): compile("1", "x", "eval")}),
        marshal.dumps({("a", 1, "f"): 3}),
        b"{(\x03\x00\x00\x00" + b"(\xff\xff\xff\x7f",
        b"{)\x03" + b")\x01" * 100_000,
        b"\xfb\xa9\x03" + b"r\x00\x00\x00\x00",
        b"{)\x03" + b"[\x02\x00\x00\x00" * 9,
    ],
)
def test_what_is_no_statistics_is_refused(tmp_path: Path, hostile: bytes) -> None:
    path = tmp_path / "p"
    path.write_bytes(hostile)
    with pytest.raises(FormatError):
        read_trace(path, format="pstats")


@pytest.mark.parametrize("kind", ["sampled", "evented"])
def test_a_thread_costs_its_own_samples(kind: str, tmp_path: Path, counted_names: list[str]) -> None:
    """Names of frames that only other threads have are not looked at again for each thread and depth."""
    threads, depth = 50, 6
    frames = [{"name": f"f{i}", "file": "a.py", "line": i + 1} for i in range(1_000)]
    profiles = []
    for thread in range(threads):
        own = list(range(thread * depth, (thread + 1) * depth))
        events = [{"type": "OC"[at], "at": at, "frame": frame} for at in (0, 1) for frame in own]
        times = {"samples": [own], "weights": [1]} if kind == "sampled" else {"events": events}
        profiles.append({"type": kind, "name": f"thread {thread}", "unit": "seconds", "endValue": 1, **times})
    path = tmp_path / "unknown"
    content = {"shared": {"frames": frames}, "profiles": profiles}
    path.write_text(json.dumps(content))
    trace = read_trace(path)
    assert len(trace.slices) == threads * depth
    assert trace.slices["name"].nunique() == threads * depth
    assert len(counted_names) < 3 * len(trace.slices)


def test_speedscope_units_samples_and_damage(tmp_path: Path) -> None:
    frames = [{"name": "a"}, {"name": "b", "file": "/x/y/z.py", "line": 3}]
    samples = {"samples": [[0], [0, 1], [], [0, 7], [0]], "weights": [1, 2, 3, 1, 1, 5]}
    events = [{"type": "OOCC"[i], "at": i + 1, "frame": frame} for i, frame in enumerate((0, 1, 0, 9))]
    whole = {"startValue": 0, "endValue": 9}
    profiles = [
        {"type": "sampled", "name": "one", "unit": "microseconds", **samples, **whole},
        {"type": "evented", "name": "two", "unit": "none", "events": events, **whole},
        {"type": "evented", "unit": "seconds", "events": 3},
    ]
    file = {"shared": {"frames": frames}, "profiles": profiles}
    path = tmp_path / "s"
    path.write_text(json.dumps(file))
    trace = read_trace(path)
    codes = {issue.code: issue.count for issue in trace.report}
    assert codes.pop("broken-row") == 2
    without = {"sample-without-weight", "sample-without-stack"}
    assert codes == dict.fromkeys(without | {"unit-not-time", "unclosed-begin", "broken-profile"}, 1)
    one = trace.slices[trace.slices["track"] == 0]
    found = one[["ts", "dur", "name"]].to_numpy().tolist()
    assert found == [[0, 3000, "a"], [1000, 2000, "b (y/z.py:3)"], [6000, 1000, "a"]]
    two = trace.slices[trace.slices["track"] == 1]
    assert two[["ts", "dur", "name"]].to_numpy().tolist() == [[1, 2, "a"], [2, 7, "b (y/z.py:3)"]]


def speedscope(tmp_path: Path, *profiles: dict[str, Any]) -> Path:
    path = tmp_path / "s"
    path.write_text(json.dumps({"shared": {"frames": [{"name": "a"}]}, "profiles": profiles}))
    return path


def test_bytes_of_speedscope_are_no_time(tmp_path: Path) -> None:
    sampled = {"type": "sampled", "samples": [[0]] * 20, "weights": [5] * 20}
    memory = {**sampled, "name": "heap", "unit": "bytes"}
    trace = read_trace(speedscope(tmp_path, memory, {**sampled, "unit": "milliseconds"}))
    assert trace.report["profile-without-time"].example == "heap"
    assert trace.slices["dur"].tolist() == [100_000_000]
    assert trace.metadata.get("time_unit", True)
    with pytest.raises(FormatError, match="records bytes, not time"):
        read_trace(speedscope(tmp_path, memory))


def test_samples_of_speedscope_begin_where_their_profile_does(tmp_path: Path) -> None:
    sampled = {"type": "sampled", "unit": "seconds", "samples": [[0], []], "weights": [1, 2]}
    trace = read_trace(speedscope(tmp_path, {**sampled, "startValue": 3}, {**sampled, "startValue": 7.5}))
    assert trace.slices["ts"].diff().tolist()[1:] == [4_500_000_000]
    assert trace.report["sample-without-stack"].count == 2


def test_device_time_is_exported_by_launching_path(tmp_path: Path) -> None:
    b = TraceBuilder()
    main, gpu = b.track("main", pid=1, tid=1), b.track("GPU 0", "stream", device=0, stream=7)
    host = b.slices(ts=[0, 1, 2], dur=[9, 5, 1], track=main, name=["a;b", "mm", "launch"])
    work = b.slices(ts=[20, 30], dur=[4, 2], track=gpu, name=["gemm", "left"], category="kernel")
    b.flows("launch", host[2:], work[:1])
    trace = b.seal()
    export_stacks(trace, tmp_path / "s.txt", metric="device_ns")
    assert (tmp_path / "s.txt").read_text() == "a:b;mm;launch;gemm 4\nleft 2\n"
    export_stacks(trace, tmp_path / "s.txt")
    assert (tmp_path / "s.txt").read_text() == "a:b 4\na:b;mm 4\na:b;mm;launch 1\n"
    with pytest.raises(NotebookProfError, match="did you mean 'self_ns'"):
        export_stacks(trace, tmp_path / "s.txt", metric="self_n")


_JSON = st.recursive(
    st.one_of(st.none(), st.integers(-5, 2**66), st.floats(allow_nan=False), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=5,
)


TARGETS = (
    *(("pyinstrument", "root_frame"), ("pyinstrument", "frame_records"), ("scalene", "stacks")),
    *(("scalene", "samples"), ("speedscope", "profiles"), ("viztracer", "traceEvents")),
)


@settings(max_examples=draws(75))
@given(
    st.sampled_from(TARGETS),
    _JSON,
    st.booleans(),
)
def test_any_json_gives_a_trace_or_a_refusal(target: tuple[str, str], value: Any, listed: bool) -> None:
    name, key = target
    file: dict[str, Any] = {"files": {"a": {"lines": [value], "functions": value}}}
    file |= {"elapsed_time_sec": 1.0, "viztracer_metadata": value, key: [value, value] if listed else value}
    reader = next(reader for reader in readers() if reader.name == name)
    builder = TraceBuilder()
    with contextlib.suppress(NotebookProfError):
        reader.read(json.dumps(file).encode(), builder)
        assert np.isfinite(builder.seal().slices["dur"]).all()
