"""Lines that samples may have missed on one side are no facts; those that the source tells of are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.comparison.comparison import Comparison
from notebook_prof.trace import Trace, TraceBuilder

STEPS, STEP_NS = 12, 8_000
SLEEP, TRAIN = "cell:3  time.sleep(0.006)", "cell:4  loss = model(x).backward()"


def run(*lines: tuple[str, int], work_ns: int = 1_500, source: str = "") -> Trace:
    """Steps with lines over the last part of them, and an operator at their ends."""
    b = TraceBuilder(metadata={"cell_source": source} if source else {})
    track = b.track("main", pid=1, tid=1)
    end = (np.arange(STEPS) + 1) * STEP_NS
    pieces = [(name, "python", dur) for name, dur in lines]
    pieces += [("aten::mm", "operator", work_ns)] if work_ns else []
    for name, category, dur in pieces:
        durs = np.full(STEPS, dur)
        b.slices(ts=end - durs, dur=durs, name=name, category=category, track=track)
    b.steps(np.arange(STEPS), end - STEP_NS, np.full(STEPS, STEP_NS), "mark")
    return b.seal(window=(0, STEPS * STEP_NS))


def changes(c: Comparison) -> dict[str, str]:
    return dict(zip(c.attribution("line")["line"], c.attribution("line")["change"], strict=True))


def test_a_line_is_not_gone_where_its_operators_still_run() -> None:
    before, after = run((TRAIN, 1_600)), run((SLEEP, 8_000))
    c = nbp.compare(before, after)
    assert changes(c)["cell:4"] == "same", "its 1.6 µs were never sampled: the sleep beside it has them"
    assert changes(c)["cell:3"] == "new", "most of its time is its own"
    table = c.attribution("line").set_index("line")
    assert not table.loc["cell:4", "significant"]
    assert np.isnan(table.loc["cell:4", "low_ns"])
    assert table["delta_ns"].sum() == c.delta_ns
    assert table.loc["cell:4", "delta_ns"] == -1_600
    assert "line 4" not in str(c.verdict)
    back = nbp.compare(after, before)
    assert (changes(back)["cell:4"], changes(back)["cell:3"]) == ("same", "gone")


def test_a_line_is_gone_where_nothing_of_it_runs_any_more() -> None:
    c = nbp.compare(run((TRAIN, 1_600)), run((SLEEP, 8_000), work_ns=0))
    assert changes(c)["cell:4"] == "gone"


@pytest.mark.parametrize("kept", [True, False])
def test_the_source_is_believed(kept: bool) -> None:
    head = "%%profile\nfor x in xs:\n"
    sleep, train = "    time.sleep(0.006)\n", "    loss = model(x).backward()\n"
    before = run((TRAIN, 1_600), source=head + sleep + train)
    after = run((SLEEP, 8_000), source=head + sleep + (train if kept else ""))
    assert changes(nbp.compare(before, after))["cell:4"] == ("same" if kept else "gone")


def sampled(times: dict[str, list[int]], at: int = 500) -> Trace:
    """Steps with a timed statement of 300 ns, and what samples saw in each step, from 500 ns on."""
    b = TraceBuilder()
    track = b.track("main", pid=1, tid=1)
    begin = np.arange(STEPS) * 1_000
    b.slices(ts=begin, dur=np.full(STEPS, 300), name="cell:7  spin(x)", category="python", track=track)
    for name, durs in times.items():
        rows = np.flatnonzero(durs)
        dur = np.array(durs)[rows]
        b.slices(ts=begin[rows] + at, dur=dur, name=name, category="python", track=track)
    b.steps(np.arange(STEPS), begin, np.full(STEPS, 1_000), "mark")
    b.table("statements", pd.DataFrame({"ts": begin, "dur": 300, "line": 7}))
    b.table("samples", pd.DataFrame({"ts": begin, "dur": 1_000, "track": track, "count": 1}))
    return b.seal(window=(0, STEPS * 1_000))


def test_a_sample_more_is_no_call_more() -> None:
    """Samples cut a line that ran once a step in two; py-spy saw 1.10 calls for 1.00 of the same cell."""
    c = nbp.compare(sampled({}), sampled({"cell:7  spin(x)": [300] * STEPS}))
    (row,) = c.attribution("line").query("line == 'cell:7'").to_dict("records")
    assert (row["a_calls"], row["b_calls"], row["change"], row["significant"]) == (1.0, 1.0, "slower", True)


@pytest.mark.parametrize(
    ("durs", "change"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0], "same"),
        ([200, 180, 220] * 4, "new"),
        ([0, 200, 0] * 4, "same"),
    ],
)
@pytest.mark.parametrize("at", [0, 500])
@pytest.mark.parametrize(("by", "key"), [("line", "In[1]:9"), ("name", "while True: pass")])
def test_what_samples_saw_on_one_side_is_judged_by_its_interval(
    durs: list[int], change: str, by: str, key: str, at: int
) -> None:
    c = nbp.compare(sampled({}), sampled({"In[1]:9  while True: pass": durs}, at))
    table = c.attribution(by)
    (row,) = table[table[by].str.contains(key, regex=False)].to_dict("records")
    assert row["change"] == change
    assert row["significant"] == (change == "new")
    assert (row["low_ns"] > 0) == (change == "new")
    assert table["delta_ns"].sum() == c.delta_ns
