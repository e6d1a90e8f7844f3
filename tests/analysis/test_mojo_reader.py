"""Binary files of Austin, against what austin-python makes of one, and some made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.errors import FormatError
from notebook_prof.readers import read_trace
from notebook_prof.readers.codec.record_chain import record_starts
from notebook_prof.trace import Trace

from .. import samples

FOLDER = samples.ROOTS["shared"] / "python_samplers"
shared = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared recordings are not here")
WALL = b"\1austin\x003.7.0\0\1mode\0wall\0"


def integer(value: int) -> bytes:
    """A number as MOJO writes it: six bits and a sign, then seven bits a byte."""
    left, out = abs(value) >> 6, [abs(value) & 0x3F | (0x40 if value < 0 else 0)]
    while left:
        out[-1] |= 0x80
        out.append(left & 0x7F)
        left >>= 7
    return bytes(out)


def text(key: int, value: str) -> bytes:
    return b"\x0b" + integer(key) + value.encode() + b"\0"


def frame(key: int, file: int, scope: int, line: int, version: int = 3) -> bytes:
    numbers = [key, file, scope, line, *([line, 1, 2] if version > 1 else [])]
    return b"\3" + b"".join(map(integer, numbers))


def stack(pid: int, thread: int, version: int = 3) -> bytes:
    interpreter = integer(0) if version > 2 else b""
    return b"\2" + integer(pid) + interpreter + f"{thread:x}".encode() + b"\0"


def ref(key: int) -> bytes:
    return b"\5" + integer(key)


def time(us: int) -> bytes:
    return b"\x09" + integer(us)


def read(folder: Path, *parts: bytes, version: int = 3) -> Trace:
    path = folder / "unknown"
    path.write_bytes(b"MOJ" + integer(version) + b"".join(parts))
    return read_trace(path)


def rows(trace: Trace) -> list[list[object]]:
    return trace.slices[["track", "ts", "dur", "name"]].values.tolist()


@shared
def test_a_recording_is_what_austin_python_makes_of_it() -> None:
    answers = json.loads((FOLDER / "austin37_wall.mojo.oracle.json").read_text())
    trace = read_trace(FOLDER / "austin37_wall.mojo")
    facts = trace.metadata["austin"]
    assert facts == {
        "version": answers["metadata"]["austin"],
        **{key: value for key, value in answers["metadata"].items() if key != "austin"},
    }
    threads = {f"{t['pid']}:0:{t['tid']}" for t in trace.tracks.to_dict("records")}
    assert threads == set(answers["per_thread_samples"])
    file = trace.stacks.set_index("stack")["file"]
    line = trace.stacks.set_index("stack")["line"]
    function = trace.stacks.set_index("stack")["name"]
    keys = trace.slices["stack"].astype("int64")
    places = (
        file[keys].to_numpy() + ":" + function[keys].to_numpy() + ":" + line[keys].astype("str").to_numpy()
    )
    own = trace.slices.groupby(places)["self_ns"].sum()
    for leaf in answers["top5_leaf_by_first_metric"]:
        assert own[leaf["frame"]] == leaf["value"] * 1000, leaf
    # samples without a frame are idle, and make no slice
    assert 0 <= answers["sum_of_first_metric"] * 1000 - trace.slices["self_ns"].sum() < 10_000_000
    assert not len(trace.report)


@shared
def test_native_frames_which_austin_python_stops_at() -> None:
    trace = read_trace(FOLDER / "austin_python_austinp.mojo")
    assert "truncated-file" not in trace.report
    assert trace.slices["name"].astype("str").str.contains("_Py_HashBytes").any()
    assert not trace.stacks["file"].str.startswith("native@").any()
    assert trace.slices["self_ns"].sum() == 230_146_000


@pytest.mark.parametrize("version", [1, 2, 3])
def test_frames_are_defined_and_named_again(version: int, tmp_path: Path) -> None:
    """A key that is defined again is another frame from there on; threads are in hex."""
    trace = read(
        tmp_path, WALL, text(7, "a.py"), text(300, "main"), text(9, "f"),
        stack(70, 71, version), frame(5, 7, 300, 3, version), frame(6, 7, 9, 9, version), time(100),
        stack(70, 255, version), ref(5), time(40),
        stack(70, 71, version), ref(5), text(9, "g"), frame(6, 7, 9, 8000, version), time(50),
        stack(70, 71, version), ref(5), ref(6), b"\7", time(20),
        stack(70, 71, version), time(5),
        stack(70, 71, version), ref(77), time(1), version=version,
    )  # fmt: skip
    assert trace.tracks[["pid", "tid"]].values.tolist() == [[70, 71], [70, 255]]
    assert rows(trace) == [
        [0, 0, 170_000, "main (a.py:3)"],
        [0, 0, 100_000, "f (a.py:9)"],
        [0, 100_000, 70_000, "g (a.py:8000)"],
        [1, 100_000, 40_000, "main (a.py:3)"],
        [0, 150_000, 20_000, "GC"],
        [0, 175_000, 1_000, "[unknown]"],
    ]


def test_version_four_repeats_stacks_and_tells_tasks(tmp_path: Path) -> None:
    start = [text(7, "a.py"), text(8, "main"), text(9, "f")]
    trace = read(
        tmp_path, WALL, *start,
        stack(1, 1), frame(5, 7, 8, 3), frame(6, 7, 9, 9), time(10),
        stack(1, 2), ref(5), time(10),
        stack(1, 1), b"\x0d", time(20),
        stack(1, 1), b"\x0d", ref(6), time(30),
        stack(1, 2), b"\x0d", time(5),
        b"\x0e" + integer(4) + integer(8), ref(6), b"\x0f" + integer(4) + integer(5),
        version=4,
    )  # fmt: skip
    assert [row[2:] for row in rows(trace) if row[0] == 0] == [
        [60_000, "main (a.py:3)"],
        [60_000, "f (a.py:9)"],
    ]
    assert [row[2:] for row in rows(trace) if row[0] == 1] == [[15_000, "main (a.py:3)"]]
    assert {issue.code: issue.count for issue in trace.report} == {"tasks-not-used": 1, "frames-not-used": 1}


def test_full_metrics_memory_and_processor_time(tmp_path: Path) -> None:
    start = [text(7, "a.py"), text(8, "main"), stack(1, 1), frame(5, 7, 8, 3)]
    trace = read(tmp_path, b"\1mode\0full\0", *start, time(10), b"\x08", b"\x0a" + integer(-4096))
    assert trace.report["metrics-not-used"].example == "1 of 1 samples idle, memory +0 and -4,096 bytes"
    with pytest.raises(FormatError, match="Austin recorded memory"):
        read(tmp_path, b"\1mode\0memory\0", *start, b"\x0a" + integer(4096))
    assert "no-time-line" in read(tmp_path, b"\1mode\0cpu\0", *start, time(10)).report


def test_what_is_cut_or_unknown(tmp_path: Path) -> None:
    start = [WALL, text(7, "a.py"), text(8, "main"), stack(1, 1), frame(5, 7, 8, 3), time(10)]
    for tail in (stack(1, 1)[:-1], b"\x63" + ref(5), text(9, "x")[:-1]):
        trace = read(tmp_path, *start, tail)
        assert rows(trace) == [[0, 0, 10_000, "main (a.py:3)"]]
        assert trace.report["truncated-file"].count == 1
    lost = read(tmp_path, *start, stack(1, 1), ref(5), stack(1, 1), ref(5), time(-3))
    assert lost.report["broken-row"].count == 2
    with pytest.raises(FormatError, match="no samples with a time"):
        read(tmp_path, WALL)
    with pytest.raises(FormatError, match="MOJO 9 is unknown"):
        read(tmp_path, WALL, version=9)


def test_records_are_chained_as_a_loop_would() -> None:
    """Windows and blocks do not matter: chains of random lengths, some of which leave the text."""
    drawn = np.random.default_rng(3)
    for size in (1, 255, 256, 257, 5_000, 2_500_000):
        lengths = np.where(
            drawn.random(size) < 0.99, drawn.integers(1, 40, size), drawn.integers(1, 3_000, size)
        )
        expected, at = [], 0
        while at < size and at + lengths[at] <= size:
            expected.append(at)
            at += int(lengths[at])
        starts, end = record_starts(lambda rows, lengths=lengths: rows + lengths[rows], 0, size)
        assert end == at
        assert starts.tolist() == expected
