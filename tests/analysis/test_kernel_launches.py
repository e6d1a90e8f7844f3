"""Launches, delays and queues: drawn, by law, and against HTA's figures."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from notebook_prof import read_trace
from notebook_prof.analysis import kernel_launches
from notebook_prof.testing import draw
from tests.strategies import traces

PICTURE = """
steps: [0                                    ]
main:  [mm/forward  ][add/forward]
main:   [call]         [call]
stream 7:     [gemm                ][plus]
"""


def test_delay_operator_and_queue():
    trace = draw(PICTURE, categories={"call": "launch"}, launches=[("call", "gemm"), ("call", "plus")])
    # the second drawing of "call" launches the second kernel
    table = kernel_launches(trace)
    assert table["name"].tolist()[0] == "gemm"
    assert table["operator"].tolist()[0] == "mm"
    assert table["phase"].tolist()[0] == "forward"
    assert table["step"].tolist()[0] == 0
    assert (table["ts"] - table["launch_ts"] - table["call_ns"]).clip(lower=0).tolist() == table[
        "delay_ns"
    ].tolist()
    assert kernel_launches(trace, category="memcpy").empty


@given(traces())
def test_each_launch_has_a_row(trace):
    table = kernel_launches(trace)
    assert set(table["slice"]) == set(trace.flows["dst"])
    assert (table["delay_ns"] >= 0).all()
    assert (table["queue"] >= 1).all()
    assert table["slice"].is_monotonic_increasing
    pairs = dict(zip(trace.flows["dst"], trace.flows["src"], strict=True))
    assert [pairs[row] for row in table["slice"]] == table["launch"].tolist()


@pytest.mark.parametrize("rank", range(8))
def test_hta_adds_up_the_same_launches(shared_traces: Path, rank: int):
    oracle = json.loads((shared_traces / "oracle" / "hta_0.5.0" / "dlrm_8rank.json").read_text())
    path = next((shared_traces / "param_dlrm_8rank").glob(f"worker{rank}_*"))
    table = kernel_launches(read_trace(path))
    reported = oracle["launch_stats"][str(rank)]
    sums = table[["call_ns", "dur", "delay_ns"]].sum() / 1000
    assert len(table) == reported["n"]
    columns = ("cpu_duration_sum", "gpu_duration_sum", "launch_delay_sum")
    assert sums.tolist() == [reported[column] for column in columns]
    longest = table.groupby("stream")["queue"].max()
    for row in oracle["queue_length_summary"]:
        if row["('rank', '')"] == rank:
            assert longest[row["('stream', '')"]] == row["('queue_length', 'max')"]
            own = table[table["stream"] == row["('stream', '')"]]
            assert 2 * len(own) == row["('queue_length', 'count')"]
    assert np.isfinite(sums).all()
