"""Perfetto protobuf: what is written, as other decoders see it, and what of it opens again."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from notebook_prof.readers import read_trace
from notebook_prof.readers.codec.protobuf import fields
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.taxonomy import MODULE_PREFIX
from notebook_prof.writers import write_perfetto
from notebook_prof.writers.rows import KIND
from tests import strategies
from tests.unit.test_chrome_writer import START, check_opened, trace  # noqa: F401

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def packets(raw: bytes) -> list[dict[int, Any]]:
    """The packets of a file, each as its last value by field number; messages are bytes."""
    rows = []
    for number, span in fields(raw, (0, len(raw))):
        assert number == 1
        assert isinstance(span, tuple)
        rows.append(message(raw[slice(*span)]))
    return rows


def message(raw: bytes) -> dict[int, Any]:
    parts = fields(raw, (0, len(raw)))
    return {n: raw[slice(*value)] if isinstance(value, tuple) else value for n, value in parts}


def written(trace: Trace, path: Path) -> bytes:  # noqa: F811
    write_perfetto(trace, path)
    return path.read_bytes()


def test_it_opens_as_a_file_of_pytorch(trace: Trace, tmp_path: Path) -> None:  # noqa: F811
    for name in ("t.pftrace", "t.pftrace.gz"):
        write_perfetto(trace, tmp_path / name)
        again = read_trace(tmp_path / name)
        check_opened(trace, again)
        assert again.metadata["source"] == "perfetto"
        assert again.counters["value"].tolist() == [1e9, np.inf]
    assert gzip.decompress((tmp_path / "t.pftrace.gz").read_bytes()) == (tmp_path / "t.pftrace").read_bytes()


def test_threads_without_a_process_stay_apart(tmp_path: Path) -> None:
    """For example those of a speedscope file. A thread of Perfetto needs a process."""
    b = TraceBuilder()
    for number, name in enumerate(("t1", "t2")):
        b.slices(ts=[0, 10], dur=[30, 10], name=[name, "inner"], track=b.track(name, tid=number))
    one = b.seal()
    write_perfetto(one, tmp_path / "t.pftrace")
    again = read_trace(tmp_path / "t.pftrace")
    assert again.tracks["name"].tolist() == ["t1", "t2"]
    same = ["ts", "dur", "name", "track", "depth"]
    assert again.slices[same].astype(str).equals(one.slices[same].astype(str))


@given(strategies.traces())
def test_perfetto_can_nest_what_is_written(
    tmp_path_factory: pytest.TempPathFactory,
    trace: Trace,  # noqa: F811
) -> None:
    """Packets are in the order of time, and each end ends the slice of its track that began last."""
    raw = written(trace, tmp_path_factory.mktemp("t") / "t.pftrace")
    names = ["", *interned(raw, 2)]
    open_on: dict[int, list[tuple[int, str]]] = defaultdict(list)
    closed, last = [], 0
    for packet in packets(raw):
        if 11 not in packet:
            continue
        event, ts = message(packet[11]), packet[8]
        assert ts >= last
        last = ts
        stack = open_on[event[11]]
        if event[9] == BEGIN:
            stack.append((ts, names[event[10]]))
        elif event[9] == END:
            start, name = stack.pop()
            closed.append((start, ts - start, name))
    assert not any(open_on.values())
    rows = trace.slices[trace.slices["dur"] > 0]
    prefix = np.where(rows["category"] == "module", MODULE_PREFIX, "")
    names_of = zip(prefix, rows["name"].astype(str), strict=True)
    shown = [start + name.removeprefix(start) for start, name in names_of]
    ours = zip(rows["ts"].tolist(), rows["dur"].tolist(), shown, strict=True)
    assert sorted(row for row in closed if not row[2].startswith("ProfilerStep#")) == sorted(ours)


def interned(raw: bytes, kind: int) -> list[str]:
    texts = {}
    for packet in packets(raw):
        for number, span in fields(packet[12], (0, len(packet[12]))) if 12 in packet else ():
            if number == kind:
                entry = message(packet[12][slice(*span)])  # type: ignore[misc]
                texts[entry[1]] = entry[2].decode()
    assert sorted(texts) == list(range(1, len(texts) + 1))
    return [texts[number] for number in sorted(texts)]


def test_tracks_have_names_parents_and_order(trace: Trace, tmp_path: Path) -> None:  # noqa: F811
    raw = written(trace, tmp_path / "t.pftrace")
    tracks = {}
    for packet in packets(raw):
        if 60 in packet:
            track = message(packet[60])
            tracks[track[1]] = track
    by_name = {track.get(2, b"").decode(): track for track in tracks.values()}
    assert {"GPU 0", "GPU 0 stream 7", "process memory (RSS)", "steps"} < set(by_name)
    thread = next(message(track[4]) for track in tracks.values() if 4 in track)
    assert thread == {1: 41, 2: 42, 5: b"MainThread"}
    process = next(track for track in tracks.values() if 3 in track)
    assert message(process[3]) == {1: 41, 6: b"process 41"}
    memory = by_name["process memory (RSS)"]
    assert (memory[5], message(memory[8])) == (process[1], {3: 3})
    assert tracks[by_name["GPU 0 stream 7"][5]] is by_name["GPU 0"]
    assert by_name["GPU 0"][11] == 3
    assert [track[12] for track in tracks.values() if 12 in track] == [1, 2, 3, 1]


def test_googles_messages_say_the_same(data: Path, tmp_path: Path) -> None:
    """The messages of the package ``perfetto``, which are generated from the public schema."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

    recorded = read_trace(data / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz")
    file = schema.Trace()
    file.ParseFromString(written(recorded, tmp_path / "t.pftrace"))
    names: dict[int, str] = {}
    categories, keys, strings = dict(names), dict(names), dict(names)
    tracks, stack, closed = {}, defaultdict(list), []
    for packet in file.packet:
        kinds = {"event_names": names, "event_categories": categories, "debug_annotation_names": keys}
        for kind, table in kinds.items():
            table.update({entry.iid: entry.name for entry in getattr(packet.interned_data, kind)})
        strings.update({e.iid: e.str.decode() for e in packet.interned_data.debug_annotation_string_values})
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        event = packet.track_event
        if event.type == BEGIN:
            notes = {keys[a.name_iid]: a for a in event.debug_annotations}
            shapes = strings[notes["shapes"].string_value_iid] if "shapes" in notes else ""
            arguments = json.loads(notes["args"].legacy_json_value) if "args" in notes else {}
            category = categories[event.category_iids[0]]
            stack[event.track_uuid].append((packet.timestamp, names[event.name_iid], category, shapes))
            assert set(arguments) <= {"arguments"}
        elif event.type == END:
            start, *facts = stack[event.track_uuid].pop()
            closed.append((start, packet.timestamp - start, *facts))
    rows = recorded.slices[recorded.slices["dur"] > 0]
    names_of = np.where(rows["category"] == "module", MODULE_PREFIX, "") + rows["name"].astype(object)
    texts = (names_of, rows["category"].map(KIND).astype(object), rows["shapes"].astype(object).fillna(""))
    assert sorted(closed) == sorted(zip(rows["ts"].tolist(), rows["dur"].tolist(), *texts, strict=True))
    threads = {t.thread.tid: t.thread.thread_name for t in tracks.values() if t.HasField("thread")}
    own = recorded.tracks[recorded.tracks["kind"] == "thread"]
    assert threads == dict(zip(own["tid"].tolist(), own["name"].tolist(), strict=True))
    ends = [(len(p.track_event.flow_ids), len(p.track_event.terminating_flow_ids)) for p in file.packet]
    assert np.sum(ends, axis=0).tolist() == [len(recorded.flows)] * 2
