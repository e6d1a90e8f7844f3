"""Reports of Nsight Systems, against what sqlite3 alone counts in them."""

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.trace import length, union

from .. import samples

FOLDER = samples.ROOTS["shared"] / "nsys"
REPORTS = (
    *("cloverleaf_2024_5", "gomory_2025_5", "mordred_2020", "nvtx_cpu_2023_4", "runtime_only_2025_1"),
    *("saxpy_mpi_2022_2", "synthetic_thin", "tiny_2026_1", "torch_emit_nvtx_h100x2_2026_2"),
)
DEVICE_WORK = ("kernel", "collective", "memcpy", "memset")

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared recordings are not here")


@cache
def trace_of(report: str) -> Trace:
    return read_trace(FOLDER / f"{report}.sqlite.xz")


@cache
def oracle_of(report: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{report}.oracle.json").read_text())


@pytest.fixture(params=REPORTS)
def report(request: pytest.FixtureRequest) -> str:
    return request.param


def of_category(trace: Trace, *categories: str) -> pd.DataFrame:
    return trace.slices[trace.slices["category"].isin(categories)]


def busy_ns(slices: pd.DataFrame) -> int:
    ts = slices["ts"].to_numpy()
    return length(union(ts, ts + slices["dur"].to_numpy()))


def test_kernels_are_those_of_the_report(report: str) -> None:
    trace, expected = trace_of(report), oracle_of(report).get("kernels")
    kernels = of_category(trace, "kernel", "collective")
    if expected is None:
        assert len(kernels) == 0
        return
    assert (len(kernels), kernels["dur"].sum()) == (expected["count"], expected["total_ns"])
    assert kernels["name"].nunique() == expected["distinct_demangled_names"]
    sums = kernels.groupby("name", observed=True)["dur"].agg(["count", "sum"])
    for row in expected["top5_demangled"]:
        assert sums.loc[row["name"]].tolist() == [row["count"], row["total_ns"]], row["name"]
    lanes = [
        (int(part["stream"].iloc[0]), len(part), int(part["dur"].sum()), busy_ns(part))
        for _, part in kernels.groupby("track")
    ]
    rows = expected["per_device_stream"]
    assert sorted(lanes) == sorted((r["stream"], r["count"], r["sum_ns"], r["busy_ns"]) for r in rows)
    if "with_launch_call" in expected:
        launched = trace.flows[trace.flows["kind"] == "launch"]["dst"]
        assert kernels.index.isin(launched).sum() == expected["with_launch_call"]


def test_copies_fills_and_busy_time_are_those_of_the_report(report: str) -> None:
    trace, expected = trace_of(report), oracle_of(report)
    events = (trace.metadata.get("tables") or {}).get("device_events")
    for category, kind, part in (("memcpy", "gpu_memcpy", "memcpy"), ("memset", "gpu_memset", "memset")):
        rows = of_category(trace, category)
        if part not in expected:
            assert len(rows) == 0
            continue
        assert (len(rows), rows["dur"].sum()) == (expected[part]["count"], expected[part]["total_ns"])
        if len(rows):
            assert events.loc[events["kind"] == kind, "bytes"].sum() == expected[part]["bytes"]
    for row in expected.get("memcpy", {}).get("per_kind", ()):
        word = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP", 11: "HtoD", 12: "DtoH"}[row["copyKind"]]
        name = trace.slices["name"]
        migrated = name.str.contains("unified memory", regex=False) == (row["copyKind"] > 10)
        named = trace.slices[name.str.startswith(f"Memcpy {word}") & migrated]
        assert (len(named), named["dur"].sum()) == (row["count"], row["total_ns"])
    work = of_category(trace, *DEVICE_WORK)
    busy = sorted(busy_ns(part) for _, part in work.groupby("device"))
    if busy or "device_busy_ns_kernels_memcpy_memset" in expected:
        assert busy == sorted(expected["device_busy_ns_kernels_memcpy_memset"].values())


def test_calls_ranges_and_system_calls_are_those_of_the_report(report: str) -> None:
    trace, expected = trace_of(report), oracle_of(report)
    on_host = trace.slices[
        trace.slices["track"].isin(trace.tracks.loc[trace.tracks["kind"] != "stream", "track"])
    ]
    calls = expected.get("runtime", {"count": 0, "per_event_class": {}})
    backtraces = calls["per_event_class"].get("67", 0)
    system, ranges = expected.get("osrt", {"count": 0}), expected.get("nvtx", {})
    overhead = expected.get("profiler_overhead", {"count": 0})["count"]
    count = calls["count"] - backtraces + system["count"] + overhead
    count += expected["tables_with_rows"].get("CUPTI_ACTIVITY_KIND_OVERHEAD", 0)
    shown = ("ranges_push_pop_59", "ranges_start_end_60", "marks_34")
    count += sum(ranges.get(key, 0) for key in shown)
    assert len(on_host[on_host["category"] != "python"]) == count
    sums = on_host.groupby("name", observed=True)["dur"].agg(["count", "sum"])
    for row in [*(calls.get("top5", ()) if not backtraces else ()), *system.get("top5", ())]:
        if row["name"] in sums.index:
            assert sums.loc[row["name"]].tolist() == [row["count"], row["total_ns"]], row["name"]
    if ranges and report != "torch_emit_nvtx_h100x2_2026_2":
        for row in ranges["top5"]:
            assert sums.loc[row["name"]].tolist() == [row["count"], row["total_ns"]], row["name"]
    waits = of_category(trace, "sync")
    on_device = waits[~waits["track"].isin(on_host["track"])]
    expected_waits = expected.get("synchronization", {"count": 0, "total_ns": 0})
    assert [len(on_device), on_device["dur"].sum()] == [expected_waits["count"], expected_waits["total_ns"]]


def test_the_clock_and_the_threads_are_those_of_the_report(report: str) -> None:
    trace, expected = trace_of(report), oracle_of(report)
    start = trace.metadata["start_unix_ns"] - expected.get("session_start_utc_ns", 0)
    assert start <= expected["first_ts"]
    ends = (trace.slices["ts"] + trace.slices["dur"])[trace.slices["category"] != "python"]
    assert start + ends.max() >= expected["last_ts"]
    threads = trace.tracks[trace.tracks["kind"] == "thread"].set_index(["pid", "tid"])["name"]
    for row in expected["threads_with_events"]:
        name = threads.loc[(row["pid"], row["tid"])]
        assert name == (row["name"] or f"thread {row['tid']}") or name.startswith("MPI Rank")


def test_samples_and_switches_are_those_of_the_report(report: str) -> None:
    trace, expected = trace_of(report), oracle_of(report)
    sampled = of_category(trace, "python")
    if "samples" not in expected:
        assert len(sampled) == 0
    else:
        stacks = expected["samples"]
        missing = trace.report["sample-without-stack"].count if "sample-without-stack" in trace.report else 0
        assert stacks["composite_events"] - missing == stacks["with_callchain"]
        leaves = {row["name"] for row in stacks["top5_leaf"]} - {"[Broken backtraces]", "[Max depth]"}
        assert leaves <= set(trace.stacks["name"])
    of_cores = trace.tracks.loc[trace.tracks["name"] == "threads on processors", "track"]
    switches = trace.counters[trace.counters["track"].isin(of_cores)]
    assert len(switches) == expected.get("sched_events", {"count": 0})["count"]
    assert switches["value"].min() >= 0 if len(switches) else True


def test_two_processes_with_gpus_are_ranks_and_their_names_are_pytorchs() -> None:
    trace = trace_of("torch_emit_nvtx_h100x2_2026_2")
    assert sorted(trace.tracks["rank"].dropna().unique()) == [0, 1]
    kernels = of_category(trace, "kernel", "collective")
    rank = trace.tracks.set_index("track")["rank"].loc[kernels["track"]]
    assert kernels.groupby(rank.to_numpy())["dur"].sum().tolist() == [22_385_163, 22_444_359]
    operators = of_category(trace, "operator")
    assert len(operators) == 16_782
    assert "aten::is_nonzero" in set(operators["name"])
    assert not operators["name"].str.contains("op_id").any()
    assert trace.report["device-work-without-launch"].count >= 1_810


def test_one_report_is_the_same_in_all_three_exports(tmp_path: Path) -> None:
    expected = trace_of("nvtx_cpu_2023_4")
    for kind in ("arrowdir", "parquetdir"):
        with tarfile.open(FOLDER / f"nvtx_cpu_2023_4.{kind}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
        assert same(expected, read_trace(tmp_path / f"nvtx_cpu_2023_4.{kind}")), kind
    streams = b"".join(
        path.read_bytes() for path in sorted((tmp_path / "nvtx_cpu_2023_4.arrowdir").glob("*.arrow"))
    )
    (tmp_path / "one.arrow").write_bytes(streams)
    assert same(expected, read_trace(tmp_path / "one.arrow"))


def same(one: Trace, other: Trace) -> bool:
    names = ("slices", "tracks", "counters", "flows", "stacks", "steps", "allocations")
    for name in names:
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))
    return one.metadata["start_unix_ns"] == other.metadata["start_unix_ns"]


def test_no_value_of_the_environment_is_kept(report: str, tmp_path: Path) -> None:
    """Reports hold the whole environment of their user; values longer than a word would be seen."""
    import lzma
    import sqlite3

    path = tmp_path / "report.sqlite"
    path.write_bytes(lzma.decompress((FOLDER / f"{report}.sqlite.xz").read_bytes()))
    database = sqlite3.connect(path)
    database.text_factory = lambda value: value.decode(errors="replace")
    secrets: set[str] = set()
    for table, column in (("TARGET_INFO_SYSTEM_ENV", "value"), ("META_DATA_CAPTURE", "value")):
        if database.execute("select 1 from sqlite_master where name = ?", (table,)).fetchone():
            for (text,) in database.execute(
                f"select {column} from {table} where name like '%ENV%'"
            ).fetchall():
                secrets.update(line.strip() for line in str(text).splitlines() if len(line.strip()) > 20)
    database.close()
    trace = trace_of(report)
    names = trace.slices["name"].cat.categories
    content = "\n".join([repr(trace.metadata), *map(str, trace.report), *names])
    assert [text for text in secrets if text in content] == []
