"""MindInsight's answers for a cluster of four ranks in two stages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.errors import OptionError
from notebook_prof.formats.mindspore.cluster import cluster_advice, cluster_links, cluster_steps
from notebook_prof.trace import Trace, TraceBuilder

NAMES = ["interval_ns", "computation_ns", "communication_alone_ns", "stage_ns", "receive_alone_ns"]
NAMES += ["collective_communication_alone_ns"]


@pytest.fixture(scope="module")
def cluster(shared_traces: Path) -> Trace:
    return nbp.read_trace(shared_traces / "fetched/mindinsight/tests/utils/resource/cluster_propose")


@pytest.fixture(scope="module")
def answers(shared_traces: Path) -> Path:
    return shared_traces / "fetched/mindinsight_oracle/cluster_propose"


def load(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize(("file", "step"), [("step0", None), ("step1", 1), ("step3", 3)])
def test_step_page(cluster: Trace, answers: Path, file: str, step: int | None):
    table = cluster_steps(cluster, step=step).set_index("rank")
    for row in load(answers / f"cluster_step_trace_{file}.json")["info"]:
        ours = (table.loc[row["rank_id"], NAMES] / 1e6).tolist()
        assert ours == pytest.approx(row["step_bottleneck_info"], abs=6e-5)


def test_link_page(cluster: Trace, answers: Path):
    table = cluster_links(cluster)
    reported = load(answers / "cluster_link_info.json")["cluster_link_info"]
    assert len(table) == len(reported)
    for (_, ours), (pair, kind, cost, size, speed) in zip(table.iterrows(), reported, strict=True):
        assert (f"{ours['src']}-{ours['dst']}", ours["link"]) == (pair, kind)
        figures = [ours["time_ns"] / 1e6, ours["kilobytes"], ours["kilobytes_per_s"]]
        assert figures == pytest.approx([cost, size, speed])


def test_proposals(cluster: Trace, answers: Path):
    reported = load(answers / "parallel_proposal.json")
    advice = cluster_advice(cluster, stages=2).set_index("rule")
    interval = advice.loc["step-interval"]
    assert interval["rank"] == reported["step_interval"]["rank_id"]
    assert interval["value"] / 1e6 == pytest.approx(reported["step_interval"]["val"], abs=6e-5)
    assert 100 * interval["share"] == pytest.approx(reported["step_interval"]["percent"], abs=0.005)
    link, slow = advice.loc["link"], reported["cluster_link"][0]
    assert (link["src"], link["dst"], link["link"]) == (slow["src_rank"], slow["des_rank"], slow["link_type"])
    assert 100 * link["share"] == pytest.approx(slow["percent"], abs=0.005)
    strategy = reported["parallel_strategy"]
    between = strategy["pipeline_parallel_between_stage"]
    assert 100 * advice.loc["between-stages", "share"] == pytest.approx(between["val"], abs=0.005)
    within = strategy["pipeline_parallel_within_stage"]
    assert advice.loc["within-stage", "stage"] == within["stage"]
    assert 100 * advice.loc["within-stage", "share"] == pytest.approx(within["val"], abs=0.005)
    flops = strategy["pipeline_parallel_flops"]
    assert advice.loc["stage-flops", ["stage", "value"]].tolist() == [
        flops["stage"],
        pytest.approx(flops["val"]),
    ]
    assert 100 * advice.loc["stage-flops", "share"] == pytest.approx(flops["percent"], abs=0.005)
    assert "flops" not in advice.index
    alone = cluster_advice(cluster).set_index("rule")
    rate = load(answers / "parallel_get_communication_rate.json")
    assert alone.loc["communication", "share"] == pytest.approx(rate, abs=5e-5)


def test_nothing_of_a_cluster():
    trace = TraceBuilder().seal()
    assert cluster_steps(trace).empty
    assert cluster_links(trace).empty
    assert cluster_advice(trace, stages=2).empty
    with pytest.raises(OptionError, match="0 stages"):
        cluster_advice(trace, stages=0)
