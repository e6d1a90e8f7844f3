"""Scheduling of threads in Perfetto traces, from events that are written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook_prof.errors import FormatError
from notebook_prof.readers import read_trace
from tests.messages import bytes_field, number_field, varint

RUNNABLE, ASLEEP = 0, 1


def packed(number: int, values: list[int]) -> bytes:
    return bytes_field(number, b"".join(map(varint, values)))


def event(ts: int, kind: int, content: bytes) -> bytes:
    return bytes_field(2, number_field(1, ts) + number_field(2, 9) + bytes_field(kind, content))


def switch(ts: int, state: int, name: str, tid: int) -> bytes:
    return event(ts, 4, number_field(4, state) + bytes_field(5, name) + number_field(6, tid))


PLAIN = (
    switch(100, ASLEEP, "a", 7)
    + event(150, 20, bytes_field(1, "b") + number_field(2, 8))
    + switch(200, RUNNABLE, "b", 8)
    + switch(260, ASLEEP, "a", 7)
    + switch(300, ASLEEP, "swapper", 0)
    + event(310, 3, bytes_field(2, "B|7|mm"))
)
COMPACT = bytes_field(
    4,
    bytes_field(5, "a") + bytes_field(5, "b")
    + packed(1, [100, 100, 60, 40]) + packed(2, [ASLEEP, RUNNABLE, ASLEEP, ASLEEP]) + packed(3, [7, 8, 7, 0])
    + packed(6, [0, 1, 0, 0]) + packed(7, [150]) + packed(8, [8]) + packed(11, [1]),
)  # fmt: skip


@pytest.mark.parametrize("events", [PLAIN, COMPACT], ids=["plain", "compact"])
def test_threads_run_and_are_runnable(events: bytes, tmp_path: Path) -> None:
    bundle = bytes_field(1, number_field(10, 1) + bytes_field(1, number_field(1, 3) + events))
    snapshot = bytes_field(1, number_field(1, 6) + number_field(2, 0))
    head = bytes_field(1, number_field(10, 1) + bytes_field(6, snapshot))
    (tmp_path / "t.pftrace").write_bytes(head + bundle)
    trace = read_trace(tmp_path / "t.pftrace")
    names = trace.tracks.set_index("track")["name"]
    rows = trace.slices.assign(lane=trace.slices["track"].map(names), ts=trace.slices["ts"] + 100)
    assert sorted(zip(rows["lane"], rows["name"], rows["ts"], rows["dur"], strict=True)) == [
        ("a 7 · scheduling", "runnable", 200, 60),
        ("a 7 · scheduling", "running", 100, 100),
        ("a 7 · scheduling", "running", 260, 40),
        ("b 8 · scheduling", "runnable", 150, 50),
        ("b 8 · scheduling", "running", 200, 60),
    ]
    unused = trace.report["kernel-events-not-used"].count if "kernel-events-not-used" in trace.report else 0
    assert unused == (events == PLAIN)


def test_stack_samples_are_counted(tmp_path: Path) -> None:
    """Perfetto 58 writes field 135 in place of perf_sample; what it holds is not read yet."""
    state = number_field(10, 1) + number_field(13, 1)
    samples = b"".join(
        bytes_field(1, number_field(8, ts) + state + bytes_field(135, number_field(1, 1))) for ts in (5, 6)
    )
    path = tmp_path / "unknown"
    path.write_bytes(samples)
    with pytest.raises(FormatError, match=r"only stack_sample packets; open it at ui\.perfetto\.dev"):
        read_trace(path, "perfetto")
    named = number_field(9, 1) + bytes_field(23, b"work")
    ended = number_field(9, 2)
    slices = b"".join(
        bytes_field(1, number_field(8, ts) + state + bytes_field(11, content))
        for ts, content in ((5, named), (9, ended))
    )
    path.write_bytes(slices + samples)
    trace = read_trace(path)
    assert trace.slices["name"].tolist() == ["work"]
    assert trace.report["stack-samples-not-used"].count == 2
