"""Matching, clocks, arrivals, bandwidth, imbalance and folding, on runs with known answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.errors import OptionError
from notebook_prof.ranks.analysis.clocks import clock_offsets
from notebook_prof.ranks.analysis.communication import METRICS, fold
from notebook_prof.ranks.analysis.tables import matched
from notebook_prof.testing import draw

from .drawn import write_rank, write_run


def test_the_late_rank_and_its_waiting(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path))
    table = ranks.stragglers().set_index("rank")
    assert table.index[0] == 3
    assert table.loc[3, ["late_ns", "wait_ns", "last_count"]].tolist() == [60_000, 0, 3]
    assert table.loc[3, "before"] == "gemm"
    assert table.loc[0, ["late_ns", "wait_ns", "transfer_ns"]].tolist() == [0, 60_000, 75_000]


def test_wrong_clocks_are_set_right(tmp_path: Path):
    shifts = {0: 0, 1: 5_000_000, 2: -3_000_000, 3: 0, 4: 250}
    for rank, shift in shifts.items():
        late = 20 if rank == 2 else 0
        write_rank(tmp_path / f"rank{rank}.json", rank, 5, late_us=late, shift_us=shift)
    ranks = nbp.read_ranks(tmp_path)
    clocks = ranks.clocks().set_index("rank")
    assert clocks["offset_ns"].to_dict() == {rank: 1000 * us for rank, us in shifts.items()}
    assert clocks["residual_ns"].max() == 0
    assert ranks.stragglers()["rank"].tolist()[0] == 2
    assert ranks.stragglers()["late_ns"].tolist() == [60_000, 0, 0, 0, 0]
    starts = ranks.steps()
    assert starts.groupby("step")["start_ns"].nunique().eq(1).all()
    ranks.to_chrome(tmp_path / "all.json")
    merged = nbp.read_trace(tmp_path / "all.json")
    nccl = merged.slices[merged.slices["category"] == "collective"]
    assert (nccl["ts"] + nccl["dur"]).nunique() == 3


def test_ranks_that_share_nothing_are_refused_with_a_reason(tmp_path: Path):
    write_rank(tmp_path / "rank0.json", 0, 3)
    write_rank(tmp_path / "rank1.json", 1, 3)
    write_rank(tmp_path / "rank2.json", 2, 3, operation="AllGather", late_us=3)
    ranks = nbp.read_ranks(tmp_path)
    clocks = ranks.clocks().set_index("rank")
    assert clocks["aligned"].tolist() == [True, True, False]
    assert "rank 2 shares no collective" in clocks.loc[2, "reason"]
    assert "rank 2 shares no collective" in ranks.report["clock-not-aligned"].example
    assert ranks.stragglers()["rank"].tolist() == [0, 1]
    assert sorted(ranks.steps()["rank"].unique()) == [0, 1]
    assert len(ranks.breakdown()) == 9


def test_clocks_through_a_chain_of_groups():
    rows = []
    for match in range(6):
        pair = match % 3
        rows += [(rank, match, 1_000_000 * (match + 1) + 70_000 * rank) for rank in (pair, pair + 1)]
    frame = pd.DataFrame(rows, columns=["rank", "match", "unix_ns"])
    clocks = clock_offsets(frame.assign(dur=10, operation="all_reduce"))
    assert np.diff(clocks["measured_ns"]).round().tolist() == [70_000] * 3
    assert clocks["aligned"].all()


def test_no_ranks_and_no_collectives(tmp_path: Path):
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    for rank in range(2):
        draw("stream 7: [gemm ]").to_chrome(quiet / f"rank{rank}.json")
    without = nbp.read_ranks(quiet)
    assert without.stragglers().empty
    assert without.communication().empty
    assert matched(without.collectives()).empty
    assert without.clocks()["aligned"].tolist() == [False, False]
    assert without.imbalance("device")["ranks"].tolist() == [2]
    write_rank(tmp_path / "rank0.json", 0, 1, operation="AllReduce")
    alone = nbp.read_ranks(tmp_path)
    assert alone.stragglers().empty
    assert alone.clocks()["aligned"].tolist() == [True]
    assert alone.communication()["count"].tolist() == [3]
    assert alone.communication()["wait_ns"].tolist() == [0]


def test_groupings_of_communication(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path))
    assert ranks.communication(by="rank")["total_ns"].sum() == 3 * (3 * 45_000 + 25_000)
    assert ranks.communication(by=["step", "operation"])["count"].tolist() == [4, 4, 4]
    with pytest.raises(OptionError, match="cannot be grouped by 'rnak'"):
        ranks.communication(by="rnak")


def test_imbalance_finds_the_slow_rank(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path))
    row = ranks.imbalance("device").iloc[0]
    assert (row["name"], row["highest_rank"], row["highest"]) == ("gemm", 3, 180_000)
    assert row["imbalance"] == pytest.approx(180 / 135 - 1)
    assert ranks.imbalance("compute")["highest_rank"].tolist() == [3, 3, 3]


def test_folding_a_thousand_ranks():
    rng = np.random.default_rng(0)
    ranks = np.arange(1000)
    table = pd.DataFrame({"rank": ranks, "step": 0, "step_ns": 1_000_000})
    table["compute_ns"] = 600_000 + rng.normal(0, 5_000, 1000)
    table.loc[417, "compute_ns"] = 900_000
    table = table.assign(**{name: 0 for name in METRICS if name not in table})
    marks = pd.Series(np.where(ranks < 700, "first stage", "last stage"), index=ranks)
    folded = fold(table, marks)
    assert folded.ranks["group"].value_counts().tolist() == [700, 300]
    assert folded.ranks.loc[folded.ranks["outlier"], ["rank", "why"]].values.tolist() == [
        [417, "compute +50 %"]
    ]
    assert folded.ranks.groupby("group")["representative"].sum().tolist() == [1, 1]
    band = folded.bands.query("group == 0 and metric == 'compute_ns'").iloc[0]
    assert 585_000 < band["low"] < band["middle"] < band["high"] < 615_000
    assert band["outliers"] == 1
