"""Rows of tables that the trust report doubts are marked, and no others."""

import numpy as np
import pytest

from notebook_prof import Profile, Trace, TraceBuilder
from notebook_prof.analysis import kernels, operators, steps, trust
from notebook_prof.analysis.trust.doubts import doubts_by_name
from notebook_prof.service.answers.meta import meta
from notebook_prof.service.store import ViewStore
from tests.recording import add_slices


def recording(
    *, lost: tuple[int, ...] = (), long: tuple[int, ...] = (), throttled: tuple[int, int] | None = None
) -> Trace:
    """Two operators take turns inside of a step, each with a kernel of its own; planted faults."""
    b, n = TraceBuilder(metadata={"source": "recording"}), 40
    main, stream = b.track("main", tid=1), b.track("GPU 0 stream 7", "stream", device=0, stream=7)
    at = 1_000_000 + 1_000 * np.arange(n)
    turn = np.arange(n) % 2
    b.slices(ts=999_000, dur=n * 1_000 + 2_000, name="epoch", track=main, category="annotation")
    b.slices(ts=at, dur=np.full(n, 900), name=np.array(["mm", "add"])[turn], track=main)
    calls = b.slices(ts=at + 100, dur=np.full(n, 50), name="cudaLaunchKernel", category="launch", track=main)
    kept = np.setdiff1d(np.arange(n), lost)
    dur = np.full(n, 600)
    dur[list(long)] = 1_300
    names = np.array(["gemm", "plus"])[turn[kept]]
    row = {"name": names, "category": "kernel", "track": stream, "device": 0}
    work = b.slices(ts=at[kept] + 150, dur=dur[kept], **row)
    b.flows("launch", calls[kept], work)
    counter = b.track("GPU 0 throttle reasons", "counter", device=0)
    begin, end = throttled or (at[0], at[0])
    b.counter(counter, [999_000, begin, end], [0.0, float(throttled is not None) * 4, 0.0])
    return b.seal()


def marks(table: object) -> dict[str, str]:
    assert "doubt" in table  # type: ignore[operator]
    marked = table[table["doubt"] != ""]  # type: ignore[index]
    return dict(zip(marked["name"], marked["doubt"], strict=True))


def test_lost_kernels_mark_the_operators_that_launched_them() -> None:
    trace = recording()
    assert "doubt" not in kernels(trace)
    assert "doubt" not in operators(trace)
    assert doubts_by_name(trace) == {}
    trace = recording(lost=(0, 2, 4))
    assert "kernels-lost-at-start" in set(trust(trace)["code"])
    marked = marks(operators(trace))
    code = "kernels-lost-at-start, kernels-lost-between"
    assert marked == {"mm": code, "epoch": code}
    assert "doubt" not in kernels(trace)  # what was seen took what it took


def losing(lost: int, count: int) -> TraceBuilder:
    """Operators that each launch a kernel, where the first kernels are lost."""
    b = TraceBuilder()
    main, stream = b.track("main", tid=1), b.track("stream 7", "stream", device=0, stream=7)
    at = 1_000 * np.arange(count)
    b.slices(ts=at, dur=np.full(count, 900), name="mm", track=main)
    calls = b.slices(ts=at + 1, dur=np.full(count, 9), name="cudaLaunchKernel", category="launch", track=main)
    dur = np.full(count - lost, 500)
    work = b.slices(ts=at[lost:] + 50, dur=dur, name="k", category="kernel", track=stream)
    b.flows("launch", calls[lost:], work)
    return b


def test_a_few_in_a_hundred_are_needed_of_the_steps_that_are_asked_for() -> None:
    assert "doubt" not in operators(losing(5, 1_000).seal())
    b = losing(2, 20)
    b.steps(np.arange(20), 1_000 * np.arange(20), np.full(20, 950), "mark")
    trace = b.seal()
    assert marks(operators(trace, step=1))["mm"] == "kernels-lost-at-start"
    assert "doubt" not in operators(trace, step=9)


def test_overlap_marks_the_kernels_and_their_operators() -> None:
    trace = recording(long=(6,))  # a gemm that runs into the plus after it
    assert marks(kernels(trace)) == {"gemm": "stream-overlap", "plus": "stream-overlap"}
    assert marks(operators(trace))["mm"] == "stream-overlap"


@pytest.mark.parametrize(("window", "marked"), [(None, True), ((0, 5_000), False), ((20_000, 30_000), True)])
def test_throttling_marks_what_ran_then(window: tuple[int, int] | None, marked: bool) -> None:
    trace = recording(throttled=(1_020_000, 1_030_000))
    table = kernels(trace, window=window)
    assert ("doubt" in table) == marked
    if marked:
        assert marks(table) == {"gemm": "throttled", "plus": "throttled"}


def test_views_and_text_show_the_marks() -> None:
    trace = recording(long=(6,), lost=(0, 2, 4))
    sent = meta(ViewStore(trace), {}, {}).content["doubts"]
    assert sent["device"] == marks(kernels(trace))
    assert sent["host"] == marks(operators(trace))
    lines = str(Profile(trace).summary(by="name")).splitlines()
    assert lines[0].split()[-1] == "doubt"
    assert any(line.split()[0] == "mm" and "stream-overlap" in line for line in lines)
    assert "doubt" not in str(Profile(recording()).summary(by="name"))


def stepped(*, lost: tuple[int, ...] = (), throttled: bool = False, first_ns: int = 10_000) -> Trace:
    """Five steps of ten launches; some lost their kernels, the third was throttled, the first took longer."""
    b = TraceBuilder(metadata={"source": "recording"})
    main, stream = b.track("main", tid=1), b.track("GPU 0 stream 7", "stream", device=0, stream=7)
    begin = 1_000_000 + np.concatenate([[0], first_ns + 10_000 * np.arange(4)])
    b.steps(step=np.arange(5) + 3, ts=begin, dur=[first_ns, *[10_000] * 4], source="loop")
    at = (begin[:, None] + 1_000 * np.arange(10)).ravel()
    calls = b.slices(ts=at, dur=np.full(50, 50), name="cudaLaunchKernel", category="launch", track=main)
    kept = np.setdiff1d(np.arange(50), lost)
    work = add_slices(b, stream, "gemm", at[kept] + 100, 500, "kernel", device=0)
    b.flows("launch", calls[kept], work)
    if throttled:
        counter = b.track("GPU 0 throttle reasons", "counter", device=0)
        b.counter(counter, [begin[0], begin[2], begin[2] + 5_000], [0.0, 4.0, 0.0])
    return b.seal()


def test_steps_are_marked() -> None:
    assert "doubt" not in steps(stepped())
    table = steps(stepped(lost=(0, 1, 25), throttled=True))
    assert table["step"].tolist() == [3, 4, 5, 6, 7]
    doubts = ["kernels-lost-at-start", "", "kernels-lost-between, throttled", "", ""]
    assert table["doubt"].tolist() == doubts
    assert steps(stepped(lost=(0, 1, 25)), step=[4, 5])["doubt"].tolist() == ["", "kernels-lost-between"]
    slow = steps(stepped(first_ns=25_000))
    assert slow["doubt"].tolist() == ["slow-first-step", "", "", "", ""]
    partial = steps(stepped(lost=tuple(range(46, 50))))
    assert partial["doubt"].tolist() == ["", "", "", "", "partial-last-step, kernels-lost-at-end"]
    trace = stepped(lost=(25,))
    begin = int(trace.steps["ts"].iloc[3])
    assert "doubt" not in steps(trace, window=(begin, begin + 20_000))
    assert steps(TraceBuilder().seal()).empty
