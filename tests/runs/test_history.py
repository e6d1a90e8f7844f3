"""What can be asked of the history: `nbp.history`, `nbp.load`, kept recordings, `nbp.profile(name=)`."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.comparison.run import TraceRun, summary_of
from notebook_prof.errors import NotRecordedError, OptionError
from notebook_prof.runs import entry, table, writing
from notebook_prof.runs.entry import MOST_BYTES, HistoryRun, packed, unpacked
from notebook_prof.runs.identity import revision_of, tokens
from notebook_prof.runs.store import Store
from notebook_prof.runs.table import COLUMNS

from .rows import row
from .test_previous_run import SOURCE, keep, recorded, steps


def test_a_row_is_what_was_recorded(history: Path) -> None:
    profile = keep(recorded(steps(1)), name="baseline", options="stack=True")
    table = nbp.history()
    COLUMNS.validate(table)
    assert len(table) == 1
    one = table.iloc[0]
    used = profile.steps()["dur"].to_numpy()[1:]
    assert one["run"] == one["lineage"] == 1
    assert one["steps"] == 39
    assert one["p50_ns"] == np.median(used)
    assert one["mean_ns"] == np.mean(used)
    assert one["total_ns"] == profile.trace.span.dur
    assert one["verdict"] == profile.verdict.sentence
    assert (one["name"], one["cell"], one["options"]) == ("baseline", "c1", "stack=True")
    assert one["source"] == SOURCE
    assert abs(pd.Timestamp.now("UTC") - one["at"]) < pd.Timedelta(minutes=5)
    assert table.attrs == {"folder": str(history), "lost": 0, "reason": "", "aside": []}


def test_rows_are_chosen_and_in_order(history: Path) -> None:
    store = Store(history)
    for number, (cell, name, notebook) in enumerate(
        [("a", "x", "n/1.ipynb"), ("b", "", "2.ipynb"), ("a", "", "")]
    ):
        summary = summary_of(TraceRun(recorded(steps(number, 5))), f"work({number})")
        store.add(row(summary, at_ns=10 - number, cell=cell, name=name, notebook=notebook))
    assert nbp.history()["run"].tolist() == [3, 2, 1], "the oldest first, whoever wrote first"
    assert nbp.history("a")["run"].tolist() == [3, 1]
    assert nbp.history("work(1)")["run"].tolist() == [2]
    assert nbp.history(name="x")["run"].tolist() == [1]
    assert len(nbp.history("no such cell")) == 0


def test_an_empty_history_has_the_columns(history: Path) -> None:
    COLUMNS.validate(nbp.history())
    assert len(nbp.history()) == 0
    assert not history.exists(), "who asks makes nothing"


def test_totals_are_loaded_and_refuse_the_rest_in_a_sentence(history: Path) -> None:
    a, b = keep(recorded(steps(1)), name="baseline"), keep(recorded(1.2 * steps(2)))
    run = nbp.load("baseline")
    assert isinstance(run, HistoryRun)
    whole, mixed = nbp.compare(a, b), nbp.compare(run, b)
    assert mixed.verdict == whole.verdict
    pd.testing.assert_frame_equal(mixed.lines, whole.lines)
    pd.testing.assert_frame_equal(mixed.operators, whole.operators)
    with pytest.raises(
        NotRecordedError, match=r"operators is not available for run 1 .*\(baseline\).* --keep does\)"
    ):
        run.operators()
    with pytest.raises(AttributeError, match="'HistoryRun' object has no attribute 'nothing'"):
        run.nothing
    assert "baseline" in repr(run)
    assert "39 steps" in repr(run)
    with pytest.raises(OptionError, match="run 2 of the history has totals by phase on the host"):
        nbp.compare(a, nbp.load(2)).attribution("shapes")
    with pytest.raises(OptionError, match="no run 'basline': did you mean 'baseline'"):
        nbp.load("basline")
    with pytest.raises(OptionError, match="no run 9: it has 1 to 2"):
        nbp.load(9)
    assert isinstance(nbp.load("2"), HistoryRun)
    with pytest.raises(OptionError, match="it is a file, which nbp"):
        nbp.load(__file__)


def test_a_name_is_the_newest_run_of_it(history: Path) -> None:
    keep(recorded(steps(1)), name="x")
    keep(recorded(steps(2)), name="x")
    run = nbp.load("x")
    assert isinstance(run, HistoryRun)
    assert run.run == 2


def test_kept_recordings_come_back_whole_and_are_bounded(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(4):
        last = keep(recorded(steps(seed)), name=f"run {seed}", kept=True)
    again = nbp.load("run 3")
    assert isinstance(again, nbp.Profile)
    pd.testing.assert_frame_equal(again.trace.slices, last.trace.slices)
    assert nbp.history()["kept"].all()
    size = max(file.stat().st_size for file in (history / entry.FOLDER).iterdir())
    entry.keep(history, last, "one more", limit=2 * size + size // 2)
    assert len(list((history / entry.FOLDER).iterdir())) == 2
    assert isinstance(nbp.load("run 0"), HistoryRun), "what was evicted has its totals"
    entry.keep(history, last, "the only one", limit=0)
    assert [file.name for file in (history / entry.FOLDER).iterdir()] == ["the only one.nbprof.zip"]


@pytest.mark.parametrize("name", ["cnn_sgd", "lm_adamw", "threads", "odd_names", "empty"])
def test_rows_of_real_recordings_are_small_and_exact(data: Path, name: str) -> None:
    profile = nbp.open_profile(data / f"torch213_cpu/{name}.pt.trace.json.gz")
    summary = summary_of(TraceRun(profile), "train()\n" * 50)
    source, content = packed(summary)
    assert len(source) + len(content) <= MOST_BYTES
    again = unpacked(source, content, "it")
    assert again.source == summary.source
    assert again.conditions == summary.conditions
    pd.testing.assert_frame_equal(
        again.steps.drop(columns="ts"), summary.steps.drop(columns="ts"), check_dtype=False
    )
    assert again.memory.values.tolist() == summary.memory.values.tolist()
    for kind, whole in summary.totals.items():
        assert again.totals[kind].keys == whole.keys
        for part in ("sums", "calls", "block_steps"):
            np.testing.assert_array_equal(getattr(again.totals[kind], part), getattr(whole, part))


def test_large_rows_are_cut_to_size_and_add_up(data: Path) -> None:
    rng = np.random.default_rng(0)
    summary = summary_of(
        TraceRun(recorded(5e6 * np.exp(rng.standard_normal(3000)))), os.urandom(99_000).hex()
    )
    many = summary_of(TraceRun(nbp.open_profile(data / "torch213_cpu/cnn_sgd.pt.trace.json.gz")))
    for one in (summary, type(summary)(summary.steps, many.totals, summary.source)):
        source, content = packed(one)
        assert len(source) + len(content) <= MOST_BYTES
        again = unpacked(source, content, "it")
        assert again.source == "", "a source of 200 kB is no source"
        for kind, whole in one.totals.items():
            np.testing.assert_array_equal(again.totals[kind].sums.sum(axis=1), whole.sums.sum(axis=1))


def test_blocks_of_code_are_recorded_where_they_have_a_name(history: Path) -> None:
    for _ in range(2):
        with nbp.profile("python", name="block") as p:
            sum(i * i for i in range(2_000_000))
        assert writing.wait(60)
    with nbp.profile("python"):
        sum(range(1000))
    table = nbp.history()
    assert table["name"].tolist() == ["block", "block"]
    assert table["link"].tolist() == ["", "name"]
    assert p.previous is not None
    assert p.verdict.lines[1].startswith("≈ It took ")
    for wrong in ({"keep": True}, {"name": "12"}):
        with pytest.raises(OptionError, match="needs a name that is not a number"):
            nbp.profile(**wrong)  # type: ignore[arg-type]


SCRIPT = """
import notebook_prof as nbp
from notebook_prof.runs import writing
writing._LEAVES_S = 100  # it imports pandas and sqlite meanwhile
with nbp.profile("python", name="script"):
    sum(range(100_000))
"""
BEGUN = """
import time
from notebook_prof.profiles import deferred_trace
while not deferred_trace._unfinished and writing._writer.left:
    time.sleep(0.001)  # a main thread that computes would be waited for
"""


@pytest.mark.parametrize("more", ["", BEGUN], ids=["at once", "while its trace is built"])
def test_a_process_that_ends_writes_its_rows_first(history: Path, more: str) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT + more], check=True, env={**os.environ}, timeout=600)
    assert nbp.history()["name"].tolist() == ["script"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
def test_the_child_of_a_fork_writes_rows_of_its_own(history: Path) -> None:
    keep(recorded(steps(1)))
    child = os.fork()
    if not child:
        try:
            keep(recorded(steps(2)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    table = nbp.history()
    assert len(table) == 2
    assert table["kernel"].nunique() == 2


def test_rows_wait_while_something_is_recorded(history: Path) -> None:
    recording, hold_called = threading.Event(), threading.Event()
    recording.set()
    writing.remember(
        recorded(steps(1)), source=SOURCE, hold=lambda: hold_called.set() or recording.is_set()
    )()
    assert hold_called.wait(60)
    assert not writing.wait(0)
    recording.clear()
    assert writing.wait(60)
    assert len(nbp.history()) == 1


def test_runs_that_are_missing_are_told(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write, write = threading.Event(), writing.write
    monkeypatch.setattr(writing, "write", lambda *more: (may_write.wait(60), write(*more)))
    monkeypatch.setattr(table, "_PATIENCE_S", 0.01)
    writing.remember(recorded(steps(1)), source=SOURCE, name="newest")()
    with pytest.warns(UserWarning, match="the history lacks 1 run of this process: still being written"):
        assert len(nbp.history()) == 0
    with pytest.warns(UserWarning, match="lacks 1 run"), pytest.raises(OptionError):
        nbp.load("newest")
    may_write.set()
    assert writing.wait(60)
    assert len(nbp.history()) == 1


def test_a_damaged_file_is_named(history: Path) -> None:
    keep(recorded(steps(1)))
    Store(history).path.write_bytes(b"no database" * 1000)
    keep(recorded(steps(2)))
    table = nbp.history()
    assert len(table) == 1
    assert [Path(name).read_bytes()[:11] for name in table.attrs["aside"]] == [b"no database"]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("%%profile p\nx = 1", "%%profile --stack\n\nx = 1 # why", True),
        ("x = 1", "x = 2", False),
        ("%%time\nx = 1", "x = 1", False),
        ("!ls\nx = 1", "!ls\nx  =  1", True),
        ("!ls a", "!ls b", False),
        ("if a:\n    b\nc", "if a:\n    b\n    c", False),
        ("text = '''\na", "text = '''\na", True),
        ("text = '''\na", "text = '''\nb", False),
        ("", "# nothing", True),
    ],
)
def test_what_is_the_same_program(a: str, b: str, same: bool) -> None:
    assert (tokens(a) == tokens(b)) == same


def test_the_revision_is_gits(tmp_path: Path) -> None:
    def git(*words: str, at: Path = tmp_path) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", *who, *words], cwd=at, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        git("init", "-q", "-b", "main")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git here")
    assert revision_of(tmp_path) == ""
    git("commit", "-q", "--allow-empty", "-m", "one")
    (tmp_path / "deep").mkdir()
    head = git("rev-parse", "HEAD")
    assert revision_of(tmp_path / "deep") == head
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert revision_of(tmp_path / "tree") == head
    git("pack-refs", "--all")
    assert revision_of(tmp_path) == revision_of(tmp_path / "tree") == head
    git("checkout", "-q", "--detach")
    assert revision_of(tmp_path) == head
    assert revision_of(Path(tmp_path.anchor)) == ""


def test_the_examples_of_the_docs(history: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "history.md").read_text(encoding="utf-8")
    worked = doctest.DocTestParser().get_doctest(text, {}, "docs/history.md", "docs/history.md", 0)
    assert len(worked.examples) == 6
    assert doctest.DocTestRunner().run(worked).failed == 0
