"""Austin's text, Tachyon's and py-spy's collapsed stacks: threads, places, units, and what is refused."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from notebook_prof import Profile, TraceBuilder, open_profile
from notebook_prof.analysis import hotspots
from notebook_prof.errors import FormatError
from notebook_prof.trace import Trace

from .test_collapsed import opened

HEAD = "# austin: 3.7.0\n# interval: 5000\n# mode: {mode}\n\n"
WALL = (
    HEAD.format(mode="wall")
    + """\
P7;T0:7;<frozen zipimport>:zipimporter.__init__:94 2457
P7;T0:7;/mnt/work.py:<module>:20;/mnt/work.py:main:17 6293
P7;T0:9;/usr/lib/threading.py:Thread.run:975;/mnt/work.py:worker:12 5113
P7;T0:7;/mnt/work.py:<module>:20;/mnt/work.py:main:17 5113
P7;T0:9;/usr/lib/threading.py:Thread.run:975;/mnt/work.py:worker:12 5097
P7;T0:7;/mnt/work.py:<module>:20;/mnt/work.py:main:17;/mnt/work.py:fib:2 5097
P7;T0:7 5117

# duration: 29174
"""
)
TACHYON = """\
tid:9504;threading.py:Thread.run:1161;work.py:worker:12 234
tid:9503;<frozen runpy>:_run_code:87;work.py:main:17;work.py:numbers:8 148
tid:9503;<frozen runpy>:_run_code:87;work.py:main:17;<GC> 3
"""
PY_SPY = """\
process 7:"python work.py";thread (7);<module> (work.py:1) 2
process 7:"python work.py";process 8:"python -c "a; b"";thread (8): MainThread;<module> (<string>:1) 5
process 7:"python work.py";thread (7): MainThread;<module> (work.py:20);main (work.py:17) 30
process 7:"python work.py";thread (7): MainThread;<module> (work.py:20);deflate (libz.so.1) 4
process 7:"python work.py";thread (0x7F00AB): pool 1;Thread.run (threading.py:975) 6
process 7:"python work.py";thread (7): MainThread 1
"""
REAL = {
    "austin37_wall.austin.xz": "austin",
    "austin37_full.austin.xz": "austin",
    "austin_python_mp.austin.xz": "austin",
    "pyspy_raw.txt": "py-spy",
    "pyspy_native_gil_raw.txt": "py-spy",
    "tachyon315_none.collapsed.txt": "tachyon",
    "tachyon315_zstd.collapsed.txt": "tachyon",
}
UNITS = {"austin": 1000, "py-spy": 1, "tachyon": 1}


def rows(trace: Trace, track: int) -> list[list[object]]:
    chosen = trace.slices[trace.slices["track"] == track]
    return chosen[["name", "ts", "dur"]].astype({"name": str}).to_numpy().tolist()


def tracks(trace: Trace) -> list[tuple[str, int | None, int | None]]:
    """Name, process and thread of each track."""
    table = trace.tracks[["name", "pid", "tid"]].astype(object)
    return [tuple(row) for row in table.where(table.notna(), None).to_numpy().tolist()]


def places(trace: Trace) -> set[tuple[str, str, int]]:
    """Function, file and line of all frames; line 0 where there is none."""
    return set(trace.stacks[["name", "file", "line"]].fillna({"line": 0}).itertuples(index=False, name=None))


def codes(trace: Trace) -> list[str]:
    return [issue.code for issue in trace.report]


@pytest.mark.parametrize("file", REAL)
def test_real_files_agree_with_other_readers(shared_traces: Path, tmp_path: Path, file: str) -> None:
    path = shared_traces / "python_samplers" / file
    if not path.exists():
        pytest.skip(f"{file} is not among the shared recordings")
    answers = json.loads(path.with_name(file.removesuffix(".xz") + ".oracle.json").read_text())
    raw = path.read_bytes()
    trace = opened(tmp_path, lzma.decompress(raw) if file.endswith(".xz") else raw)
    tool, unit = trace.metadata["exporter"], UNITS[REAL[file]]
    assert tool == REAL[file]
    assert "broken-row" not in trace.report
    own = hotspots(trace, by="line")
    top = answers.get("top5_leaf_by_first_metric") or answers["top5_leaf"]
    for each in top:
        # names as that tool spells them
        spelled = own["file"] + ":" + own["name"] + ":" + own["line"].astype(str)
        if tool == "py-spy":
            line = own["line"].map(lambda number: f":{number}" if number > 0 else "", na_action="ignore")
            spelled = own["name"] + " (" + own["file"] + line.fillna("") + ")"
        own_ns = own.loc[spelled == each.get("frame", each.get("name")), "self_ns"]
        assert own_ns.sum() == each["value"] * unit, each
    if tool == "tachyon":
        sums = trace.slices.groupby("track")["self_ns"].sum()
        numbers = trace.tracks.set_index("tid")["track"]
        assert {f"tid:{tid}": int(sums[track]) for tid, track in numbers.items()} == answers["roots"]
    if tool == "austin":
        assert len(trace.tracks) == len(answers["per_thread_samples"])
        assert {f"{pid}:{tid}" for _, pid, tid in tracks(trace)} == {
            ":".join((key.split(":")[0], key.split(":")[-1])) for key in answers["per_thread_samples"]
        }
        assert trace.metadata["austin"]["duration"] == answers["metadata"]["duration"]
        # recorded for as long as the footer says: within 2 %
        assert trace.span.dur == pytest.approx(int(answers["metadata"]["duration"]) * 1000, rel=0.02)


def test_microseconds_and_threads_of_austin(tmp_path: Path) -> None:
    trace = opened(tmp_path, WALL)
    assert trace.metadata["source"] == "collapsed"
    assert trace.metadata["exporter"] == "austin"
    header = {"version": "3.7.0", "interval": "5000", "mode": "wall", "duration": "29174"}
    assert trace.metadata["austin"] == header
    assert tracks(trace) == [("thread 7", 7, 7), ("thread 9", 7, 9)]
    assert rows(trace, 0) == [
        ["zipimporter.__init__ (<frozen zipimport>:94)", 0, 2_457_000],
        ["<module> (mnt/work.py:20)", 2_457_000, 16_503_000],
        ["main (mnt/work.py:17)", 2_457_000, 16_503_000],
        ["fib (mnt/work.py:2)", 13_863_000, 5_097_000],
    ]
    # its first sample is of the moment of the next one, which covers the same time
    assert rows(trace, 1) == [
        ["Thread.run (lib/threading.py:975)", 8_750_000, 10_210_000],
        ["worker (mnt/work.py:12)", 8_750_000, 10_210_000],
    ]
    assert ("worker", "/mnt/work.py", 12) in places(trace)
    assert codes(trace) == []
    hot = Profile(trace).hotspots(by="line")
    assert hot[["name", "line", "self_ns"]].iloc[0].tolist() == ["main", 17, 11_406_000]


def test_a_thread_begins_where_the_process_is(tmp_path: Path) -> None:
    samples = (("P1;T0:1", 10), ("P1;T0:1", 20), ("P1;T0:2", 20), ("P2;T0:3", 20), ("P1;T0:1", 20))
    trace = opened(tmp_path, HEAD.format(mode="wall") + "\n".join(f"{at};a:f:1 {us}" for at, us in samples))
    # thread 2 is of the sample before; process 2 has clocks of its own
    assert trace.slices.groupby("track")["ts"].min().tolist() == [0, 10_000, 30_000]


@pytest.mark.parametrize(
    ("text", "example"),
    [
        (WALL.replace("mode: wall", "mode: cpu"), "time on the CPU"),
        # every path once, as austin-compress leaves them
        (HEAD.format(mode="wall") + "P1;T0:1;a:f:1 900\nP1;T0:2;a:f:1 70\n", "totals by call path"),
    ],
)
def test_totals_have_no_time_line(tmp_path: Path, text: str, example: str) -> None:
    trace = opened(tmp_path, text)
    assert trace.report["no-time-line"].example == example
    assert "estimates" in trace.report["no-time-line"].effect
    assert trace.slices.groupby("track")["ts"].min().tolist() == [0, 0]


def test_full_mode_gives_its_times(tmp_path: Path) -> None:
    text = HEAD.format(mode="full") + "P1;T0:1;a.py:f:3 250,1,4096\nP1;T0:1;a.py:f:3 100,0,-1024\n"
    trace = opened(tmp_path, text)
    assert rows(trace, 0) == [["f (a.py:3)", 0, 350_000]]
    issue = trace.report["metrics-not-used"]
    assert (issue.severity, issue.count) == ("loss", 2)
    assert issue.example == "1 of 2 samples idle, memory +4,096 and -1,024 bytes"
    assert codes(trace) == ["metrics-not-used"]
    # mojo2austin keeps the times only
    again = opened(tmp_path, text.replace(",1,4096", "").replace(",0,-1024", ""))
    assert again.slices.equals(trace.slices)
    assert codes(again) == []


@pytest.mark.parametrize(
    "text",
    [
        HEAD.format(mode="memory") + "# memory: 24684084\n\nP9;T0:9;a.py:f:4 4096\n",
        HEAD.format(mode="memory"),
        "P9;T0:9;a.py:f:4 4096\nP9;T0:9;a.py:g:5 -4096\n",  # without a header, a loss tells it
    ],
)
def test_bytes_are_no_times(tmp_path: Path, text: str) -> None:
    for options in ({}, {"format": "collapsed"}, {"sample_ns": 5}):
        with pytest.raises(FormatError, match=r"Austin recorded memory.*bytes.*Record again without -m"):
            opened(tmp_path, text, **options)


def test_a_unit_that_nobody_tells_is_assumed(tmp_path: Path) -> None:
    text = "P1;T1;a.py:f:3 250\nP1;T1;a.py:f:3 100\n"
    trace = opened(tmp_path, text)
    assert trace.metadata["exporter"] == "austin"
    assert rows(trace, 0) == [["f (a.py:3)", 0, 350_000]]
    assert codes(trace) == ["unit-assumed"]
    assert "sample_ns=" in trace.report["unit-assumed"].advice
    trace = opened(tmp_path, text, sample_ns=2)
    assert rows(trace, 0) == [["f (a.py:3)", 0, 700]]
    assert codes(trace) == []
    odd = opened(tmp_path, HEAD.format(mode="energy") + text)
    assert odd.report["unit-assumed"].example == "'# mode: energy'"


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (["P3;T8", "P3;T10"], [("thread 8", 3, 8), ("thread 10", 3, 10)]),
        (["P3;T0:8", "P3;Ta:10"], [("thread 8", 3, 8), ("interpreter a, thread 10", 3, None)]),
        # Windows: both would be 16 if one were decimal
        (["P3;T0:10", "P3;T0:1a"], [("thread 10", 3, 16), ("thread 1a", 3, 26)]),
        # mojo2austin writes names
        (["P3;T0:MainThread", "P3;T0:10"], [("MainThread", 3, None), ("thread 10", 3, 10)]),
        (["P3;T0:pool 1", "P4;T0:pool 1"], [("pool 1", 3, None), ("pool 1", 4, None)]),
    ],
)
def test_threads_of_austin(tmp_path: Path, heads: list[str], expected: list[object]) -> None:
    text = HEAD.format(mode="wall") + "".join(f"{head};a.py:f:3 5\n" for head in heads) * 2
    trace = opened(tmp_path, text)
    assert tracks(trace) == expected
    assert trace.slices["self_ns"].tolist() == [10_000, 10_000]


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("C:\\code\\a.py:f:3", ("f", "C:\\code\\a.py", 3)),
        ("/data/a:b/c.py:f:3", ("f", "/data/a:b/c.py", 3)),
        ("/lib/x.so:std::sort<int>:0", ("std::sort<int>", "/lib/x.so", 0)),
        ("native@7f00:PyEval_Frame:120", ("PyEval_Frame", "", 0)),
        ("kernel:do_sys_poll:0", ("do_sys_poll", "kernel", 0)),
        ("a.py:f:-1", ("f", "a.py", 0)),
        (":GC:", ("GC", "", 0)),
        (":INVALID:", ("INVALID", "", 0)),
        ("a.py:f;L12", ("f", "a.py", 12)),
        ("no place", ("no place", "", 0)),
    ],
)
def test_frames_of_austin(tmp_path: Path, frame: str, expected: tuple[str, str, int]) -> None:
    trace = opened(tmp_path, HEAD.format(mode="wall") + f"P1;T0:1;m.py:g:1;{frame} 5\n")
    assert places(trace) == {("g", "m.py", 1), expected}
    assert trace.slices["self_ns"].tolist() == [0, 5_000]


def test_broken_lines_of_austin_are_counted(tmp_path: Path) -> None:
    text = WALL + "P7;T0:7;a.py:f:3 -5\nP7;T0:7;a.py:f:3\nP7;T0\n" + f"P7;T0:7;a.py:f:3 {'9' * 30}\n"
    trace = opened(tmp_path, text)
    assert trace.report["broken-row"].count == 4
    assert trace.report["broken-row"].example == "P7;T0:7;a.py:f:3 -5"
    assert trace.slices.equals(opened(tmp_path, WALL).slices)
    with pytest.raises(FormatError, match="record for longer"):
        opened(tmp_path, HEAD.format(mode="wall") + "# duration: 3\n")


def test_tachyon_counts_samples(tmp_path: Path) -> None:
    trace = opened(tmp_path, TACHYON)
    assert trace.metadata["exporter"] == "tachyon"
    assert tracks(trace) == [("thread 9504", None, 9504), ("thread 9503", None, 9503)]
    assert rows(trace, 1) == [
        ["_run_code (<frozen runpy>:87)", 0, 151],
        ["main (work.py:17)", 0, 151],
        ["numbers (work.py:8)", 0, 148],
        ["<GC>", 148, 3],
    ]
    assert places(trace) >= {("worker", "work.py", 12), ("<GC>", "", 0)}
    assert codes(trace) == ["no-time-line"]
    assert "sample_ns=" in trace.report["no-time-line"].advice
    longer = opened(tmp_path, TACHYON, sample_ns=1_000_000)
    assert longer.slices["dur"].tolist() == [dur * 1_000_000 for dur in trace.slices["dur"]]
    assert "sample_ns=" not in longer.report["no-time-line"].advice


def test_py_spy_tells_processes_and_threads(tmp_path: Path) -> None:
    trace = opened(tmp_path, PY_SPY)
    assert trace.metadata["exporter"] == "py-spy"
    assert trace.metadata["processes"] == {"7": "python work.py", "8": 'python -c "a; b"'}
    assert tracks(trace) == [("MainThread", 7, 7), ("MainThread", 8, 8), ("pool 1", 7, 0x7F00AB)]
    assert trace.slices.groupby("track")["self_ns"].sum().tolist() == [36, 5, 6]
    assert places(trace) >= {("main", "work.py", 17), ("deflate", "libz.so.1", 0)}
    assert not trace.slices["name"].astype(str).str.contains("process|thread \\(").any()
    assert "100 a second" in trace.report["no-time-line"].advice
    threads_only = opened(tmp_path, "thread (26003): MainThread;f (a.py:3) 2\nthread (9): b;f (a.py:3) 1\n")
    assert tracks(threads_only) == [("MainThread", None, 26003), ("b", None, 9)]
    processes_only = opened(tmp_path, 'process 5:"x y";f (a.py:3) 2\nprocess 6:"z";f (a.py:3) 1\n')
    assert tracks(processes_only) == [("process 5", 5, None), ("process 6", 6, None)]


def test_py_spy_without_threads_is_told_by_its_frames(tmp_path: Path) -> None:
    text = "<module> (a.py:9);f (lib/b.py:3) 31\n<module> (a.py:9);g (libz.so) 2\n"
    trace = opened(tmp_path, text)
    assert trace.metadata["exporter"] == "py-spy"
    assert tracks(trace) == [("main", None, None)]
    assert places(trace) == {("<module>", "a.py", 9), ("f", "lib/b.py", 3), ("g", "libz.so", 0)}
    for other in (text.replace("31", "31000000"), text.replace("31", "3.5"), text + "step;f (b.py:3) 2\n"):
        assert "exporter" not in opened(tmp_path, other).metadata


def test_what_we_write_is_of_no_other_tool(tmp_path: Path) -> None:
    b = TraceBuilder()
    names = ["<module> (a.py:1)", "f (b.py:2)"]
    b.slices(ts=[0, 10], dur=[9_000_000, 5_000_000], name=names, category="python", track=b.track("main"))
    profile = Profile(b.seal())
    profile.export.stacks(tmp_path / "stacks.txt")
    trace = open_profile(tmp_path / "stacks.txt").trace
    assert "exporter" not in trace.metadata
    assert trace.slices["self_ns"].tolist() == [4_000_000, 5_000_000]


@pytest.mark.parametrize(
    "text",
    [
        "python;[libc.so.6];main_[k] 17\nswapper;cpu_idle 1\n",
        "P1;Tree::walk;step 12\n",
        "tid:main;a 3\n",
        "thread (worker.py:3);f (a.py:1) 3\n",
        "P1;T5;a 1.5\n",
        "tid:5;a 3\nmain;a 2\n",
    ],
)
def test_plain_stacks_stay_plain(tmp_path: Path, text: str) -> None:
    trace = opened(tmp_path, text)
    assert "exporter" not in trace.metadata
    assert tracks(trace) == [("main", None, None)]
    assert trace.report["no-time-line"].advice.startswith("weights are taken as nanoseconds")


def test_long_lines_and_many_threads_take_their_time_only(tmp_path: Path) -> None:
    long = b"thread (1): a;" + b" (" * 200_000 + b'process 1:"' * 50_000 + b" 5\n"
    many = b"".join(b"P1;T0:%d;a.py:f:1 5\n" % number for number in range(20_000))
    for text, count in ((long, 1), (many * 2, 20_000)):
        trace = opened(tmp_path, text, format="collapsed")
        assert len(trace.tracks) == count
