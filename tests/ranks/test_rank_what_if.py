"""What if of ranks: launches and communication, against simulated jobs that are run again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from notebook_prof.analysis.critical_path.replay.constraints import constraints
from notebook_prof.analysis.critical_path.replay.question import WhatIfQuestion
from notebook_prof.errors import SelectionError
from notebook_prof.ranks.analysis.critical_path import path_table, spans_of_ranks
from notebook_prof.ranks.analysis.what_if import RanksWhatIf, what_if_of_ranks
from tests.programs import Costs, changed, joined
from tests.rank_programs import Job, rank_programs

from ..draws import draws
from .test_rank_paths import WAKE_NS, joint_of, programs_of

SEEDS = range(300, 300 + draws(18))
HALF = WhatIfQuestion({"kernel*": 0.5, "op*": 0.5, "aten*": 0.5})


def off_by(answer: RanksWhatIf, true: int, waits: int) -> int:
    """By how much an answer is off: at most a wake-up for each call that waits."""
    assert not answer.refused, answer.reason
    assert answer.after == pytest.approx(true, abs=WAKE_NS * waits)
    assert answer.steps["after_ns"].sum() == answer.critical_path["dur_ns"].sum()
    assert answer.steps["after_ns"].sum() == answer.classes["after_ns"].sum()
    assert answer.steps["before_ns"].sum() == answer.classes["before_ns"].sum()
    assert answer.after == (answer.steps["after_ns"] + answer.steps["backlog_ns"]).sum()
    return abs((answer.after or 0) - true)


@pytest.mark.parametrize("rank", [None, 1])
def test_launches_that_take_half(rank: int | None) -> None:
    """Launch calls and the latency behind them, on all ranks and on one."""
    off, gains = [], []
    for seed in SEEDS:
        programs = programs_of(seed, events=False)
        costs, half = Costs(), replace(Costs(), launch=2_500, call=3_000)
        again = Job(programs, [half if rank in (None, number) else costs for number in range(3)])
        one = joint_of(seed, events=False)
        answer = what_if_of_ranks(one, WhatIfQuestion(launch=0.5), rank, [0], "host", 0.0)
        off.append(off_by(answer, again.end, len(constraints(one.graph).waits.end)) / again.end)
        gains.append(answer.gain)
    assert np.mean(np.array(off) < 1e-6) >= 0.9
    assert sum(gain > 0 for gain in gains if gain is not None) >= 1


@pytest.mark.parametrize("rank", [None, 1])
def test_nothing_waits_for_communication(rank: int | None) -> None:
    """Ranks still wait for one another's arrivals in it; what devices fall behind is counted."""
    off, gains = [], []
    for seed in SEEDS:
        programs = rank_programs(seed)
        again = Job(programs, overlaps={0, 1, 2} if rank is None else {rank})
        one = joint_of(seed)
        question = WhatIfQuestion(overlap_communication=True)
        answer = what_if_of_ranks(one, question, rank, [0], "host", 0.0)
        off.append(off_by(answer, again.device_end, len(constraints(one.graph).waits.end)) / again.end)
        gains.append(answer.gain)
        assert answer.lower == 0
    assert np.mean(np.array(off) < 1e-6) >= 0.9
    assert sum(gain > 0 for gain in gains if gain is not None) >= 1


@pytest.mark.parametrize("host", [False, True], ids=["device", "threads"])
def test_the_path_of_the_answer_is_that_of_the_job_run_again(host: bool) -> None:
    equal, ranks = [], []
    for seed in SEEDS:
        programs = rank_programs(seed, host=host)
        one, rank = joint_of(seed, host=host), seed % 3
        programs[rank] = changed(programs[rank], lambda kind, _: 1.0 if kind == "copy" else 0.5)
        again = Job(programs)
        answer = what_if_of_ranks(one, HALF, rank, [0], "host", 0.0)
        waits = len(constraints(one.graph).waits.end)
        off_by(answer, again.end, waits)
        table = answer.critical_path
        names = table["name"].astype(object).fillna("")
        columns = (table["start_ns"], table["end_ns"], table["rank"], table["resource"].astype(str), names)
        path = joined([(a, b, f"{of} {where}", name) for a, b, of, where, name in zip(*columns, strict=True)])
        true = joined([(a, b, f"{of} {where}", name) for a, b, of, where, name in again.path()])
        equal.append(near(path, true, WAKE_NS * waits))
        ranks.append(answer.classes["rank"].nunique())
        rows = table[table["slice"].notna()]  # rows of the recordings, not of the replay
        for number, trace in one.own.items():
            own = rows[rows["rank"] == number]
            assert trace.slices["name"].iloc[own["slice"]].tolist() == own["name"].tolist()
    assert np.mean(equal) >= 0.9  # of paths that are equally long, either may be told
    assert np.mean(ranks) > 1.5


def near(path: list[Any], true: list[Any], most_ns: int) -> bool:
    """The same pieces, each off by no more than the answer may be."""
    if [piece[2:] for piece in path] != [piece[2:] for piece in true]:
        return False
    instants = [np.array([piece[:2] for piece in one]) for one in (path, true)]
    return bool((np.abs(instants[0] - instants[1]) <= most_ns).all())


def test_a_rank_without_communication_has_none_to_overlap() -> None:
    one = joint_of(300, host=True)
    with pytest.raises(SelectionError, match="no communication on a device"):
        what_if_of_ranks(one, WhatIfQuestion(overlap_communication=True), 1, [0], "host", 0.0)
    answer = RanksWhatIf("nothing", 0)
    assert not len(answer.critical_path)
    assert not len(answer.classes)


def test_an_unchanged_answer_has_the_path_of_the_recording() -> None:
    one = joint_of(301)
    answer = what_if_of_ranks(one, WhatIfQuestion({"kernel*": 1.0}), None, [0], "host", 0.0)
    recorded = path_table(one, spans_of_ranks(one, [0], None, "host"))
    columns = ["rank", "slice", "start_ns", "end_ns", "class"]
    replayed, as_it_was = (table[columns].astype(str) for table in (answer.critical_path, recorded))
    assert replayed.values.tolist() == as_it_was.values.tolist()
