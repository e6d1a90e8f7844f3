"""Profiles of pprof, against what a decoder of its own counts in them, and one made by hand."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from notebook_prof import read_trace
from notebook_prof.analysis import verdict
from notebook_prof.errors import FormatError

from .. import samples

FOLDER = samples.ROOTS["shared"] / "pprof"
shared = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared recordings are not here")


def message(number: int, *fields: bytes) -> bytes:
    """A field with other fields inside."""
    content = b"".join(fields)
    return bytes([number << 3 | 2, len(content)]) + content


def number(field: int, value: int) -> bytes:
    """A field with a small number."""
    return bytes([field << 3, value])


def profile(kind: str, unit: str, *, packed: bool = True, period: int = 0) -> bytes:
    """Two samples: main calls f, where g is inlined; and main alone."""
    texts = ["", kind, unit, "main", "f", "g", "a.go", "cpu", "milliseconds"]
    locations = message(4, number(1, 1), message(4, number(1, 1), number(2, 9)))
    inlined = (message(4, number(1, 3), number(2, 5)), message(4, number(1, 2), number(2, 7)))
    locations += message(4, number(1, 2), *inlined)
    functions = b"".join(message(5, number(1, i), number(2, 2 + i), number(4, 6)) for i in (1, 2, 3))
    both = message(1, b"\2\1") if packed else number(1, 2) + number(1, 1)
    values = [message(2, bytes([value])) if packed else number(2, value) for value in (40, 3)]
    return b"".join(
        [
            message(1, number(1, 1), number(2, 2)),
            message(2, both, values[0]),
            message(2, number(1, 1), values[1]),
            locations,
            functions,
            *(bytes([6 << 3 | 2, len(text.encode())]) + text.encode() for text in texts),
            *([message(11, number(1, 7), number(2, 8)), number(12, period)] if period else []),
        ]
    )


@pytest.mark.parametrize("packed", [True, False])
def test_stacks_with_inlined_functions(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(gzip.compress(profile("cpu", "microseconds", packed=packed)))
    trace = read_trace(path)
    assert trace.metadata["source"] == "pprof"
    table = trace.slices[["ts", "dur", "name", "depth"]].values.tolist()
    assert table == [
        [0, 43_000, "main (a.go:9)", 0],
        [0, 40_000, "f (a.go:7)", 1],
        [0, 40_000, "g (a.go:5)", 2],
    ]


def test_counts_times_the_period_and_without_one(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(profile("samples", "count", period=10))
    assert read_trace(path).slices["self_ns"].sum() == 43 * 10_000_000
    path.write_bytes(profile("samples", "count"))
    trace = read_trace(path)
    assert trace.slices["self_ns"].sum() == 43
    assert "one sample is shown as 1 ns" in trace.report["unit-assumed"].effect


def test_a_profile_that_breaks_off_before_its_texts_says_so(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    whole = profile("cpu", "nanoseconds")
    path.write_bytes(whole[: whole.index(b"cpu") - 3])
    with pytest.raises(FormatError, match="breaks off before its texts"):
        read_trace(path)
    path.write_bytes(profile("wall", ""))
    with pytest.raises(FormatError, match="records no time, only wall without a unit"):
        read_trace(path)


def test_samples_without_a_stack_or_below_zero_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    no_stack, negative = (
        message(2, message(2, b"\5")),
        message(2, number(1, 1), bytes([16]) + b"\xff" * 9 + b"\1"),
    )
    path.write_bytes(profile("cpu", "nanoseconds") + no_stack + negative)
    trace = read_trace(path)
    assert trace.slices["self_ns"].sum() == 43
    assert trace.report["sample-not-used"].count == 2
    assert "difference" in trace.report["sample-not-used"].example


def test_units_of_time_may_be_short(tmp_path: Path) -> None:
    times = {}
    for unit in ("nanoseconds", "ns", "us", "\u00b5s", "\u03bcs", "microseconds", "ms", "s", "seconds"):
        (file := tmp_path / "a.pprof").write_bytes(profile("wall", unit))
        times[unit] = int(read_trace(file).slices["self_ns"].sum())
    one = times["nanoseconds"]
    assert one > 0
    assert times == dict(
        zip(times, (one, one, *[1_000 * one] * 4, 10**6 * one, *[10**9 * one] * 2), strict=True)
    )


@shared
@pytest.mark.parametrize(
    ("name", "total"), [("go_solarlune.pprof", 5_190_000_000), ("julia_cpu.pb.gz", 15_000_000)]
)
def test_figures_of_the_samples(name: str, total: int) -> None:
    trace, expected = read_trace(FOLDER / name), oracle_of(name)
    assert trace.slices["self_ns"].sum() == total
    assert trace.slices["depth"].max() + 1 >= expected["max_depth"]  # inlined functions are frames too
    own = trace.slices.assign(
        function=trace.slices["name"].astype("str").str.replace(r" \(\S*:\d+\)$", "", regex=True)
    )
    sums = own.groupby("function")["self_ns"].sum()
    scale = 1 if total > 1e9 else 1_000_000
    for row in expected["top5_leaf_by_last_type"]:
        assert sums[row["name"]] >= row["value"] * scale, row["name"]


@shared
@pytest.mark.parametrize(
    ("name", "words"),
    [("julia_alloc.pb.gz", "records no time"), ("legacy_gperftools_not_protobuf.cpu", "old CPU profile")],
)
def test_what_tells_no_time_is_refused(name: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read_trace(FOLDER / name)


def oracle_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.oracle.json").read_text())


def labelled(types: list[tuple[str, str]], rows: list[tuple[list[int], dict[str, str | int]]]) -> bytes:
    """A profile whose samples are all of ``f``, with values and labels."""
    texts = ["", "f"]

    def text(word: str) -> int:
        if word not in texts:
            texts.append(word)
        return texts.index(word)

    content = b"".join(message(1, number(1, text(kind)), number(2, text(unit))) for kind, unit in types)
    for values, labels in rows:
        said = []
        for key, value in labels.items():
            kind = number(2, text(value)) if isinstance(value, str) else number(3, value)
            said.append(message(3, number(1, text(key)), kind))
        content += message(2, message(1, b"\1"), message(2, bytes(values)), *said)
    content += message(4, number(1, 1), message(4, number(1, 1), number(2, 9))) + message(
        5, number(1, 1), number(2, 1)
    )
    return content + b"".join(bytes([6 << 3 | 2, len(one)]) + one.encode() for one in texts)


def read(folder: Path, content: bytes) -> Any:
    path = folder / "unknown"
    path.write_bytes(content)
    return read_trace(path)


def test_labels_are_threads_and_totals(tmp_path: Path) -> None:
    rows: list[tuple[list[int], dict[str, str | int]]] = [
        ([5], {"thread name": "worker", "thread id": 7, "phase": "decode", "bytes": 64}),
        ([3], {"thread name": "main", "thread id": 6, "phase": "encode"}),
        ([2], {"thread name": "worker", "thread id": 7, "phase": "encode"}),
        ([1], {}),
    ]
    trace = read(tmp_path, labelled([("cpu", "microseconds")], rows))
    found = trace.tracks[["name", "tid"]].fillna(-1).values.tolist()
    assert found == [["worker", 7], ["main", 6], ["samples", -1]]
    assert trace.slices[["track", "ts", "dur"]].values.tolist() == [
        [0, 0, 7_000],
        [1, 0, 3_000],
        [2, 0, 1_000],
    ]
    table = trace.metadata["tables"]["sample_labels"]
    assert table.values.tolist() == [["phase", "decode", 1, 5_000], ["phase", "encode", 2, 5_000]]
    issue = trace.report["labels-not-used"]
    assert (issue.count, issue.example, issue.severity) == (1, "bytes", "loss")


def test_contention_is_waiting(tmp_path: Path) -> None:
    """As Go writes profiles of mutexes and of blocking: how often, and how long all goroutines waited."""
    content = labelled([("contentions", "count"), ("delay", "nanoseconds")], [([3, 90], {}), ([1, 10], {})])
    trace = read(tmp_path, content)
    assert set(trace.slices["category"]) == {"sync"}
    assert trace.report["values-not-used"].example == "contentions in count"
    result = verdict(trace)
    assert result.kind == "wait-bound"
    assert "waits 100.0 % of the recording (100 ns of 100 ns)" in result.sentence
    assert all(claim.holds(trace) for claim in result.claims)


def test_the_default_of_several_times_is_taken(tmp_path: Path) -> None:
    types = [("cpu", "nanoseconds"), ("wall", "nanoseconds")]
    content = labelled(types, [([5, 90], {})])
    assert read(tmp_path, content).slices["self_ns"].sum() == 90
    assert read(tmp_path, content + number(14, 2)).slices["self_ns"].sum() == 5


HEAP = [(f"{which}_{what}", unit) for which in ("alloc", "inuse")
        for what, unit in (("objects", "count"), ("space", "bytes"))]  # fmt: skip


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ([("goroutine", "count")], "goroutine in count"),
        ([("threadcreate", "count")], "threadcreate in count"),
        (
            HEAP,
            "alloc_objects in count, alloc_space in bytes, inuse_objects in count, inuse_space in bytes",
        ),
    ],
)
def test_goroutines_and_heaps_of_go_tell_no_time(
    types: list[tuple[str, str]], words: str, tmp_path: Path
) -> None:
    """A count of goroutines is no time, though its period is 1; nor are bytes."""
    with pytest.raises(FormatError, match=f"records no time, only {words}. Open it with: go tool pprof"):
        read(tmp_path, labelled(types, [([1] * len(types), {})]) + number(12, 1))


@shared
def test_labels_of_julia() -> None:
    trace, expected = read_trace(FOLDER / "julia_cpu.pb.gz"), oracle_of("julia_cpu.pb.gz")
    assert trace.tracks[["name", "tid"]].values.tolist() == [["thread 1", 1]]
    table = trace.metadata["tables"]["sample_labels"]
    assert table.loc[table["label"] == "thread_sleeping", "samples"].sum() == expected["samples_with_labels"]
    assert trace.report["labels-not-used"].count == expected["samples_with_labels"]
