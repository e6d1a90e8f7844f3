"""Who allocated what was on the heap at its peak: blocks of known sizes."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.analysis.source.lines import lines
from notebook_prof.collectors import heap
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.errors import OptionError
from notebook_prof.profiles.profile import Profile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="memray is not made for Windows")

MIB = 1 << 20


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
    return p, kept


def test_the_peak_is_told_by_line() -> None:
    p, kept = _recorded()
    table = p.memory.heap().set_index("line")
    facts = p.trace.metadata["heap"]
    assert facts["tool"].startswith("memray")
    assert table["bytes"].sum() == facts["peak_bytes"]
    assert table["share"].sum() == pytest.approx(1)
    assert facts["peak_bytes"] == pytest.approx(40 * MIB, rel=0.05)
    whole = table.loc[_line("whole")]
    assert whole["kept_bytes"] == pytest.approx(kept.nbytes, rel=0.01)
    assert whole["text"].startswith("return np.concatenate(halves)")
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
        np.ones(10**6)
    assert p.memory.heap().empty
    assert "heap" not in p.trace.metadata


def test_options_that_need_the_profile_function_are_refused_together() -> None:
    for option in ({"stack": True}, {"python": "calls"}):
        with pytest.raises(OptionError, match="profile function"):
            CollectorOptions(heap=True, **option)


def gave_way(p: nbp.Profile) -> list[str]:
    return [f"{issue.example}" for issue in p.trace.report if issue.code == "heap-gave-way"]


def test_a_tool_that_is_at_work_already_is_left_alone(tmp_path: Path) -> None:
    memray = pytest.importorskip("memray")
    with memray.Tracker(tmp_path / "mine.bin"), nbp.profile("system", heap=True) as p:
        np.ones(MIB)
    assert "memray's Tracker in the user's code is running" in p.trace.report["collector-failed"].example
    assert p.memory.heap().empty
    sys.setprofile(lambda *event: None)
    try:
        with nbp.profile("system", heap=True) as p:
            np.ones(10)
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)
    assert "sys.getprofile()" in p.trace.report["collector-failed"].example


def test_without_memray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "installed", lambda module: False)
    with nbp.profile("system", heap=True) as p:
        np.ones(10)
    assert 'pip install "notebook-prof[heap]"' in p.trace.report["collector-failed"].example
    assert not heap.HeapCollector.availability().ok


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
def test_ours_gives_way_to_what_code_starts(tool: str, use: Callable[[Path], bool], tmp_path: Path) -> None:
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
