"""A watched notebook: sums, what depends on what, and how much of ours it keeps."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from notebook_prof import Profile
from notebook_prof.analysis.notebook import headline
from notebook_prof.analysis.notebook.cells import badges
from notebook_prof.analysis.notebook.names import names_of
from notebook_prof.analysis.notebook.recorded import cell_runs
from notebook_prof.cells import build as built
from notebook_prof.cells import watch as watch_module
from notebook_prof.cells.watch import NotebookWatch
from notebook_prof.collectors import statements
from notebook_prof.comparison.verdict import compare_cells
from notebook_prof.errors import OptionError
from notebook_prof.trace import Trace
from notebook_prof.trace.builder import TraceBuilder
from notebook_prof.views.dashboard import dashboard_settings, rail
from notebook_prof.views.tabs import TABS, Panel, Table
from notebook_prof.views.tabs.lines import whole_of

from ..fake_clock import FakeClock

MS = 1_000_000


class Session:
    """Cells that take what they are told to take."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.names: dict[str, object] = {}
        self.watch = NotebookWatch(lambda: self.names, self.clock, threads=False)
        self.number = 0

    def run(
        self, source: str, ms: Sequence[int] = (10,), cell: str = "", idle: int = 3, error: str = ""
    ) -> int:
        """Run a cell whose statements take these times, after a pause."""
        self.clock.advance(idle * MS)
        self.number += 1
        run = self.watch.begin(source, self.number, cell)
        for line, took in enumerate(ms, 1):
            watch_module.note((self.clock.now_ns(), watch_module.mark_of(run.run, line)))
            self.clock.advance(took * MS)
        self.watch.end(run, error)
        return self.number

    def trace(self, saved: dict[str, str] | None = None) -> Trace:
        return built.build(self.watch, saved and built.Saved(saved, self.clock.now_ns()))


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    yield made
    made.watch.stop()


def test_times_of_cells_and_between_them_are_the_session(session: Session) -> None:
    session.run("x = 1", [5], "a")
    session.run("y = x\nz = y", [7, 20], "b")
    session.run("x = 2", [4], "a")  # again
    session.run("1/0", [1], "c", error="ZeroDivisionError")
    session.clock.advance(2)  # nanoseconds
    outer = session.watch.begin("run_cell(…)", 5, "d")
    session.clock.advance(3 * MS)
    p = Profile(session.trace())  # in the middle of a cell
    every, latest = p.cells(runs=True), p.cells()
    assert every["wall_ns"].tolist() == [5 * MS, 27 * MS, 4 * MS, MS, 3 * MS]
    assert latest[["cell", "number", "runs"]].values.tolist() == [[0, 3, 2], [1, 2, 1], [2, 4, 1], [3, 5, 1]]
    account = p.account()
    idle = int(account.loc[account["kind"] == "not-recorded", "dur"].sum())
    assert int(every["wall_ns"].sum()) + idle == p.trace.span.dur == 52 * MS + 2
    assert idle == 12 * MS + 2
    assert every["hottest"].tolist()[:2] == ["In[1]:1", "In[2]:2"]
    assert latest["name"].tolist() == ["In[3] x = 2", "In[2] z = y", "In[4] 1/0", "In[5] run_cell(…)"]
    session.watch.end(outer)


def test_metrics_are_the_numbers_of_the_tables(session: Session) -> None:
    session.run("x = 1", [5], "a")
    session.run("y = x", [7], "b")
    session.run("x = 2", [4], "a")
    session.run("1/0", [1], "c", error="ZeroDivisionError")
    found = Profile(session.trace()).metrics()
    assert set(map(type, found.values())) == {float}
    assert [found[f"cell_{cell}_wall_s"] for cell in range(3)] == [0.004, 0.007, 0.001]
    counts = {key: value for key, value in found.items() if key.endswith("_count")}
    assert counts == {"cell_count": 3, "run_count": 4, "stale_count": 1, "error_count": 1}
    assert (found["cells_s"], found["wall_s"]) == (0.017, pytest.approx(0.017 + found["idle_s"]))
    assert all(key.endswith(("_s", "_bytes", "_share", "_count")) for key in found)


def test_of_two_cells_at_once_the_later_one_counts(session: Session) -> None:
    one = session.watch.begin("slow()", 1)
    session.clock.advance(10)
    two = session.watch.begin("aside()", 2)
    session.clock.advance(5)
    session.watch.end(one)
    session.clock.advance(1)
    session.watch.end(two)
    p = Profile(session.trace())
    parts = p.account().set_index("part")["dur"].to_dict()
    assert parts == {"In[1] slow()": 10, "In[2] aside()": 6}
    assert p.trace.span.dur == 16


def test_numbers_of_the_headline_are_in_a_table(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headline, "_NAMED_SHARE", 1e-3)  # of a process that holds much else
    session.run("raw = read()", [900])
    session.names["raw"] = np.zeros(5 << 20)
    session.watch.walk(session.watch.runs[0])
    session.run("fit(raw)", [2100])
    session.run("fit(raw)", [2000])
    session.run("raw[0] = 1\n1/0", [1], error="ZeroDivisionError")
    p = Profile(session.trace())
    assert p.verdict.kind == "notebook"
    assert (
        p.verdict.sentence
        == "Run All takes about 2.9 s: In[3] `fit(raw)` 68.9 %, In[1] `raw = read()` 31.0 %."
    )
    assert "`raw` (made in In[1]" in str(p.verdict)
    assert "In[4] ended with ZeroDivisionError" in str(p.verdict)
    assert len(p.verdict.claims) >= 12
    assert all(claim.holds(p.trace) for claim in p.verdict.claims)


def test_shares_of_lines_are_of_the_time_of_the_cells(session: Session) -> None:
    session.run("wait()\nfit()", [300, 500], idle=10_000)
    session.run("plot()", [200], idle=10_000)
    p = Profile(session.trace())
    shares = p.lines().set_index(["file", "line"])["share"].to_dict()
    assert shares == {("In[1]", 2): 0.5, ("In[1]", 1): 0.3, ("In[2]", 1): 0.2}
    assert p.lines(remainder=True)["share"].sum() == 1
    assert whole_of(p.trace, {}) == "the cells"
    _, cells, lines, *_ = p.summary().split("\n\n")
    assert [line.split("█")[0].split() for line in cells.splitlines()] == [
        ["Cells,", "all", "runs"], ["In[1]", "fit()"], ["In[2]", "plot()"],
    ]  # fmt: skip
    assert ("80.0 %" in cells, "50.0 %" in lines) == (True, True)


def test_names_sum_to_what_the_process_holds(session: Session) -> None:
    session.names["kept"] = np.ones(1 << 20)
    session.run("kept = ones()")
    p = Profile(session.trace())
    names = p.memory.names()
    row = names[names["name"] == "kept"].iloc[0]
    assert (row["bytes"], row["made_in"], row["used_in"]) == (8 << 20, "In[1]", None)
    levels = p.trace.metadata["tables"]["memory_levels"]
    of_host = names[(names["device"] == -1) & (names["kind"] != "file")]["bytes"].sum()
    assert of_host == levels.loc[levels["device"] == -1, "used"].iloc[0]


def test_of_several_cells_since_the_last_walk_the_one_that_set_the_name_made_it(session: Session) -> None:
    session.run("first = ones()")
    session.names["first"] = np.ones(1 << 20)
    session.run("second = first")
    session.run("nbp.notebook()")
    session.names["kept"] = [np.ones(1 << 20)]  # by a method that the syntax tree does not show
    session.trace()
    session.run("more.append(ones())")
    session.names["more"] = [np.ones(1 << 20)]
    names = Profile(session.trace()).memory.names().set_index("name")["made_in"].to_dict()
    assert names["first"] == "In[1]"
    assert names["more[]"] == "In[4]"
    assert names["kept[]"] is None


def test_a_cell_that_grew_did_not_make_what_an_earlier_one_set(session: Session) -> None:
    session.run("small = ones()")
    session.names["small"] = np.ones(1 << 20)  # too small for a walk
    session.run("y = 0")
    run = session.watch.begin("big = ones(); keep()", 3)
    session.names |= {"big": np.ones(10 << 20), "kept": [np.ones(1 << 20)]}
    session.watch.end(run)
    names = Profile(session.trace()).memory.names().set_index("name")["made_in"].to_dict()
    assert [names[name] for name in ("small", "big", "kept[]")] == ["In[1]", "In[3]", "In[3]"]


def test_what_is_stale_and_what_must_run_again(session: Session) -> None:
    session.run("a = 1", cell="one")
    session.run("b = a", cell="two")
    session.run("c = b", cell="three")
    session.run("d = 1\na = a + d", cell="four")  # a cell below, which Run All runs later too
    session.run("def f(): return c", cell="five")
    assert (Profile(session.trace()).cells()["stale"] == "").all()
    session.run("a = 2", cell="one")
    p = Profile(session.trace())
    stale = dict(zip(p.cells()["cell_id"], p.cells()["stale"], strict=True))
    assert stale == {
        "one": "",
        "two": "a changed in In[6]",
        "three": "b is of In[2], which is stale",
        "four": "a changed in In[6]",
        "five": "c is of In[3], which is stale",
    }
    assert p.path(after=6)["cell"].tolist() == [0, 1, 2, 3, 4]
    assert p.path(after=4)["cell"].tolist() == [3]
    assert p.path().set_index("number").loc[3, ["needs_number", "names"]].tolist() == [2, "b"]
    with pytest.raises(OptionError, match=r"In\[9\]"):
        p.path(after=9)
    saved = {"one": "a = 2", "two": "b = a", "four": "d = 1\na = a + d", "three": "c = b + 1", "new": ""}
    edited = Profile(session.trace(saved))
    assert edited.cells()["cell_id"].tolist() == ["one", "two", "three", "four"]  # five was deleted
    assert edited.cells(runs=True)["stale"].tolist()[2:5] == ["edited", "a changed in In[6]", "deleted"]


def test_a_file_saved_before_a_run_does_not_tell_what_changed_since(session: Session) -> None:
    before = built.Saved({"one": "a = 1"}, session.clock.now_ns())
    session.run("a = 2", cell="one")
    session.run("b = a", cell="not saved yet")
    cells = Profile(built.build(session.watch, before)).cells()
    assert cells["cell_id"].tolist() == ["one", "not saved yet"]
    assert cells["stale"].tolist() == ["", ""]


def test_rows_of_badges(session: Session) -> None:
    session.run("a = 1", cell="one")
    session.run("b = a", cell="two")
    session.run("a = 2")  # by a front-end that tells no id
    session.run("a = 3", cell="one")
    rows = badges(built.runs_table(session.watch, None))
    assert [(row["id"], row["number"], row["stale"]) for row in rows] == [
        ("two", 2, "a changed in In[4]"),
        ("one", 4, ""),
    ]
    assert rows[1] == {
        "id": "one", "number": 4, "wall_ns": 10 * MS, "kept_bytes": session.watch.runs[3].kept_bytes,
        "source": "a = 3", "name": "In[4] a = 3", "stale": "",
    }  # fmt: skip
    assert badges(cell_runs(session.trace())) == rows


def test_the_session_opens_on_its_cells(session: Session) -> None:
    session.run("a = 1", cell="one")
    session.run("b = a", cell="two", error="NameError")
    session.names["b"] = np.ones(1 << 20)
    trace = session.trace()
    assert [tab["name"] for tab in rail(trace)][:2] == ["cells", "source"]
    assert dashboard_settings(trace, "")["open"] == "cells"
    panel = TABS["cells"].build(trace, {})
    assert isinstance(panel, Panel)
    cells, held = panel.parts
    assert isinstance(cells, Table)
    assert cells.frame["error"].tolist() == ["", "NameError"]
    assert cells.select == [{"name": "In[1] a = 1"}, {"name": "In[2] b = a"}]
    assert isinstance(held, Table)
    assert held.frame.loc[0, ["name", "made_in"]].tolist() == ["b", "In[2]"]
    assert "cells" not in [tab["name"] for tab in rail(TraceBuilder().seal())]


def test_a_result_of_a_cell_below_is_not_that_of_run_all(session: Session) -> None:
    session.run("i = 0", cell="one")
    session.run("show(i)", cell="two")
    session.run("i += 1", cell="three")
    session.run("show(i)", cell="two")
    stale = Profile(session.trace()).cells()["stale"].tolist()
    assert stale == ["", "i is of In[3], a cell below", ""]


def test_what_was_there_before_the_watch_is_made_by_no_cell() -> None:
    names = {"before": np.ones(1 << 18)}
    watch = NotebookWatch(lambda: names, threads=False)
    run = watch.begin("after = np.ones(1 << 18)", 1)
    names["after"] = np.ones(1 << 18)
    watch.end(run)
    held = Profile(built.build(watch)).memory.names().set_index("name")
    watch.stop()
    assert held["made_in"].dropna().to_dict() == {"after": "In[1]"}
    assert held.loc[["before", "after"], "bytes"].tolist() == [1 << 21] * 2


def test_what_is_imported_again_makes_nothing_stale(session: Session) -> None:
    for cell, source in (
        ("top", "import numpy as np\nfrom os import path"),
        ("use", "x = np, path"),
        ("below", "import numpy as np"),
        ("top", "import numpy as np\nfrom os import path, sep"),
        ("other", "from posixpath import join as path"),
        ("top", "import numpy as np\nfrom os import path, sep"),
    ):
        session.run(source, cell=cell)
    p = Profile(session.trace())
    assert p.cells()["stale"].tolist() == ["", "path changed in In[6]", "", ""]
    assert p.path()["names"].tolist() == ["np path", "", "", ""]


@pytest.mark.parametrize(
    ("source", "reads", "writes"),
    [
        ("df = pd.read_csv(path)", "path pd", "df"),
        ("df['a'] = x; df.b = 1; del y", "df x", "df y"),
        ("x += 1", "x", "x"),
        ("import numpy as np, os.path\nfrom a import b", "", "b np os"),
        ("y = [i * k for i in items if i]", "items k", "y"),
        (
            "def f(a, b=c):\n    global g\n    g = a\n    z = 1\n    return z + w + later\nlater = 1",
            "c w",
            "f later",
        ),
        ("class A(B):\n    x = y\n    def m(self): return A, q", "B q y", "A"),
        ("for i in r: t = i\nprint(t)", "r", "i t"),
        ("with open(p) as f: data = f.read()", "p", "data f"),
        ("%matplotlib inline\n!ls {x}\nfiles = !ls\nlen(files)", "", "files"),
        ("%%time\nz = a", "a", "z"),
        ("%%capture out\nz = a", "a", "out z"),
        ("%%bash\necho $HOME", "", ""),
        ("try:\n    a\nexcept E as e:\n    e", "E a", ""),
        ("f = lambda v: v + u", "u", "f"),
        ("(n := 3)\nn", "", "n"),
    ],
)
def test_names_of_a_cell(source: str, reads: str, writes: str) -> None:
    found = names_of(source)
    assert (sorted(found.reads), sorted(found.writes)) == (reads.split(), writes.split())


def test_a_cell_keeps_less_than_five_kilobytes_of_ours(session: Session) -> None:
    """So 10,000 cells stay below 50 MB."""
    for i in range(100):
        session.run(f"value_{i % 50} = {i}", [1, 1, 1], f"cell-{i % 50}")
    tracemalloc.start()
    for i in range(1000):
        session.run(f"value_{i % 50} = {i}", [1, 1, 1], f"cell-{i % 50}")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1000 * 5000
    table = Profile(session.trace()).cells(runs=True)
    assert len(table) == 1100
    assert (table["wall_ns"] == 3 * MS).all()


class Paced:
    """Stands in for the event that ends the thread: waiting lets time pass, until the cell has run."""

    def __init__(self, clock: FakeClock, until_ns: int) -> None:
        self.clock, self.until_ns, self.waits = clock, until_ns, 0

    def wait(self, seconds: float) -> bool:
        self.clock.advance(int(seconds * 1e9))
        self.waits += 1
        return self.clock.now_ns() >= self.until_ns

    def set(self) -> None:
        pass


@pytest.fixture
def alone(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose readings take only what they are told to take."""
    tree, session.watch.reader.tree = session.watch.reader.tree, None
    monkeypatch.setattr(statements, "running", statements.Marks)
    yield session
    session.watch.reader.tree = tree


@pytest.mark.parametrize("cost_ns", [50_000, MS, 20 * MS])
def test_the_thread_uses_at_most_one_part_in_160(
    cost_ns: int, alone: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = 0

    def read() -> int:
        nonlocal spent
        spent += cost_ns
        alone.clock.advance(cost_ns)
        return run.rss_bytes

    run = alone.watch.begin("fit()", 1)
    pace = Paced(alone.clock, run.begin_ns + 60_000 * MS)
    monkeypatch.setattr(alone.watch, "_quit", pace)
    monkeypatch.setattr(watch_module, "resident_bytes", read)
    monkeypatch.setattr(watch_module.time, "thread_time_ns", lambda: spent)
    alone.watch._follow(run)
    assert spent <= 60_000 * MS / 160 + cost_ns
    assert spent > 60_000 * MS / 160 - cost_ns or pace.waits > 2900, "and as often as every 20 ms"


def test_a_cell_of_three_hours_leaves_little(alone: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    run = alone.watch.begin("fit()", 1)
    level = iter(range(1 << 40))
    monkeypatch.setattr(alone.watch, "_quit", Paced(alone.clock, run.begin_ns + 3 * 3_600_000 * MS))
    monkeypatch.setattr(watch_module, "resident_bytes", lambda: run.rss_bytes + (next(level) << 20))
    monkeypatch.setattr(watch_module.time, "thread_time_ns", lambda: 0)
    alone.watch._follow(run)
    assert next(level) > 100_000, "readings"
    assert 8 * len(alone.watch.reader.data) < 20 << 20
    alone.watch.end(run)


def test_two_sessions_are_compared_cell_by_cell(session: Session) -> None:
    other = Session()
    for one, times in ((session, (10, 500, 30, 5)), (other, (10, 900, 20, 7))):
        one.run("import numpy", [times[0]])
        one.run(
            "model = fit(data, epochs=3)" if one is session else "model = fit(data, epochs=9)", [times[1]]
        )
        one.run("plot(model)" if one is session else "print('new')", [times[2]])
        one.run("data = read()", [times[3]])
    table = compare_cells(session.trace(), other.trace())
    other.watch.stop()
    rows = table[["name", "status", "a_ns", "b_ns"]].values.tolist()
    assert rows == [
        ["In[2] model = fit(data, epochs=9)", "edited", 500 * MS, 900 * MS],
        ["In[3] plot(model)", "gone", 30 * MS, 0],
        ["In[3] print('new')", "new", 0, 20 * MS],
        ["In[4] data = read()", "same", 5 * MS, 7 * MS],
        ["In[1] import numpy", "same", 10 * MS, 10 * MS],
    ]
