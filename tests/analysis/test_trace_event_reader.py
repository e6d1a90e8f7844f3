"""Generic trace events: every edge case that catapult, speedscope and Perfetto keep, and mutations."""

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import NotebookProfError, Trace, TraceBuilder, read_trace
from notebook_prof.readers.events import lanes
from notebook_prof.readers.trace_event import read_events

from ..draws import draws


@pytest.fixture(scope="session")
def edge(shared_traces: Path) -> Path:
    return shared_traces / "trace_event_edge"


def read(data: bytes | list[dict[str, Any]] | dict[str, Any]) -> Trace:
    builder = TraceBuilder()
    read_events(data if isinstance(data, bytes) else json.dumps(data).encode(), builder)
    return builder.seal()


def spans(trace: Trace) -> list[tuple[str, float, float, int]]:
    """Name, start and end in µs, depth."""
    s = trace.slices
    ts, end = s["ts"] / 1000, (s["ts"] + s["dur"]) / 1000
    return list(zip(s["name"].astype(str), ts.tolist(), end.tolist(), s["depth"].tolist(), strict=True))


def losses(trace: Trace) -> dict[str, int]:
    return {issue.code: issue.count for issue in trace.report if issue.severity != "info"}


def test_names_that_only_begin_like_steps() -> None:
    names = ["ProfilerStep#3", "ProfilerStep#1234567890x", "ProfilerStep#99999999999", "ProfilerStep#"]
    trace = read([{"ph": "X", "name": name, "ts": i, "dur": 1} for i, name in enumerate(names)])
    assert trace.steps["step"].tolist() == [3]
    assert len(trace.slices) == 4


EDGES = {  # each slice: depth, name, start and end in µs
    **dict.fromkeys(
        ("simple", "simple-partial", "simple-partial-trailing-comma", "simple-partial-whitespace"),
        "0 alpha 0 14, 1 beta 1 13, 2 gamma 2 7, 2 epsilon 7 11",
    ),
    "simple-object": "0 alpha 0 14, 1 beta 1 13, 2 (unnamed) 7 11",
    "end-event-with-empty-stack": "0 alpha 0 1",
    "end-non-top-of-stack": "0 A 0 10, 1 B 1 11, 2 Z 10 11",
    "event-reordering-name-match": "0 alpha 0 10, 1 beta 1 2, 2 gamma 1 2",
    "invalid-x-nesting": "0 alpha 0 10, 1 beta 5 15",
    "mismatched-name": "0 alpha 0 10",
    "mismatched-args": "0 A 0 10",
    "not-enough-end-events": "0 A 0 11, 1 A 1 11, 2 A 10 11",
    "only-begin-events": "0 A 0 2, 1 B 1 2, 0 C 2 2",
    "out-of-order": "0 A 0 10, 1 B 1 9, 2 C 2 8",
    "out-of-order-unbalanced-name": "0 alpha 0 9, 1 beta 1 10",
    "unbalanced-name": "0 alpha 0 9, 1 beta 1 10",
    "unbalanced-args": "0 A 0 10, 1 A 1 9",
    "too-many-end-events": "0 alpha 0 14, 1 beta 1 13",
    "zero-duration-events": "0 A 0 10, 1 B 1 1, 1 C 2 2, 1 D 3 3",
    "matching-x": "0 alpha 0 10, 1 beta 1 2, 2 gamma 1 2, 1 gamma 5 6, 2 beta 5 6",
    "simultaneous-anonymous-calls": "0 anonymous 0 5, 1 anonymous 1 3, 2 function1 1 3, 3 anonymous 1 3, "
    "1 anonymous 3 5, 2 anonymous 3 5",
    "must-retain-original-order": "0 A 0 3, 1 B 0 2, 2 C 0 1, 0 A 4 7, 1 B 5 7, 2 C 6 7, 0 X 7 10",
    "nanoseconds": "0 us1 0 1.1, 0 us2 1.1 1.3, 0 us3 1.3 1.6, 0 us4 1.7 2.1, 0 ns1 3 3.011, "
    "0 ns2 3.011 3.013, 0 ns3 3.013 3.016, 0 ns4 3.017 3.021",
    "hermes-multiple-frames": "0 [root] 0 14, 1 beta 1 2, 1 gamma 4 13, 2 beta 4 10",
    "simple-hermes": "0 [root] 0 14, 1 beta 1 13",
}
LOST = {
    "end-event-with-empty-stack": {"end-without-begin": 1},
    "end-non-top-of-stack": {"unclosed-begin": 1},
    "mismatched-name": {"unclosed-begin": 1, "end-without-begin": 1},
    "not-enough-end-events": {"unclosed-begin": 2},
    "only-begin-events": {"unclosed-begin": 3},
    "too-many-end-events": {"end-without-begin": 2},
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_cases(edge: Path, name: str) -> None:
    trace = read_trace(edge / f"{name}.json")
    assert trace.metadata["source"] == "trace_event"
    expected = [slice_of.split() for slice_of in EDGES[name].split(", ")]
    found = spans(trace)
    assert [[str(depth), word] for word, _, _, depth in found] == [part[:2] for part in expected]
    times = [float(time) for part in expected for time in part[2:]]
    assert [time for _, *both, _ in found for time in both] == pytest.approx(times, abs=1e-9)
    assert losses(trace) == LOST.get(name, {})


def test_begins_and_complete_events_nest_by_length(edge: Path) -> None:
    nested = {name: depth for name, _, _, depth in spans(read_trace(edge / "bex-interaction.json"))}
    assert [name for name, depth in nested.items() if depth] == ["B", "D", "E", "H", "I", "L"]
    for name in ("x-events-matching-start", "x-events-matching-end"):
        trace = read_trace(edge / f"{name}.json")
        assert trace.slices["depth"].tolist() == [0, *[1, 2] * 4]
        assert int(trace.slices["self_ns"].sum()) == 20_000


def test_processes_and_threads_keep_their_names(edge: Path) -> None:
    trace = read_trace(edge / "multiprocess.json")
    named = [f"p{process}t{thread}" for process in range(3) for thread in range(2)]
    assert trace.tracks["name"].tolist() == [*named, "thread 0", "thread 1"]
    assert trace.metadata["processes"] == {"0": "p0", "1": "p1", "3": "p3"}


def test_samples_become_slices(edge: Path) -> None:
    trace = read_trace(edge / "simple-with-samples.json")
    names = [name.split("(")[0] for name in trace.slices["name"]]
    assert names == ["[root]", "function1", "function2", "function3", "[GC Young Gen]"]
    assert trace.slices["dur"].tolist() == [75_017_000, 13_326_000, 10_605_000, 10_605_000, 20_307_000]
    both = read_trace(edge / "multi-thread-with-samples.json")
    assert both.slices.groupby("track")["self_ns"].sum().tolist() == [51_144_000, 65_759_000]


ARROWS = [("SenderB", "Blergh"), ("SenderA", "OtherSlice"), ("OtherSlice", "SomeSlice")]


@pytest.mark.parametrize(
    ("name", "arrows"),
    [("v1", ARROWS), ("v2", [*ARROWS[:2], ("OtherSlice", "SomeSlice"), ("OtherSlice", "SomeOtherSlice")])],
)
def test_flows_join_slices(edge: Path, name: str, arrows: list[tuple[str, str]]) -> None:
    trace = read_trace(edge / f"flow_events_json_{name}.json")
    word = trace.slices["name"].astype(str).to_numpy()
    assert list(zip(word[trace.flows["src"]], word[trace.flows["dst"]], strict=True)) == arrows
    assert set(trace.flows["kind"].astype(str)) == {"link"}


def test_asynchronous_events_have_lanes_without_overlap(edge: Path) -> None:
    old = read_trace(edge / "async_begin_end.json")
    assert losses(old) == {"unclosed-async": 3, "async-end-without-begin": 1}
    new = read_trace(edge / "nestable_async.json")
    assert losses(new) == {"unclosed-async": 1, "async-end-without-begin": 1}
    assert new.tracks["name"].tolist() == ["bar (async)", "foo (async)"]
    depth = dict(zip(new.slices["name"].astype(str), new.slices["depth"], strict=True))
    assert (depth["REQUEST_BAR"], depth["URL_REQUEST_START_JOB"], depth["URL_REQUEST_INNER"]) == (0, 1, 2)


def test_counters_are_tracks_by_instance_and_series(edge: Path) -> None:
    trace = read_trace(edge / "instance_counters.json")
    values = trace.counters.groupby("track")["value"].agg(list).tolist()
    assert values == [[2, 10, 5, 8, 4, 10], [10, 0]]
    assert trace.tracks.query("kind == 'counter'")["name"].tolist() == ["counter[123]", "counter[b]"]
    several = read(
        [{"ph": "C", "name": "mem", "pid": 1, "ts": 1, "args": {"used": 1, "free": "2.5", "who": "x"}}]
    )
    names = several.tracks.set_index("track")["name"]
    assert names[several.counters["track"]].tolist() == ["mem.used", "mem.free"]
    assert losses(several) == {"counter-not-a-number": 1}


def test_odd_places_and_values() -> None:
    big = 15_514_734_831_341_844_875
    trace = read(
        [
            {"ph": "X", "name": "a", "pid": "CPU functions", "tid": "main", "ts": "1.5", "dur": 1},
            {"ph": "X", "name": 7, "pid": 1, "tid": big, "ts": 2, "dur": None, "tdur": 3},
            {"ph": "X", "name": "n", "pid": True, "tid": [1], "ts": 2, "dur": -1},
            {"ph": "i", "name": "mark", "pid": 1, "tid": 2, "ts": 1712195495521130.028, "s": "g"},
            {"ph": "X", "name": "lost", "ts": "soon", "dur": 1},
            {"ph": "O", "name": "snapshot", "ts": 1},
            {},
        ]
    )
    once = ("broken-row", "row-not-used", "negative-duration", "duration-missing")
    assert losses(trace) == dict.fromkeys(once, 1)
    assert len(trace.slices) == 4
    assert "CPU functions · thread main" in trace.tracks["name"].tolist()
    assert big - 2**64 in trace.tracks["tid"].dropna().tolist()


def test_a_line_an_event(tmp_path: Path) -> None:
    rows = [{"ph": "X", "name": f"n{i}", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(5)]
    path = tmp_path / "lines"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert len(read_trace(path)) == 5
    path.write_text("\n".join(map(json.dumps, rows))[:-9])
    assert len(read_trace(path)) == 4


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=40))
def test_lanes_are_as_few_as_overlaps_allow(intervals: list[tuple[int, int]]) -> None:
    start = np.array([a for a, _ in intervals], np.int64)
    end = start + np.array([max(b, 1) for _, b in intervals], np.int64)
    lane = lanes(start, end)
    most = max((int(((start <= t) & (t < end)).sum()) for t in start.tolist()), default=0)
    assert len(set(lane.tolist())) == most
    for number in set(lane.tolist()):
        in_lane = np.flatnonzero(lane == number)
        in_lane = in_lane[np.argsort(start[in_lane], kind="stable")]
        assert (end[in_lane][:-1] <= start[in_lane][1:]).all()


_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.sampled_from(["1", "0x2", "B", "e", [1], {"a": [2]}, {"local": 1}, 10**400, -1, 1e300]),
)
_EVENT = st.fixed_dictionaries(
    {
        "ph": st.one_of(st.sampled_from(list("XBEiIRCPbneSTpFstfMNOD")), _VALUE),
        "ts": st.one_of(st.integers(0, 9), _VALUE),
    },
    optional={
        "name": st.one_of(st.sampled_from(["a", "b", "thread_name"]), _VALUE),
        "dur": st.one_of(st.integers(0, 9), _VALUE),
        "id": st.one_of(st.integers(0, 2), _VALUE),
        "args": st.one_of(st.dictionaries(st.sampled_from(["name", "v", "w"]), _VALUE, max_size=2), _VALUE),
        **dict.fromkeys(
            ("cat", "pid", "tid", "id2", "bp", "bind_id", "flow_in", "flow_out", "sf", "tdur"), _VALUE
        ),
    },
)


@settings(max_examples=draws(75))
@given(st.lists(_EVENT, max_size=12), st.booleans())
def test_any_events_give_a_trace_or_a_refusal(events: list[dict[str, Any]], wrapped: bool) -> None:
    content: Any = (
        {"traceEvents": events, "stackFrames": {"1": {"name": "f", "parent": "1"}}} if wrapped else events
    )
    with contextlib.suppress(NotebookProfError):
        trace = read(json.dumps(content).encode())
        assert (trace.slices["dur"] >= 0).all()


def arguments(trace: Trace) -> dict[str, Any]:
    """What the slices of each name were called with."""
    table = trace.metadata["tables"]["event_arguments"]
    origin = trace.metadata["start_unix_ns"]
    keys = zip(table["track"], table["start_unix_ns"] - origin, table["dur_ns"], table["name"], strict=True)
    slices = trace.slices
    places = set(zip(slices["track"], slices["ts"], slices["dur"], slices["name"], strict=True))
    assert set(keys) <= places
    return {name: json.loads(text) for name, text in zip(table["name"], table["arguments"], strict=True)}


def test_arguments_are_kept_for_every_slice_that_has_some(edge: Path) -> None:
    thread = {"pid": 1, "tid": 2}
    trace = read(
        [
            {"ph": "X", "name": "x", "ts": 1, "dur": 9, "args": {"a": [1, 2.50], "b": {"c": None}}, **thread},
            {"ph": "B", "name": "b", "ts": 2, "args": {"in": 1, "both": 1}, **thread},
            {"ph": "E", "name": "b", "ts": 3, "args": {"out": 2, "both": 2}, **thread},
            {"ph": "i", "name": "i", "ts": 4, "args": "words", **thread},
            {"ph": "b", "cat": "c", "id": 1, "name": "async", "ts": 4, "args": {"big": 2**70}, **thread},
            {"ph": "e", "cat": "c", "id": 1, "name": "async", "ts": 5, "args": {"rc": 0}, **thread},
            {"ph": "X", "name": "ibm", "ts": 6, "dur": 1, "attr": {"bytes": "12"}, **thread},
            {"ph": "X", "name": "none", "ts": 7, "dur": 1, "args": {}, **thread},
            {"ph": "s", "name": "arrow", "id": 3, "ts": 7, "args": {"lost": 1}, **thread},
        ]
    )
    assert arguments(trace) == {
        "x": {"a": [1, 2.5], "b": {"c": None}},
        "b": {"in": 1, "both": 2, "out": 2},
        "i": {"args": "words"},
        "async": {"big": 2**70, "rc": 0},
        "ibm": {"bytes": "12"},
    }
    assert {issue.code: issue.count for issue in trace.report} == {"arguments-not-kept": 1}
    kept = arguments(read_trace(edge / "end-non-top-of-stack.json"))
    assert kept == {"A": {"x": 2}, "B": {"x": 2}, "Z": {"x": 1}}
    asynchronous = read_trace(edge / "async_begin_end.json")
    assert len(asynchronous.metadata["tables"]["event_arguments"]) == 7
    assert "arguments-not-kept" not in asynchronous.report


def test_every_argument_of_the_edge_cases_is_kept(edge: Path) -> None:
    for path in sorted(edge.glob("*.json")):
        trace = read_trace(path)
        # an end without a begin is no slice
        ends = {"nestable_async.json": 1}.get(path.name, 0)
        assert sum(i.count for i in trace.report if i.code == "arguments-not-kept") == ends, path.name
        table = trace.metadata.get("tables", {}).get("event_arguments")
        assert table is None or all(isinstance(json.loads(text), dict) for text in table["arguments"])


@pytest.mark.parametrize(
    ("system", "count"),
    [
        ("# tracer: nop\n x-1 [000] d..3 1.0: sched_switch: prev_pid=1\n x-1 [000] d..3 2.0: x\n", 2),
        ({"type": "fuchsia", "events": [{"ph": "k", "ts": 1, "cpu": 0}, {"ph": "k", "ts": 2, "cpu": 0}]}, 2),
        ([{"ph": "k"}, {"ph": "k"}], 2),
        *((system, 0) for system in ("", "# tracer: nop\n", {"type": "fuchsia"}, [], None, 3)),
    ],
)
def test_events_of_the_system_are_counted(system: Any, count: int) -> None:
    trace = read({"traceEvents": [{"ph": "X", "ts": 0, "dur": 1, "name": "a"}], "systemTraceEvents": system})
    issues = [(issue.count, issue.severity) for issue in trace.report if issue.code == "system-events"]
    assert issues == [(count, "loss")] * bool(count)
    assert len(trace.slices) == 1


@pytest.mark.parametrize(("apart_us", "kept"), [(1e12, False), (-1e12, False), (1e9, True)])
def test_asynchronous_events_of_another_clock_do_not_stretch_the_trace(apart_us: float, kept: bool) -> None:
    events = [{"ph": "X", "pid": 1, "tid": 1, "ts": 2e12, "dur": 50, "name": "work"}]
    for ph, ts in (("b", 0), ("e", 30)):
        events.append(
            {"ph": ph, "pid": 1, "tid": 1, "ts": 2e12 + apart_us + ts, "cat": "c", "id": 1, "name": "io"}
        )
    trace = read(events)
    assert ("io" in set(trace.slices["name"])) == kept
    assert (trace.span.dur == 50_000) != kept
    assert losses(trace) == ({} if kept else {"another-clock": 2})
    near = [{**event, "id": 2, "name": "near", "ts": 2e12 + 9} for event in events[1:]]  # of the same clock
    assert read([*events, *near]).span.dur == trace.span.dur


def v8_chunk(nodes: list[Any], samples: list[int], deltas: list[int], **more: Any) -> dict[str, Any]:
    places = []
    for i, name, url, line, up in nodes:
        frame = {"functionName": name, "url": url, "lineNumber": line}
        places.append({"id": i, "callFrame": frame, **({"parent": up} if up else {})})
    data = {"cpuProfile": {"nodes": places, "samples": samples}, "timeDeltas": deltas}
    event = {"ph": "P", "pid": 1, "tid": 9, "ts": 1500, "id": "0x1", "name": "ProfileChunk"}
    return {**event, "args": {"data": data}, **more}


def test_profiles_of_v8_are_samples_of_their_thread(tmp_path: Path) -> None:
    """As Chrome's DevTools write them: nodes once, in the chunk of their first sample, lines from 0."""
    root, idle = (1, "(root)", "", -1, None), (2, "(idle)", "", -1, 1)
    begin = {"ph": "P", "pid": 1, "tid": 7, "ts": 1000, "id": "0x1", "name": "Profile"}
    events = [
        begin | {"args": {"data": {"startTime": 900}}},
        {"ph": "X", "pid": 1, "tid": 7, "ts": 1000, "dur": 500, "name": "task"},
        v8_chunk([root, idle, (3, "f", "http://a/b/x.js", 9, 1)], [3, 3, 2], [100, 100, 100]),
        v8_chunk([(4, "", "http://a/b/x.js", 19, 3)], [4, 3, 8, 3], [100, 100, 1], ts=1600),
        v8_chunk([(1, "other", "", -1, None)], [1, 1], [5, 5], id="0x2", tid=11),
        v8_chunk([], [], [], args={"data": {"cpuProfile": 3}}),
    ]
    path = tmp_path / "unknown"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = read_trace(path)
    of_thread = trace.slices[trace.slices["track"] == trace.slices["track"][0]]
    columns = ["ts", "dur", "name", "category"]
    assert of_thread[columns].values.tolist() == [
        [0, 500_000, "task", "operator"],
        [0, 500_000, "(root)", "python"],
        [0, 200_000, "f (b/x.js:10)", "python"],
        [200_000, 100_000, "(idle)", "sync"],
        [300_000, 200_000, "f (b/x.js:10)", "python"],
        [300_000, 100_000, "(anonymous) (b/x.js:20)", "python"],
    ]
    assert trace.slices["name"].tolist().count("other") == 1
    assert {issue.code: issue.count for issue in trace.report} == {
        "broken-samples": 1, "sample-without-time": 1, "sample-without-stack": 1, "arguments-not-kept": 1,
    }  # fmt: skip
