"""What slices were called and launched with is in a Chrome trace of ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.event_tables import DEVICE_TABLES, slice_rows_of
from notebook_prof.writers.values import event_texts


def trace_with_arguments() -> Trace:
    b = TraceBuilder()
    track = b.track("main", pid=1, tid=1)
    b.slices(ts=[100, 100, 100, 130], dur=[20, 20, 20, 5], name=["f", "f", "g", "f"], track=track)
    rows = {"start_unix_ns": [130, 100, 100, 100], "dur_ns": [5, 20, 20, 20], "name": ["f", "f", "f", "f"]}
    table = pd.DataFrame({"track": np.full(4, track, np.int32), **rows})
    table["arguments"] = pd.Categorical(['{"x":"<b>"}', '{"x":[1,2.50]}', '{"x":2}', '{"x":3}'])
    b.metadata["tables"] = {"event_arguments": table}
    return b.seal()


def test_rows_find_their_slices_one_by_one() -> None:
    trace = trace_with_arguments()
    names = trace.slices["name"].astype(str).tolist()
    twins = [i for i, name in enumerate(names) if name == "f"]
    # three rows for two slices: one tells of a slice that is not there
    assert slice_rows_of(trace, "event_arguments").tolist() == [twins[2], twins[0], twins[1], -1]
    part = trace.sel(window=(0, 25))
    assert slice_rows_of(part, "event_arguments").tolist() == [-1, 0, 1, -1]
    texts = event_texts(part)
    assert texts is not None
    assert texts.tolist() == [',"arguments":{"x":[1,2.50]}', ',"arguments":{"x":2}', ""]


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
