"""Damaged files: each gives what the index of the recordings promises, and says what it lost."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import pickle
import re
import tarfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from notebook_prof.errors import FormatError, NotebookProfError, OptionError
from notebook_prof.readers import read_trace
from notebook_prof.readers.codec.tolerant_json import mend, split_rows
from notebook_prof.trace import ImportReport, Trace


@pytest.fixture(scope="module")
def folder(shared_traces: Path) -> Path:
    return shared_traces / "malformed"


@pytest.fixture(scope="module")
def text(folder: Path) -> bytes:
    """The sound file from which the damaged ones were made."""
    return (folder / "looks_gz_is_json.json.gz").read_bytes()


@pytest.fixture(scope="module")
def sound(folder: Path) -> Trace:
    return read_trace(folder / "looks_gz_is_json.json.gz")


def issues(trace: Trace) -> dict[str, int]:
    return {issue.code: issue.count for issue in trace.report}


def read(folder: Path, content: bytes) -> Trace:
    path = folder / "unknown"
    path.write_bytes(content)
    return read_trace(path)


def test_recordings_that_the_index_names_but_leaves_out(tmp_path: Path, text: bytes, sound: Trace) -> None:
    half = len(text) // 2
    assert issues(read(tmp_path, gzip.compress(text[:half]) + gzip.compress(text[half:]))) == {}
    name = re.search(rb'"name": "(aten::\w+)"', text)
    assert name is not None
    for bad in (b"a\x01b\x1f", b"caf\xe9 \xff"):
        trace = read(tmp_path, text[: name.start(1)] + bad + text[name.end(1) :])
        assert len(trace.slices) == len(sound.slices)
        assert issues(trace)["invalid-json"] >= 1
        assert all(issue.severity == "info" for issue in trace.report)


def test_rows_without_their_times_are_left_out(tmp_path: Path, text: bytes, sound: Trace) -> None:
    head, tail = text[: len(text) // 2], text[len(text) // 2 :]
    lost = re.sub(rb'"ts":\s*[\d.]+,\s*"dur":\s*[\d.]+', b'"ts": 0.000, "dur": 0.000', tail)
    trace = read(tmp_path, head + lost)
    count = trace.report["row-without-time"].count
    assert count > 50
    assert len(trace.slices) == len(sound.slices) - count
    assert trace.span.end <= sound.span.end


def test_files_without_events(folder: Path) -> None:
    for name in ("empty_array.json", "empty_events.json"):
        trace = read_trace(folder / name)
        assert len(trace.slices) == 0
        assert not [issue for issue in trace.report if issue.severity != "info"]
    with pytest.raises(FormatError, match="the file is empty"):
        read_trace(folder / "empty_file.json")
    with pytest.raises(FormatError, match="hello"):
        read_trace(folder / "not_a_trace.json")


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"traceEvents": [' + b'{"name":"' * 100_000,
        b'{"a":\n' + b"\n" * 300_000 + b'"b": "' + b'" ' * 50_000 + b"x",
        b'{"b": "' + b'"' + b" " * 200_000 + b"x\n",
        b'[{"a":' + b'[1,{"a":' * 200_000,
        b'[{"a": ' + b"[" * 500_000,
        b"[" + b'{"name": "x", "ts": 1e999999999999, "ph": "X"},' * 1000,
    ],
    ids=["names", "lines", "spaces", "rows", "brackets", "exponents"],
)
def test_repairs_stay_linear(hostile: bytes) -> None:
    started = time.thread_time()
    report = ImportReport()
    split_rows(mend(hostile, "test", report))
    assert time.thread_time() - started < 60


@pytest.mark.parametrize("category", [b"", b'"cat": "cpu_op", '])  # torch.profiler's files have categories
def test_what_follows_a_list_of_events_is_counted(tmp_path: Path, category: bytes) -> None:
    events = b'[{"ph": "X", %s"name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]' % category
    for start, end in ((b"", b""), (b'{"traceEvents": ', b"}")):
        trace = read(tmp_path, 2 * (start + events + end + b"\n"))
        assert len(trace.slices) == 1
        assert issues(trace) == {"second-list": 1}


def test_numbers_that_are_none_change_no_name(tmp_path: Path) -> None:
    event = b'{"ph": "X", "name": "%s", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {"v": %s}}'
    trace = read(tmp_path, b"[" + event % (b"a", b"NaN") + b"," + event % (b"b", b"-Infinity") + b"]")
    assert sorted(trace.slices["name"]) == ["a", "b"]
    assert issues(trace) == {"not-a-number": 2}


def test_a_file_that_is_none_is_described(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("linux.pftrace"), io.BytesIO())
    for content, words in (
        (archive.getvalue(), "tar archive, of which the first file is 'linux.pftrace'; unpack it"),
        (gzip.compress(archive.getvalue()), "tar archive.*unpack it"),
        (b"SQLite format 3\0....", "SQLite.*damaged"),
        (b"\x80\x04pickle", "pickle|not recognised"),
        (b'{"a": {"b": 1}}', "keys 'a', 'b'.*nearest format is 'trace_event'"),
        ('[{"ph": "X"}]'.encode("utf-16"), "UTF-16.*save it as UTF-8"),
        ('[{"ph": "X"}]'.encode("utf-16-le"), "UTF-16.*save it as UTF-8"),
        (b"\x80\x05\x95\0\0\0\0\0\0\0\0\x8c\x1bline_profiler.line_profiler", "a pickle of line_profiler"),
        (b"\n  _     ._   __/__\nRecorded: 1.2 s\n", r"starts with b'\\n"),
        (b"version: 1\ncreator: yappi\nevents: Ticks\n", "callgrind"),
        (b"\n<html>", "a page for people"),
        (bz2.compress(b"a;b 5"), "bzip2; unpack it"),
        (b'{"nodes": [], "startTime": 1, "timeDeltas": []}', "V8.*speedscope.app"),
        (b"  \n", "only white space"),
    ):
        path = tmp_path / "thing"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=words):
            read_trace(path)


@pytest.mark.parametrize(
    "start", [b"HCAT", b"TACH", b"MOJ\x03", b"memray\0", b"\x04\x22\x4d\x18\0\0memray\0"]
)
def test_binary_files_of_samplers_that_are_rubbish(start: bytes, tmp_path: Path) -> None:
    """No reader stumbles over what another one should look at: carriage returns, zeros, quotes."""
    for tail in (b"", b"\0" * 200, b'a\rb,"\0\n' * 40, bytes(range(256)) * 4):
        with pytest.raises(FormatError, match=r"profiling.sampling replay|mojo2austin|memray transform"):
            read(tmp_path, start + tail)


@pytest.mark.parametrize("name", ["memray.csv", "tachyon.gecko.json.gz"])
def test_samplers_files_that_were_cut(name: str, data: Path, tmp_path: Path) -> None:
    """Each cut is told: what comes before and how much is missing, or why nothing can be read."""
    content = (data / "python_profilers" / name).read_bytes()
    for tenth in range(1, 10):
        part = content[: len(content) * tenth // 10]
        trace = None
        with suppress(FormatError):
            trace = read(tmp_path, part)
        if trace is None:
            with pytest.raises(FormatError, match=r"cut|truncated|no samples|no rows|cannot be read"):
                read(tmp_path, part)
        else:
            assert {"truncated-file", "broken-row"} & set(issues(trace))


def test_a_step_of_a_gigantic_number_is_none(tmp_path: Path) -> None:
    row = '{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%s", "tid": 1, "ts": 1, "dur": 2}'
    names = ["7", "99999999999999999999", "9" * 6000]
    text = ", ".join(row % name for name in names)
    trace = read(tmp_path, f'{{"schemaVersion": 1, "traceEvents": [{text}]}}'.encode())
    assert trace.steps["step"].tolist() == [7]
    assert len(trace.slices) == 3


@pytest.mark.parametrize("key", ["ts", "dur", "pid", "tid"])
def test_a_number_of_a_million_digits_costs_its_row_at_most(tmp_path: Path, key: str) -> None:
    row = {"ph": '"X"', "cat": '"cpu_op"', "name": '"a"', "ts": "1", "dur": "1", "pid": "1", "tid": "1"}
    rows = [row | {key: "9" * 1_000_000}, row, {"args": '{"deep": [%s]}' % ("1" * 5000)} | row]
    text = ", ".join("{" + ", ".join(f'"{k}": {v}' for k, v in each.items()) + "}" for each in rows)
    trace = read(tmp_path, f'{{"schemaVersion": 1, "traceEvents": [{text}]}}'.encode())
    assert len(trace.slices) >= 2
    assert len(trace.slices) + sum(issues(trace).get(code, 0) for code in ("broken-row",)) == 3


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    """One without a writer would wait for ever, one without an end would fill the memory."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        for options in ({}, {"format": "kineto"}):
            with pytest.raises(FormatError, match="a pipe or a device"):
                read_trace(path, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="null character"):
        read_trace("a\0b")


@pytest.mark.parametrize("where", ["segments", "device_traces", "external_annotations"])
def test_a_structure_that_holds_itself_many_times_is_not_written_out(tmp_path: Path, where: str) -> None:
    """Some 290 bytes, and 2**40 brackets as text."""
    nested: list[object] = []
    for _ in range(40):
        nested = [nested, nested]
    content: dict[str, object] = {"segments": [], "device_traces": [[]], "external_annotations": []}
    content[where] = [nested]
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(content))
    with suppress(NotebookProfError):
        report = read_trace(tmp_path / "snapshot.pickle").report
        assert all(len(issue.example) < 2000 for issue in report)


DEEP = 400_000  # Python 3.14 asks how much of the stack is left, and reads 200,000


@pytest.mark.parametrize("head", ["", '"schemaVersion": 1, "deviceProperties": [], '])
@pytest.mark.parametrize("pair", ["[]", '{"a":}'])
def test_a_row_that_is_nested_too_deep_is_called_that(tmp_path: Path, head: str, pair: str) -> None:
    """And the rows around it are read."""
    row = {"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "name": "a"}
    sound, bracket = json.dumps(row), pair[-1]
    deep = sound[:-1] + ', "args": {"x": ' + pair[:-1] * DEEP + '"}]"' + bracket * DEEP + "}}"
    (tmp_path / "deep.json").write_text(f'{{{head}"traceEvents": [{sound}, {deep}, {sound}]}}')
    trace = read_trace(tmp_path / "deep.json")
    assert issues(trace) == {"nested-too-deep": 1}
    assert len(trace.slices) == 2


def test_slices_in_very_many_others_are_reported(tmp_path: Path) -> None:
    n = 40_000
    events = [{"ph": "B", "ts": k, "pid": 1, "tid": 1, "name": "f"} for k in range(n)]
    events += [{"ph": "E", "ts": n + k, "pid": 1, "tid": 1} for k in range(n)]
    trace = read(tmp_path, json.dumps(events).encode())
    assert issues(trace)["nested-too-deep"] == n - int(trace.slices["depth"].max())
    assert int(trace.slices["self_ns"].sum()) == trace.slices["dur"].max()


def test_texts_of_megabytes_are_cut_and_stay_distinct(tmp_path: Path) -> None:
    names = ["x" * 3_000_000 + end for end in "ab"] + ["short"]
    events = [
        {"ph": "X", "ts": k, "dur": 1, "pid": 1, "tid": 1, "name": name} for k, name in enumerate(names)
    ]
    trace = read(tmp_path, json.dumps(events).encode())
    texts = trace.slices["name"].astype(str).tolist()
    assert [len(name) for name in texts] == [2**20, 2**20, 5]
    assert len(set(texts)) == 3
    assert texts[0].endswith("… (3,000,001 characters, number 0)")
    assert issues(trace) == {"long-text-cut": 2}
