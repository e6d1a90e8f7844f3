"""Who allocated what was on the heap at its peak: blocks of known sizes, by both tracers."""

from __future__ import annotations

import cProfile
import pstats
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.analysis.source.lines import lines
from notebook_prof.collectors import heap as heap_room
from notebook_prof.collectors.heap.blocks import Blocks, HeapBlocks, StackLine, blocks_table
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.errors import OptionError
from notebook_prof.profiles.profile import Profile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="memray is not made for Windows")

MIB = 1 << 20
TRACERS = ("memray", "tracemalloc")


@pytest.fixture(params=TRACERS)
def tracer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Record with one of the two."""
    name = str(request.param)
    monkeypatch.setattr(heap_room, "installed", lambda module: module == name)
    return name


def _line(text: str) -> str:
    """Return the place of the one line of this file that ends with a comment."""
    own = Path(__file__).read_text().splitlines()
    (number,) = [k for k, line in enumerate(own, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def _doubled(count: int) -> np.ndarray:
    halves = [np.frombuffer(bytearray(4 * MIB), np.uint8) for _ in range(count)]  # halves
    return np.concatenate(halves)  # whole


def _recorded() -> tuple[Profile, np.ndarray]:
    with nbp.profile("system", heap=True) as p:
        kept = _doubled(5)
        threading.Event().wait(0.05)  # tracemalloc is looked at every 5 ms
    return p, kept


def test_the_peak_is_told_by_line(tracer: str) -> None:
    p, kept = _recorded()
    table = p.memory.heap().set_index("line")
    facts = p.trace.metadata["heap"]
    assert facts["tool"].startswith(tracer)
    assert table["bytes"].sum() == facts["peak_bytes"]
    assert table["share"].sum() == pytest.approx(1)
    assert facts["peak_bytes"] == pytest.approx(40 * MIB, rel=0.05)
    whole = table.loc[_line("whole")]
    assert whole["kept_bytes"] == pytest.approx(kept.nbytes, rel=0.01)
    assert whole["text"].startswith("return np.concatenate(halves)")
    if tracer == "memray":  # a snapshot of tracemalloc may miss the instant when both were there
        halves = table.loc[_line("halves")]
        assert halves["kept_bytes"] < MIB
        assert whole["bytes"] == pytest.approx(20 * MIB, rel=0.01)
        assert halves["bytes"] == pytest.approx(20 * MIB, rel=0.01)
        assert whole["allocated_by"] == "_doubled (test_heap.py)"
    by_function = p.memory.heap(by="function")
    assert by_function["bytes"].sum() == facts["peak_bytes"]
    with pytest.raises(OptionError, match="line"):
        p.memory.heap(by="lines")


def test_lines_and_files_have_it(tmp_path: Path) -> None:
    p, _ = _recorded()
    p.save(tmp_path / "run.nbprof.zip")
    again = nbp.open_profile(tmp_path / "run.nbprof.zip")
    pd.testing.assert_frame_equal(again.memory.heap(), p.memory.heap())
    with nbp.profile("python", heap=True) as p:
        kept = _doubled(5)
        until = sum(k * k for k in range(3_000_000))  # long enough to be sampled
    table = lines(p.trace, remainder=True)
    heap = p.memory.heap()
    assert table["peak_bytes"].sum() == heap["bytes"].sum()
    assert table["bytes_kept"].sum() == heap["kept_bytes"].sum()
    assert kept.nbytes < heap["kept_bytes"].sum()
    assert until > 0
    assert "heap-traced" in str(p.trace.report)


def test_without_the_option_nothing_is_traced() -> None:
    with nbp.profile("system") as p:
        assert not tracemalloc.is_tracing()
        np.ones(10**6)
    assert p.memory.heap().empty
    assert "heap" not in p.trace.metadata


def test_only_what_the_user_traces_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_room, "installed", lambda module: False)
    tracemalloc.start(5)
    try:
        before = bytearray(30 * MIB)
        p, _ = _recorded()
        assert tracemalloc.is_tracing()
        assert tracemalloc.get_traceback_limit() == 5
        assert tracemalloc.get_traced_memory()[1] >= len(before) + 40 * MIB  # its peak was not reset
        assert 19 * MIB < p.memory.heap()["bytes"].sum() < 41 * MIB
    finally:
        tracemalloc.stop()


def test_options_that_need_the_profile_function_are_refused_together() -> None:
    for option in ({"stack": True}, {"python": "calls"}):
        with pytest.raises(OptionError, match="profile function"):
            CollectorOptions(heap=True, **option)


def gave_way(p: nbp.Profile) -> list[str]:
    return [f"{issue.example}" for issue in p.trace.report if issue.code == "heap-gave-way"]


def test_a_tool_that_is_at_work_already_leaves_tracemalloc(tmp_path: Path) -> None:
    memray = pytest.importorskip("memray")
    with memray.Tracker(tmp_path / "mine.bin"), nbp.profile("system", heap=True) as p:
        kept = np.ones(MIB)
    assert p.memory.heap()["bytes"].sum() >= kept.nbytes
    assert gave_way(p) == ["memray's Tracker in the user's code was running"]
    seen: list[object] = []
    sys.setprofile(lambda *event: seen.append(event))
    try:
        with nbp.profile("system", heap=True) as p:
            np.ones(10)
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)
    assert "sys.getprofile()" in gave_way(p)[0]


def _track(folder: Path) -> bool:
    import memray

    with memray.Tracker(folder / "mine.bin"):
        kept = np.ones(MIB)
    with memray.FileReader(folder / "mine.bin") as reader:
        return bool(reader.metadata.peak_memory >= kept.nbytes)


def _profile_calls(_: Path) -> bool:
    seen: list[str] = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name))
    try:
        _doubled(1)
        return "_doubled" in seen
    finally:
        sys.setprofile(None)


def _run_cprofile(_: Path) -> bool:
    profiler = cProfile.Profile()
    profiler.enable()
    _doubled(1)
    profiler.disable()
    return any(name == "_doubled" for _, _, name in pstats.Stats(profiler).stats)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tool", "use"),
    [("memray.Tracker", _track), ("sys.setprofile", _profile_calls), ("cProfile", _run_cprofile)],
)
def test_ours_gives_way_to_what_the_code_starts(
    tool: str, use: Callable[[Path], bool], tmp_path: Path
) -> None:
    before = vars(sys)["setprofile"], cProfile.Profile.enable
    with nbp.profile("system", heap=True) as p:
        kept = np.ones(3 * MIB)
        worked = use(tmp_path)
    assert worked
    assert gave_way(p) == [f"the code used {tool}, which excludes tracing the heap"]
    assert p.memory.heap()["bytes"].sum() >= kept.nbytes, "what came before is kept"
    assert (vars(sys)["setprofile"], cProfile.Profile.enable) == before
    (tmp_path / "again").mkdir()
    assert use(tmp_path / "again")


def test_a_profiler_that_the_code_leaves_at_work_stays() -> None:
    seen: list[str] = []
    with nbp.profile("system", heap=True):
        sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name))
    try:
        _doubled(1)
    finally:
        sys.setprofile(None)
    assert "_doubled" in seen


def test_tracemalloc_of_the_code_is_as_without_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_room, "installed", lambda module: False)
    with nbp.profile("system", heap=True) as p:
        ours = np.ones(3 * MIB)
        before = tracemalloc.is_tracing(), tracemalloc.get_traced_memory()
        tracemalloc.start(7)
        theirs = bytearray(2 * MIB)
        limit, traced = tracemalloc.get_traceback_limit(), tracemalloc.get_traced_memory()[0]
    assert before == (False, (0, 0))
    assert tracemalloc.is_tracing()
    tracemalloc.stop()
    assert (limit, traced) == (7, pytest.approx(len(theirs), rel=0.1))
    assert gave_way(p) == ["the code used tracemalloc.start, which excludes tracing the heap"]
    assert p.memory.heap()["bytes"].sum() == pytest.approx(ours.nbytes, rel=0.1)


def test_blocks_that_no_snapshot_saw_have_no_line() -> None:
    stack = [
        StackLine("ones", "/venv/lib/python3.12/site-packages/numpy/n.py", 3),
        StackLine("f", "train.py", 7),
    ]
    imported = [StackLine("<module>", "m.py", 1), StackLine("f", "<frozen importlib._bootstrap>", 2)]
    table = blocks_table(
        HeapBlocks("t", 100, [Blocks(stack, 60, 1), Blocks(imported, 10, 1)], [Blocks(stack, 5, 1)]), {}
    )
    rows = table.set_index("allocated_by")
    assert rows.loc["ones (n.py)", ["line", "bytes", "kept_bytes"]].tolist() == ["train.py:7", 60, 5]
    assert rows.loc["", ["line", "bytes", "count"]].tolist() == ["", 30, 0]
    assert rows.loc["import", "bytes"] == 10
    assert table["bytes"].sum() == 100
