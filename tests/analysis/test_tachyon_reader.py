"""Binary files of Python 3.15's sampler, against its own exports and a decoder that reads byte by byte."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path

import pytest

from notebook_prof.analysis import verdict
from notebook_prof.errors import FormatError
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace

from .. import samples
from ..properties.test_verdict_claims import check_verdict

FOLDER = samples.ROOTS["shared"] / "python_samplers"
shared = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared recordings are not here")
NAMES = ["tachyon315_none", "tachyon315_zstd"]


def leb(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def record(thread: int, kind: int, *values: int, interpreter: int = 0, order: str = "<") -> bytes:
    return struct.pack(order + "QIB", thread, interpreter, kind) + b"".join(map(leb, values))


def recording(*records: bytes, count: int, order: str = "<", frames: int = 3) -> bytes:
    """A file with the functions ``main``, ``f`` and ``g`` of ``a.py``."""
    text = b"".join(records)
    strings = b"".join(leb(len(one)) + one.encode() for one in ("a.py", "main", "f", "g"))
    table = b"".join(leb(0) + leb(1 + i) + leb(2 * (10 + i)) + bytes(3) + b"\xff" for i in range(frames))
    strings_at = 64 + len(text)
    frames_at = strings_at + len(strings)
    whole = frames_at + len(table) + 32
    magic = 0x54414348
    head = struct.pack(
        order + "II4BQQQIQQII", magic, 1, 3, 15, 2, 0, 7, 1000, count, 1, strings_at, frames_at, 0, 0
    )
    return head + text + strings + table + struct.pack(order + "IIQ16x", 4, frames, whole)


def read(folder: Path, content: bytes) -> Trace:
    path = folder / "unknown"
    path.write_bytes(content)
    return read_trace(path)


def rows(trace: Trace) -> list[list[object]]:
    return trace.slices[["track", "ts", "dur", "name"]].values.tolist()


STACKS = (
    record(5, 1, 100, 1, 2, 1, 0),  # f of main
    record(5, 0, 2, 1000, 1, 1000, 4),  # as before, twice
    record(9, 1, 100, 1, 1, 0),  # main of another thread
    record(5, 3, 1000, 1, 1, 1, 2),  # g in place of f
    record(5, 2, 1000, 1, 1, 1, 1),  # main alone is kept, and f called
    record(9, 3, 1000, 0, 1, 0),  # nothing runs
    record(9, 2, 1000, 0, 0, 1, 2),
)


@pytest.mark.parametrize("order", ["<", ">"])
def test_stacks_are_told_by_the_one_before(order: str, tmp_path: Path) -> None:
    """Also where the other order of bytes was written."""
    stacks = [struct.pack(order + "QI", *struct.unpack("<QI", one[:12])) + one[12:] for one in STACKS]
    trace = read(tmp_path, recording(*stacks, count=8, order=order))
    assert trace.metadata["source"] == "tachyon"
    assert trace.metadata["tachyon"] == {"python": "3.15.2", "interval_us": 1000}
    assert trace.tracks["tid"].tolist() == [5, 9]
    assert rows(trace) == [
        [0, 0, 5_000_000, "main (a.py:10)"],
        [0, 0, 3_000_000, "f (a.py:11)"],
        [1, 0, 1_000_000, "main (a.py:10)"],
        [1, 2_000_000, 1_000_000, "g (a.py:12)"],
        [0, 3_000_000, 1_000_000, "g (a.py:12)"],
        [0, 4_000_000, 1_000_000, "f (a.py:11)"],
    ]
    assert {issue.code for issue in trace.report} == {"columns-not-used", "states-not-used"}


@shared
@pytest.mark.parametrize("name", NAMES)
def test_samples_are_those_of_another_decoder(name: str) -> None:
    answers = json.loads((FOLDER / f"{name}.bin.oracle.json").read_text())
    trace = read_trace(FOLDER / f"{name}.bin")
    assert trace.metadata["tachyon"]["interval_us"] == answers["interval_us"]
    assert trace.report["states-not-used"].count == answers["samples"] == answers["header_samples"]
    assert {str(tid) for tid in trace.tracks["tid"]} == set(answers["samples_per_thread"])
    assert trace.slices["depth"].max() + 1 == answers["max_depth"]
    function = trace.slices["name"].astype("str").str.replace(r" \(\S*\)$", "", regex=True)
    own = trace.slices.groupby(function)["self_ns"].sum() / trace.slices["self_ns"].sum()
    for leaf in answers["top5_leaf"]:
        assert own[leaf["name"]] == pytest.approx(leaf["samples"] / answers["samples"], abs=0.03)


@shared
@pytest.mark.parametrize("name", NAMES)
def test_the_export_as_gecko_gives_the_same(name: str) -> None:
    """The export leaves frames of the sampler's own start out, and folders of files."""
    one, other = read_trace(FOLDER / f"{name}.bin"), read_trace(FOLDER / f"{name}.gecko.json.xz")
    threads = other.tracks.loc[other.tracks["kind"] == "thread", ["track", "tid"]]
    for track, tid in threads.values.tolist():
        binary = one.slices[one.slices["track"] == one.tracks.loc[one.tracks["tid"] == tid, "track"].item()]
        export = other.slices[other.slices["track"] == track]
        assert binary["self_ns"].sum() == export["self_ns"].sum()
        texts = [each["name"].astype("str") for each in (binary, export)]
        own = [
            each[text.str.contains("workload.py:")]
            for each, text in zip((binary, export), texts, strict=True)
        ]
        begin = [int(each["ts"].min()) for each in own]
        assert len(own[0]) > 2
        for each in own:
            each.insert(0, "function", each["name"].astype("str").str.replace("mnt/", ""))
        listed = [each[["function", "dur", "self_ns"]].values.tolist() for each in own]
        assert listed[0] == listed[1]
        shifted = [(each["ts"] - start).tolist() for each, start in zip(own, begin, strict=True)]
        assert shifted[0] == shifted[1]


@shared
@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_them_is_true(name: str) -> None:
    trace = read_trace(FOLDER / f"{name}.bin")
    check_verdict(trace)
    result = verdict(trace)
    assert result.kind == "python-bound"
    assert "numbers" in result.sentence


def test_what_is_cut_is_refused_or_counted(tmp_path: Path) -> None:
    whole = recording(*STACKS, count=8)
    for size in range(4, len(whole), 7):
        with pytest.raises(FormatError, match="was cut"):
            read(tmp_path, whole[:size])
    trace = read(tmp_path, recording(*STACKS[:3], count=8))
    assert trace.report["truncated-file"].count == 4
    trace = read(tmp_path, recording(*STACKS, b"\1\2\3", count=8))
    assert trace.report["truncated-file"].count == 1
    broken = recording(record(5, 1, 1, 1, 1, 99), record(5, 3, 1000, 1, 7, 1, 1), count=2, frames=2)
    trace = read(tmp_path, broken)
    assert trace.report["broken-row"].count == 1
    assert trace.slices["name"].tolist() == ["[unknown]", "f (a.py:11)"]
    with pytest.raises(FormatError, match="version 7 of Tachyon"):
        read(tmp_path, whole[:4] + struct.pack("<I", 7) + whole[8:])
    with pytest.raises(FormatError, match="has no samples"):
        read(tmp_path, recording(count=0))


LINES = (
    '{"type":"meta","v":1,"run_id":"a","sample_interval_usec":500,"mode":"cpu"}',
    '{"type":"str_def","v":1,"run_id":"a","defs":[{"str_id":1,"value":"f"},{"str_id":2,"value":"/m/a.py"}]}',
    '{"type":"str_def","v":1,"run_id":"a","defs":[{"str_id":3,"value":"<GC>"},{"str_id":4,"value":"~"}]}',
    '{"type":"frame_def","v":1,"run_id":"a","defs":[{"frame_id":1,"path_str_id":2,"func_str_id":1,"line":7,'
    '"end_line":7,"col":4,"end_col":9},{"frame_id":2,"path_str_id":4,"func_str_id":3,"line":0,"synthetic":true}]}',
    '{"type":"agg","v":1,"run_id":"a","kind":"frame","scope":"final","samples_total":9,"entries":['
    '{"frame_id":1,"self":2,"cumulative":9},{"frame_id":2,"self":7,"cumulative":7}]}',
    '{"type":"end","v":1,"run_id":"a","samples_total":9}',
)
"""As Python's main branch writes ``--jsonl``; 3.15.2 has other names of two records, and counts from 0."""


def lines(*texts: str) -> bytes:
    return "\n".join([*texts, ""]).encode()


def test_sums_by_line(tmp_path: Path) -> None:
    trace = read(tmp_path, lines(*LINES))
    assert trace.metadata["source"] == "tachyon_jsonl"
    assert trace.metadata["tachyon"] == {"interval_us": 500, "mode": "cpu"}
    assert rows(trace) == [[0, 0, 3_500_000, "<GC> (~)"], [0, 3_500_000, 1_000_000, "f (m/a.py:7)"]]
    table = trace.metadata["tables"]["frames"]
    columns = ["name", "file", "line", "column", "self_samples", "cumulative_samples", "cumulative_ns"]
    assert table[columns].values.tolist() == [
        ["<GC>", "~", 0, -1, 7, 7, 3_500_000],
        ["f", "/m/a.py", 7, 4, 2, 9, 4_500_000],
    ]
    assert {issue.code for issue in trace.report} == {"no-time-line"}


def test_lines_that_are_missing_or_none(tmp_path: Path) -> None:
    assert read(tmp_path, lines(*LINES[:-1])).report["truncated-file"].count == 1
    trace = read(tmp_path, lines(LINES[0], *LINES[2:5], "{", '{"type":"other"}', LINES[5]))
    assert sorted(trace.slices["name"]) == ["<GC> (~)", "[unknown]"]
    assert trace.report["broken-row"].count == 1
    assert trace.report["row-not-used"].example == "other"
    many = LINES[5].replace('"samples_total":9', '"samples_total":12')
    assert read(tmp_path, lines(*LINES[:5], many)).report["broken-row"].count == 3
    for number in range(1, 5):
        with pytest.raises(FormatError, match="no sums of samples"):
            read(tmp_path, lines(*LINES[:number]))
    for wrong in ("1e999", "1e30"):
        with pytest.raises(FormatError):
            read(tmp_path, lines(LINES[0].replace("500", wrong), *LINES[1:]))


@shared
@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_the_stacks_of_the_same_recording(name: str) -> None:
    """Own samples by line are the leaves of its collapsed stacks; their sum is that of its ``.pstats``."""
    trace = read_trace(FOLDER / f"{name}.jsonl")
    leaves: Counter[str] = Counter()
    on_stack: Counter[str] = Counter()
    for text in (FOLDER / f"{name}.collapsed.txt").read_text().splitlines():
        path, _, count = text.rpartition(" ")
        stack = path.split(";")[1:]
        leaves[stack[-1]] += int(count)
        on_stack.update(dict.fromkeys(stack, int(count)))
    table = trace.metadata["tables"]["frames"]
    files = table["file"].str.rpartition("/")[2]
    table["place"] = files + ":" + table["name"] + ":" + table["line"].astype(str)
    own = table.groupby("place")["self_samples"].sum()
    assert own[own > 0].to_dict() == dict(leaves)
    alone = table.drop_duplicates("place", keep=False).set_index("place")["cumulative_samples"]
    assert len(alone) >= 15
    assert alone.to_dict() == {line: on_stack[line] for line in alone.index}
    assert trace.slices["self_ns"].sum() == read_trace(FOLDER / f"{name}.pstats").slices["self_ns"].sum()
    check_verdict(trace)
