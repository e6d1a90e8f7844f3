"""Source code with what each line took: the text of the cell and of files, times, and times by step."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from notebook_prof import Trace, TraceBuilder, open_profile
from notebook_prof.analysis import annotated_source, line_steps, lines, steps
from notebook_prof.errors import SelectionError
from notebook_prof.service.store import ViewStore
from notebook_prof.views.tab_answers import panel
from tests.recording import add_slices

from ..browser.drawn_cell import CELL, MS, drawn_cell

EVERYTHING = {"window": None, "step": None}
RECORD = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
import work
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
shell.run_cell("def early():\\n    time.sleep(0.6)\\nimport time, work", store_history=True)
shell.run_cell("%%profile\\n# waits\\nearly()\\n\\nwork.late()", store_history=True)
import notebook_prof
notebook_prof.last.save(sys.argv[1])
"""


def test_every_line_of_the_cell_has_a_row_with_what_lines_tells_of_it() -> None:
    trace = drawn_cell()
    table, expected = annotated_source(trace), lines(trace)
    assert table["text"].tolist() == CELL.split("\n")
    assert table["line"].tolist() == list(range(1, 10))
    ran = table[table["total_ns"] > 0].drop(columns="text").set_index("line")
    from_lines = expected.drop(columns="text").set_index("line").sort_index()
    assert ran.equals(from_lines)
    assert not table[["total_ns", "self_ns", "threads"]][table["total_ns"] == 0].any(axis=None)


def test_a_window_cuts_the_times_and_steps_alone_have_nothing_beside_them() -> None:
    table = annotated_source(drawn_cell(), window=(0, 60 * MS))
    assert table[table["total_ns"] > 0][["line", "total_ns"]].values.tolist() == [[2, 56 * MS]]
    drawn = drawn_cell()
    account = drawn.metadata["tables"]["account"]
    builder = TraceBuilder(metadata={"tables": {"account": account[account["kind"] == "steps"]}})
    line = {"name": "cell:4  for xb, yb in loader:", "category": "python", "track": builder.track("main")}
    builder.slices(ts=180 * MS, dur=320 * MS, **line)
    assert not lines(builder.seal())["unrecorded_ns"].any()


def test_the_time_of_lines_in_steps_sums_to_the_steps() -> None:
    trace = drawn_cell()
    table = line_steps(trace)
    for step in trace.steps["step"].tolist():
        own = lines(trace, step=step).set_index(["file", "line"])["total_ns"]
        by_step = table[table["step"] == step].set_index(["file", "line"])["total_ns"]
        assert own.reindex(by_step.index, fill_value=0).tolist() == by_step.tolist()
    assert len(table) == len(lines(trace)) * 20
    head = table[table["line"] == 4]
    assert head["step"].tolist() == list(range(6, 26))
    assert head["total_ns"].tolist() == steps(trace)["dur"].tolist(), "the loop's line is open throughout"
    assert (table[table["line"] == 6]["total_ns"] == 6 * MS).all()
    assert table[table["line"] == 8]["total_ns"].sum() == 0, "outside of the steps"


def test_without_the_text_only_lines_that_ran_have_rows() -> None:
    builder = TraceBuilder()
    names = ["train.py:31  step()", "train.py:7  import torch"]
    stacks = [builder.stack([("<module>", "/home/me/train.py", line)]) for line in (31, 7)]
    add_slices(builder, builder.track("main"), names, [50, 0], [50, 50], "python", stack=stacks)
    trace = builder.seal()
    table = annotated_source(trace, "train.py")
    found = table[["file", "line", "text"]].values.tolist()
    assert found == [["/home/me/train.py", 7, "import torch"], ["/home/me/train.py", 31, "step()"]]
    with pytest.raises(SelectionError, match=r"no line of 'tain.py' was recorded"):
        annotated_source(trace, "tain.py")


def test_what_is_outside_of_the_text_is_shown_too() -> None:
    table = annotated_source(_long_file(3, at=7), "long.py")
    assert table["line"].tolist() == [1, 2, 3, 7]
    assert table["text"].tolist() == ["line 1", "line 2", "line 3", "line 7"]
    assert table["total_ns"].tolist() == [0, 0, 0, 9]
    trace = _long_file(5000, at=2500)
    part = panel(ViewStore(trace), EVERYTHING, {"name": "source"}).content["parts"][0]
    assert part["texts"]["text"] == [f"line {number}" for number in range(2497, 2504)]
    assert part["size"] == part["rows"] == 7
    assert [patch is not None for patch in part["select"]] == [False] * 3 + [True] + [False] * 3


def test_the_tab_carries_the_table_and_the_time_over_the_steps() -> None:
    trace = drawn_cell()
    answer = panel(ViewStore(trace), EVERYTHING, {"name": "source"})
    part, arrays = answer.content["parts"][0], answer.arrays()
    assert (part["kind"], part["steps"], part["folded"]) == ("source", 20, False)
    np.testing.assert_array_equal(arrays["0.total_ns"], annotated_source(trace)["total_ns"])
    trend = arrays["0.trend"].reshape(9, 20)
    assert trend[5].tolist() == [6 * MS] * 20
    assert trend[3].sum() == steps(trace)["dur"].sum()


def test_statements_beside_the_recorded_steps_have_the_time_of_the_account() -> None:
    """Import before the window, say, and validation after it."""
    table = drawn_cell().metadata["tables"]["account"]
    builder = TraceBuilder(metadata={"tables": {"account": table}})
    line = {"name": "cell:4  for xb, yb in loader:", "category": "python", "track": builder.track("main")}
    builder.slices(ts=180 * MS, dur=320 * MS, **line)
    trace = builder.seal(window=(0, 1950 * MS))
    rows = lines(trace).set_index("line")
    spent = table[table["line"] > 0].groupby("line")["dur"].sum()
    assert rows["total_ns"].to_dict() == spent.to_dict()
    assert rows["unrecorded_ns"].to_dict() == (spent - 320 * MS * (spent.index == 4)).to_dict()
    assert rows.loc[[2, 6, 8], "exact"].all()
    assert rows.index[rows["count"].isna()].tolist() == [4], "not all of its steps were recorded"
    cut = lines(trace, window=(0, 300 * MS), remainder=True)
    assert cut["self_ns"].sum() == 120 * MS + cut["unrecorded_ns"].sum()
    assert not lines(trace, category="python")["unrecorded_ns"].any(), "only a window cuts the account"
    tab = panel(ViewStore(trace), EVERYTHING, {"name": "source"})
    np.testing.assert_array_equal(tab.arrays()["0.unrecorded_ns"], rows.sort_index()["unrecorded_ns"])


def test_text_of_other_cells_and_of_the_users_files_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("import time\n\n\ndef late():\n    time.sleep(0.6)\n")
    file = tmp_path / "cell.nbprof"
    subprocess.run([sys.executable, "-c", RECORD, str(file)], check=True, timeout=600, cwd=tmp_path)
    profile = open_profile(file)
    assert profile.lines.source()["text"].tolist() == ["%%profile", "# waits", "early()", "", "work.late()"]
    early = profile.lines.source("In[1]")
    assert early["text"].tolist() == ["def early():", "    time.sleep(0.6)", "import time, work"]
    late = profile.lines.source("work.py")
    assert late["text"].tolist() == (tmp_path / "work.py").read_text().splitlines()
    for table in (early, late):
        slept = table[table["text"] == "    time.sleep(0.6)"]
        assert (slept["total_ns"] > 0).all(), table
    assert len(profile.trace.metadata["source_files"]) == 2, "files without lines of the trace are left out"


def _long_file(size: int, at: int) -> Trace:
    text = "\n".join(f"line {number}" for number in range(1, size + 1))
    builder = TraceBuilder(metadata={"source_files": {"/home/me/long.py": text}})
    stack = builder.stack([("<module>", "/home/me/long.py", at)])
    name = f"long.py:{at}  line {at}"
    builder.slices(ts=0, dur=9, name=name, category="python", track=builder.track("main"), stack=[stack])
    return builder.seal()
