"""Slack: against programs run again, against the replay, and by laws.

Samples of every format are asked in ``test_samples.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import Profile
from notebook_prof.analysis import slack
from notebook_prof.analysis.critical_path.dependences import Dependences, dependences
from notebook_prof.analysis.critical_path.path import Span, paths
from notebook_prof.analysis.critical_path.replay.constraints import constraints
from notebook_prof.analysis.critical_path.replay.forward import Change, replay
from notebook_prof.analysis.critical_path.replay.slack import BY
from notebook_prof.analysis.critical_path.replay.what_if import MOST_ERROR
from notebook_prof.analysis.critical_path.walk import RUNS
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.testing import draw
from notebook_prof.trace import Trace
from tests.programs import Costs, Instruction, Run, changed, program

from ..draws import draws
from .test_what_if_of_programs import without_graphs

WORK = re.compile(r"(op|aten|kernel|copy)(\d+)(?:\.\d+)?$")
NEVER = np.iinfo(np.int64).max // 4


def later(run: Run, instructions: Sequence[Instruction], costs: Costs, name: str, ns: int) -> int:
    """By how much longer the program is in which an operator, a kernel or a copy takes so much longer."""
    match = WORK.match(name)
    assert match is not None
    one = next(one for own in run.stretches.values() for one in own if one.name == name)

    def factor(what: str, i: int) -> Fraction:
        hit = what == match[1] and i == int(match[2])
        return Fraction(one.end - one.start + ns, one.end - one.start) if hit else Fraction(1)

    return Run(changed(instructions, factor), costs).end - run.end  # type: ignore[arg-type]


def drawn_names(run: Run, rng: np.random.Generator, count: int) -> list[str]:
    """Operators, copies, and kernels that are alone in their launch."""
    every = [one.name for own in run.stretches.values() for one in own if WORK.match(one.name)]
    graphs = {name.split(".")[0] for name in every if name.endswith(".1")}
    alone = [name for name in every if name.split(".")[0] not in graphs]
    return [str(name) for name in rng.choice(alone, min(count, len(alone)), replace=False)]


def delayed_programs(count: int, costs: Costs, **options: int | bool) -> pd.DataFrame:
    """Slack of some work of programs, and by how much longer they are when it ends so much later."""
    rows = []
    for seed in range(count):
        instructions = program(seed, **options)  # type: ignore[arg-type]
        if costs.queue:
            instructions = [without_graphs(one) for one in instructions]
        run = Run(instructions, costs)
        table = slack(run.trace())
        of = dict(zip(table["name"].astype(str), table["slack_ns"], strict=True))
        waits = sum(one.category == "sync" for own in run.stretches.values() for one in own)
        for name in drawn_names(run, np.random.default_rng(seed), 5):
            least = 10 * run.end if pd.isna(of[name]) else int(of[name])
            delays = (least, least + 1, least + costs.wake + 1)
            longer = [later(run, instructions, costs, name, ns) for ns in delays]
            rows.append((pd.notna(of[name]), least, costs.wake * waits, *longer))
    columns = ["bound", "slack", "wake_ups", "by_slack", "by_more", "by_much_more"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("options", "costs"),
    [
        ({}, Costs()),
        ({"threads": False}, Costs()),
        ({"streams": 1, "length": 150, "threads": False}, Costs(queue=16)),
    ],
    ids=["all", "one-thread", "full-queues"],
)
def test_what_ends_later_by_its_slack_makes_no_program_longer_and_by_more_does(
    options: dict[str, int | bool], costs: Costs
) -> None:
    """But for wake-ups: a call that finds its work just done needs none, which no maximum tells."""
    table = delayed_programs(24, costs, **options)
    bound = table[table["bound"]]
    assert (table["by_slack"] == 0).mean() > 0.95
    assert ((table["by_slack"] >= 0) & (table["by_slack"] <= table["wake_ups"])).all()
    assert (bound["by_more"] == 1).mean() > 0.85
    assert (bound["by_much_more"] > 0).mean() > 0.99
    assert (table.loc[~table["bound"], "by_much_more"] == 0).all()
    assert (bound["slack"] > 0).mean() > 0.2


def leaf(graph: Dependences, rows: pd.Series, rng: np.random.Generator) -> int:
    """A slice without others inside, so that it can be made longer at its end."""
    resources = graph.resources
    inner = np.ones(len(resources.ts), bool)
    inner[resources.parent[resources.parent >= 0]] = False
    waits = [row for one in graph.threads.values() for row in one.slice.tolist()]
    inner[[row for row in waits if row >= 0]] = False
    inner &= ~resources.category("launch", "sync")
    return int(rng.choice(rows[inner[rows]]))


@settings(max_examples=draws(60))
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())
def test_the_end_moves_by_what_is_over_the_slack(seed: int, other: int, waits_recorded: bool) -> None:
    """To the nanosecond, in the replay of the same dependences."""
    run = Run(program(seed))
    trace = run.trace(waits_told=waits_recorded)
    graph, rng = dependences(trace), np.random.default_rng(other)
    table = slack(trace).set_index("slice")["slack_ns"]
    row = leaf(graph, table.index.to_numpy(), rng)
    length = int(trace.slices["dur"].iloc[row])
    edges = constraints(graph)
    least = NEVER if pd.isna(table[row]) else int(table[row])
    for ns in (1, min(least, 10**9), min(least, 10**9) + int(rng.integers(1, 10**6))):
        factor = np.ones(len(trace))
        factor[row] = (length + ns) / length
        end = replay(edges, Change(factor)).now(np.array([graph.main]), np.array([run.end]))
        assert int(end[0]) - run.end == max(0, ns - least)


def chain(graph: Dependences, track: int, row: int) -> list[int]:
    """Work of a stream that followed one upon another, up to a row: others may overlap with it."""
    stream, last = graph.streams[track], int(graph.position[row])
    work = [last]
    while work[-1] != stream.root[last]:
        work.append(int(stream.before[work[-1]]))
    return [int(one) for one in stream.rows[work]]


def ends_on_path(graph: Dependences, span: Span) -> np.ndarray:
    """Slices that end while the path is with them, and not with what was launched or handed over inside."""
    resources, rows = graph.resources, [np.empty(0, np.int64)]
    for track, begin, end, kind, row in zip(*(column.tolist() for column in span.path.runs), strict=True):
        if kind == RUNS.index("work"):
            own = np.array(chain(graph, track, row))
        elif kind == RUNS.index("host") and track in resources.threads:
            own = resources.threads[track]
        else:
            continue
        rows.append(own[(resources.end[own] > begin) & (resources.end[own] <= end)])
    return np.concatenate(rows)


def check_slack(trace: Trace) -> None:
    """What is on the critical path has none."""
    graph = dependences(trace)
    for end in ("host", "last"):
        answer = slack(trace, end=end)
        table = answer.set_index("slice")["slack_ns"]
        assert (table.dropna() >= 0).all()
        if answer.attrs["replay_error"] > MOST_ERROR:
            continue
        for span in paths(graph, end=end):
            rows = ends_on_path(graph, span)
            assert (table.reindex(rows).dropna() == 0).all()


def two_streams() -> Trace:
    return draw(
        """
        steps:    [0                       ][1      ]
        main:     [a][b][add  ][sync       ] [c][mm]
        stream 7:    [short]                    [late     ]
        stream 8:       [longer        ]
        """,
        launches=[("a", "short"), ("b", "longer"), ("c", "late")],
        categories={"sync": "sync"},
    )


def test_the_shorter_of_two_streams_has_what_the_longer_is_over() -> None:
    table = slack(two_streams()).set_index("name")["slack_ns"]
    assert table["longer"] == 0
    assert table["short"] == 12
    assert pd.isna(table["late"])
    assert table["add"] == 26 - 13 - 3  # a call that finds its work done takes as long as a launch


def test_only_the_steps_that_are_asked_about_count() -> None:
    profile = Profile(two_streams())
    first = profile.slack(step=0)
    assert set(first["step"]) == {0}
    assert "late" not in set(first["name"])
    last = profile.slack(step=1, end="last").set_index("name")["slack_ns"]
    assert last["late"] == 0
    assert pd.isna(last["mm"])


def test_sums_are_those_of_the_rows() -> None:
    trace = Run(program(11)).trace()
    every = slack(trace)
    for column in BY:
        table = slack(trace, by=column)
        assert table["slices"].sum() == len(every)
        assert table["critical"].sum() == (every["slack_ns"] == 0).sum()
        assert table["unbound"].sum() == every["slack_ns"].isna().sum()
        assert table["least_ns"].min() == every["slack_ns"].min()
        assert table["most_ns"].max() == every["slack_ns"].max()
        assert table["least_ns"].dropna().is_monotonic_increasing
    by_resource = slack(trace, by=["resource", "category"])
    assert len(by_resource) == len(every.groupby(["resource", "category"], observed=True))


def test_a_window_has_the_slices_that_begin_in_it() -> None:
    trace = Run(program(5)).trace()
    half = trace.span.end // 2
    table = slack(trace, window=(0, half))
    threads = ~table["resource"].astype(str).str.contains("s[0-9]")
    assert (table.loc[threads, "start_ns"] < half).all()
    assert table["step"].notna().all()


def test_what_cannot_be_asked() -> None:
    trace = two_streams()
    with pytest.raises(OptionError, match=r"slack cannot be summed up by 'nam'.*name"):
        slack(trace, by="nam")
    with pytest.raises(SelectionError, match="there is no step 7"):
        slack(trace, step=7)


def test_device_work_alone_is_bound_by_nothing() -> None:
    assert slack(draw("stream 7: [a][b]"))["slack_ns"].isna().all()
