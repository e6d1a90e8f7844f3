"""Real distributed runs against other tools' answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.ranks.profiles import Ranks

COMMUNICATION_US = {1: 11336, 3: 9774, 4: 6587, 5: 6251, 0: 5798, 6: 3558, 2: 3492, 7: 1746}


@pytest.fixture(scope="module")
def dlrm(shared_traces: Path) -> Ranks:
    return nbp.read_ranks(shared_traces / "param_dlrm_8rank")


@pytest.fixture(scope="module")
def gloo(shared_traces: Path) -> Ranks:
    return nbp.read_ranks(str(shared_traces / "torch213_cpu" / "ddp_2rank" / "*.pt.trace.json.gz"))


@pytest.fixture(scope="module")
def hta(shared_traces: Path) -> dict[str, Any]:
    reported: dict[str, Any] = json.loads((shared_traces / "oracle/hta_0.5.0/dlrm_8rank.json").read_text())
    return reported


def test_hta_temporal_breakdown_to_the_digit(dlrm: Ranks, hta: dict[str, Any]):
    table = dlrm.breakdown(by="trace").set_index("rank")
    for row in hta["temporal_breakdown"]:
        ours = table.loc[row["rank"]]
        assert ours["step_ns"] == 1000 * row["kernel_time(us)"]
        assert ours["data_ns"] + ours["idle_ns"] == 1000 * row["idle_time(us)"]
        assert ours["compute_ns"] == 1000 * row["compute_time(us)"]
        assert ours["exposed_ns"] + ours["exposed_memory_ns"] == 1000 * row["non_compute_time(us)"]


def test_hta_overlap(dlrm: Ranks, hta: dict[str, Any]):
    table = dlrm.breakdown(by="trace").set_index("rank")
    share = 100 * table["overlap_ns"] / table["communication_ns"]
    for row in hta["comm_comp_overlap"]:
        assert share[row["rank"]].round(2) == row["comp_comm_overlap_pctg"]


def test_communication_is_that_of_the_notes(dlrm: Ranks):
    table = dlrm.breakdown().set_index("rank")
    assert (table["communication_ns"] // 1000).to_dict() == COMMUNICATION_US
    by_rank = dlrm.communication(by="rank").set_index("rank")
    assert (by_rank["total_ns"] // 1000).to_dict() == COMMUNICATION_US


def test_late_ranks_are_7_2_6_by_arrival(dlrm: Ranks):
    table = dlrm.stragglers()
    assert table["rank"].head(3).tolist() == [7, 2, 6]
    assert table["last_count"].iloc[0] == 5
    # the stragglers are those that wait least
    assert set(table.nsmallest(3, "wait_ns")["rank"]) == {7, 2, 6}


def test_every_collective_of_eight_ranks_is_matched(dlrm: Ranks):
    table = dlrm.collectives()
    assert len(table) == 64
    assert (table["match_ranks"] == 8).all()
    assert table.groupby("match")["operation"].nunique().eq(1).all()
    assert table["operation"].value_counts().to_dict() == {"all_to_all": 40, "all_reduce": 24}
    last = table[table["match"] == table.loc[table["unix_ns"].idxmax(), "match"]]
    assert set(last["bytes"]) == {907840}
    ends = last["unix_ns"] + last["dur"]
    assert ends.max() - ends.min() == 7_000


def test_clocks_of_one_machine_are_left_alone(dlrm: Ranks):
    clocks = dlrm.clocks()
    assert clocks["offset_ns"].eq(0).all()
    assert clocks["residual_ns"].max() < 2_000
    assert clocks["shared"].eq(8).all()


def test_waiting_and_transfer_sum_to_the_collectives(dlrm: Ranks):
    table = dlrm.communication()
    assert (table["wait_ns"] + table["transfer_ns"]).sum() == table["total_ns"].sum()
    big = table[table["size_bytes"] == 1 << 20].iloc[0]
    assert big["bus_bytes_per_s"] == pytest.approx(big["algorithm_bytes_per_s"] * 1.75)
    assert 1e9 < big["bus_bytes_per_s"] < 150e9  # NVLink of a V100


def test_parts_of_a_step_sum_to_it(dlrm: Ranks, gloo: Ranks):
    for ranks in (dlrm, gloo):
        table = ranks.breakdown()
        parts = ["compute_ns", "exposed_ns", "exposed_memory_ns", "data_ns", "idle_ns"]
        assert (table[parts].sum(axis=1) == table["step_ns"]).all()
        assert (table[parts] >= 0).all(axis=None)


def test_the_planted_straggler_of_the_gloo_pair(gloo: Ranks):
    table = gloo.stragglers().set_index("rank")
    assert table.index[0] == 1
    assert table.loc[1, "last_share"] > 0.9
    assert table.loc[1, "wait_ns"] < table.loc[0, "wait_ns"] / 100
    assert len(gloo.collectives()) == 52
    assert gloo.collectives()["match"].notna().all()


def test_paddles_two_synthetic_ranks(shared_traces: Path):
    ranks = nbp.read_ranks(shared_traces / "paddle" / "synthetic_gpu2" / "*.json")
    assert list(ranks) == [0, 1]
    oracle = shared_traces / "paddle" / "visualdl_oracle" / "synthetic_gpu2" / "synthetic_rank0_span0"
    reported = json.loads((oracle / "distributed_histogram.json").read_text())
    computed = dict(
        zip(reported["worker_name"], reported["data"][reported["order"].index("Computation")], strict=True)
    )
    table = ranks.breakdown()
    ours = table.groupby("rank")["compute_ns"].sum() / 1e6
    assert {f"synthetic_rank{rank}": ms for rank, ms in ours.round(2).items()} == computed
    assert table.groupby("rank")["communication_ns"].first().to_dict() == {0: 260_000, 1: 300_000}
    assert ranks.stragglers()["rank"].iloc[0] == 0  # waits least: 40 µs less in each all-reduce
    clocks = ranks.clocks()
    assert clocks["aligned"].all()


def test_one_file_for_perfetto(dlrm: Ranks, tmp_path: Path):
    path = tmp_path / "all.json.gz"
    dlrm.to_chrome(path)
    merged = nbp.read_trace(path)
    assert len(merged) == dlrm.files["slices"].sum()
    collectives = merged.slices[
        (merged.slices["category"] == "collective").to_numpy() & merged.slices["stream"].notna().to_numpy()
    ]
    last = collectives.sort_values("ts").groupby("track").tail(1)
    assert len(last) == 8
    ends = last["ts"] + last["dur"]
    assert ends.max() - ends.min() == 7_000
    launches = sum(int((dlrm.trace(rank).flows["kind"] == "launch").sum()) for rank in dlrm)
    assert int((merged.flows["kind"] == "launch").sum()) == launches


def test_a_rank_is_an_ordinary_profile(dlrm: Ranks):
    assert isinstance(dlrm[3], nbp.Profile)
    assert dlrm[3] is dlrm[3]
    assert dlrm[3].trace.metadata["rank"] == 3
    assert dlrm[3].device()["communication_ns"].tolist() == [9_774_000]


def test_folding_eight_like_ranks(dlrm: Ranks):
    folded = dlrm.fold()
    assert folded.ranks["group"].nunique() < 8
    assert folded.ranks.groupby("group")["representative"].sum().eq(1).all()
