"""nbp.annotate, nbp.step, nbp.steps."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from notebook_prof.collectors import marks
from notebook_prof.collectors.marks import MarksCollector, annotate, step, steps
from notebook_prof.errors import OptionError
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.clocks import Clock

from ..recorded import in_threads
from ..recorded import recorded as recorded_by


class Counter:
    """A sink that counts."""

    def __init__(self) -> None:
        self.ticks = 0
        self.announced = 0

    def tick(self) -> None:
        self.ticks += 1

    def announce(self) -> None:
        self.announced += 1


@pytest.fixture
def sink() -> Iterator[Counter]:
    counter = Counter()
    marks.install(counter)
    yield counter
    marks.uninstall()


def recorded(body: Callable[[], object]) -> Trace:
    return recorded_by(MarksCollector(), body)


def names(trace: Trace) -> list[str]:
    return list(trace.slices["name"].astype(str))


def test_without_a_recording_nothing_is_kept() -> None:
    with annotate("outside"):
        step()
    assert marks._journal is None
    assert list(steps("ab")) == ["a", "b"]


def test_context_manager_nests_and_carries_its_phase() -> None:
    def body() -> None:
        with annotate("outer", phase="data"), annotate("inner"):
            time.sleep(0.001)

    slices = recorded(body).slices
    assert list(slices["name"].astype(str)) == ["outer", "inner"]
    assert list(slices["category"].astype(str)) == ["annotation"] * 2
    assert list(slices["phase"].astype(str)) == ["data", "data"]
    assert list(slices["depth"]) == [0, 1]
    assert slices["dur"].iloc[1] >= 900_000  # the clock of the day may be slowed a little


def test_an_unknown_phase_is_refused_recording_or_not() -> None:
    with pytest.raises(OptionError, match="'forward'"):
        annotate("x", phase="forwrad")


def test_one_object_can_be_used_again_and_inside_itself() -> None:
    mark = annotate("again")

    def body() -> None:
        with mark, mark:
            pass
        with mark:
            pass

    assert names(recorded(body)) == ["again"] * 3


def test_decorated_functions_keep_their_results_and_names() -> None:
    @annotate("double")
    def double(x: int, *, extra: int = 0) -> int:
        """Twice."""
        return 2 * x + extra

    @annotate("count")
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    @annotate("wait")
    async def wait() -> int:
        await asyncio.sleep(0.001)
        return 7

    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    results: list[object] = []
    trace = recorded(lambda: results.extend([double(2, extra=1), list(count(3)), asyncio.run(wait())]))  # type: ignore[arg-type]
    assert results == [5, [0, 1, 2], 7]
    assert names(trace) == ["double", "count", "wait"]


def test_an_exception_passes_and_closes_the_slice() -> None:
    def body() -> None:
        with pytest.raises(ZeroDivisionError), annotate("fails"):
            1 / 0

    assert names(recorded(body)) == ["fails"]


def test_tasks_that_interleave_keep_their_own_times() -> None:
    @annotate("long")
    async def long() -> None:
        await asyncio.sleep(0.03)

    @annotate("short")
    async def short() -> None:
        await asyncio.sleep(0.01)

    async def both() -> None:
        await asyncio.gather(long(), short())

    slices = recorded(lambda: asyncio.run(both())).slices.set_index("name")
    assert slices.loc["long", "dur"] > slices.loc["short", "dur"] >= 9_000_000


def test_threads_have_their_own_tracks() -> None:
    shared, together = annotate("shared"), threading.Barrier(3)  # the numbers of ended threads are reused

    def work() -> None:
        together.wait()
        with shared:
            time.sleep(0.005)

    trace = recorded(lambda: in_threads(work, work, work, name="worker"))
    assert trace.tracks["name"].tolist() == ["worker"] * 3
    assert trace.slices["track"].nunique() == 3
    assert (trace.slices["dur"] >= 4_000_000).all()


def test_an_annotation_across_the_edges_is_cut_to_the_recording(sink: Counter) -> None:
    outer = annotate("outer").begin()
    annotate("before").begin().end()
    late = annotate("late")
    begun = time.time_ns()
    trace = recorded(lambda: (time.sleep(0.002), late.begin()))
    outer.end()
    late.end()
    annotate("after").begin().end()
    assert names(trace) == ["outer", "late"]
    assert trace.metadata["start_unix_ns"] >= begun
    assert trace.slices["ts"].iloc[0] == 0
    ends = trace.slices["ts"] + trace.slices["dur"]
    assert ends.nunique() == 1


def test_steps_tick_at_the_end_of_each_body(sink: Counter) -> None:
    ticked = []
    for item in steps(range(5)):
        ticked.append((item, sink.ticks))
        if item == 1:
            continue
        if item == 3:
            break
    assert ticked == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert sink.ticks == 4
    assert sink.announced == 4
    assert list(steps([])) == []
    assert sink.announced == 4, "a loop that never runs keeps nobody from counting"


def test_steps_know_their_length_and_work_asynchronously(sink: Counter) -> None:
    assert len(steps([1, 2, 3])) == 3
    with pytest.raises(TypeError):
        len(steps(iter([1])))

    async def numbers() -> object:
        for i in range(3):
            yield i

    async def run() -> list[int]:
        return [i async for i in steps(numbers())]

    assert asyncio.run(run()) == [0, 1, 2]
    assert sink.ticks == 3


def test_too_many_annotations_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notebook_prof.collectors.journal.MOST_SPANS", 2)
    collector = MarksCollector()
    collector.start(Clock())
    for _ in range(5):
        with annotate("many"):
            pass
    collector.stop()
    collector.result(TraceBuilder())
    assert collector.report["annotations-dropped"].count == 3
