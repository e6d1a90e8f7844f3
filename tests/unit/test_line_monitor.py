"""Every line of these cells takes a known virtual time, and the runs of lines say so exactly."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.collectors import line_monitor as module
from notebook_prof.collectors.line_monitor import LineMonitor, available
from notebook_prof.collectors.line_runs import LineRuns, line_runs, statement_lines
from notebook_prof.profiles.files import open_profile
from notebook_prof.trace.arrays import IntArray

from ..new_process import run_python

needs_monitoring = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="sys.monitoring is there from Python 3.12 on"
)
FILE = "<monitored cell>"
MS = 1_000_000

FLOW = """
def g(n):
    burn(2)
    if n:
        burn(3); return n
    else:
        burn(1)
def boom():
    burn(2)
    raise ValueError
g(1)
g(0)
for i in range(4):
    if i == 1: continue
    try:
        burn(1)
        boom()
    except ValueError:
        burn(2)
        if i == 3: break
    finally:
        burn(1)
burn(4)
"""
NESTED = """
def outer():
    def inner(x):
        burn(2)
        return x
    r = [inner(i)
         for i in range(3)]
    burn(1)
    return r
def fact(n):
    burn(1)
    return 1 if n < 1 else n * fact(n - 1)
x = outer()
y = fact(4)
z = dict(
    a=burn(2),
    b=burn(3),
)
burn(1)
"""
GENERATORS = """
from contextlib import contextmanager
@contextmanager
def cm():
    burn(2)
    yield 1
    burn(3)
def gen():
    for i in range(3):
        burn(1)
        got = yield i
        burn(1)
with cm() as c:
    burn(2)
for v in gen():
    burn(2)
it = gen(); next(it); it.close()
try:
    with cm():
        raise KeyError
except KeyError:
    burn(1)
"""
ASYNC = """
async def a(n):
    burn(2)
    await asyncio.sleep(0.004)
    burn(1)
    return n
async def main():
    t = [asyncio.create_task(a(i)) for i in range(3)]
    burn(1)
    for x in t:
        await x
    async for q in agen():
        burn(1)
async def agen():
    for i in range(2):
        burn(2)
        yield i
asyncio.run(main())
burn(2)
"""
CELLS = {
    "flow": (FLOW, {3: 4, 5: 3, 7: 1, 9: 6, 11: 5, 12: 3, 16: 3, 17: 6, 19: 6, 22: 3, 23: 4}),
    "nested": (NESTED, {4: 6, 6: 6, 8: 1, 11: 5, 12: 4, 13: 7, 14: 5, 15: 5, 19: 1}),
    "generators": (GENERATORS, {5: 4, 7: 3, 10: 4, 12: 3, 13: 5, 14: 2, 15: 6, 16: 6, 17: 1, 19: 2, 22: 1}),
    "async": (ASYNC, {3: 6, 5: 3, 9: 1, 13: 2, 12: 4, 16: 4, 19: 2}),
}
HOT = """
def g(x):
    burn(.001)
    return x
burn(2)
for k in range(5):
    burn(1)
    for i in range(3000):
        burn(.001)
        if i % 1000 == 999:
            burn(5)
        g(i)
    burn(3)
burn(4)
"""


class Cell:
    """Runs a cell under a monitor by a clock of its own."""

    def __init__(self, source: str) -> None:
        self.time = 0
        self.source = source
        self.monitor = LineMonitor(FILE.__eq__, lambda _: source)

    def burn(self, ms: float) -> None:
        self.time += int(ms * MS)

    def run(self) -> LineRuns:
        code = compile(self.source, FILE, "exec")
        assert self.monitor.start()
        try:
            exec(code, {"burn": self.burn, "asyncio": asyncio, "__name__": "cell"})
        finally:
            self.monitor.stop()
        events = self.monitor.threads[threading.get_native_id()]
        return line_runs(events, self.time, [statement_lines(self.source)] * len(self.monitor.codes))


@pytest.fixture
def cell_of(monkeypatch: pytest.MonkeyPatch) -> type[Cell]:
    class Timed(Cell):
        def __init__(self, source: str) -> None:
            super().__init__(source)
            monkeypatch.setattr(module, "now", lambda: self.time)

    return Timed


def self_ns(runs: LineRuns) -> IntArray:
    """How long each run took, without what it called."""
    took = runs.end - runs.begin
    called = runs.parent >= 0
    return took - np.bincount(runs.parent[called], took[called], minlength=len(took)).astype(np.int64)


def outermost(runs: LineRuns) -> IntArray:
    """The runs that no run of the same line called, even indirectly: recursion counts once."""
    nested = np.zeros(len(runs.begin), bool)
    rows, up = np.arange(len(runs.begin)), runs.parent.copy()
    while len(rows := rows[up[rows] >= 0]):
        same = (runs.code[up[rows]] == runs.code[rows]) & (runs.line[up[rows]] == runs.line[rows])
        nested[rows[same]] = True
        rows = rows[~same]
        up[rows] = runs.parent[up[rows]]
    return np.flatnonzero(~nested)


def times(runs: LineRuns) -> dict[int, float]:
    out: dict[int, float] = {}
    for row in outermost(runs).tolist():
        line = int(runs.line[row])
        out[line] = out.get(line, 0) + int(runs.end[row] - runs.begin[row]) / MS
    return out


@needs_monitoring
@pytest.mark.parametrize("name", CELLS)
def test_lines_take_exactly_what_they_take(cell_of: type[Cell], name: str) -> None:
    source, truth = CELLS[name]
    cell = cell_of(source)
    runs = cell.run()
    time_of = times(runs)
    assert {line: time_of.get(line) for line in truth} == truth
    assert self_ns(runs).sum() == cell.time, "every instant belongs to one line"
    assert not cell.monitor.off


@needs_monitoring
def test_a_hot_loop_goes_off_as_a_whole_and_what_is_around_it_stays_exact(cell_of: type[Cell]) -> None:
    cell = cell_of(HOT)
    runs = cell.run()
    time_of = times(runs)
    assert {line: time_of[line] for line in (5, 7, 13, 14)} == {5: 2, 7: 5, 13: 15, 14: 4}
    own: dict[int, int] = {}
    for line, ns in zip(runs.line.tolist(), self_ns(runs).tolist(), strict=True):
        own[line] = own.get(line, 0) + ns
    loop = sum(own.get(line, 0) for line in (3, 4, 8, 9, 10, 11, 12)) / MS
    assert loop == pytest.approx(5 * (3 + 3 + 15), abs=0.001)
    assert {head for _, head in cell.monitor.off} == {0, 8}
    assert sum(map(len, cell.monitor.threads.values())) // 4 < 1500


@needs_monitoring
def test_exceptions_arrive_as_they_were_and_the_tool_is_free_again(cell_of: type[Cell]) -> None:
    source = "def f():\n    raise KeyError('mine')\ntry:\n    f()\nexcept KeyError:\n    burn(1)\nf()\n"
    cell = cell_of(source)
    with pytest.raises(KeyError, match="mine") as caught:
        cell.run()
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files[-2:] == [FILE, FILE], "no frame of ours"
    assert available()
    assert [sys.monitoring.get_tool(tool) for tool in (3, 4)] == [None, None]  # type: ignore[attr-defined]


@needs_monitoring
def test_another_tool_sees_its_lines_as_before(cell_of: type[Cell]) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    line_numbers: list[int] = []

    def line(code: object, at: int) -> object:
        if getattr(code, "co_filename", "") == FILE:
            line_numbers.append(at)
        return monitoring.DISABLE

    monitoring.use_tool_id(1, "coverage")
    try:
        monitoring.register_callback(1, monitoring.events.LINE, line)
        monitoring.set_events(1, monitoring.events.LINE)
        cell_of(FLOW).run()
    finally:
        monitoring.set_events(1, 0)
        monitoring.register_callback(1, monitoring.events.LINE, None)
        monitoring.free_tool_id(1)
    assert {3, 5, 7, 9, 10, 16, 17, 19, 22, 23} <= set(line_numbers)


@needs_monitoring
def test_threads_have_events_of_their_own(cell_of: type[Cell]) -> None:
    source = "import threading\ndef f():\n    burn(2)\nt = threading.Thread(target=f)\nt.start()\nt.join()\n"
    cell = cell_of(source)
    cell.run()
    other = [thread for thread in cell.monitor.threads if thread != threading.get_native_id()]
    lines = [statement_lines("")] * len(cell.monitor.codes)
    runs = line_runs(cell.monitor.threads[other[0]], cell.time, lines)
    assert times(runs) == {3: 2}


@needs_monitoring
def test_nothing_is_watched_where_no_number_is_free() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    for tool in (3, 4):
        monitoring.use_tool_id(tool, "others")
    try:
        assert not available()
        assert not LineMonitor(FILE.__eq__, lambda _: "").start()
    finally:
        for tool in (3, 4):
            monitoring.free_tool_id(tool)


RECORD = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
shell.run_cell(sys.argv[1])
import notebook_prof
notebook_prof.last.save(sys.argv[2])
"""
RECORDED = """%%profile
import time
def inner(n):
    time.sleep(0.02)
    return n
def work(n):
    total = 0
    for i in range(n):
        total += inner(i)
    time.sleep(0.05)
    return total
def hot(n):
    s = 0
    for i in range(n):
        s += i
    return s
work(5)
hot(300_000)
work(2)
"""


@needs_monitoring
def test_lines_of_functions_of_a_recorded_cell_are_counted_and_exact(tmp_path: Path) -> None:
    file = tmp_path / "cell.nbprof"
    run_python(RECORD, RECORDED, file)
    p = open_profile(file)
    table = p.lines(remainder=True)
    by_line = table.set_index("line")
    assert by_line.loc[[4, 5, 9, 10, 11], "count"].tolist() == [7, 7, 7, 2, 2]
    assert by_line.loc[[4, 5, 9, 10, 11], "exact"].all()
    assert by_line.loc[4, "total_ns"] >= 7 * 20 * MS
    assert by_line.loc[10, "self_ns"] >= 2 * 50 * MS
    assert by_line.loc[9, "total_ns"] >= by_line.loc[4, "total_ns"]
    assert not by_line["exact"].get(15, False), "a loop that went off is sampled"
    calls = by_line.loc[[17, 19], "total_ns"].sum()
    assert by_line.loc[[9, 10], "total_ns"].sum() <= calls
    runs = p.trace.metadata["tables"]["line_runs"]
    assert (runs["line"] == 9).sum() == 7
    assert "collector-failed" not in str(p.trace.report)


MODULE = """import time

def layer(n):
    time.sleep(0.01)
    return n

class Model:
    def __call__(self, n):
        for i in range(n):
            layer(i)
        return n
"""
EARLIER = """import user_model, time
def again(n):
    time.sleep(0.005)
    return user_model.Model()(n)
"""
TWICE = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
shell.run_cell(sys.argv[1], store_history=True)
import notebook_prof
for file in sys.argv[2:]:
    shell.run_cell("%%profile\\nfor k in range(4):\\n    again(3)\\n", store_history=True)
    notebook_prof.last.save(file)
"""


@needs_monitoring
def test_lines_of_the_users_files_and_of_earlier_cells_are_exact_each_time(tmp_path: Path) -> None:
    (tmp_path / "user_model.py").write_text(MODULE)
    files = [str(tmp_path / name) for name in ("first.nbprof", "second.nbprof")]
    run_python(TWICE, EARLIER, *files, cwd=tmp_path)
    for file in files:
        table = open_profile(file).lines(remainder=True)
        rows = table.set_index(["file", "line"])
        module, earlier = str(tmp_path / "user_model.py"), "In[1]"
        lines = [(module, 4), (module, 9), (module, 10), (earlier, 3), (earlier, 4)]
        assert rows.loc[lines, "count"].tolist() == [12, 16, 12, 4, 4]
        assert rows.loc[lines, "exact"].all()
        assert rows.loc[(module, 4), "self_ns"] >= 12 * 10 * MS
        assert rows.loc[(module, 4), "total_ns"] <= rows.loc[(module, 10), "total_ns"]
        assert rows.loc[(module, 10), "total_ns"] <= rows.loc[(earlier, 4), "total_ns"]
        assert str(rows.loc[(module, 4), "text"]).startswith("time.sleep")
        source = open_profile(file).lines.source(module)
        assert source["count"].dropna().astype(int).tolist()[:1] == [12]
