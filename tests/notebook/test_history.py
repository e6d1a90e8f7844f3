"""The history in a real kernel: rows of cells, the second line, and outputs that stay what they were."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import notebook_prof as nbp
from notebook_prof.runs.folder import NAME, VARIABLE

from .conftest import Kernel, Reply, new_kernel

CELL = """
%%profile {options} --step-by loop
print("before")
for i in range(30):
    total = sum(range(20_000))
total
"""
OFF = f"import os; os.environ[{VARIABLE!r}] = 'off'"
WAIT = "from notebook_prof.runs import writing; assert writing.wait(60); print(writing.losses())"


@pytest.fixture
def history(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a history that the kernel of all keeps for this test."""
    folder = tmp_path / NAME
    kernel.must(f"import os; os.environ[{VARIABLE!r}] = {str(folder)!r}")
    kernel.must("from notebook_prof.runs import writing; writing._writer = writing._Writer()")
    monkeypatch.setenv(VARIABLE, str(folder))
    yield folder
    kernel.must(OFF)


def written(kernel: Kernel) -> None:
    assert kernel.must(WAIT).stdout == "{'lost': 0, 'reason': ''}\n"


def texts(reply: Reply) -> list[str]:
    return [shown["text/plain"] for shown in reply.displays if "text/plain" in shown]


def test_each_run_leaves_a_row_and_the_next_one_tells_of_it(kernel: Kernel, history: Path) -> None:
    first = kernel.must(CELL.format(options="--name baseline"))
    assert not any("run before" in text for text in texts(first))
    written(kernel)
    second = kernel.must(CELL.format(options=""))
    written(kernel)
    line = kernel.value("nbp.last.verdict.lines[1]")
    assert "the run before" in line
    assert "the cell is the same" in line
    assert line in texts(second)[0]
    table = nbp.history()
    assert table["name"].tolist() == ["baseline", ""]
    assert table["steps"].between(24, 29).all()
    assert table["link"].tolist() == ["", "source"]
    assert table["source"].iloc[0].startswith("%%profile --name baseline")
    c = kernel.value("[p.previous.change, p.previous.noise]".replace("p.", "nbp.last."))
    assert nbp.compare(nbp.load("baseline"), nbp.load(2), noise=c[1]).change == c[0]


def test_a_front_end_that_names_cells_shows_it_when_it_is_there(kernel: Kernel, history: Path) -> None:
    for source in ("x = 1", "x = 2"):
        kernel.rerun(f"%%profile\n{source}\nfor i in range(30): sum(range(20_000))", "cell-7")
        written(kernel)
    assert "you changed line 2" in kernel.value("nbp.last.verdict.lines[1]")
    table = nbp.history("cell-7")
    assert table["link"].tolist() == ["", "cell"]
    assert table["lineage"].tolist() == [1, 1]


def test_lines_and_failures_leave_rows_too(kernel: Kernel, history: Path) -> None:
    kernel.must("%profile --quiet sum(range(100_000))")
    reply = kernel.run("%%profile --quiet\nsum(range(100_000))\n1 / 0")
    assert reply.error == "ZeroDivisionError"
    kernel.must("%%profile --quiet --no-history\nsum(range(100_000))")
    written(kernel)
    table = nbp.history()
    assert table["failed"].tolist() == [False, True]
    assert table["source"].iloc[0] == "--quiet sum(range(100_000))"


def test_what_is_kept_can_be_loaded_in_another_kernel(kernel: Kernel, history: Path) -> None:
    kernel.must("%%profile --quiet --keep --name whole\nsum(range(100_000))")
    written(kernel)
    loaded = nbp.load("whole")
    assert isinstance(loaded, nbp.Profile)
    assert loaded.verdict.sentence == kernel.value("nbp.last.verdict.sentence")


def test_two_ways_in_turns_are_no_history(kernel: Kernel, history: Path) -> None:
    kernel.must("%%profile_ab --rounds 1\nsum(range(1000))\n%% b\nsum(range(2000))")
    written(kernel)
    assert len(nbp.history()) == 0


def outcome(reply: Reply) -> tuple[object, ...]:
    return reply.status, reply.error, reply.stdout, reply.stderr, reply.results, reply.order


@pytest.mark.parametrize("where", ["file", "off", "broken"])
def test_a_cell_is_the_same_where_nothing_can_be_kept(kernel: Kernel, tmp_path: Path, where: str) -> None:
    cells = [CELL.format(options=""), "%%profile\nprint('x')\n1 / 0"]
    plain = [outcome(kernel.run(cell)) for cell in cells]
    (tmp_path / "file").write_text("")
    folder = {"file": str(tmp_path / "file" / NAME), "off": "off", "broken": str(tmp_path)}[where]
    try:
        kernel.must(f"import os; from unittest.mock import patch; os.environ[{VARIABLE!r}] = {folder!r}")
        if where == "broken":
            kernel.must(
                "broken = patch('notebook_prof.runs.store.make_folder', side_effect=OSError); broken.start()"
            )
        assert [outcome(kernel.run(cell)) for cell in cells] == plain
        kernel.must("from notebook_prof.runs import writing; assert writing.wait(60)")
    finally:
        if where == "broken":
            kernel.must("broken.stop()")
        kernel.must(OFF)


def test_options_of_the_history_are_checked(kernel: Kernel) -> None:
    for options, message in (
        ("--name 12", "is the number of a run; use a word"),
        ("--no-history --keep", "--no-history contradicts --name and --keep"),
    ):
        reply = kernel.run(f"%%profile {options}\n1")
        assert reply.error == "UsageError"
        assert message in reply.stderr + reply.message


def test_the_runs_of_a_cell_are_shown_and_two_compared(kernel: Kernel, history: Path) -> None:
    kernel.must(CELL.format(options="--quiet --name baseline"))
    kernel.must(CELL.format(options="--quiet"))
    kernel.must(WAIT)
    shown = kernel.must("%profile_history").results[0]
    assert shown.startswith("2 runs of this cell, ")
    assert "being written" not in shown
    kernel.must("left, writing._Writer.left = writing._Writer.left, 2")
    assert "lacks 2 runs of this process: still being written" in kernel.must("%profile_history").results[0]
    kernel.must("writing._Writer.left = left; del left, writing")
    assert "run 2" in kernel.must("%profile_history baseline 2").results[0]
    reply = kernel.run("%profile_history no such")
    assert (reply.error, "no run 'no'" in reply.message) == ("UsageError", True)
    kernel.must(OFF)
    assert "switched off by NOTEBOOK_PROF_HISTORY" in kernel.run("%profile_history").message


def test_unloading_takes_the_magic_away(kernel: Kernel) -> None:
    kernel.must("%unload_ext notebook_prof")
    try:
        assert "not found" in kernel.run("%profile_history").stderr
    finally:
        kernel.must("%load_ext notebook_prof")


def test_it_lies_where_the_kernel_began_whatever_a_cell_changed_to(tmp_path: Path) -> None:
    start, other = tmp_path / "start", tmp_path / "other"
    for folder in (start, other, tmp_path / "ipython"):
        folder.mkdir()
    for own_kernel in new_kernel(tmp_path / "ipython", cwd=str(start)):
        own_kernel.must("import os; _ = os.environ.pop('NOTEBOOK_PROF_HISTORY', None)")
        own_kernel.must(f"os.chdir({str(other)!r})")
        own_kernel.must("%%profile p --quiet\nos.makedirs('deeper'); os.chdir('deeper')\nx = 1")
        own_kernel.must("%%profile p --quiet\nx = 2")
        found = own_kernel.value("(len(nbp.history()), nbp.history().attrs['folder'])")
        assert found == [2, str(start / ".notebook_prof")]
        own_kernel.must(f"__session__ = {str(other / 'a.ipynb')!r}")
        assert own_kernel.value("nbp.history().attrs['folder']") == str(other / ".notebook_prof")
