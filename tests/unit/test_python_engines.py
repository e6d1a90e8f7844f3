"""Engines of the python collector, nearly all on made-up input: nothing here depends on timing."""

from __future__ import annotations

import json
import os
import sysconfig
import threading
import time
from array import array
from itertools import pairwise
from types import FunctionType
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import notebook_prof as nbp
from notebook_prof.collectors.python import py_spy_engine
from notebook_prof.collectors.python.assemble import Exact, TimedStacks, put
from notebook_prof.collectors.python.engine import Recorded, ThreadSamples, join
from notebook_prof.collectors.python.frames import (
    CELL,
    FOLDED,
    KEPT_FRAMES,
    LIBRARY,
    NOTEBOOK,
    PackedStacks,
    PythonFrame,
    owner_of,
    trim,
    trim_process,
    trim_thread,
)
from notebook_prof.collectors.python.names import SampledProcess, name_processes
from notebook_prof.collectors.python.py_spy_engine import MOST_FRAMES, PySpy
from notebook_prof.collectors.python.py_spy_file import (
    NAMES,
    STARVED_INTERVALS,
    Functions,
    align,
    parse,
    stacks_of,
)
from notebook_prof.collectors.python.py_spy_threads import samples_by_thread
from notebook_prof.collectors.python.snapping import ExactRanges
from notebook_prof.collectors.python.thread_stacks import ObservedThread
from notebook_prof.collectors.statements import SHOWING, Statements
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.trace.report import ImportReport

from .test_assemble import stacks_of as stacks_of_frames

FILE = "/tmp/ipykernel_7/99.py"
LINE_3 = PythonFrame("<module>", FILE, 1, 3, CELL)
LINE_4 = LINE_3._replace(line=4)
SORT = PythonFrame("sort", "numpy.py", 5, 6, LIBRARY)
DOT = PythonFrame("dot", "numpy.py", 50, 60, LIBRARY)


def rows_of(trace: Trace) -> list[tuple[str, int, int, int]]:
    s = trace.slices
    return list(zip(s["name"].astype(str), s["ts"], s["ts"] + s["dur"], s["depth"], strict=True))


# what py-spy writes


def event(ph: str, ts: int, name: str, file: str = "", line: int = 0, *, pid: int = 7, tid: int = 1) -> Any:
    args = {"filename": file, "line": line}
    return {"ph": ph, "ts": ts, "pid": pid, "tid": tid, "name": name, "args": args}


def test_a_forked_child_has_the_thread_identifier_of_its_parent() -> None:
    # py-spy compares each stack with the last one of the identifier, in whichever process
    stacks = {7: ["process 7", "main", "wait"], 8: ["process 8", "main", "fork", "work"]}
    events: list[Any] = []
    last: list[str] = []
    for ts, pid in ((10, 7), (11, 8), (20, 7), (21, 8), (30, 7), (31, 8)):
        frames = stacks[pid]
        events += [event("E", ts, name, pid=pid) for name in reversed(last)]
        events += [event("B", ts, name, "a.py", 1, pid=pid) for name in frames]
        last = frames
    changes, paths = parse(json.dumps(events).encode())
    seen = {one.pid: [[name for name, *_ in paths.path(n)] for n in one.node.tolist()] for one in changes}
    assert seen == {pid: [frames] * 3 for pid, frames in stacks.items()}


def test_a_file_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [event("B", ts, 'f},{"args"' + str(ts), "a.py", ts) for ts in range(40)]
    data = json.dumps(events, separators=(",", ":")).encode()
    whole = parse(data)[1].frame
    monkeypatch.setattr("notebook_prof.collectors.python.py_spy_file._PIECE_BYTES", 100)
    assert parse(data)[1].frame == whole
    for broken in (b"", b"{}", data[:-9]):
        with pytest.raises(ValueError):  # noqa: PT011
            parse(broken)


def test_deep_stacks_of_a_file_are_folded() -> None:
    report, depth = ImportReport(), 4_000
    events = [event("B", 0, "f", "a.py", 1) for _ in range(depth)]
    events += [event("E", 9, "f", "a.py", 1) for _ in range(depth)]
    [changes], paths = parse(json.dumps(events).encode())
    stacks = stacks_of(paths, changes.node[:1], Functions(), report)
    assert stacks.lengths.tolist() == [2 * KEPT_FRAMES + 1]
    assert stacks.distinct[stacks.frames[KEPT_FRAMES]] == FOLDED
    assert f"{depth:,}" in report["deep-stacks-folded"].example


def observed_thread(ident: int, tid: int, name: str, *looks: int) -> ObservedThread:
    return ObservedThread(ident, tid, name, array("q", looks), array("q", [0] * len(looks)))


def threads_of(rows: list[tuple[int, int]], inside: list[ObservedThread], looks: list[int]) -> Any:
    """Names, numbers and times of the threads with identifier 1; `rows` are begins, and numbers told."""
    events = []
    for (begin, tid), (end, _) in pairwise([*rows, (100, 0)]):
        around = [("process 7", "", 0), (f"thread ({tid}): old {tid}", "", 0), ("work", "x.py", begin)]
        events += [event("B", begin, *one, pid=os.getpid()) for one in around]
        events += [event("E", end, name, pid=os.getpid()) for name, *_ in around[::-1]]
    [changes], paths = parse(json.dumps(events).encode())
    threads = samples_by_thread(changes, changes.ts_us, paths, inside, np.array(looks))
    return [(one.name, one.tid, int(one.bounds[0]), int(one.bounds[-1])) for one in threads]


def test_a_thread_that_got_anothers_identifier_is_told_from_it() -> None:
    """py-spy keeps the number of the first; looks from inside know better, and keep its time before."""
    rows = [(0, 42), (31, 42), (40, 42), (70, 42)]
    looks = [10, 20, 30, 50, 60, 80]
    new = observed_thread(1, 43, "new", 50, 60)
    assert threads_of(rows, [new], looks) == [("old 42", 42, 0, 31), ("new", 43, 31, 100)]
    old = observed_thread(1, 42, "old", 10, 20)
    assert threads_of(rows, [old, new], looks) == [("old", 42, 0, 31), ("new", 43, 31, 100)]


@pytest.mark.parametrize(("pid", "root"), [(0, "main"), (7, "main"), (7, "_bootstrap")])
def test_of_python_3_10_py_spy_gives_no_numbers_of_threads(pid: int, root: str) -> None:
    """The thread's identifier stands in their place, in hexadecimal digits."""
    here, ident = pid or os.getpid(), threading.get_ident()
    around = [(f"thread (0x{ident:X}): MainThread", "", 0), (root, "x.py", 3)]
    events = [event("B", 10, *one, pid=here, tid=ident) for one in around]
    events += [event("E", 30, name, pid=here, tid=ident) for name, *_ in around[::-1]]
    [changes], paths = parse(json.dumps(events).encode())
    [thread] = samples_by_thread(changes, changes.ts_us, paths, [], np.array([], dtype=np.int64))
    number = ident if root == "_bootstrap" else pid or threading.get_native_id()
    assert (thread.tid, thread.name) == (number, "MainThread")


def test_a_thread_of_ours_with_anothers_identifier_is_left_out() -> None:
    ours = observed_thread(1, 43, "notebook_prof tabs", 50, 60)
    assert threads_of([(0, 42), (45, 42), (55, 42)], [ours], [10, 50, 60]) == [("old 42", 42, 0, 45)]


# its clock


@given(
    st.integers(-(10**9), 10**9), st.lists(st.integers(0, 2_500_000), min_size=40, max_size=120), st.data()
)
def test_the_offset_is_right_with_late_looks(offset: int, late: list[int], data: st.DataObject) -> None:
    """Offsets to a second; looks up to an interval late, and some of them stalled."""
    beats = np.cumsum(np.array([8_250_000] * len(late))) + 10**12
    late_ns = np.array(late)
    stalled = data.draw(st.integers(0, len(late) // 5))
    late_ns[:stalled] += 60_000_000
    late_ns[-6:] = 0  # some are prompt
    clock = align(beats + late_ns - offset, np.arange(len(beats)) % NAMES, beats, offset + 20_000_000)
    assert abs(clock.ns - offset) <= 2_500_000
    assert not clock.is_starved(2_500_000) or clock.spread_ns > STARVED_INTERVALS * 2_500_000


def test_a_starved_sampler_is_noticed() -> None:
    beats = np.arange(60) * 50_000_000
    late = np.where(np.arange(60) % 2 == 0, 100_000, 15_000_000)
    number = np.arange(60) % NAMES
    assert align(beats + late, number, beats, 0).is_starved(2_500_000)
    assert not align(beats + late % 2_000_000, number, beats, 0).is_starved(2_500_000)


# recordings in parts


def test_parts_of_a_thread_are_put_behind_one_another() -> None:
    def part(bounds: list[int], stack: list[int], frame: PythonFrame) -> Recorded:
        thread = ThreadSamples(7, 8, "MainThread", "", np.array(bounds), np.array(stack))
        return Recorded([thread], stacks_of_frames([frame]), 10)

    whole = join([part([0, 10], [0], SORT), part([5, 20], [0], DOT), part([30, 40], [0], SORT)])
    [thread] = whole.threads
    assert thread.bounds.tolist() == [0, 10, 20, 30, 40]
    functions = [whole.stacks.distinct[number].function for number in whole.stacks.frames]
    assert [-1 if s < 0 else functions[s] for s in thread.stack] == ["sort", "dot", -1, "sort"]
    assert thread.inside(12, 35).bounds.tolist() == [12, 20, 30, 35]
    assert len(thread.inside(100, 200).stack) == 0


# the cell's statements and operators, which are exact


def put_together(
    timed: TimedStacks, stacks: PackedStacks, exact: Exact, *ranges: tuple[str, int, int, str]
) -> Trace:
    """Return a trace of these stacks, on a thread with these ranges (name, time, length, category)."""
    builder = TraceBuilder()
    track = builder.track("main", pid=1, tid=1)
    for name, ts, dur, category in ranges:
        builder.slices(ts=[ts], dur=[dur], track=track, name=[name], category=category)
    put(builder, track, timed, stacks, exact, interval_ns=10)
    return builder.seal()


def assembled(
    samples: list[int],
    bounds: list[int],
    exact: Exact,
    operators: list[tuple[str, int, int, str]] = (),  # type: ignore[assignment]
) -> Trace:
    builder = TraceBuilder()
    track = builder.track("main", pid=1, tid=1)
    if operators:
        names, ts, end, kinds = zip(*operators, strict=True)
        durs = np.array(end) - np.array(ts)
        builder.slices(ts=ts, dur=durs, track=track, name=list(names), category=list(kinds))
        placed_ts, dur, name, category = builder.placed(track)
        operator = np.array([category.values[c] == "operator" for c in category.codes])
        aten = np.array([name.values[c].startswith("aten::") for c in name.codes])
        loose = np.array([category.values[c] == "annotation" for c in category.codes])
        exact = exact._replace(others=ExactRanges.of(placed_ts, dur, operator, aten, loose))
    if exact.statements is not None:
        rows = exact.statements
        names = [f"line {n}" for n in rows.line]
        builder.slices(ts=rows.ts, dur=rows.end - rows.ts, track=track, name=names, category="python")
    timed = TimedStacks(np.array(bounds), np.array(samples, np.int64))
    stacks = stacks_of_frames([LINE_3, SORT], [LINE_4, DOT], [LINE_4], [])
    put(builder, track, timed, stacks, exact, interval_ns=10)
    return builder.seal()


def test_samples_hang_below_the_statement_that_ran() -> None:
    statements = Statements(np.array([0, 33, 61]), np.array([33, 61, 70]), np.array([3, 4, 5]))
    trace = assembled([0, 1, 2], [0, 40, 55, 70], Exact(statements=statements))
    assert rows_of(trace) == [
        ("line 3", 0, 33, 0),
        ("sort (numpy.py)", 0, 33, 1),
        ("line 4", 33, 61, 0),
        ("dot (numpy.py)", 33, 55, 1),  # the look at 40 came after the statement had begun
        ("line 5", 61, 70, 0),
    ]


def test_a_starved_sample_does_not_hang_below_another_statement() -> None:
    statements = Statements(np.array([0, 30]), np.array([30, 200]), np.array([3, 4]))
    trace = assembled([0, 2], [0, 150, 200], Exact(statements=statements))
    assert rows_of(trace) == [("line 3", 0, 30, 0), ("sort (numpy.py)", 0, 30, 1), ("line 4", 30, 200, 0)]


@pytest.mark.parametrize("function", ["heavy", "<lambda>"])
def test_a_task_hangs_below_the_await_that_runs_it(function: str) -> None:
    """A task's own function is the root of its stack, not the cell; a root of a library is unknown."""
    task = PythonFrame(function, FILE, 8, 9, CELL)
    stacks = stacks_of_frames([task, SORT], [DOT])
    statements = Statements(np.array([0]), np.array([90]), np.array([3]))
    timed = TimedStacks(np.array([0, 60, 90]), np.array([0, 1]))
    assert rows_of(put_together(timed, stacks, Exact(statements=statements))) == [
        (f"{function} (cell)", 0, 60, 0),
        ("cell:9", 0, 60, 1),
        ("sort (numpy.py)", 0, 60, 2),
    ]


def test_what_the_display_of_the_result_runs_hangs_below_it() -> None:
    shown = PythonFrame("Report._repr_html_", FILE, 6, 7, CELL)
    stacks = stacks_of_frames([LINE_3], [LINE_3, shown], [DOT])
    statements = Statements(np.array([0, 30]), np.array([30, 90]), np.array([3, SHOWING]))
    timed = TimedStacks(np.array([0, 30, 60, 90]), np.array([0, 1, 2]))
    assert rows_of(put_together(timed, stacks, Exact(statements=statements))) == [
        ("Report._repr_html_ (cell)", 0, 30, 0),  # times count from the first slice
        ("cell:7", 0, 30, 1),
        ("dot (numpy.py)", 30, 60, 0),
    ]


def test_stacks_of_a_display_keep_the_library_that_draws() -> None:
    """Without a cell in the stack, as the figures of a cell are drawn after its last statement, too."""
    folder = os.path.join(sysconfig.get_paths()["purelib"], "")
    kernel = framed("execute", folder + "ipykernel/kernelbase.py")
    call = framed("PlainTextFormatter.__call__", folder + "IPython/core/formatters.py")
    write = framed("OutStream.write", folder + "ipykernel/iostream.py")
    flush = framed("flush_figures", folder + "matplotlib_inline/backend_inline.py")
    draw = framed("Figure.draw", folder + "matplotlib/figure.py")
    stacks = stacks_of_frames(
        [kernel, LINE_3, call, draw], [kernel, flush, call, draw, write, SORT], [kernel, draw]
    )
    kept = [["<module>", "Figure.draw"], ["flush_figures", "Figure.draw"], []]
    assert left(trim(stacks, [kernel, LINE_3])) == kept


def test_a_boundary_within_an_operator_goes_to_its_nearer_edge() -> None:
    operators = [("aten::linear", 20, 40, "operator"), ("aten::addmm", 22, 38, "operator")]
    trace = assembled([0, 1], [0, 25, 80], Exact(), operators)
    assert [row[:3] for row in rows_of(trace)] == [
        ("cell:3", 0, 19),
        ("sort (numpy.py)", 0, 19),
        ("cell:4", 19, 80),
        ("dot (numpy.py)", 19, 80),
        ("aten::linear", 20, 40),
        ("aten::addmm", 22, 38),
    ]
    slices = trace.slices.set_index("name")
    assert slices.loc["aten::linear", "depth"] == 2


OPERATOR = ExactRanges.of(np.array([35]), np.array([155]), np.array([True]), np.array([False]))


def test_python_that_an_operator_calls_lies_within_it() -> None:
    """An autograd.Function in plain Python: one operator without another, in which the stack changes."""
    back = LINE_4._replace(function="backward", first_line=4)
    stacks = stacks_of_frames([LINE_3], [LINE_3, back, SORT], [LINE_3, back, DOT], [LINE_3])
    timed = TimedStacks(np.array([0, 30, 100, 200, 230]), np.arange(4), np.array([3, 7, 10, 3]))
    rows = rows_of(put_together(timed, stacks, Exact(others=OPERATOR), ("MyBackward", 35, 155, "operator")))
    own = {name: [(ts, end) for one, ts, end, _ in rows if one == name] for name, *_ in rows}
    assert own["MyBackward"] == [(35, 190)]
    assert own["sort (numpy.py)"] == [(30, 35), (35, 100)]
    assert own["dot (numpy.py)"] == [(100, 190), (190, 200)]
    depth = {(name, ts): depth for name, ts, _, depth in rows}
    assert depth["sort (numpy.py)", 35] == depth["dot (numpy.py)", 100] == depth["MyBackward", 35] + 1


@pytest.mark.parametrize(("bounds", "edge"), [([0, 53, 80], 60), ([0, 45, 58, 80], 49)])
def test_the_line_that_a_sample_saw_in_a_range_is_around_it(bounds: list[int], edge: int) -> None:
    """At 53 the sample shows line 3, which began before the range; at 58 it shows line 4, which goes on."""
    operators = [("Optimizer.step#SGD.step", 50, 60, "annotation"), ("aten::add_", 56, 57, "operator")]
    trace = assembled([0, 1, 1][: len(bounds) - 1], bounds, Exact(), operators)
    names = {name: (ts, end, depth) for name, ts, end, depth in rows_of(trace)}
    assert names["cell:3"][:2] == (0, edge if edge == 60 else 45)
    assert names["cell:4"] == (60 if edge == 60 else 45, 80, 0)
    assert names["Optimizer.step#SGD.step"][2] == 2
    assert names["aten::add_"][2] == 3


@pytest.mark.parametrize("seed", range(5))
def test_nothing_outlasts_what_it_is_drawn_in(seed: int) -> None:
    """A loop that calls modules within modules faster than samples come: what is drawn nests as it ran."""
    # The sampler begins inside of an operator, and now and then no stack can be read.
    random = np.random.default_rng(seed)
    modules, truth, at = [], [], 100
    for _ in range(60):
        begin = at
        for inner in range(3):
            length = int(random.integers(4, 20))
            modules.append((f"block{inner}", at + 2, at + 2 + length, "module"))
            modules.append(("aten::mm", at + 3, at + 1 + length, "operator"))
            at += length + 4
        modules.append(("model", begin, at, "module"))
        truth.append((begin, at, 0))  # line 3 calls the model, line 4 does something else
        pause = int(random.integers(2, 12))
        truth.append((at, at + pause, 1))
        at += pause
    ends = np.array([end for _, end, _ in truth])
    looks = np.unique(np.clip(104 + np.cumsum(random.integers(10, 40, 400)), 0, at))
    seen = [truth[int(np.searchsorted(ends, look - 1, side="right"))][2] for look in looks[1:]]
    seen = np.where(random.random(len(seen)) < 0.1, -1, seen).tolist()
    trace = assembled(seen, looks.tolist(), Exact(), modules)
    slices = trace.slices
    end = (slices["ts"] + slices["dur"]).to_numpy()
    inner = np.flatnonzero(slices["parent"].notna())
    parent = slices["parent"].iloc[inner].to_numpy(np.int64)
    assert (slices["ts"].to_numpy()[inner] >= slices["ts"].to_numpy()[parent]).all()
    assert (end[inner] <= end[parent]).all()
    assert slices["depth"].max() <= 4, "line, its function, model, block, operator"
    rows = rows_of(trace)
    for look, stack in zip((looks[1:] - 100).tolist(), seen, strict=True):
        drawn = {name for name, ts, until, _ in rows if ts < look <= until}
        moved = any(ts <= look <= until for name, ts, until, _ in rows if name == "aten::mm")
        if stack >= 0 and not moved:  # a boundary in an operator goes to its edge
            assert f"cell:{3 + stack}" in drawn, f"what was seen at {look}"


def test_lines_of_a_module_keep_the_time_that_samples_saw_them() -> None:
    """The first sample in a module also covers time before the module began."""
    forward = LINE_4._replace(function="forward", first_line=4)
    other = forward._replace(line=5)
    stacks = stacks_of_frames([LINE_3, forward], [LINE_3, other], [LINE_3._replace(line=9)])
    none = np.zeros(2, bool)
    ranges = ExactRanges.of(np.array([43, 243]), np.array([157, 157]), none, none)
    bounds, looks = np.array([0, 40, 140, 200, 240, 340, 400, 450]), np.array([4, 10, 6, 4, 10, 6, 5])
    timed = TimedStacks(bounds, np.array([2, 0, 1, 2, 0, 1, 2]), looks)
    modules = [("Block", ts, 157, "module") for ts in (43, 243)]
    names = ("cell:4", "cell:5", "cell:9")
    rows = rows_of(put_together(timed, stacks, Exact(others=ranges), *modules))
    took = {name: sum(end - ts for one, ts, end, _ in rows if one == name) for name in names}
    assert took == {"cell:4": 200, "cell:5": 120, "cell:9": 130}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=25), st.data())
def test_operators_lie_whole_within_sampled_lines(pieces: list[tuple[int, int]], data: st.DataObject) -> None:
    bounds = np.concatenate([[0], np.cumsum([length for _, length in pieces])]).tolist()
    lengths = data.draw(st.lists(st.tuples(st.integers(2, 30), st.integers(2, 30)), max_size=12))
    operators, at = [], 1
    for gap, length in lengths:
        operators.append(("aten::mm", at + gap, at + gap + length, "operator"))
        at += gap + length
    trace = assembled([stack for stack, _ in pieces], bounds, Exact(), operators)
    rows = rows_of(trace)
    for name, ts, end, _ in rows:
        if name == "aten::mm":
            inner = [row for row in rows if row[0] != name and ts < row[1] < end]
            assert inner == []  # no line begins within an operator


# names


def worker(file: str, function: str) -> PythonFrame:
    return PythonFrame(function, file, 1, 2, LIBRARY)


def test_processes_have_the_names_people_know() -> None:
    pool = worker("/lib/python3.11/multiprocessing/pool.py", "worker")
    loader = worker("/x/site-packages/torch/utils/data/_utils/worker.py", "_worker_loop")
    rank = worker("/x/site-packages/torch/multiprocessing/spawn.py", "_wrap")
    loky = worker("/x/site-packages/joblib/externals/loky/process_executor.py", "_process_worker")
    sleeps = "/usr/bin/python3 -c import time;\n time.sleep(1)"
    tracker = "python -c from multiprocessing.resource_tracker import main;main(5)"
    rows = [
        (12, "python", [pool], -1, "Pool worker 2"),
        (11, "python", [pool], -1, "Pool worker 1"),
        (21, "python", [loader], -1, "loader 0"),
        (22, "python", [loader], -1, "loader 1"),
        (31, "python", [rank], -1, "rank 0"),
        (32, "python", [rank], 5, "rank 5"),
        (41, "python -m joblib.externals.loky.backend.popen_loky_posix", [loky], -1, "joblib 1"),
        (51, sleeps, [], -1, "process 1: python3 -c import time; time.sleep(1)"),
        (52, "python train.py", [], -1, "process 2: python train.py"),
        (53, "python", [], -1, "Process-3"),
        (61, tracker, [], -1, ""),
    ]
    names = name_processes([SampledProcess(*row[:-1]) for row in rows], {53: "Process-3"})
    assert names == {pid: name for pid, *_, name in rows if name}


def framed(function: str, file: str, line: int = 2) -> PythonFrame:
    return PythonFrame(function, file, 1, line, owner_of(file))


def left(stacks: PackedStacks) -> list[list[str]]:
    ends = np.cumsum(stacks.lengths)
    return [
        [stacks.distinct[i].function for i in stacks.frames[end - n : end]]
        for end, n in zip(ends, stacks.lengths, strict=True)
    ]


def test_what_a_line_magic_runs_counts_for_its_line() -> None:
    def shell(function: str) -> PythonFrame:
        return PythonFrame(f"InteractiveShell.{function}", "IPython/core/interactiveshell.py", 1, 2, NOTEBOOK)

    line, cell = shell("run_line_magic"), shell("run_cell_magic")
    repeat = PythonFrame("Timer.repeat", "timeit.py", 1, 2, LIBRARY)
    timed = PythonFrame("inner", "<magic-timeit>", 1, 1, CELL)
    stacks = stacks_of_frames(
        [LINE_3, line, repeat, timed, SORT],
        [LINE_3, line, repeat, timed],
        [LINE_3, cell, repeat, timed._replace(line=4)],
        [LINE_3, cell, LINE_4, line, repeat, timed],
    )
    assert left(trim(stacks, [LINE_3])) == [
        ["<module>", "sort"],
        ["<module>"],
        ["<module>", "Timer.repeat", "inner"],
        ["<module>", "<module>"],
    ]


def test_threads_and_forked_children_begin_with_their_own_work() -> None:
    import multiprocessing.pool
    import multiprocessing.process

    bootstrap = framed("BaseProcess._bootstrap", multiprocessing.process.__file__)
    run = framed("BaseProcess.run", multiprocessing.process.__file__)
    work = framed("worker", multiprocessing.pool.__file__)
    own = framed("crunch", "/home/me/model.py")
    stacks = stacks_of_frames([LINE_3, bootstrap, run, work, own, SORT], [LINE_3, bootstrap, run, work])
    assert left(trim_process(stacks)) == [["crunch", "sort"], []]
    begin, own = framed("Thread._bootstrap", threading.__file__), framed("crunch", FILE)
    assert left(trim_thread(stacks_of_frames([begin, own, SORT], [begin]))) == [["crunch", "sort"], []]


def test_what_only_passes_a_call_on_is_left_out_unless_the_time_is_its_own() -> None:
    module = pytest.importorskip("torch.nn.modules.module")
    names = ("Module._wrapped_call_impl", "Module._call_impl", "Module._call_impl.<locals>.inner")
    for name in names:
        function = name.rpartition(".")[2]
        assert hasattr(module.Module, function) or function == "inner"
    call = [framed(name, module.__file__) for name in names]
    stacks = stacks_of_frames([LINE_3, *call, SORT, *call[:2], DOT], [LINE_3, *call[:2]])
    assert left(trim(stacks)) == [["<module>", "sort", "dot"], ["<module>", "Module._call_impl"]]


# what ends in the middle


class Ended:
    """Stands for a py-spy that has ended."""

    rate_hz, interval_ns = 100, 10_000_000
    interrupted = False

    def is_running(self) -> bool:
        return False

    def interrupt(self) -> None:
        self.interrupted = True

    def kill(self) -> None:
        pass


def beside(ended: Any, report: ImportReport) -> PySpy:
    """A recording in which py-spy had attached."""
    engine = PySpy(report)
    engine._segments.append((ended, 1))
    engine._launched.append(ended)
    return engine


def test_where_stacks_are_deep_py_spy_leaves_to_a_thread() -> None:
    """It would write each of their frames that comes or goes."""
    left, report = Ended(), ImportReport()
    engine = beside(left, report)
    engine._net.looks.tree.deepest = MOST_FRAMES + 1
    engine._look()
    assert left.interrupted
    assert engine._handed_over_ns
    assert "py-spy-left-early" in report


@pytest.mark.parametrize(
    ("engine", "odd_name"), [("py-spy", "odd\0name.py"), ("thread", "odd\0na\udc80me.py")]
)
def test_a_file_name_that_no_system_takes_costs_nothing_else(
    engine: Literal["py-spy", "thread"], odd_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(py_spy_engine, "PATIENCE_S", 120.0)

    def spin(seconds: float) -> None:
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            pass

    odd: Any = FunctionType(spin.__code__.replace(co_filename=odd_name), {"time": time})
    with nbp.profile("python", engine=engine) as p:
        odd(1.5)
        spin(1.5)
    names = p.trace.slices["name"].astype(str)
    assert names.str.contains("odd\N{REPLACEMENT CHARACTER}na", regex=False).any()
    assert names.str.contains("test_python_engines.py", regex=False).any()
    assert not [issue for issue in p.trace.report if issue.code == "collector-failed"]
