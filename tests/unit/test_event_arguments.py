"""What slices were called and launched with is in a Chrome trace of ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.event_tables import DEVICE_TABLES


def trace_with_arguments() -> Trace:
    b = TraceBuilder()
    track = b.track("main", pid=1, tid=1)
    b.slices(ts=[100, 100, 100, 130], dur=[20, 20, 20, 5], name=["f", "f", "g", "f"], track=track)
    rows = {"start_unix_ns": [130, 100, 100, 100], "dur_ns": [5, 20, 20, 20], "name": ["f", "f", "f", "f"]}
    table = pd.DataFrame({"track": np.full(4, track, np.int32), **rows})
    table["arguments"] = pd.Categorical(['{"x":"<b>"}', '{"x":[1,2.50]}', '{"x":2}', '{"x":3}'])
    b.metadata["tables"] = {"event_arguments": table}
    return b.seal()


def test_other_tools_see_them(tmp_path: Path) -> None:
    trace_with_arguments().to_chrome(tmp_path / "a.json")
    rows = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    args = [row["args"].get("arguments") for row in rows if row["ph"] == "X"]
    assert args.count({"x": "<b>"}) == args.count({"x": 2}) == args.count({"x": [1, 2.5]}) == 1


def test_launches_and_collectives_are_in_kinetos_words(shared_traces: Path, tmp_path: Path) -> None:
    before = read_trace(shared_traces / "hta/nccl_data.json.gz")
    before.to_chrome(tmp_path / "a.json")
    after = read_trace(tmp_path / "a.json")
    for name in ("device_events", "collectives"):
        keys = ["device", "stream", DEVICE_TABLES[name]]
        ours, theirs = (
            table[table["device"] >= 0].sort_values(keys, ignore_index=True)
            for table in (trace.metadata["tables"][name] for trace in (before, after))
        )
        pd.testing.assert_frame_equal(theirs, ours, check_categorical=False)
