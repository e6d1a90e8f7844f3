"""The critical path across ranks and what-if of one: simulated jobs, drawn files, real recordings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import analysis
from notebook_prof.analysis.critical_path.replay.constraints import constraints
from notebook_prof.analysis.critical_path.replay.forward import Change, replay
from notebook_prof.analysis.critical_path.replay.question import WhatIfQuestion
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.ranks.analysis.clocks import arrivals, clock_offsets, with_margins
from notebook_prof.ranks.analysis.critical_path import path_table, spans_of_ranks
from notebook_prof.ranks.analysis.joint import Joint, joint
from notebook_prof.ranks.analysis.tables import matched
from notebook_prof.ranks.analysis.what_if import what_if_of_ranks
from notebook_prof.ranks.profiles import Ranks
from notebook_prof.testing import draw
from notebook_prof.trace import Trace
from tests.programs import Instruction, changed, joined
from tests.rank_programs import Job, rank_programs

from ..draws import draws
from .drawn import write_rank, write_run

DATA = Path(__file__).parents[1] / "data"
SEEDS = range(300, 300 + draws(24))
WAKE_NS = 4_000
"""What a call that waits needs to go on, in a simulated program."""


@cache
def joint_of(seed: int, *, host: bool = False, events: bool = True) -> Joint:
    """The job drawn with this seed. Without `events`, its calls are launches with lengths of their own."""
    return joint_of_traces(Job(programs_of(seed, host, events)).traces())


def programs_of(seed: int, host: bool = False, events: bool = True) -> list[list[Instruction]]:
    programs = rank_programs(seed, host=host)
    return [[one for one in own if events or not one[0].startswith("event")] for own in programs]


def joint_of_traces(traces: Sequence[Trace]) -> Joint:
    tables = [analysis.collectives(trace).assign(rank=rank) for rank, trace in enumerate(traces)]
    shared = matched(pd.concat(tables, ignore_index=True))
    arrived = arrivals(shared, clock_offsets(shared))
    return joint(list(enumerate(traces)), with_margins(arrived), start_unix_ns=0)


@pytest.mark.parametrize("host", [False, True], ids=["device", "threads"])
def test_the_walk_finds_the_true_path_through_the_last_rank(host: bool) -> None:
    visited = []
    for seed in SEEDS:
        job, one = Job(rank_programs(seed, host=host)), joint_of(seed, host=host)
        table = path_table(one, spans_of_ranks(one, [0], None, "host"))
        names = table["name"].astype(object).fillna("")
        columns = (table["start_ns"], table["end_ns"], table["rank"], table["resource"].astype(str), names)
        walked = [(a, b, f"{rank} {where}", name) for a, b, rank, where, name in zip(*columns, strict=True)]
        true = [(a, b, f"{rank} {where}", name) for a, b, rank, where, name in job.path()]
        assert joined(walked) == joined(true), seed
        assert table["dur_ns"].sum() == job.end
        visited.append(table["rank"].nunique())
    assert np.mean(visited) > 1.5  # most paths do change ranks


@pytest.mark.parametrize("host", [False, True], ids=["device", "threads"])
def test_a_replay_of_all_ranks_gives_back_every_instant_and_predicts_a_rank_that_gets_faster(
    host: bool,
) -> None:
    """Off by less than a wake-up for each call that waits: one that finds its work done needs none."""
    exact = []
    for seed in SEEDS:
        programs = rank_programs(seed, host=host)
        job, rank = Job(programs), seed % 3
        one = joint_of(seed, host=host)
        edges = constraints(one.graph)
        same = replay(edges, Change(factor=one.waiting))
        assert (same.start == edges.work.start).all()
        assert (same.now(edges.threads[edges.waits.thread], edges.waits.end) == edges.waits.end).all()
        programs[rank] = changed(programs[rank], lambda kind, _: 1.0 if kind == "copy" else 0.5)
        again = Job(programs).end
        question = WhatIfQuestion({"kernel*": 0.5, "op*": 0.5, "aten*": 0.5})
        answer = what_if_of_ranks(one, question, rank, [0], "host", 0.0)
        assert not answer.refused
        assert answer.before == job.end
        assert answer.after == pytest.approx(again, abs=WAKE_NS * len(edges.waits.end))
        exact.append(abs((answer.after or 0) - again) <= 1 + len(edges.waits.end))
    assert np.mean(exact) >= 0.75


@pytest.mark.parametrize("shift_us", [0, 700_000])
def test_the_path_goes_through_the_late_rank_whatever_its_clock_says(tmp_path: Path, shift_us: int) -> None:
    write_run(tmp_path)
    if shift_us:
        write_rank(tmp_path / "rank3.json.gz", 3, late_us=20, shift_us=shift_us)
    ranks = nbp.read_ranks(tmp_path, processes=1)
    path = ranks.critical_path(end="device")
    length = path.groupby("step")["dur_ns"].sum()
    assert length.tolist() == [90_000] * 3  # 100 µs of the step, of which devices work until 90
    gemm = path[(path["name"] == "gemm") & (path["class"] == "kernel")]
    assert gemm["rank"].unique().tolist() == [3]
    assert gemm["dur_ns"].tolist() == [60_000] * 3
    hops = ranks.critical_path_hops(end="device")
    assert hops["cause_rank"].unique().tolist() == [3]
    assert hops["margin_ns"].tolist() == [20_000] * len(hops)
    assert not hops["near_tie"].any()
    sums = ranks.critical_path(by=["rank", "class"], end="device")
    assert sums["path_ns"].sum() == path["dur_ns"].sum()


def test_half_the_work_of_the_late_rank_lets_another_one_end_last(tmp_path: Path) -> None:
    ranks = nbp.read_ranks(write_run(tmp_path), processes=1)
    answer = ranks.what_if(rank=3, scale={"gemm": 0.5}, end="device")
    # without it the others' kernels of 40 µs bind, 20 µs earlier
    assert (answer.before, answer.after) == (90_000, 70_000)
    assert ranks.what_if(rank=0, scale={"gemm": 0.5}, end="device").gain == 0
    slower = ranks.what_if(rank=0, scale={"gemm": 2}, end="device")
    # 80 µs instead of the late rank's 60, and what falls behind adds 5 µs a step: 110, 115 and 120
    assert slower.steps["after_ns"].tolist() == [110_000, 115_000, 120_000]
    with pytest.raises(SelectionError, match="changes nothing on rank 0"):
        ranks.what_if(rank=0, scale={"gemm": 1})


def test_what_cannot_be_known_is_refused_with_a_reason(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / "rank1.json.gz").unlink()
    ranks = nbp.read_ranks(folder, processes=1)
    answer = ranks.what_if(rank=3, scale=0.5)
    assert answer.refused
    assert answer.gain is None
    assert "1 of 4 ranks, as rank 1" in answer.reason
    with pytest.raises(OptionError, match="needs a change"):
        ranks.what_if(rank=3)
    with pytest.raises(OptionError, match="cannot be summed by 'clas': did you mean 'class'"):
        ranks.critical_path(by="clas")
    with pytest.raises(SelectionError, match="no step 9"):
        ranks.critical_path(step=9)
    with pytest.raises(SelectionError, match="no rank 1"):
        ranks.critical_path(rank=1)


@pytest.fixture(scope="module")
def dlrm(shared_traces: Path) -> Ranks:
    return nbp.read_ranks(shared_traces / "param_dlrm_8rank", processes=1)


def test_eight_ranks_of_a_v100_job_are_late_since_rank_7_began_late(dlrm: Ranks) -> None:
    path, steps = dlrm.critical_path(), dlrm.steps().set_index("rank")
    first, last = steps["start_ns"].min(), steps["end_ns"].max()
    assert path["dur_ns"].sum() == last - first
    assert (path["start_ns"].to_numpy()[1:] == path["end_ns"].to_numpy()[:-1]).all()
    hops = dlrm.critical_path_hops()
    assert hops[["rank", "cause_rank"]].values.tolist() == [[4, 7]]
    before = path[(path["class"] == "idle") & (path["start_ns"] == first)]
    assert before[["rank", "dur_ns"]].values.tolist() == [[7, steps.loc[7, "start_ns"] - first]]
    arrived = dlrm.arrivals()
    row = arrived[(arrived["rank"] == 7) & (arrived["slice"] == hops["cause_slice"].item())]
    assert row["last"].item()
    # slices are those of the rank's own recording
    own = path[(path["rank"] == 7) & path["slice"].notna()]
    assert (dlrm[7].trace.slices["name"].iloc[own["slice"]].tolist()) == own["name"].tolist()
    assert dlrm.what_if(rank=0, scale=0.5).gain == 0  # it waits for others everywhere
    assert (dlrm.what_if(rank=7, scale=0.5).gain or 0) > 400_000


def test_the_late_rank_of_two_on_gloo_holds_the_path_that_the_other_sees_as_communication() -> None:
    ranks = nbp.read_ranks(f"{DATA}/torch213_cpu/ddp_gloo_rank*.json.gz", processes=1)
    share = ranks.critical_path(by="rank").set_index("rank")["share"]
    assert share[1] > 0.9
    alone = ranks[0].critical_path(by="class").set_index("class")["share"]
    together = ranks.critical_path(by="class").set_index("class")["share"]
    assert alone["communication"] > 0.5 > together["communication"]
    late, early = (ranks.what_if(rank=rank, scale=0.5) for rank in (1, 0))
    assert not late.refused
    assert (late.gain or 0) > 0.1 * late.before
    assert (early.gain or 0) < 0.02 * early.before


def test_the_path_of_a_rank_that_waits_for_nobody_is_that_of_its_own_recording(shared_traces: Path) -> None:
    ranks = nbp.read_ranks(shared_traces / "hta" / "trace_filter_2rank", processes=1)
    assert not len(ranks.critical_path_hops(rank=1))
    sums = ranks.critical_path(by="class", rank=1)[["class", "path_ns"]]
    own = ranks[1].critical_path(by="class")[["class", "path_ns"]]
    expected = own.astype({"class": str}).sort_values("class").values.tolist()
    assert sums.astype({"class": str}).sort_values("class").values.tolist() == expected


def test_ranks_that_share_nothing_or_have_no_threads_say_so(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (tmp_path / "devices").mkdir()
    lanes = {"alone": "main: [mm ]\nstream 7: [gemm ]", "devices": "stream 7: [gemm][ncclAllReduce]"}
    for folder, lane in lanes.items():
        for rank in range(2):
            drawn = draw(lane, categories={"ncclAllReduce": "collective"} if "nccl" in lane else {})
            drawn.to_chrome(tmp_path / folder / f"rank{rank}.json")
    alone = nbp.read_ranks(tmp_path / "alone", processes=1)
    with pytest.raises(SelectionError, match="share no collective: use a single rank"):
        alone.critical_path()
    assert "have no clock that can be compared" in alone.what_if(scale=0.5).reason
    assert alone.dashboard().headline.startswith("2 ranks; no collective is shared")
    devices = nbp.read_ranks(tmp_path / "devices", processes=1)
    path = devices.critical_path()
    assert path[["name", "dur_ns"]].values.tolist() == [["gemm", 6], ["ncclAllReduce", 15]]
    assert "no slice of a thread was recorded on rank 0" in devices.what_if(scale=0.5).reason
