"""The account and the lines of drawn cells, and the laws that they keep."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import Trace, TraceBuilder
from notebook_prof.analysis import account, lines
from notebook_prof.analysis.time.account import account_spans
from notebook_prof.testing import draw
from tests.recording import add_slices


def recorded(rows: list[tuple[int, str, int, int, int]]) -> Trace:
    """A cell that left an account: ``(dur, kind, line, loop, steps)`` one after another."""
    b = TraceBuilder()
    dur = np.array([row[0] for row in rows], np.int64)
    ts = np.cumsum(dur) - dur
    frame = pd.DataFrame(rows, columns=["dur", "kind", "line", "loop", "steps"])
    frame.insert(0, "ts", ts)
    frame["text"] = [f"statement {line}" for line in frame["line"]]
    b.metadata["tables"] = {"account": frame}
    b.slices(ts=[0], dur=[int(dur.sum())], name="cell:2  run()", category="python", track=b.track("main"))
    return b.seal()


def test_evaluation_outside_of_steps() -> None:
    code, steps = (50, "code", 8, -1, 0), (10, "steps", 4, 0)
    rows = [(30, "code", 2, -1, 0), (*steps, 3), code, (*steps, 2), code, (5, "profiler", -1, -1, 0)]
    table = account(recorded(rows))
    found = table[["kind", "dur", "steps"]].values.tolist()
    assert found == [["code", 30, 0], ["steps", 20, 5], ["code", 100, 0], ["profiler", 5, 0]]
    assert table["part"].tolist()[:3] == ["line 2", "5 steps of line 4", "line 8"]
    assert table["share"].sum() == pytest.approx(1.0)
    assert table["loop"].tolist() == [pd.NA, 0, pd.NA, pd.NA]


kinds = st.sampled_from(["steps", "code", "outside-window", "profiler", "not-recorded"])


@given(st.lists(st.tuples(st.integers(0, 10**9), kinds, st.integers(-1, 9), st.integers(-1, 3)), max_size=30))
def test_parts_sum_to_the_cell(rows: list[tuple[int, str, int, int]]) -> None:
    trace = recorded([(*row, int(row[1] == "steps")) for row in rows])
    table, spans = account(trace), account_spans(trace)
    assert table["dur"].sum() == sum(row[0] for row in rows)
    assert spans["dur"].sum() == table["dur"].sum()
    assert not len(spans) or set(spans["part"]) == set(range(len(table)))
    assert (spans.groupby("part")["dur"].sum().to_numpy() == table["dur"].to_numpy()).all()


def test_a_file_is_divided_over_its_span() -> None:
    trace = draw(
        """
        steps:    [0    ][1    ]
        main:     [mm ] [mm ]        [save]
        stream 7:                [k ]
        """
    )
    table = account(trace)
    assert table["dur"].sum() == trace.span.dur
    assert table["kind"].tolist() == ["steps", "not-recorded", "code"]
    assert table["device_ns"].sum() == 4


def test_lines_count_recursion_once_and_threads_together() -> None:
    b = TraceBuilder()
    names = ["cell:2  run()", "run (cell)", "cell:5  run()", "run (cell)", "cell:5  run()"]
    main, other = b.track("main", pid=1, tid=1), b.track("worker", pid=1, tid=2)
    b.slices(ts=[0, 0, 10, 10, 20], dur=[100, 100, 80, 80, 60], name=names, category="python", track=main)
    b.slices(ts=[15], dur=[60], name="cell:5  run()", category="python", track=other)
    trace = b.seal()
    table = lines(trace).set_index("line")
    assert table.loc[5, "total_ns"] == 80
    assert table.loc[5, "self_ns"] == 80 + 60
    assert table.loc[5, "threads"] == 2
    assert table.loc[2, "self_ns"] == 20
    assert table["self_ns"].sum() == 100 + 60, "the time with any line open, summed over threads"
    assert (table["share"] <= 1).all()


def test_lines_of_files_of_the_same_name_are_apart() -> None:
    b = TraceBuilder()
    stacks = [b.stack([("f", f"/{folder}/train.py", 3)]) for folder in "ab"]
    add_slices(b, b.track("t"), "train.py:3  x", [0, 10], [10, 5], "python", stack=stacks)
    assert lines(b.seal())["file"].tolist() == ["/a/train.py", "/b/train.py"]


def test_statements_tell_how_often_a_line_ran() -> None:
    b = TraceBuilder()
    b.metadata["tables"] = {"statements": pd.DataFrame({"ts": [0, 10, 20], "dur": 5, "line": [2, 2, 3]})}
    names = ["cell:2  a", "cell:2  a", "cell:3  b", "util.py:2  c"]
    b.slices(ts=[0, 10, 20, 21], dur=[5, 5, 5, 2], name=names, category="python", track=b.track("main"))
    trace = b.seal()
    table = lines(trace)
    assert table["count"].tolist() == [2, 1, pd.NA]
    assert table["exact"].tolist() == [True, True, False]
    inside = lines(trace, window=(0, 6))
    assert inside[["line", "count", "total_ns"]].values.tolist() == [[2, 1, 5]]
