"""Profiles of the Firefox Profiler, against what another reader counts in them, and some made by hand."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof import Trace, read_trace
from notebook_prof.analysis import host_waits, verdict
from notebook_prof.errors import FormatError
from notebook_prof.readers.call_tree import sample_durations

from .. import samples

SHARED = samples.ROOTS["shared"]
FILES = [f"firefox/{name}.json" for name in ("cli_limit_boundaries", "gecko-2", "processed-3")]
FILES.append("firefox/unsymbolicated.json.gz")
FILES += [f"python_samplers/tachyon315_{mode}.gecko.json.xz" for mode in ("live_opcodes", "none", "zstd")]
shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared recordings are not here")


def content(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    raw = lzma.decompress(raw) if path.suffix == ".xz" else raw
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def read(folder: Path, profile: dict[str, Any]) -> Trace:
    path = folder / "unknown"
    path.write_bytes(json.dumps(profile).encode())
    return read_trace(path, "gecko")


def thread(**changes: Any) -> dict[str, Any]:
    """Two samples of ``main`` calling ``f``, one of ``main`` alone, and one of a thread that is idle."""
    tables = {
        "name": "GeckoMain",
        "pid": "7",
        "tid": 8,
        "samples": {"stack": [1, 1, 0, None], "time": [0, 1, 2, 3], "weight": None, "weightType": "samples"},
        "stackTable": {"frame": [0, 1], "prefix": [None, 0]},
        "frameTable": {"func": [0, 1], "line": [3, None], "category": [1, 0]},
        "funcTable": {
            "name": [0, 1], "fileName": [2, None], "lineNumber": [1, None], "resource": [-1, 0],
        },
        "resourceTable": {"name": [3], "lib": [0]},
        "stringArray": ["main", "f", "a.py", "libx.so", "GC", "Work"],
    }  # fmt: skip
    return {**tables, **changes}


def profile(*threads: dict[str, Any], meta: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    facts = {
        "version": 32, "preprocessedProfileVersion": 57, "interval": 1, "startTime": 1.7e12,
        "categories": [{"name": "Idle"}, {"name": "JavaScript", "subcategories": ["Other", "JIT"]}],
    }  # fmt: skip
    return {"meta": {**facts, **(meta or {})}, "threads": list(threads), **more}


def rows(trace: Trace, *columns: str) -> list[list[Any]]:
    return trace.slices[list(columns)].values.tolist()


@shared
@pytest.mark.parametrize("name", FILES)
def test_samples_and_stacks_are_those_of_another_reader(name: str) -> None:
    """Samples by thread, their innermost functions, and markers, as the oracle counts them."""
    path = SHARED / name
    trace, answers = (
        read_trace(path),
        json.loads((SHARED / f"{path.parent.name}/{path.name.removesuffix('.xz')}.oracle.json").read_text()),
    )
    assert trace.metadata["source"] == "gecko"
    own = trace.tracks[trace.tracks["kind"] == "thread"]
    assert len(own) == len(answers["threads"])
    if answers["meta"]["startTime"] > 1e11:
        assert trace.metadata["start_unix_ns"] >= answers["meta"]["startTime"] * 1e6 - 1000
    markers = trace.slices[trace.slices["category"] == "annotation"]
    assert len(markers) <= sum(each["markers"] for each in answers["threads"])
    for track, each in zip(own.to_dict("records"), answers["threads"], strict=True):
        slices = trace.slices[trace.slices["track"] == track["track"]]
        assert str(track["tid"]) == str(each["tid"]) or each["tid"] is None
        time = slices.groupby(slices["name"].astype("str").str.replace(r" \(\S*\)$", "", regex=True))[
            "self_ns"
        ].sum()
        whole = slices["self_ns"].sum()
        for leaf in each["top5_leaf"]:
            function = leaf["name"].split(" (")[0]
            share = leaf["samples"] / each["samples"]
            # samples that come late stand for longer
            assert time[function] / whole == pytest.approx(share, abs=0.2 if "unsymb" in name else 0.05), (
                function
            )


@shared
@pytest.mark.parametrize("name", FILES)
def test_durations_sum_to_the_weights(name: str) -> None:
    """Of each thread: weights times the interval or, without weights, from sample to sample."""
    listed = content(SHARED / name)
    trace = read_trace(SHARED / name)
    threads = listed["threads"] + [one for part in listed.get("processes", []) for one in part["threads"]]
    own = trace.tracks.loc[trace.tracks["kind"] == "thread", "track"].tolist()
    for track, each in zip(own, threads, strict=True):
        table = each["samples"]
        time = table["time"] if "time" in table else [row[table["schema"]["time"]] for row in table["data"]]
        weight = table.get("weight")
        until = sample_durations(np.rint(np.array(time) * 1e6).astype(np.int64)).sum()
        expected = sum(weight) * listed["meta"]["interval"] * 1e6 if weight else until
        slices = trace.slices[trace.slices["track"] == track]
        assert slices["self_ns"].sum() == expected
        assert slices.loc[slices["depth"] == 0, "dur"].sum() == expected


@shared
def test_markers_of_python_s_sampler() -> None:
    name = "python_samplers/tachyon315_none.gecko.json.xz"
    answers = json.loads((SHARED / name.replace(".xz", ".oracle.json")).read_text())
    trace = read_trace(SHARED / name)
    for each in answers["threads"]:
        track = trace.tracks.loc[trace.tracks["name"] == f"{each['name']} · markers", "track"].item()
        counts = trace.slices.loc[trace.slices["track"] == track, "name"].value_counts()
        assert {key: int(value) for key, value in counts.items() if value} == each["marker_names"]


@shared
def test_both_layouts_of_one_profile_agree() -> None:
    """The processed profile was made of the other one, by Firefox's own conversion."""
    one, other = (read_trace(SHARED / "firefox" / name) for name in ("gecko-2.json", "processed-3.json"))
    times = []
    for trace in (one, other):
        kinds = trace.tracks.set_index("track")["kind"]
        threads = (trace.slices["track"].map(kinds) == "thread").to_numpy(bool)
        times.append(trace.slices.loc[threads, ["ts", "dur", "depth"]].to_numpy())
    assert (times[0] == times[1]).all()
    memory = [trace.counters["value"].tolist() for trace in (one, other)]
    assert memory[0] == memory[1] == [1, 3, 6, 10, 15, 21, 28]


def test_columns_idle_stacks_and_places(tmp_path: Path) -> None:
    trace = read(tmp_path, profile(thread()))
    found = rows(trace, "ts", "dur", "name", "category")
    assert found == [[0, 3_000_000, "main (a.py:3)", "python"], [0, 2_000_000, "f (libx.so)", "sync"]]
    assert trace.metadata["start_unix_ns"] == 1_700_000_000_000_000_000
    assert host_waits(trace)["kind"].tolist()[0] == "waiting"
    assert verdict(trace).kind == "wait-bound"


def test_shared_tables_and_deltas_of_times(tmp_path: Path) -> None:
    """As newer profiles have them: everything but the samples is there once, and times are differences."""
    whole = thread()
    common = {name: whole.pop(name) for name in ("stackTable", "frameTable", "funcTable", "resourceTable")}
    strings = whole.pop("stringArray")
    del common["funcTable"]["fileName"]
    common["funcTable"]["source"] = [0, None]
    whole["samples"] = {"stack": [1, 1, 0, None], "timeDeltas": [0, 1, 1, 1], "weightType": "samples"}
    twin = {**whole, "tid": 9}
    sources = {"filename": [2], "uuid": [None], "length": 1}
    file = profile(whole, twin, shared={**common, "stringArray": strings, "sources": sources})
    trace = read(tmp_path, file)
    separate = read(tmp_path, profile(thread(), thread(tid=9)))
    columns = ["ts", "dur", "name", "category", "track"]
    assert rows(trace, *columns) == rows(separate, *columns)


def test_rows_behind_a_schema(tmp_path: Path) -> None:
    """As `perf script gecko` writes them, where frames are texts."""
    perf = {
        "name": "python", "pid": 7, "tid": 8,
        "samples": {
            "schema": {"stack": 0, "time": 1, "responsiveness": 2},
            "data": [[1, 5000.0, 0], [1, 5001.0, 0], [0, 5002.0, 0]],
        },
        "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[None, 0], [0, 1]]},
        "frameTable": {
            "schema": {
                "location": 0, "relevantForJS": 1, "innerWindowID": 2, "implementation": 3,
                "optimizations": 4, "line": 5, "column": 6, "category": 7, "subcategory": 8,
            },
            "data": [[0, False, 0, None, None, None, None, 1, None], [1, False, 0]],
        },
        "stringTable": ["main (in python3.11)", "memmove (in libc.so.6)"],
        "markers": {"schema": {"name": 0, "time": 1, "data": 2}, "data": []},
        "registerTime": 0,
    }  # fmt: skip
    file = profile(perf, meta={"stackwalk": 1, "version": 24}, libs=[], processes=[])
    del file["meta"]["preprocessedProfileVersion"]
    path = tmp_path / "unknown"
    path.write_bytes(gzip.compress(json.dumps(file).encode()))
    trace = read_trace(path)
    found = rows(trace, "ts", "dur", "name")
    assert found == [[0, 3_000_000, "main (python3.11)"], [0, 2_000_000, "memmove (libc.so.6)"]]
    assert trace.report["columns-not-used"].example == "responsiveness"


def test_weights_are_intervals_that_have_passed(tmp_path: Path) -> None:
    """As samply writes a thread that slept: one sample after 5 intervals, with the stack that it had."""
    table = {"stack": [1, 1, 0], "time": [0, 5.25, 6.25], "weight": [1, 5, 1], "weightType": "samples"}
    trace = read(tmp_path, profile(thread(samples=table)))
    assert trace.slices["self_ns"].sum() == 7_000_000
    assert rows(trace, "ts", "dur", "name")[0] == [0, 1_000_000, "main (a.py:3)"]
    assert trace.slices.loc[trace.slices["depth"] == 0, "ts"].tolist() == [0, 1_250_000]
    late = {**table, "time": [0, 3, 3.5]}
    again = read(tmp_path, profile(thread(samples=late)))
    assert again.slices["self_ns"].sum() == 7_000_000, "samples that lie too close push one another"


def test_weights_in_milliseconds_and_in_bytes(tmp_path: Path) -> None:
    table = {"stack": [1, 0], "time": [0, 5], "weight": [2.5, 1], "weightType": "tracing-ms"}
    trace = read(tmp_path, profile(thread(samples=table)))
    assert rows(trace, "ts", "dur") == [[0, 2_500_000], [0, 2_500_000], [5_000_000, 1_000_000]]
    with pytest.raises(FormatError, match="its samples are weighted by bytes"):
        read(tmp_path, profile(thread(samples={**table, "weightType": "bytes"})))
    negative = {**table, "weight": [-2, 1], "weightType": "samples"}
    issue = read(tmp_path, profile(thread(samples=negative))).report["negative-weight"]
    assert (issue.count, issue.severity) == (1, "loss")


def test_processor_use_and_counters(tmp_path: Path) -> None:
    table = {**thread()["samples"], "threadCPUDelta": [900, 250, 500, 1000]}
    units = {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"}

    def counter(name: str, category: str, count: list[float]) -> dict[str, Any]:
        values = {"time": [0, 1, 2], "count": count, "number": [1, 1, 1]}
        return {"name": name, "category": category, "pid": "7", "samples": values}

    listed = [
        counter("malloc", "Memory", [5, -8, 4]),
        counter("CPU package", "power", [0, 1000, 500]),
        counter("processCPU", "CPU", [0, 500, 1000]),
        counter("malloc", "Other", [1, 2, 3]),
    ]
    trace = read(tmp_path, profile(thread(samples=table), meta={"sampleUnits": units}, counters=listed))
    tracks = trace.tracks[trace.tracks["kind"] == "counter"]
    assert dict(zip(tracks["name"], tracks["unit"], strict=True)) == {
        "CPU of GeckoMain": "1", "malloc": "bytes", "CPU package": "W", "processCPU": "1", "malloc 2": "",
    }  # fmt: skip
    values = trace.counters.groupby("track")["value"].apply(list)
    by_name = {name: values[track] for name, track in zip(tracks["name"], tracks["track"], strict=True)}
    assert by_name["CPU of GeckoMain"] == [0.25, 0.5, 1.0]
    assert by_name["malloc"] == [8, 0, 4]
    assert by_name["CPU package"] == pytest.approx([3.6e-3, 1.8e-3])
    assert by_name["processCPU"] == [0.5, 1.0]
    assert by_name["malloc 2"] == [1, 2, 3]
    cycles = read(
        tmp_path,
        profile(thread(samples=table), meta={"sampleUnits": {"threadCPUDelta": "variable CPU cycles"}}),
    )
    assert cycles.report["cpu-use-not-told"].count == 4
    assert not len(cycles.counters)


@pytest.mark.parametrize("old", [False, True])
def test_markers(old: bool, tmp_path: Path) -> None:
    """An instant, a span, a start with its end, an end alone, and one that is no marker."""
    table: dict[str, Any] = {
        "name": [4, 5, 5, 5, 4, 99],
        "startTime": [1, 2, 1, None, None, 1],
        "endTime": [None, 4, None, 3, 0.5, None],
        "phase": [0, 1, 2, 3, 3, 0],
        "data": [None, {"type": "Text", "name": "x"}, None, None, {"type": "GC", "why": 1}, None],
    }
    if old:
        table = {
            "name": table["name"],
            "time": [1, 2, 1, 3, 0.5, 1],
            "data": [
                None, {"type": "Text", "name": "x", "startTime": 2, "endTime": 4},
                {"type": "tracing", "interval": "start"}, {"type": "tracing", "interval": "end"},
                {"type": "tracing", "interval": "end"}, None,
            ],
        }  # fmt: skip
    trace = read(tmp_path, profile(thread(markers=table)))
    markers = trace.slices[trace.slices["category"] == "annotation"]
    found = markers[["ts", "dur", "name"]].values.tolist()
    assert found == [[1_000_000, 2_000_000, "Work"], [1_000_000, 0, "GC"], [2_000_000, 2_000_000, "Work x"]]
    counts = {issue.code: issue.count for issue in trace.report}
    assert counts == {"arguments-not-kept": 4 if old else 2, "end-without-begin": 1, "broken-row": 1}
    assert trace.slices.loc[trace.slices["category"] != "annotation", "self_ns"].sum() == 3_000_000


def test_processes_have_their_own_clock_and_threads_of_the_same_numbers_their_own_track(
    tmp_path: Path,
) -> None:
    inner = profile(thread(pid="9", tid=10), meta={"startTime": 1.7e12 + 50})
    trace = read(tmp_path, profile(thread(), processes=[inner]))
    assert trace.tracks["pid"].tolist() == [7, 9]
    assert trace.slices.groupby("track")["ts"].min().tolist() == [0, 50_000_000]
    trace = read(tmp_path, profile(thread(), thread(), thread(pid=None, tid=None)))
    assert trace.tracks["name"].tolist() == ["GeckoMain", "GeckoMain 2", "GeckoMain"]
    assert trace.slices["self_ns"].sum() == 9_000_000


def test_a_thread_without_its_texts_says_so(tmp_path: Path) -> None:
    trace = read(tmp_path, profile(thread(stringArray=None)))
    assert set(trace.slices["name"]) == {"[unknown]"}
    assert trace.report["names-missing"].count == 1


def test_what_is_broken_is_counted(tmp_path: Path) -> None:
    broken = thread(
        samples={"stack": [1, 7, "x", 1], "time": [0, 1, 2, None]},
        stackTable={"frame": [0, 9, 1], "prefix": [None, 5, 1]},
        nativeAllocations={"time": [1], "weight": [5], "stack": [None]},
    )
    trace = read(tmp_path, profile(broken, {"threads": 5, "samples": 3}, counters=[5]))
    counts = {issue.code: issue.count for issue in trace.report}
    assert counts == {"broken-row": 4, "columns-not-used": 1}  # a stack, two samples, a counter
    assert rows(trace, "name") == [["[unknown]"]]
    for empty in ({"meta": {}, "threads": []}, profile({"name": "x"})):
        with pytest.raises(FormatError, match="no thread with samples or markers"):
            read(tmp_path, empty)
    path = tmp_path / "unknown"
    path.write_bytes(json.dumps(profile(thread())).encode()[:-200])
    with pytest.raises(FormatError, match=r"the Firefox Profiler's JSON .* was cut, copy or record it"):
        read_trace(path)


def test_deep_stacks_and_chains(tmp_path: Path) -> None:
    """40,000 frames: the outermost 10,000 are slices; a cycle is none."""
    count = 40_000
    deep = thread(
        samples={"stack": [count - 1, 5], "time": [0, 1]},
        stackTable={"frame": [0] * count, "prefix": [None, *range(count - 1)]},
    )
    trace = read(tmp_path, profile(deep))
    assert trace.slices["depth"].max() == 9_999
    assert trace.slices["self_ns"].sum() == 2_000_000
    assert trace.report["deep-stacks-cut"].count == 30_000
