"""CPU time by thread and child, cores got, and parts of a cell."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import Trace, TraceBuilder
from notebook_prof.analysis import account, cpu, cpu_use, trust, verdict
from notebook_prof.analysis.time.cpu import cpu_within

from ..draws import draws
from ..properties.test_verdict_claims import check_claims

NAMES = ["pid", "tid", "name", "kind", "ts", "cpu_ns", "wait_ns"]


def made(rows: list[tuple[object, ...]], cores: float = 2.0, tid: int = 7) -> Trace:
    b = TraceBuilder()
    b.table("cpu", pd.DataFrame(rows, columns=NAMES))
    b.metadata["cpu"] = {"cores": cores, "tid": tid, "pid": 1}
    last = max(int(row[4]) for row in rows)  # type: ignore[call-overload]
    return b.seal(window=(0, last))


def whole(*readings: tuple[int, int, int], pid: int = 1, kind: str = "process") -> list[tuple[object, ...]]:
    return [(pid, -1, kind, kind, *reading) for reading in readings]


def thread(*readings: tuple[int, int, int], tid: int = 7, kind: str = "python") -> list[tuple[object, ...]]:
    return [(1, tid, f"thread {tid}", kind, *reading) for reading in readings]


def test_the_process_first_then_threads_then_children() -> None:
    rows = [
        *thread((0, 10, 0), (100, 40, 5)),
        *thread((0, 0, 0), (100, 90, 0), tid=8, kind="native"),
        *whole((0, 0, 0), (100, 98, 0), pid=3, kind="child"),
        *whole((0, 10, 0), (100, 130, 5)),
    ]
    table = cpu(made(rows))
    assert table["name"].tolist() == ["process", "thread 8", "thread 7", "child"]
    assert table["cpu_ns"].tolist() == [120, 90, 30, 98]
    assert table["share"].tolist() == [1.2, 0.9, 0.3, 0.98]
    assert cpu(made(rows), window=(50, 100))["cpu_ns"].tolist() == [60, 45, 15, 49]
    use = cpu_use(made(rows)).iloc[0]
    assert (use["cpu_ns"], use["children_ns"], use["busy_threads"], use["native_threads"]) == (218, 98, 2, 1)
    assert use["cores_got"] == 2.18


def test_waits_are_others_until_the_own_threads_are_more_than_the_cores() -> None:
    alone = cpu_use(made(whole((0, 0, 0), (100, 100, 100)))).iloc[0]
    assert (alone["lost_ns"], alone["oversubscribed_ns"], alone["oversubscribed_share"]) == (100, 0, 0)
    crowd = cpu_use(made(whole((0, 0, 0), (100, 200, 600), (200, 200, 600)))).iloc[0]
    assert (crowd["lost_ns"], crowd["oversubscribed_ns"], crowd["oversubscribed_share"]) == (0, 600, 0.5)
    assert crowd["most_threads"] == 8
    quota = cpu_use(made(whole((0, 0, 0), (100, 50, 150)), cores=0.5)).iloc[0]
    assert (quota["lost_ns"], quota["oversubscribed_ns"]) == (0, 150)


def test_our_own_threads_wait_for_nobody() -> None:
    rows = [
        *whole((0, 0, 0), (100, 40, 90)),
        *thread((0, 0, 0), (100, 40, 60)),
        *thread((0, 0, 0), (100, 0, 30), tid=8, kind="profiler"),
    ]
    use = cpu_use(made(rows)).iloc[0]
    assert (use["ready_ns"], use["wait_ns"], use["lost_ns"]) == (100, 60, 60)


@pytest.mark.parametrize("cell", [True, False])
def test_cores_count_within_the_cell_or_the_recording(cell: bool) -> None:
    b = TraceBuilder()
    b.table("cpu", pd.DataFrame(whole((0, 0, 0), (100, 40, 60), (200, 140, 160)), columns=NAMES))
    if cell:
        b.table("account", pd.DataFrame({"ts": [10], "dur": [90]}))
    b.metadata["cpu"] = {"cores": 2.0}
    use = cpu_use(b.seal(window=(0, 200) if cell else (10, 100))).iloc[0]
    assert (use["wall_ns"], use["ready_ns"], use["wait_ns"]) == (90, 90, 54)


@pytest.mark.parametrize("spent", [9, 40])
def test_a_cell_beside_our_own_work_says_so(spent: int) -> None:
    """In a cell of 100 ms, at 100 to 200 ms; what was done before it does not count."""
    ms = 1_000_000
    b = TraceBuilder()
    readings = (0, 0, 0), (100 * ms, 90 * ms, 0)
    rows = [
        *whole(*readings, (200 * ms, (180 + spent) * ms, 0)),
        *thread(*readings, (200 * ms, (90 + spent) * ms, 0), tid=8, kind="profiler"),
    ]
    b.table("cpu", pd.DataFrame(rows, columns=NAMES))
    part = {"ts": [100 * ms], "dur": [100 * ms], "kind": ["code"], "line": [2], "text": ["f()"]}
    b.table("account", pd.DataFrame({**part, "loop": [-1], "steps": [0]}))
    b.metadata["cpu"] = {"cores": 2.0, "tid": 7, "pid": 1}
    b.slices(ts=100 * ms, dur=100 * ms, name="cell:2  f()", category="python", track=b.track("main"))
    trace = b.seal(window=(0, 200 * ms))
    judged = verdict(trace)
    told = [line for line in judged.lines if line.startswith("Own work: ")]
    assert len(told) == (spent > 10)
    for line in told:
        assert "used 40 ms of CPU time while the cell ran, 30.8 % of what the process used" in line
    assert all(claim.holds(trace) for claim in judged.claims)


def test_cores_that_others_had_are_told() -> None:
    ms = 1_000_000
    busy = made(
        [*whole((0, 0, 0), (200 * ms, 120 * ms, 60 * ms)), *thread((0, 0, 0), (200 * ms, 120 * ms, 0))]
    )
    assert cpu_use(busy)[["ready_ns", "wait_ns", "lost_ns"]].iloc[0].tolist() == [180 * ms, 60 * ms, 60 * ms]
    finding = trust(busy).set_index("code").loc["cores-taken"]
    said = "60 ms while other programs had the cores, 33.3 % of the time in which they could run"
    assert finding["example"] == f"threads waited for {said}"
    line = next(line for line in verdict(busy).lines if line.startswith("Cores: "))
    assert said in line
    for claim in verdict(busy).claims:
        assert claim.holds(busy)
    own = made(whole((0, 0, 0), (200 * ms, 400 * ms, 200 * ms)))  # more threads of its own than cores
    short = made(whole((0, 0, 0), (20 * ms, 12 * ms, 6 * ms)))
    idle = made(whole((0, 0, 0), (2000 * ms, 12 * ms, 6 * ms)))
    for quiet in (own, short, idle):
        assert "cores-taken" not in trust(quiet)["code"].tolist()
        assert not any(line.startswith("Cores: ") for line in verdict(quiet).lines)


MS = 1_000_000


def waiting_cell(*workers: tuple[object, ...], text: str = "!make", pool: str = "", cpu_ms: int = 4) -> Trace:
    """A loop of 60 ms whose only line takes 58 ms; its thread is asleep but for `cpu_ms`."""
    names = ["cell:2  for f in files:", f"cell:3  {text}"]
    b = TraceBuilder(metadata={"cell_source": f"\nfor f in files:\n    {text}\n"})
    b.slices(ts=[0, MS], dur=[60 * MS, 58 * MS], name=names, category="python", track=b.track("main"))
    if pool:
        b.slices(ts=2 * MS, dur=50 * MS, name=pool, category="python", track=b.track("pool", tid=9))
        # this thread used no CPU time, so its line is not the one to name
        b.slices(ts=0, dur=59 * MS, name="cell:9  pause()", category="python", track=b.track("idle", tid=10))
    ran = (0, 0, 0), (60 * MS, cpu_ms * MS, 0)
    rows = [*whole(*ran), *thread(*ran), *workers]
    b.table("cpu", pd.DataFrame(rows, columns=NAMES))
    b.metadata["cpu"] = {"cores": 2.0, "tid": 7, "pid": 1}
    part = (0, 60 * MS, "code", 2, "for f in files:", -1, 0)
    columns = ["ts", "dur", "kind", "line", "text", "loop", "steps"]
    b.table("account", pd.DataFrame([part], columns=columns))
    return b.seal(window=(0, 60 * MS))


def children(count: int, each_ms: float, first: int = 20) -> list[tuple[object, ...]]:
    of = (
        whole((0, 0, 0), (60 * MS, int(each_ms * MS), 0), pid=first + i, kind="child") for i in range(count)
    )
    return [row for rows in of for row in rows]


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([], "; it waits."),
        (children(2, 20), "; it waits, while 2 child processes used 40 ms of CPU time."),
        # each below a tenth of the cell, as processes that threads of a pool start one after the other
        (children(12, 4), "; it waits, while 12 child processes used 48 ms of CPU time."),
        # a helper that does next to nothing is none of the workers
        (children(2, 20) + children(1, 1, 90), "; it waits, while 2 child processes used 40 ms of CPU time."),
        # nobody counts children that ended between two readings
        (children(3, 1) + children(1, 30, -1), "; it waits, while child processes used 33 ms of CPU time."),
        (
            children(12, 4) + children(1, 1, -1),
            "; it waits, while 12 child processes used 48 ms of CPU time.",
        ),
        (children(1, 2) + children(1, 2, -1), "; it waits."),
        (
            [*thread((0, 0, 0), (60 * MS, 8 * MS, 0), tid=9), *children(2, 20)],
            "; it waits, while 1 other thread used 8 ms of CPU time "
            "and 2 child processes used 40 ms of CPU time.",
        ),
    ],
)
def test_who_worked_while_a_line_waits(workers: list[tuple[object, ...]], said: str) -> None:
    trace = waiting_cell(*workers)
    result, _ = check_claims(trace)
    assert result.kind == "wait-bound"
    assert result.sentence.startswith("Line 3 takes 96.7 % of the cell (58 ms of 60 ms): `!make`; it waits")
    assert result.sentence.endswith(said)


def test_words_of_a_line_that_computes_do_not_let_it_wait() -> None:
    result, _ = check_claims(waiting_cell(text="x = sorted(y, key=f)  # not (time.sleep)", cpu_ms=55))
    assert result.kind == "python-bound"
    assert "waits" not in result.sentence


def test_a_waiting_line_names_the_line_that_others_run() -> None:
    worker = thread((0, 0, 0), (60 * MS, 48 * MS, 0), tid=9)
    result, _ = check_claims(waiting_cell(*worker, pool="cell:8  pack(x)"))
    assert result.sentence.endswith(
        "; it waits, while 1 other thread used 48 ms of CPU time, most of it in line 8, `pack(x)`."
    )
    (claim,) = (claim for claim in result.claims if claim.text == "line 8")
    assert claim.select == {"name": "cell:8  pack(x)"}
    result, _ = check_claims(waiting_cell(*worker, pool="cell:8  time.sleep(0.05)"))
    assert result.sentence.endswith("; it waits, while 1 other thread used 48 ms of CPU time.")
    # a pool's ``lambda`` in the line that waits for it
    result, _ = check_claims(waiting_cell(*worker, pool="cell:3  !make"))
    assert result.sentence.endswith("; it waits, while 1 other thread used 48 ms of CPU time.")


PYTHON = "Python-bound: 100.0 % of the steps is Python, not operators; "


@pytest.mark.parametrize(
    ("ran_ms", "said"),
    [
        (16, "Wait-bound: the thread of the steps waits for 60.0 % of the steps; line 3"),
        (28, f"{PYTHON}the thread waits for 30.0 % of the steps; line 3"),
        (36, f"{PYTHON}line 3"),
    ],
)
def test_steps_that_wait(ran_ms: int, said: str) -> None:
    """Four steps of 10 ms, and 20 ms afterwards in which nobody read CPU time."""
    b, steps = TraceBuilder(metadata={"cell_source": "\nfor f in files:\n    read(f)\n"}), range(4)
    for step in steps:
        names = ["cell:2  for f in files:", "cell:3  read(f)"]
        begin = step * 10 * MS
        b.slices(ts=[begin] * 2, dur=[10 * MS] * 2, name=names, category="python", track=b.track("main"))
    b.steps(step=list(steps), ts=[10 * MS * step for step in steps], dur=[10 * MS] * 4, source="loop")
    readings = ((0, 0, 0), (40 * MS, ran_ms * MS, 0))
    b.table("cpu", pd.DataFrame([*whole(*readings), *thread(*readings)], columns=NAMES))
    b.metadata["cpu"] = {"cores": 2.0, "tid": 7, "pid": 1}
    columns = ["ts", "dur", "kind", "line", "text", "loop", "steps"]
    parts = [(0, 40 * MS, "steps", 2, "", 0, 4), (40 * MS, 20 * MS, "code", 5, "", -1, 0)]
    b.table("account", pd.DataFrame(parts, columns=columns))
    trace = b.seal(window=(0, 60 * MS))
    result, _ = check_claims(trace)
    assert result.sentence.startswith(said)
    table = account(trace)
    assert table["wait_ns"].tolist() == [(40 - ran_ms) * MS, pd.NA]
    assert table["cpu_ns"].tolist() == [ran_ms * MS, pd.NA]


def test_a_scheduler_that_counts_late_does_not_run_faster_than_time() -> None:
    rows = [*whole((0, 0, 0), (40, 0, 0), (50, 44, 0)), *thread((0, 0, 0), (40, 0, 0), (50, 44, 0))]
    parts = cpu_within(made(rows), np.array([0, 40]), np.array([40, 50]))
    assert parts is not None
    assert [part.tolist() for part in parts] == [[0, 44], [0, 10], [40, 0]]


readings = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 60), st.integers(0, 60)), min_size=2, max_size=8
).map(lambda steps: [tuple(int(n) for n in row) for row in np.cumsum([(0, 3, 2), *steps], axis=0)])


@settings(max_examples=draws(80))
@given(readings, readings, st.lists(st.integers(-20, 500), min_size=1, max_size=9))
def test_parts_sum_to_the_whole(
    process: list[tuple[int, int, int]], own: list[tuple[int, int, int]], cuts: list[int]
) -> None:
    trace = made([*whole(*process), *thread(*own)])
    edges = np.unique([-30, *cuts, 600])
    parts = cpu_within(trace, edges[:-1], edges[1:])
    total = cpu_within(trace, edges[:1], edges[-1:])
    assert parts is not None
    assert total is not None
    for some, all_ in zip(parts, total, strict=True):
        assert some.sum() == all_[0]
        assert (some >= 0).all()
    assert total[0][0] == process[-1][1] - process[0][1]
    length = np.diff(edges)
    assert (parts[1] <= length + 1).all()
    assert (parts[2] <= length).all()
    assert (parts[1] + parts[2] <= length + 1).all()
