"""CPU time by thread and child, cores got, and parts of a cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.analysis import cpu, cpu_use, trust, verdict
from notebook_prof.analysis.time.cpu import cpu_within
from notebook_prof.trace import Trace, TraceBuilder

from ..draws import draws

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


def test_a_scheduler_that_counts_late_does_not_run_faster_than_time() -> None:
    rows = [*whole((0, 0, 0), (40, 0, 0), (50, 44, 0)), *thread((0, 0, 0), (40, 0, 0), (50, 44, 0))]
    parts = cpu_within(made(rows), np.array([0, 40]), np.array([40, 50]))
    assert parts is not None
    assert [part.tolist() for part in parts] == [[0, 44], [0, 10], [40, 0]]


def test_nothing_recorded() -> None:
    empty = TraceBuilder().seal()
    assert cpu(empty).empty
    assert cpu_use(empty).empty
    assert cpu_within(empty, np.array([0]), np.array([1])) is None


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
