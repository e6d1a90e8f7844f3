"""What holds of the selection for any sequence of changes."""

import json

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import Selection
from notebook_prof.selection import DIMENSIONS
from tests.strategies import traces

from ..draws import draws

law = settings(max_examples=draws(60))
numbers = st.none() | st.lists(st.integers(0, 5), max_size=3)
texts = st.none() | st.lists(st.sampled_from(["mm", "add", "forward", "data"]), max_size=3)
windows = st.none() | st.tuples(st.integers(0, 119), st.integers(1, 60)).map(lambda w: (w[0], w[0] + w[1]))
values = st.fixed_dictionaries(
    {},
    optional={
        "window": windows, "name": texts, "category": texts, "phase": texts,
        "step": numbers, "track": numbers, "rank": numbers, "group": texts,
    },
)  # fmt: skip
sources = st.sampled_from([None, "timeline", "table", "memory"])
changes = st.lists(st.tuples(sources, values), max_size=8)


def keeps(value, row, dimension):
    """Whether one row satisfies one clause, by definition."""
    if dimension == "window":
        start, end = value
        return row["ts"] < end and (row["ts"] + row["dur"] > start or row["ts"] >= start)
    return not pd.isna(row[dimension]) and row[dimension] in value


@law
@given(traces(max_slices=8), changes, sources)
def test_the_mask_is_its_definition(trace, made, viewer):
    selection = Selection()
    for source, change in made:
        selection.update(source, **change)
    table = trace.slices
    others = [c for c in selection.clauses.values() if viewer is None or c.source != viewer]
    used = [c for c in others if c.dimension not in ("rank", "group")]
    rows = [table.iloc[i] for i in range(len(table))]
    expected = [all(keeps(c.value, row, c.dimension) for c in used) for row in rows]
    assert selection.mask(table, viewer=viewer).tolist() == expected


@law
@given(changes)
def test_the_last_value_of_each_dimension_stands(made):
    selection, expected = Selection(), {}
    for source, change in made:
        selection.update(source, **change)
        expected.update(change)
    for dimension in DIMENSIONS:
        value, want = getattr(selection, dimension), expected.get(dimension)
        assert (value is None) == (not want)
        if want:
            assert value == (tuple(want) if dimension == "window" else tuple(sorted(set(want))))


@law
@given(changes)
def test_watchers_can_follow(made):
    selection, mirror, writers = Selection(), Selection().to_state(), []
    selection.watch(lambda s, patch, source: (mirror.update(patch), writers.append(source)))
    for source, change in made:
        before = selection.revision
        changed = selection.update(source, **change)
        assert selection.revision == before + changed
    assert len(writers) == selection.revision
    assert {**mirror, "revision": selection.revision} == selection.to_state()


@law
@given(changes)
def test_state_survives_json_and_catching_up(made):
    selection, late = Selection(), Selection()
    for i, (source, change) in enumerate(made):
        selection.update(source, **change)
        if i % 2:
            late.apply_patch(selection.to_state())
    late.apply_patch(json.loads(json.dumps(selection.to_state())), base_revision=late.revision)
    assert {**late.to_state(), "revision": 0} == {**selection.to_state(), "revision": 0}


@law
@given(changes, values, values)
def test_simultaneous_changes_of_different_dimensions_both_survive(made, python, page):
    page = {name: value for name, value in page.items() if name not in python}
    selection = Selection()
    for source, change in made:
        selection.update(source, **change)
    state = selection.to_state()
    selection.update(None, **python)
    selection.apply_patch({**state, **{k: v if v is None else list(v) for k, v in page.items()}}, "page")
    reference = Selection()
    for source, change in (*made, (None, python), (None, page)):
        reference.update(source, **change)
    assert {**selection.to_state(), "revision": 0} == {**reference.to_state(), "revision": 0}


@law
@given(traces(max_slices=8), changes)
def test_each_clause_only_takes_away(trace, made):
    selection, before = Selection(), np.ones(len(trace.slices), bool)
    for dimension in DIMENSIONS:
        for source, change in made:
            if change.get(dimension):
                selection.update(source, **{dimension: change[dimension]})
        after = selection.mask(trace.slices)
        assert not (after & ~before).any()
        before = after
