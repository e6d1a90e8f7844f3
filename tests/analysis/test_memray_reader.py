"""Tables of memray, against what its own reader tells of the recording that they were made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from notebook_prof import open_profile
from notebook_prof.analysis import memory_heap, verdict
from notebook_prof.errors import FormatError
from notebook_prof.readers import read_trace

from .. import samples
from ..properties.test_verdict_claims import check_verdict

SHARED = samples.ROOTS["shared"] / "python_samplers"
HEAD = "allocator,num_allocations,size,tid,thread_name,stack_trace\n"
PEAK_BYTES, BLOCKS = 4_434_965, 261
"""Of the recording, by memray 1.20."""


def test_blocks_at_the_peak_are_those_of_memray(data: Path) -> None:
    profile = open_profile(data / "python_profilers" / "memray.csv")
    assert profile.trace.metadata["heap"] == {"tool": "memray", "peak_bytes": PEAK_BYTES}
    table = profile.memory.heap()
    assert (table["bytes"].sum(), table["count"].sum()) == (PEAK_BYTES, BLOCKS)
    assert table["share"].sum() == pytest.approx(1)
    assert table.iloc[0][["line", "allocated_by"]].tolist() == ["workload.py:18", "<listcomp> (workload.py)"]
    by_function = memory_heap(profile.trace, by="function").set_index("allocated_by")["bytes"]
    assert by_function["<listcomp> (workload.py)"] == 2_001_800
    assert by_function["worker (workload.py)"] == 1_324_930
    check_verdict(profile.trace)
    assert verdict(profile.trace).sentence == "Nothing was recorded: no timeline, but tables: heap."


def test_a_recording_without_a_timeline_shows_its_heap(data: Path, tmp_path: Path) -> None:
    profile = open_profile(data / "python_profilers" / "memray.csv")
    profile.export.html(tmp_path / "report.html")
    for page in (profile._repr_mimebundle_()["text/html"], (tmp_path / "report.html").read_text()):
        assert "No timeline was recorded, but blocks of the heap" in page
        assert "<td>workload.py:18</td><td>&lt;listcomp&gt; (workload.py)</td>" in page
        assert "Did the code run" not in page


def test_those_are_the_figures_of_its_own_reader() -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared recordings are not here")
    peak = json.loads((SHARED / "memray_default.bin.oracle.json").read_text())["high_watermark"]
    assert (peak["bytes"], peak["allocations"]) == (PEAK_BYTES, BLOCKS)
    locations = {one["location"]: one["bytes"] for one in peak["top5_own_location"]}
    assert locations["<listcomp> workload.py:18"] == 2_001_800
    assert locations["worker workload.py:12"] == 1_324_930


@pytest.mark.parametrize("name", ["default", "pymalloc", "nocompress", "aggregate"])
def test_recordings_are_refused_with_what_to_do(name: str) -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared recordings are not here")
    with pytest.raises(FormatError, match="memray transform csv FILE"):
        read_trace(SHARED / f"memray_{name}.bin")


def test_rows_that_are_none_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    rows = [
        "MALLOC,2,300,1,main,f;/me/a.py;3|g;/me/b.py;4",
        "MALLOC,x,300,1,main,f;/me/a.py;3",
        "MALLOC,1",
        "MMAP,1,50,1,main,",
        'MALLOC,1,9,2,"a, b",read;<frozen importlib._bootstrap>;1|run;/usr/lib/python3.11/runpy.py;2',
    ]
    path.write_text(HEAD + "\n".join(rows))
    trace = read_trace(path)
    table = memory_heap(trace)
    columns = ["line", "allocated_by", "bytes", "count"]
    assert table[columns].fillna("").values.tolist() == [["a.py:3", "f (a.py)", 300, 2], ["", "", 59, 2]]
    assert memory_heap(trace, by="function")["allocated_by"].fillna("").tolist() == ["f (a.py)", "", "import"]
    assert trace.report["broken-row"].count == 2
    path.write_bytes(HEAD.encode() + b"\xff,1\n" + rows[0].encode().replace(b"/me/b", b"/m\xe9/b"))
    assert read_trace(path).report["broken-row"].count == 1
    path.write_text(HEAD)
    with pytest.raises(FormatError, match="has no rows"):
        read_trace(path)
