"""Replay against simulated programs: one with other durations, run again, is the truth."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import Profile, Trace
from notebook_prof.analysis.critical_path.dependences import dependences
from notebook_prof.analysis.critical_path.path import End
from notebook_prof.analysis.critical_path.replay.constraints import DEVICE_WAIT, Constraints, constraints
from notebook_prof.analysis.critical_path.replay.forward import Change, Replay, replay, replay_within_queues
from notebook_prof.analysis.critical_path.resources import WAITS
from tests.programs import Costs, Instruction, Run, changed, program

from ..draws import draws
from .test_what_if import check_unchanged

COUNT = draws(60)
WORK = re.compile(r"(op|aten|kernel|copy)(\d+)")
Factor = Callable[[str, int], float]


def whole(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Durations of which a half, a tenth and the like are whole ns."""
    out: list[Instruction] = []
    for kind, i, *arguments in instructions:
        if kind == "op":
            out.append((kind, i, _round(arguments[0])))
        elif kind in ("launch", "graph"):
            durations = [_round(dur) for dur in arguments[1]]
            out.append((kind, i, arguments[0], durations, _round(arguments[2])))
        elif kind == "copy":
            out.append((kind, i, arguments[0], _round(arguments[1])))
        elif kind == "hand-over":
            out.append((kind, i, whole(arguments[0])))
        else:
            out.append((kind, i, *arguments))
    return out


def _round(ns: int) -> int:
    return ns // 60 * 60 + 60


def factors(trace: Trace, factor: Factor) -> np.ndarray:
    out = np.ones(len(trace))
    for row, name in enumerate(trace.slices["name"].astype(str)):
        if match := WORK.match(name):
            out[row] = factor(match[1], int(match[2]))
    return out


def unwaited(trace: Trace, factor: np.ndarray) -> np.ndarray:
    """The calls that wait; what records the event of one is gone with it."""
    names = trace.slices["name"].astype(str)
    calls = {name.split("#")[1] for name in names if name.startswith("cudaEventSynchronize")}
    records = [name.startswith("cudaEventRecord") and name.split("#")[1] in calls for name in names]
    factor[np.array(records)] = 0
    return (trace.slices["category"] == "sync").to_numpy()


@cache
def executed(
    seed: int, waits_recorded: bool, queue: int, **options: int | bool
) -> tuple[list[Instruction], Run, Trace, Constraints]:
    """A program, and its recording, for all changes that are made to it."""
    instructions = whole(program(seed, **options))  # type: ignore[arg-type]
    if queue:
        instructions = [without_graphs(one) for one in instructions]
    run = Run(instructions, Costs(queue=queue))
    trace = run.trace(waits_told=waits_recorded)
    return instructions, run, trace, constraints(dependences(trace))


def errors(
    factor: Factor, *, waits: bool = True, waits_recorded: bool = True, queue: int = 0, **options: int | bool
) -> np.ndarray:
    """By how much the replayed length of each program is off, as a share of the true length."""
    out = []
    for seed in range(2 * COUNT if queue else COUNT):  # few have a limit on record
        instructions, run, trace, edges = executed(seed, waits_recorded, queue, **options)
        recorded = dependences(trace).threads.values()
        if queue and not any((one.kind == WAITS.index("queue")).any() for one in recorded):
            continue  # that there is a limit was not recorded
        true = Run(changed(instructions, factor, waits=waits), Costs(queue=queue)).end
        of_slices = factors(trace, factor)
        change = Change(of_slices, removed=None if waits else unwaited(trace, of_slices))
        replays = replay_within_queues(edges, [change])
        assert replays is not None
        out.append(end_of(replays[0], run.end) / true - 1)
    return np.abs(out)


def without_graphs(one: Instruction) -> Instruction:
    kind, i, *arguments = one
    return ("launch", i, arguments[0], arguments[1][:1], arguments[2]) if kind == "graph" else one


def end_of(one: Replay, instant: int) -> int:
    return int(one.now(np.array([one.edges.graph.main]), np.array([instant]))[0])


CHANGES: dict[str, Factor] = {
    "kernels × 0.5": lambda kind, number: 0.5 if kind == "kernel" else 1,
    "kernels × 2": lambda kind, number: 2 if kind == "kernel" else 1,
    "some kernels × 0.2": lambda kind, number: 0.2 if kind == "kernel" and number % 3 == 0 else 1,
    "host × 0.5": lambda kind, number: 0.5 if kind in ("op", "aten") else 1,
    "host × 0.1": lambda kind, number: 0.1 if kind in ("op", "aten") else 1,
    "host × 3": lambda kind, number: 3 if kind in ("op", "aten") else 1,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_replay_is_the_program_run_again(name: str) -> None:
    """What is left: a call that finds its work just done needs no wake-up, which no maximum tells."""
    off = errors(CHANGES[name])
    assert (off == 0).mean() >= 0.85
    assert off.mean() < 0.0005
    assert off.max() < 0.01


@settings(max_examples=draws(60))
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_with_any_durations_a_replay_is_the_program_run_again(seed: int, other: int) -> None:
    """But for the wake-up of each call that waits: there is none where it finds its work just done."""
    rng, drawn = np.random.default_rng(other), dict[tuple[str, int], float]()

    def factor(kind: str, number: int) -> float:
        return drawn.setdefault((kind, number), float(rng.choice([0.1, 0.5, 1, 2, 3])))

    instructions = whole(program(seed))
    run, costs = Run(instructions), Costs()
    true = Run(changed(instructions, factor)).end
    trace = run.trace()
    edges = constraints(dependences(trace))
    one = replay(edges, Change(factors(trace, factor)))
    assert abs(end_of(one, run.end) - true) <= costs.wake * (edges.waits.kind == DEVICE_WAIT).sum()


def test_without_waits_or_reports_of_them_a_replay_is_close() -> None:
    assert errors(lambda kind, number: 1, waits=False).max() == 0
    off = errors(CHANGES["host × 0.5"], waits_recorded=False)
    assert off.mean() < 0.02


@pytest.mark.parametrize(
    ("name", "scale", "least"),
    [
        ("kernels × 0.5", {"/^kernel/": 0.5}, 0.9),
        ("host × 0.5", {"/^(op|aten)/": 0.5, "/^cuda|^kernel|^copy/": 1}, 0.775),
    ],
)
def test_bounds_where_no_wait_is_reported(name: str, scale: dict[str, float], least: float) -> None:
    """By how much the true gain is outside of the bounds of the answer, as a share of the step."""
    outside = []
    for seed in range(COUNT):
        instructions = whole(program(seed))
        run = Run(instructions)
        gain = run.end - Run(changed(instructions, CHANGES[name])).end
        answer = Profile(run.trace(waits_told=False)).what_if(scale=scale, window=(0, run.end))
        outside.append(max(answer.lower - gain, gain - answer.upper, 0) / answer.before)
    assert (np.array(outside) == 0).mean() >= least
    assert (np.array(outside) < 0.01).mean() >= 0.95


@pytest.mark.parametrize(("streams", "queue"), [(1, 16), (2, 9)])
@pytest.mark.parametrize("name", ["kernels × 0.5", "kernels × 2", "host × 0.1", "no waits"])
def test_a_full_queue_stays_full(name: str, streams: int, queue: int) -> None:
    """A stream that holds so many launches holds up the host, also where it did not in the recording."""
    factor = CHANGES.get(name, lambda kind, number: 1)
    off = errors(factor, waits=name != "no waits", queue=queue, streams=streams, length=150, threads=False)
    assert len(off) >= 5
    assert (off == 0).mean() >= 0.7
    assert off.max() < 0.01


def instants(edges: Constraints, one: Replay) -> Iterator[np.ndarray]:
    """All instants of threads and of devices in a replay, in one order."""
    resources = edges.graph.resources
    for track, rows in resources.threads.items():
        tracks = np.full(len(rows), track)
        yield one.now(tracks, resources.ts[rows])
        yield one.now(tracks, resources.end[rows])
    yield one.start
    yield one.end


@settings(max_examples=draws(30))
@given(st.integers(0, 10**6), st.booleans())
def test_nothing_changed_is_the_recording(seed: int, waits_recorded: bool) -> None:
    check_unchanged(Run(program(seed)).trace(waits_told=waits_recorded))


@settings(max_examples=draws(30))
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())
def test_less_work_lets_nothing_come_later_and_more_nothing_earlier(
    seed: int, other: int, waits_recorded: bool
) -> None:
    trace = Run(program(seed)).trace(waits_told=waits_recorded)
    edges = constraints(dependences(trace))
    rng = np.random.default_rng(other)
    less = rng.choice([0.0, 0.3, 0.9, 1.0], len(edges.graph.resources.ts))
    removed = rng.random(len(less)) < 0.2
    as_it_was = list(instants(edges, replay(edges)))
    faster = instants(edges, replay(edges, Change(less, removed=removed)))
    slower = instants(edges, replay(edges, Change(2 - less)))
    for was, early, late in zip(as_it_was, faster, slower, strict=True):
        assert (early <= was).all()
        assert (late >= was).all()


@settings(max_examples=draws(30))
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_came_first_on_a_thread_comes_first(seed: int, other: int) -> None:
    """Also for instants inside of waits that get shorter."""
    trace = Run(program(seed)).trace()
    edges = constraints(dependences(trace))
    rng = np.random.default_rng(other)
    factor = rng.choice([0.0, 0.3, 1.0, 3.0], len(edges.graph.resources.ts))
    one = replay(edges, Change(factor, removed=rng.random(len(factor)) < 0.2))
    times = np.sort(rng.integers(0, trace.span.end + 1, 1000))
    for track in edges.threads:
        assert (np.diff(one.now(np.full(len(times), track), times)) >= 0).all()


@settings(max_examples=draws(30))
@given(st.integers(0, 10**6), st.sampled_from(["host", "device", "last"]), st.booleans())
def test_the_path_of_the_answer_partitions_what_was_replayed(seed: int, end: End, cut: bool) -> None:
    """Of the whole, and of a window that cuts it, wherever it ends."""
    profile = Profile(Run(program(seed)).trace())
    until = profile.trace.span.end
    window = (until // 5, until - until // 5) if cut else None
    answer = profile.what_if(scale={"kernel*": 0.5}, end=end, window=window)
    assert not answer.refused
    assert answer.before == answer.steps["before_ns"].sum() == answer.classes["before_ns"].sum()
    assert answer.steps["after_ns"].sum() == answer.critical_path["dur_ns"].sum()
    assert answer.steps["after_ns"].sum() == answer.classes["after_ns"].sum()
    assert answer.after == (answer.steps["after_ns"] + answer.steps["backlog_ns"]).sum()
    assert answer.gain == answer.before - answer.after
    assert answer.lower <= answer.gain <= answer.upper
    error = (answer.steps["usual_ns"] - answer.steps["before_ns"]).abs().sum() / answer.before
    assert answer.replay_error == pytest.approx(error)
