"""Recordings and tables of memray, against what memray itself tells of them."""

import gzip
import importlib.metadata
import json
import lzma
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof import open_profile, read_trace
from notebook_prof.analysis import memory, memory_heap, memory_peak, verdict
from notebook_prof.errors import FormatError

from .. import samples
from ..properties.test_verdict_claims import check_verdict

SHARED = samples.ROOTS["shared"] / "python_samplers"
HEAD = "allocator,num_allocations,size,tid,thread_name,stack_trace\n"
PEAK_BYTES, BLOCKS = 4_434_965, 261
"""Of the recording, by memray 1.20."""
BLOCK = 100_000
PROGRAM = f"""\
import os, signal, sys, time
def grow(count):
    for _ in range(count):
        kept.append(bytearray({BLOCK}))
        time.sleep(0.005)
kept = []
grow(64)
del kept[32:]
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "fork":
    if os.fork() == 0:
        more = [bytearray({BLOCK}) for _ in range(8)]
        time.sleep(0.05)
        sys.exit()
    os.wait()
"""
RUNS = [
    ("plain", ["--no-compress"], "end"),
    ("packed", [], "end"),
    ("objects", ["--trace-python-allocators"], "end"),
    ("native", ["--native"], "end"),
    ("aggregated", ["--aggregate"], "end"),
    ("killed", [], "kill"),
    ("forking", ["--follow-fork"], "fork"),
]
"""Names, options of ``memray run``, and how the program ends."""


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
    assert verdict(profile.trace).sentence == "There is no timeline, only tables: heap."


def test_a_recording_without_a_timeline_shows_its_heap(data: Path, tmp_path: Path) -> None:
    profile = open_profile(data / "python_profilers" / "memray.csv")
    profile.export.html(tmp_path / "report.html")
    for page in (profile._repr_mimebundle_()["text/html"], (tmp_path / "report.html").read_text()):
        assert "There is no timeline, only blocks of the heap" in page
        assert "workload.py:18</td>" in page
        assert "&lt;listcomp&gt; (workload.py)</td>" in page
        assert "Did the code run" not in page


def test_those_are_the_figures_of_its_own_reader() -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared recordings are not here")
    peak = json.loads((SHARED / "memray_default.bin.oracle.json").read_text())["high_watermark"]
    assert (peak["bytes"], peak["allocations"]) == (PEAK_BYTES, BLOCKS)
    locations = {one["location"]: one["bytes"] for one in peak["top5_own_location"]}
    assert locations["<listcomp> workload.py:18"] == 2_001_800
    assert locations["worker workload.py:12"] == 1_324_930


def test_recordings_are_refused_without_memray(recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notebook_prof.formats.memray.recording.installed", lambda module: False)
    with pytest.raises(FormatError, match=r"notebook-prof\[heap\].*memray transform csv FILE"):
        read_trace(recordings / "packed.bin")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with recordings of one program, by memray's ways to record."""
    pytest.importorskip("memray", reason="memray is not installed: pip install notebook-prof[heap]")
    folder = tmp_path_factory.mktemp("memray")
    (folder / "program.py").write_text(PROGRAM)
    for name, options, mode in RUNS:
        command = [sys.executable, "-m", "memray", "run", "-q", *options, "-o", f"{name}.bin"]
        done = subprocess.run(
            [*command, "program.py", mode], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == (-signal.SIGKILL if mode == "kill" else 0), done.stderr
    return folder


def _ask_memray(*command: str | Path) -> None:
    commands = pytest.importorskip("memray.commands")
    assert commands.main([str(part) for part in command]) == 0


@pytest.mark.parametrize("name", ["plain", "packed", "objects", "native", "aggregated", "killed"])
def test_a_recording_is_what_memray_makes_of_it(name: str, recordings: Path) -> None:
    """Its blocks are those of memray's own table, and their sum is the peak of its own statistics."""
    path, answer = recordings / f"{name}.bin", recordings / "answer"
    trace = read_trace(path)
    facts = trace.metadata["memray"]
    assert facts["command"].endswith(f"{name}.bin program.py " + ("kill" if name == "killed" else "end"))
    assert (facts["aggregated"], facts["python_objects"]) == (name == "aggregated", name == "objects")
    assert ("native-stacks-not-used" in trace.report) == (name == "native")
    heap = memory_heap(trace)
    numbers = ["line", "bytes", "count"]  # of native traces, the table says which C function allocated
    numbers += [] if name == "native" else ["allocated_by"]
    _ask_memray("transform", "csv", "-f", "-o", answer, path)
    of_table = memory_heap(read_trace(answer))
    at_peak = heap[heap["bytes"] > 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(at_peak[numbers], of_table[numbers])
    _ask_memray("transform", "csv", "--leaks", "-f", "-o", answer, path)
    by_line = memory_heap(read_trace(answer)).groupby("line", dropna=False)["bytes"].sum()
    kept = heap[heap["kept_bytes"] > 0].groupby("line", dropna=False)["kept_bytes"].sum()
    pd.testing.assert_series_equal(kept, by_line, check_names=False)
    if name != "aggregated":  # of which memray makes no statistics
        _ask_memray("stats", "--json", "-f", "-o", answer, path)
        statistics = json.loads(answer.read_text())
        assert heap["bytes"].sum() == trace.metadata["heap"]["peak_bytes"]
        assert heap["bytes"].sum() == statistics["metadata"]["peak_memory"]
        assert statistics["metadata"]["pid"] == facts["pid"]
    line = heap.set_index("line").loc["program.py:4"]
    assert line["allocated_by"] == "grow (program.py)"
    assert 64 * BLOCK <= line["bytes"] < 66 * BLOCK
    assert 32 * BLOCK <= line["kept_bytes"] < 34 * BLOCK


def test_memory_over_time_is_a_curve(recordings: Path) -> None:
    memray = pytest.importorskip("memray")
    path = recordings / "packed.bin"
    trace = read_trace(path)
    with memray.FileReader(path) as reader:
        looks = np.array([tuple(look) for look in reader.get_memory_snapshots()], np.int64)
    curve = memory(trace)
    assert curve["ts"].tolist() == ((looks[:, 0] - looks[0, 0]) * 1_000_000).tolist()
    assert curve["allocated_bytes"].tolist() == looks[:, 1].tolist()
    assert trace.metadata["start_unix_ns"] == looks[0, 0] * 1_000_000
    names = trace.tracks.set_index("name")
    of_heap = trace.counters["track"] == names.loc["heap traced by memray", "track"]
    assert trace.counters.loc[of_heap, "value"].tolist() == looks[:, 2].tolist()
    assert memory_peak(trace)["peak_bytes"].tolist() == [looks[:, 1].max()]
    assert set(names["pid"]) == {trace.metadata["memray"]["pid"]}


def test_a_child_has_a_recording_of_its_own(recordings: Path) -> None:
    parent = read_trace(recordings / "forking.bin")
    (path,) = recordings.glob("forking.bin.*")
    child = read_trace(path)
    assert path.name == f"forking.bin.{child.metadata['memray']['pid']}"
    assert parent.metadata["memray"]["pid"] != child.metadata["memray"]["pid"]
    lines = [memory_heap(trace).set_index("line")["bytes"] for trace in (parent, child)]
    assert 8 * BLOCK <= lines[1]["program.py:13"] < 9 * BLOCK
    assert "program.py:13" not in lines[0]


def test_recordings_that_the_user_packed(recordings: Path, tmp_path: Path) -> None:
    content = (recordings / "packed.bin").read_bytes()
    (tmp_path / "unknown").write_bytes(gzip.compress(lzma.compress(content)))
    again, plain = read_trace(tmp_path / "unknown"), read_trace(recordings / "packed.bin")
    pd.testing.assert_frame_equal(memory_heap(again), memory_heap(plain))
    assert len(again.counters) == len(plain.counters) > 0


def test_recordings_that_were_cut(recordings: Path, tmp_path: Path) -> None:
    """What is there is shown, and that something is missing; no end of memray's is one of ours."""
    assert "killed" in read_trace(recordings / "killed.bin").report["truncated-file"].example
    content = (recordings / "plain.bin").read_bytes().rstrip(b"\0")
    with pytest.raises(FormatError, match="memray"):
        read_trace(_cut(content, 100, tmp_path))
    peaks = []
    for tenth in (5, 6, 7, 8, 9):
        # a cut may leave a byte at the end that looks like memray's last record
        size = next(n for n in range(len(content) * tenth // 10, 0, -1) if content[n - 1] not in b"\0\1\x0f")
        trace = read_trace(_cut(content, size, tmp_path))
        assert "truncated-file" in trace.report
        peaks.append(int(memory_heap(trace)["bytes"].sum()))
        assert peaks[-1] == trace.metadata["heap"]["peak_bytes"]
    assert peaks == sorted(peaks)


@pytest.mark.parametrize("name", [name for name, _, end in RUNS if end == "end"])
def test_whole_recordings_are_not_called_cut(recordings: Path, name: str) -> None:
    assert "truncated-file" not in read_trace(recordings / f"{name}.bin").report


def _cut(content: bytes, size: int, folder: Path) -> Path:
    (folder / "cut").write_bytes(content[:size])
    return folder / "cut"


def test_recordings_of_another_version(recordings: Path, tmp_path: Path) -> None:
    content = bytearray((recordings / "plain.bin").read_bytes())
    content[len(b"memray\0")] += 1
    (tmp_path / "newer").write_bytes(content)
    with pytest.raises(FormatError, match=r"another version wrote it.*memray transform csv FILE"):
        read_trace(tmp_path / "newer")


@pytest.mark.parametrize(("at", "value"), [(75_148, 30), (94_838, 77)])
def test_a_recording_that_ends_memray_does_not_end_us(at: int, value: int, tmp_path: Path) -> None:
    """One wrong byte, at which memray 1.20 dies of SIGSEGV and of SIGABRT."""
    pytest.importorskip("memray", reason="memray is not installed: pip install notebook-prof[heap]")
    if not SHARED.is_dir():
        pytest.skip("the shared recordings are not here")
    content = bytearray((SHARED / "memray_nocompress.bin").read_bytes())
    content[at] = value
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(FormatError, match=r"damaged: memray ended|memray cannot read it"):
        read_trace(tmp_path / "damaged")


@pytest.mark.parametrize("name", ["default", "pymalloc", "nocompress", "aggregate"])
def test_recordings_of_another_machine(name: str) -> None:
    pytest.importorskip("memray", reason="memray is not installed: pip install notebook-prof[heap]")
    if not SHARED.is_dir():
        pytest.skip("the shared recordings are not here")
    expected = json.loads((SHARED / f"memray_{name}.bin.oracle.json").read_text())
    if (version := importlib.metadata.version("memray")) != expected["memray_version"]:
        pytest.skip(f"recorded by memray {expected['memray_version']}, and {version} is installed")
    trace = read_trace(SHARED / f"memray_{name}.bin")
    heap, facts = memory_heap(trace), trace.metadata["memray"]
    peak, leaked = expected["high_watermark"], expected["leaked"]
    assert (heap["bytes"].sum(), heap["count"].sum()) == (peak["bytes"], peak["allocations"])
    assert (heap["kept_bytes"].sum(), heap["kept_count"].sum()) == (leaked["bytes"], leaked["allocations"])
    assert facts["records"] == int(expected["metadata"]["total_allocations"])
    looks = expected["memory_snapshots"]
    assert len(memory(trace)) == looks["count"]
    assert trace.counters["value"][: looks["count"] * 2].max() >= looks["max_heap"]
    assert trace.metadata["start_unix_ns"] == looks["first_ms"] * 1_000_000
    assert "truncated-file" not in trace.report


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
