"""A line of the cell with all that it calls: the difference by statement, and what the verdict says of it."""

from __future__ import annotations

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.comparison.comparison import Comparison
from notebook_prof.comparison.parts import statement_lines
from notebook_prof.trace import Trace, TraceBuilder

STEPS = 12
CALL, INNER, LAST = "cell:2  y = slow(x)", "tools.py:7  total += x", "cell:3  z = y + 1"


def run(inner_ns: int, last_ns: int = 200, own_ns: int = 100) -> Trace:
    """Steps of two statements; the first calls a function, that calls itself once, and an operator."""
    b = TraceBuilder()
    track = b.track("main", pid=1, tid=1)
    length = 1_000 + inner_ns + own_ns
    begin = np.arange(STEPS) * length
    rng = np.random.default_rng(inner_ns)
    extra = rng.integers(0, 5, STEPS)
    pieces = [
        (CALL, "python", 0, own_ns + inner_ns + extra),
        ("slow (tools.py)", "python", 10, inner_ns + extra),
        (INNER, "python", 20, inner_ns - 10 + extra),
        ("slow (tools.py)", "python", 30, inner_ns - 30 + extra),
        (INNER, "python", 40, inner_ns - 40 + extra),
        ("aten::mm", "operator", 50, np.full(STEPS, 20)),
        (LAST, "python", length - 300, np.full(STEPS, last_ns)),
    ]
    for name, category, at, dur in pieces:
        b.slices(ts=begin + at, dur=dur, name=name, category=category, track=track)
    b.steps(np.arange(STEPS), begin, np.full(STEPS, length), "mark")
    return b.seal(window=(0, STEPS * length))


@pytest.fixture
def c() -> Comparison:
    return nbp.compare(run(300), run(450), noise=1)


def test_a_statement_has_the_time_of_what_it_calls(c: Comparison) -> None:
    table = c.attribution("statement").set_index("statement")
    assert set(table.index) == {"cell:2", "cell:3", "outside of what was recorded"}
    extra = [np.random.default_rng(inner).integers(0, 5, STEPS) for inner in (300, 450)]
    used = [np.asarray(side.times(), np.int64) for side in (c._a, c._b)]
    assert [len(times) for times in used] == [STEPS - 1, STEPS - 1], "the first step is warm-up"
    assert table.loc["cell:2", "a_ns"] == pytest.approx(400 + extra[0][1:].mean())
    assert table.loc["cell:2", "b_ns"] == pytest.approx(550 + extra[1][1:].mean())
    assert (table.loc["cell:3", ["a_ns", "b_ns"]] == 200).all()


def test_it_divides_the_step_as_own_times_do(c: Comparison) -> None:
    for table in (c.statements, c.lines):
        assert table["delta_ns"].sum() == c.delta_ns
        assert table[["a_ns", "b_ns"]].sum().tolist() == pytest.approx([1_400, 1_550])
    own = c.attribution("line").set_index("line")
    assert (
        own.loc["tools.py:7", "delta_ns"]
        == c.attribution("statement").set_index("statement").loc["cell:2", "delta_ns"]
    )


def test_only_statements_themselves_are_calls_of_it(c: Comparison) -> None:
    table = c.attribution("statement").set_index("statement")
    assert table.loc["cell:2", ["a_calls", "b_calls", "change"]].tolist() == [1.0, 1.0, "slower"]
    assert c.attribution("line").set_index("line").loc["tools.py:7", "a_calls"] > 1


def test_the_line_of_the_outermost_frame_is_found_at_any_depth() -> None:
    trace = run(300)
    names, line = trace.slices["name"].astype(str), trace.slices["line"].astype(str)
    code, itself = statement_lines(trace, np.append(np.arange(len(names)), -1))
    words = np.append(np.asarray(trace.slices["line"].cat.categories), "")[code]
    assert words[:-1].tolist() == np.where(names == LAST, "cell:3", "cell:2").tolist()
    assert words[-1] == ""
    assert itself[:-1].tolist() == names.isin([CALL, LAST]).tolist()
    assert set(line) == {"cell:2", "cell:3", "tools.py:7"} | (set(line) & {"nan"})


def test_the_line_of_a_loop_leaves_those_of_its_body_their_time() -> None:
    """Where statements are timed it is around them, without a function between."""
    b = TraceBuilder()
    names = ["cell:1  for x in xs:", "cell:2  y = slow(x)", "slow (tools.py)", INNER, "cell:3  z = y"]
    ts, dur = [0, 10, 20, 30, 70], [100, 50, 35, 20, 25]
    b.slices(ts=ts, dur=dur, name=names, track=b.track("main"), category="python")
    code, itself = statement_lines(trace := b.seal(), np.arange(5))
    words = trace.slices["line"].cat.categories[code].tolist()
    assert words == ["cell:1", "cell:2", "cell:2", "cell:2", "cell:3"]
    assert itself.tolist() == [True, True, False, False, True]
