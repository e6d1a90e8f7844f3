"""Flames in the order of time, and sandwiches: drawn, and by law on any trace."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import Trace
from notebook_prof.analysis import call_tree, flame, sandwich
from notebook_prof.errors import OptionError
from notebook_prof.testing import draw
from tests.strategies import traces

from .test_call_tree import paths

LOOP = "main: [a ][b ][a ][a ]\nmain:  []  []  []  []"


def check_layout(table: pd.DataFrame) -> None:
    """Boxes lie inside of their parents, siblings do not overlap, and what is below sums to no more."""
    up = table["parent"].to_numpy(dtype=np.int64, na_value=-1)
    start, total = table["start"].to_numpy(), table["total"].to_numpy()
    inner = up >= 0
    assert (start[inner] >= start[up[inner]]).all()
    assert (start[inner] + total[inner] <= (start + total)[up[inner]]).all()
    below = np.bincount(up[inner], total[inner], minlength=len(table))
    by_side = table[inner].assign(side=np.sign(table["depth"][inner]))
    for (_, side), rows in by_side.groupby([up[inner], "side"]):
        ends = (rows["start"] + rows["total"]).to_numpy()
        assert (rows["start"].to_numpy()[1:] >= ends[:-1]).all(), side
    if (table["depth"] >= 0).all():
        assert (below + table["value"] == total).all()


@given(traces(), st.booleans(), st.booleans())
def test_both_orders_hold_the_same_time(trace: Trace, by_thread: bool, fold_libraries: bool) -> None:
    options = {"by_thread": by_thread, "fold_libraries": fold_libraries}
    for metric in ("self_ns", "device_ns", "count"):
        heavy, timed = (
            flame(trace, metric=metric, order=order, **options) for order in ("left_heavy", "time")
        )
        for table in (heavy, timed):
            check_layout(table)
        assert len(timed) >= len(heavy)
        assert timed["value"].sum() == heavy["value"].sum()
        pd.testing.assert_series_equal(
            heavy.groupby(["depth", "name"])["total"].sum(), timed.groupby(["depth", "name"])["total"].sum()
        )


@given(traces(), st.sampled_from(["self_ns", "device_ns"]))
def test_a_sandwich_holds_all_of_its_name(trace: Trace, metric: str) -> None:
    whole = "total_ns" if metric == "self_ns" else "device_ns"
    for name in trace.slices["name"].unique().tolist():
        table = sandwich(trace, name, metric=metric)
        if not len(table):
            continue
        check_layout(table)
        assert table["node"].tolist() == list(range(len(table)))
        tree = call_tree(trace)
        outermost = tree[[path[-1] == name and name not in path[:-1] for path in paths(tree)]]
        assert table["total"][0] == outermost[whole].sum()
        callers = table[table["depth"] < 0]
        called = tree.loc[outermost["parent"].dropna().astype(int), "name"]
        assert set(callers.loc[callers["depth"] == -1, "name"]) == set(called)
        inside = outermost.loc[outermost["parent"].notna(), whole].sum()
        assert callers.loc[callers["depth"] == -1, "total"].sum() == inside


def test_neighbours_in_time_are_one_node() -> None:
    table = flame(draw(LOOP), order="time", by_thread=False)
    top = table[table["depth"] == 0]
    assert top["name"].tolist() == ["a", "b", "a"]
    assert top["count"].tolist() == [1, 1, 2]
    assert top["start"].tolist() == [0, 4, 8]
    steps = "main: [ProfilerStep#1 ][ProfilerStep#2 ]"
    names = flame(draw(steps), order="time", by_thread=False)["name"].tolist()
    assert names == ["ProfilerStep#1", "ProfilerStep#2"]
    with pytest.raises(OptionError, match="left_heavy"):
        flame(draw(LOOP), order="left heavy")
