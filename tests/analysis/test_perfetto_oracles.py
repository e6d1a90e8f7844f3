"""Perfetto traces, against what the messages of Google's library say, and PyTorch's against their JSON."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.analysis import verdict
from notebook_prof.errors import FormatError
from notebook_prof.readers.codec.protobuf import fields, varint

from .. import samples

ROOT = samples.ROOTS["shared"]
FOLDER = ROOT / "perfetto"
SDK = Path(__file__).parents[1] / "data" / "perfetto" / "sdk_deltas.pftrace"
TWINS = {
    "torch_v2_cpu_cnn_sgd.pftrace.gz": "torch213_cpu/cnn_sgd.pt.trace.json",
    "torch_v2_gpu_linear.pftrace.gz": "param_linear/linear_kineto.json.gz",
    "torch_v1_gpu_linear.pftrace.gz": "param_linear/linear_kineto.json.gz",
}

shared = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared recordings are not here")


@cache
def sdk() -> Trace:
    return read_trace(SDK)


def oracle_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name.split('.')[0]}.oracle.json").read_text())


@shared
@pytest.mark.parametrize("name", TWINS)
def test_pytorchs_trace_is_what_its_json_is(name: str) -> None:
    """Slice for slice; where two begin together and last as long, their order is open."""
    trace, twin = read_trace(FOLDER / name), read_trace(ROOT / TWINS[name])
    columns = ["ts", "dur", "name", "category", "self_ns", "phase", "step", "module", "shapes", "device"]
    columns += ["stream", "correlation"]
    tables = []
    for each in (trace, twin):
        part = each.slices[columns].astype(dict.fromkeys(columns[2:4], "object")).astype("str")
        tables.append(part.sort_values(columns, ignore_index=True))
    pd.testing.assert_frame_equal(*tables)
    assert len(trace.flows) == len(twin.flows)
    pd.testing.assert_frame_equal(trace.steps, twin.steps)
    assert trace.tracks["name"].tolist() == twin.tracks["name"].tolist()
    own, other = (each.metadata.get("tables", {}) for each in (trace, twin))
    assert {key: len(table) for key, table in own.items()} == {
        key: len(table) for key, table in other.items()
    }
    if "device_events" in own:
        facts = ["device", "stream", "grid", "block", "registers_per_thread", "bytes"]
        keys = ["start_unix_ns", "correlation"]
        facts = [fact for fact in facts if fact in other["device_events"]]
        first, second = (t["device_events"].sort_values(keys, ignore_index=True)[facts] for t in (own, other))
        pd.testing.assert_frame_equal(first.astype("str"), second.astype("str"))


@shared
@pytest.mark.parametrize("name", TWINS)
def test_figures_of_pytorchs_trace_are_those_of_the_messages(name: str) -> None:
    trace, expected = read_trace(FOLDER / name), oracle_of(name)
    stages = expected.get("gpu_render_stages", {"count": 0, "total_ns": 0, "top5": []})
    slices = expected["slices"]
    assert len(trace.slices) == slices["closed"] + stages["count"]
    assert trace.slices["dur"].sum() == slices["total_ns"] + stages["total_ns"]
    sums = trace.slices.groupby("name", observed=True)["dur"].agg(["count", "sum"])
    for row in [*slices["top5"], *stages["top5"]]:
        assert sums.loc[row["name"]].tolist() == [row["count"], row["total_ns"]], row["name"]


def test_what_an_sdk_writes() -> None:
    """Deltas of a clock, defaults, numbers that mean another name later, packed packets, one lost."""
    trace = sdk()
    closed = trace.slices[~trace.slices["name"].isin(["unfinished", "checkpoint"])]
    assert (len(closed), closed["dur"].sum()) == (180, 17_732_631)
    tracks = trace.tracks.set_index("track")
    lanes = closed.groupby(closed["track"].map(tracks["name"]))["dur"].agg(["count", "sum"])
    assert lanes.to_dict("index") == {
        "python": {"count": 100, "sum": 4_166_795},
        "gpu 0 stream 20": {"count": 39, "sum": 1_085_042},
        "gpu 0 stream 7": {"count": 21, "sum": 525_180},
        "loader": {"count": 20, "sum": 11_955_614},
    }
    sums = closed.groupby("name", observed=True)["dur"].agg(["count", "sum"])
    assert sums.loc["next(batch)"].tolist() == [20, 11_955_614]
    assert sums.loc["wait"].tolist() == [13, 531_411]
    assert trace.metadata["start_unix_ns"] == 1_790_000_000_000_004_958
    assert trace.steps["step"].tolist() == list(range(20))
    assert len(trace.slices[trace.slices["name"] == "checkpoint"]) == 4
    assert trace.report["unclosed-begin"].example == "unfinished"
    assert trace.report["packets-without-state"].count == trace.report["packets-dropped"].count == 1


def test_counters_of_an_sdk_are_scaled_and_summed_up() -> None:
    trace = sdk()
    tracks = trace.tracks.set_index("track")
    values = trace.counters.groupby(trace.counters["track"].map(tracks["name"]))["value"]
    expected = {"requests": (1, 92, 983), "allocated": (151_099_467, 423_896_644, 11_026_356_467)}
    expected["rss"] = (3_125_248, 4_786_176, 96_080_896)
    for name, (first, last, total) in expected.items():
        series = values.get_group(name)
        assert (len(series), series.iloc[0], series.iloc[-1], series.sum()) == (20, first, last, total), name
    assert values.get_group("power").max() == pytest.approx(285.42589746874864)
    units = trace.tracks.set_index("name")["unit"]
    assert units[["allocated", "requests", "power", "rss"]].tolist() == ["bytes", "", "W", "bytes"]


def test_arrows_and_arguments_of_an_sdk() -> None:
    trace = sdk()
    kinds = trace.flows["kind"].value_counts()
    assert (kinds["launch"], kinds["link"]) == (60, 20)
    names = trace.slices["name"].astype("str")
    launches = trace.flows[trace.flows["kind"] == "launch"]
    assert (names[launches["dst"]].to_numpy() == names[launches["src"]].to_numpy() + "_kernel").all()
    arguments = trace.metadata["tables"]["event_arguments"]
    assert len(arguments) == 60
    decoded = [json.loads(text) for text in arguments["arguments"]]
    assert sorted(each["external id"] for each in decoded) == sorted(list(range(20)) * 3)
    same = {"Input Dims": [[32, 64], [64, 8]], "scale": 0.5, "ok": True, "device": "cuda:0"}
    assert all({**each, "external id": 0} == {**same, "external id": 0} for each in decoded)


@shared
def test_samples_of_linux_lie_beside_their_threads() -> None:
    trace = read_trace(FOLDER / "linux_sched_perf_systing.pb")
    assert verdict(trace).kind != "python-bound", "its samples are those of functions of Linux"
    sampled = trace.slices[trace.slices["category"] == "python"]
    assert len(trace.stacks) > 90
    missing = trace.report["sample-without-stack"].count if "sample-without-stack" in trace.report else 0
    roots = sampled[sampled["depth"] == 0]
    assert 0 < len(roots) <= 355 - missing
    # two interrupts of softirq and of hardware each, and a process that ends
    assert trace.report["kernel-events-not-used"].count == 2 * (4_284 + 3) + 1


@shared
def test_threads_run_and_wait_for_cores() -> None:
    """Runs of a core follow one another, a thread is on one core at a time, and it waits before it runs."""
    trace = read_trace(FOLDER / "linux_sched_perf_systing.pb")
    lanes = trace.tracks[trace.tracks["name"].str.endswith("· scheduling")]
    rows = trace.slices[trace.slices["track"].isin(lanes["track"])]
    assert set(rows["name"]) == {"running", "runnable"}
    running = rows[rows["name"] == "running"]
    switches = oracle_of("linux_sched_perf_systing.pb")["ftrace"]["compact_sched_switch"]
    raw = (FOLDER / "linux_sched_perf_systing.pb").read_bytes()
    idle, cores = plain_switches(raw)
    assert len(running) == switches - idle - cores
    ends = rows["ts"] + rows["dur"]
    later = rows.sort_values(["track", "ts", "dur"])
    same = later["track"].eq(later["track"].shift())
    assert (later["ts"][same] >= ends.loc[later.index].shift()[same]).all()
    waits = rows[rows["name"] == "runnable"]
    starts = set(zip(running["track"], running["ts"], strict=True))
    assert all(end in starts for end in zip(waits["track"], waits["ts"] + waits["dur"], strict=True))
    assert len(waits) > 1_000


def plain_switches(raw: bytes) -> tuple[int, int]:
    """Switches to no thread that another one of the core follows, and cores, read one message at a time."""
    switches: dict[int, list[tuple[int, int]]] = {}
    for _, packet in fields(raw, (0, len(raw))):
        for number, bundle in fields(raw, packet):  # type: ignore[arg-type]
            if number != 1:
                continue
            parts = dict(fields(raw, bundle))  # type: ignore[arg-type]
            columns = dict(fields(raw, parts[4])) if 4 in parts else {}  # type: ignore[arg-type]
            times, pids = (numbers(raw, columns[n]) if n in columns else [] for n in (1, 3))
            now = 0
            for step, pid in zip(times, pids, strict=True):
                now += step
                switches.setdefault(int(parts.get(1, 0)), []).append((now, pid))  # type: ignore[arg-type]
    idle = sum(pid == 0 for rows in switches.values() for _, pid in sorted(rows)[:-1])
    last = sum(1 for rows in switches.values() if rows)
    return idle, last


def numbers(raw: bytes, span: Any) -> list[int]:
    at, values = span[0], []
    while at < span[1]:
        value, at = varint(raw, at, span[1])
        values.append(value)
    return values


@shared
def test_a_trace_without_events_says_so() -> None:
    with pytest.raises(FormatError, match="holds no events"):
        read_trace(FOLDER / "empty_tracebox.pftrace")


def test_a_trace_that_is_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    data = SDK.read_bytes()
    counts, cut = [], []
    for share in range(1, 11):
        path = tmp_path / "cut"
        path.write_bytes(data[: len(data) * share // 10])
        trace = read_trace(path)
        counts.append(len(trace.slices))
        cut.append("truncated-file" in trace.report)
    assert sum(cut) >= 8  # a file that ends between two packets is whole
    assert not cut[-1]
    assert counts == sorted(counts)
    assert counts[0] > 0


def test_two_traces_one_behind_the_other(tmp_path: Path) -> None:
    """Concatenation is legal: each sequence begins anew, and clears what it told."""
    path = tmp_path / "two.pftrace"
    path.write_bytes(SDK.read_bytes() * 2)
    trace = read_trace(path)
    closed = trace.slices[~trace.slices["name"].isin(["unfinished", "checkpoint"])]
    assert len(closed) >= 360
    assert set(closed["name"]) == set(sdk().slices["name"]) - {"unfinished", "checkpoint"}
