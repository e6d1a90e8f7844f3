"""Copies: rates against the file's own numbers, pinned or not, and the link."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from notebook_prof import Trace, TraceBuilder, read_trace
from notebook_prof.analysis import copies
from notebook_prof.errors import OptionError

FILES = (
    "kineto_2021/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz",
    "param_dlrm_8rank/worker1_step_12.1694128201556.pt.trace.json.gz",
    "hta/trace_diff/test.json.gz",
)


@pytest.mark.parametrize("name", FILES)
def test_rates_are_those_of_the_file(shared_traces: Path, name: str) -> None:
    with gzip.open(shared_traces / name) as file:
        content = json.load(file)
    events = content["traceEvents"] if isinstance(content, dict) else content
    sums_of: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat", "").lower() in ("gpu_memcpy", "memcpy") and event.get("ph") == "X":
            sums = sums_of.setdefault(event["name"], [0, 0.0, 0])
            sums[0] += 1
            sums[1] += event["dur"]
            sums[2] += event["args"]["bytes"]
    table = copies(read_trace(shared_traces / name))
    name_of = "Memcpy " + table["direction"] + " (" + table["source"] + " -> " + table["target"] + ")"
    assert set(name_of) == set(sums_of)
    for at, key in enumerate(name_of):
        count, micros, size = sums_of[key]
        row = table.iloc[at]
        assert (row["count"], row["bytes"]) == (count, size)
        assert row["total_ns"] == pytest.approx(1000 * micros, abs=count)
        assert row["bytes_per_s"] == pytest.approx(size / micros * 1e6, rel=1e-3)
    assert table["share"].sum() == pytest.approx(1.0)
    assert table["total_ns"].is_monotonic_decreasing


def recording(names: dict[str, list[int]], link: bool = True) -> Trace:
    """Copies of 1 MiB, one after another on a stream, by name: their durations in ns."""
    b = TraceBuilder(metadata={"pcie_links": [{"device": 0, "bytes_per_s": 32e9}]} if link else {})
    stream = b.track("GPU 0 stream 7", "stream", device=0, stream=7)
    rows, at = [], 1_000_000
    for name, durations in names.items():
        for dur in durations:
            b.slices(ts=at, dur=dur, name=name, category="memcpy", track=stream, device=0, stream=7)
            rows.append({"device": 0, "stream": 7, "start_unix_ns": at, "bytes": 1 << 20})
            at += dur
    b.metadata["tables"] = {"device_events": pd.DataFrame(rows).astype({"bytes": "Int64"})}
    return b.seal()


PINNED, PAGEABLE = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"
INSIDE, BACK = "Memcpy DtoD (Device -> Device)", "Memcpy DtoH (Device -> Pinned)"


def test_pinned_or_not_against_the_link() -> None:
    table = copies(
        recording({PINNED: [40_000, 40_000], PAGEABLE: [200_000], INSIDE: [1_000], BACK: [50_000]})
    )
    assert table["direction"].tolist() == ["HtoD", "HtoD", "DtoH", "DtoD"]
    assert table["pinned"].tolist() == [False, True, True, pd.NA]
    rate = (1 << 20) / 40e-6
    assert table["bytes_per_s"].iloc[1] == pytest.approx(rate)
    assert table["link_share"].iloc[1] == pytest.approx(rate / 32e9)
    assert table["link_share"].isna().tolist() == [False, False, False, True]
    assert table["union_ns"].tolist() == table["total_ns"].tolist()
    pinned = copies(recording({PINNED: [40_000]}), link_bytes_per_s=64e9)
    assert pinned["link_share"].iloc[0] == pytest.approx(rate / 64e9)
    assert copies(recording({PINNED: [40_000]}, link=False))["link_share"].isna().all()
    with pytest.raises(OptionError, match="above 0"):
        copies(TraceBuilder().seal(), link_bytes_per_s=0)


def test_windows_and_names_of_other_recorders() -> None:
    trace = recording({PINNED: [40_000, 40_000, 40_000]})
    table = copies(trace, window=(10_000, 50_000))
    assert table[["count", "total_ns", "bytes"]].values.tolist() == [[2, 80_000, 2 << 20]]
    table = copies(recording({"MemcpyD2D": [5], "__amd_rocclr_copyBuffer.kd": [7], "memcpy P2P": [9]}))
    assert table["direction"].tolist() == ["", "PtoP"]  # 12 ns of those that do not tell
    assert table["count"].sum() == 3
