"""What a report tells of the arguments of its slices, and how much room that takes."""

from __future__ import annotations

import base64
import json
import zlib
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof.service.answers.arguments import arguments_of
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.report import arguments as module
from notebook_prof.views.report.arguments import arguments_in_file


def made(n: int, distinct: int) -> Trace:
    """Kernels whose launches differ, and calls on a thread of which every second one has arguments."""
    b = TraceBuilder()
    rng = np.random.default_rng(0)
    main, stream = b.track("main", pid=1, tid=1), b.track("GPU", "stream", device=0, stream=7)
    ts, dur = np.arange(n) * 1_000, rng.integers(1, 900, n)
    b.slices(ts=ts, dur=dur, name="call", track=main)
    b.slices(ts=ts + 50, dur=dur, name="k", category="kernel", track=stream, device=0, stream=7)
    columns = {"start_unix_ns": ts[::2], "dur_ns": dur[::2], "name": "call"}
    table = pd.DataFrame({"track": np.int32(main), **columns})
    table["arguments"] = pd.Categorical([f'{{"id":{i % distinct}}}' for i in range(0, n, 2)])
    launched = pd.DataFrame({"device": 0, "stream": 7, "start_unix_ns": ts + 50, "name": "k"})
    launched["grid"] = pd.Categorical([f"[{i % 7}, 1, 1]" for i in range(n)])
    launched["occupancy"] = np.where(np.arange(n) % 2, 0.5, np.nan)
    b.metadata["tables"] = {"event_arguments": table, "device_events": launched}
    return b.seal()


def unpacked(packed: dict[str, Any]) -> dict[int, list[list[str]]]:
    def values(column: dict[str, Any]) -> list[int]:
        raw = np.frombuffer(zlib.decompress(base64.b64decode(column["data"])), np.uint8)
        width = np.dtype(column["type"]).itemsize
        numbers = np.ascontiguousarray(raw.reshape(width, -1).T).view("<" + column["type"]).ravel()
        return (np.cumsum(numbers) if column["delta"] else numbers).tolist()

    texts = json.loads(zlib.decompress(base64.b64decode(packed["texts"])))
    rows, codes = (values(packed["columns"][name]) for name in ("row", "code"))
    return {row: texts[code] for row, code in zip(rows, codes, strict=True)}


def test_a_file_tells_of_its_rows_what_the_live_view_tells() -> None:
    trace = made(200, 30)
    for keep in (None, np.arange(400) % 3 > 0):
        packed = arguments_in_file(trace, keep)
        assert packed is not None
        assert packed["left"] == ""
        arguments, rows = unpacked(packed), np.arange(400) if keep is None else np.flatnonzero(keep)
        shown = [arguments.get(i, []) for i in range(len(rows))]
        assert shown == [arguments_of(trace, row) for row in rows.tolist()]
    assert arguments_in_file(trace, np.zeros(400, bool)) is None
    assert arguments_in_file(TraceBuilder().seal(), None) is None


def test_the_longest_slices_have_room_first(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = made(5_000, 5_000)
    monkeypatch.setattr(module, "MOST_BYTES", 9_000)
    packed = arguments_in_file(trace, None)
    assert packed is not None
    arguments = unpacked(packed)
    dur = trace.slices["dur"].to_numpy()
    shortest = min(dur[row] for row in arguments)
    assert len(json.dumps(packed)) < 10_000
    assert 300 < len(arguments) < 5_000
    assert packed["left"].startswith(
        f"Arguments of the {len(arguments):,} longest of 7,500 slices are in this file"
    )
    others = (row for row in range(10_000) if row not in arguments and arguments_of(trace, row))
    assert max(dur[row] for row in islice(others, 200)) <= shortest
