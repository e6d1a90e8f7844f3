"""Merged stacks: drawn, and by law."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import TraceBuilder
from notebook_prof.analysis import flame, operators
from notebook_prof.analysis.device.kernel_launches import launching_rows
from notebook_prof.testing import draw
from tests.strategies import traces

from .test_call_tree import PICTURE, callers_of
from .test_call_tree import paths as call_paths


def paths(table):
    """Folded stacks with their values."""
    return dict(zip(map(";".join, call_paths(table)), table["value"], strict=True))


def test_stacks_are_merged():
    trace = draw(PICTURE)
    assert paths(flame(trace)) == {
        "main": 0,
        "main;train": 5,
        "main;train;linear": 5,
        "main;train;linear;mm": 11,
        "main;train;linear;add": 5,
        "main;train;relu": 6,
        "other": 0,
        "other;linear": 4,
        "other;linear;mm": 8,
    }
    merged = paths(flame(trace, by_thread=False))
    assert set(merged) == {path.partition(";")[2] for path in paths(flame(trace))} - {""}


def test_slices_that_are_left_out_are_skipped_in_the_stacks():
    trace = draw(PICTURE, categories={"linear": "python"}, launches=[("add", "gemm")])
    below = {f"main;train;{name}" for name in ("mm", "add", "relu")}
    assert set(paths(flame(trace, category="operator", track=0))) == {"main", "main;train"} | below
    found = paths(flame(trace, category="python", track=0, metric="device_ns"))
    assert found == {"main": 0, "main;linear": 12}


def test_a_step_is_not_in_the_stack_of_the_call_that_began_it():
    b = TraceBuilder()
    row = {"track": b.track("main")}
    names = ["module", "begin", "ProfilerStep#0", "mm", "begin", "ProfilerStep#1", "mm"]
    b.slices(ts=[0, 10, 15, 30, 60, 65, 80], dur=[200, 10, 43, 20, 10, 60, 20], name=names, **row)
    table = flame(b.seal(), by_thread=False)
    found = table[["name", "depth", "count"]].values.tolist()
    assert found == [["module", 0, 1], ["ProfilerStep*", 1, 2], ["begin", 1, 2], ["mm", 2, 2]]


@given(traces(), st.none() | st.tuples(st.integers(0, 60), st.integers(61, 120)), st.booleans())
def test_values_sum_and_boxes_fit(trace, window, by_thread):
    table = flame(trace, window=window, by_thread=by_thread)
    assert table["value"].sum() == operators(trace, window=window)["self_ns"].sum()
    assert table["node"].tolist() == list(range(len(table)))
    inner = table[table["parent"].notna()]
    around = table.loc[inner["parent"].to_numpy(dtype=np.int64)]
    assert (inner["start"].to_numpy() >= around["start"].to_numpy()).all()
    ends = (inner["start"] + inner["total"]).to_numpy()
    assert (ends <= (around["start"] + around["total"]).to_numpy()).all()
    assert (inner["depth"].to_numpy() == around["depth"].to_numpy() + 1).all()
    for _, row in table.groupby("depth"):
        assert (row["start"].to_numpy()[1:] >= (row["start"] + row["total"]).to_numpy()[:-1]).all()
    sums = inner.groupby(inner["parent"].astype("int64"))["total"].sum()
    total = table["value"].add(sums, fill_value=0)
    assert total.tolist() == table["total"].tolist()


@given(traces())
def test_stacks_by_definition(trace):
    slices, callers = trace.slices, callers_of(trace)
    kinds = trace.tracks.set_index("track")["kind"]
    own, device = Counter(), Counter()
    for row in np.flatnonzero(slices["track"].map(kinds) == "thread"):
        own[tuple(callers(row)[::-1])] += slices["self_ns"].iloc[row]
    launcher = launching_rows(trace)
    for row in np.flatnonzero(launcher >= 0):
        device[tuple(callers(launcher[row])[::-1])] += slices["dur"].iloc[row]
    for metric, expected in (("self_ns", own), ("device_ns", device)):
        table = flame(trace, metric=metric, by_thread=False)
        stacks = call_paths(table.assign(name=list(zip(table["name"], table["category"], strict=True))))
        value_of = dict(zip(stacks, table["value"], strict=True))
        assert {k: v for k, v in value_of.items() if v} == {k: v for k, v in expected.items() if v}
