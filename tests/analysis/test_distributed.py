"""Communication and computation, against other tools' figures for the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from notebook_prof.analysis import collectives, device, distributed
from notebook_prof.errors import OptionError
from notebook_prof.readers import read_trace
from notebook_prof.testing import draw
from notebook_prof.trace import TraceBuilder
from tests.strategies import traces

KINDS = {"nccl": "collective", "gloo": "collective", "copy": "memcpy"}


def test_steps_of_a_device():
    trace = draw(
        """
        steps: [0           ][1           ]
        main:  [run]         [run]
        stream 7: [gemm  ]      [gemm]
        stream 9:     [nccl   ]       [nccl]
        """,
        categories=KINDS,
    )
    columns = ["step", "communication_ns", "computation_ns", "overlap_ns", "exposed_ns", "busy_ns", "span_ns"]
    assert distributed(trace)[columns].values.tolist() == [[0, 9, 8, 4, 5, 13, 13], [1, 6, 6, 0, 6, 12, 12]]
    assert distributed(trace, step=1)["step"].tolist() == [1]
    whole = distributed(trace, by="trace")
    assert whole["step"].isna().all()
    assert whole["communication_ns"].tolist() == [15]
    assert distributed(trace, window=(0, 8), by="trace")["communication_ns"].tolist() == [1]


def test_collectives_of_the_host():
    trace = draw(
        """
        steps: [0                 ]
        main:  [mm   ]     [add]
        gloo worker: [gloo   ]
        """,
        categories=KINDS,
    )
    row = distributed(trace).iloc[0]
    assert (row["device"], row["communication_ns"], row["computation_ns"], row["overlap_ns"]) == (
        -1,
        9,
        12,
        4,
    )


@pytest.mark.parametrize(("phase", "before"), [("data", "read"), ("other", "mm")])
def test_what_came_before_a_collective(phase: str, before: str):
    trace = draw(
        f"""
        steps: [0                             ][1                             ]
        main:  [read/{phase}    ][mm][all_reduce][read/{phase}    ][mm][all_reduce]
        """,
        categories={"read": "annotation", "all_reduce": "collective"},
    )
    assert collectives(trace)["before"].tolist() == [before, before]


def test_nothing_to_divide():
    assert distributed(TraceBuilder().seal()).empty
    assert distributed(draw("main: [mm ]")).empty
    with pytest.raises(OptionError, match="steps"):
        distributed(draw("main: [mm ]"), by="steps")


@given(traces())
def test_parts_add_up(trace):
    for by in ("step", "trace"):
        table = distributed(trace, by=by)
        assert (table["overlap_ns"] + table["exposed_ns"] == table["communication_ns"]).all()
        assert (table["busy_ns"] <= table["span_ns"]).all()
        assert (table["overlap_ns"] >= 0).all()
        either = table["communication_ns"] + table["computation_ns"] - table["overlap_ns"]
        assert (either <= table["busy_ns"]).all()
    devices = device(trace)
    if len(devices):
        assert (
            distributed(trace, by="trace")["exposed_ns"].tolist()
            == devices["exposed_communication_ns"].tolist()
        )


@pytest.mark.parametrize("rank", range(8))
def test_hta_and_own_figures_of_dlrm(shared_traces: Path, rank: int):
    oracle = json.loads((shared_traces / "oracle" / "hta_0.5.0" / "dlrm_8rank.json").read_text())
    path = next((shared_traces / "param_dlrm_8rank").glob(f"worker{rank}_*"))
    row = distributed(read_trace(path)).iloc[0]
    reported = next(x for x in oracle["temporal_breakdown"] if x["rank"] == rank)
    assert row["computation_ns"] == reported["compute_time(us)"] * 1000
    assert row["busy_ns"] - row["computation_ns"] == reported["non_compute_time(us)"] * 1000
    assert row["span_ns"] == reported["kernel_time(us)"] * 1000
    share = next(x for x in oracle["comm_comp_overlap"] if x["rank"] == rank)
    assert round(100 * row["overlap_share"], 2) == share["comp_comm_overlap_pctg"]


def test_integer_figures_of_other_files(shared_traces: Path):
    reported = json.loads((shared_traces / "oracle" / "own_gpu_intervals.json").read_text())
    tested = 0
    for key, figures in reported.items():
        name = key.rsplit("/", 1)[1]
        named = shared_traces.rglob(name.removesuffix(".gz") + "*")
        matches = [path for path in named if path.suffix in (".gz", ".json") and _same(path, key)]
        if not matches or not matches[0].stat().st_size:
            continue
        table = distributed(read_trace(matches[0]), by="trace")
        if len(table) != 1:  # the figures join all devices of a file
            continue
        row, every = table.iloc[0], figures["all"]
        assert row["communication_ns"] == every["comm_ns"], key
        assert row["overlap_ns"] == every["comp_comm_overlap_ns"], key
        assert row["computation_ns"] == every["comp_ns"], key
        assert row["busy_ns"] == every["busy_ns"], key
        tested += 1
    assert tested >= 8


def _same(path: Path, key: str) -> bool:
    """TraceLens has one name in two folders."""
    return "tracelens" not in path.parts or path.parent.name == key.rsplit("/", 2)[1]
