"""The selection: clauses, cross-filter, patches, watchers, threads."""

from __future__ import annotations

import logging
import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest

from notebook_prof.errors import SelectionError
from notebook_prof.selection import Selection

from ..recorded import in_threads


@pytest.fixture
def slices() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ts": [0, 10, 20, 30],
            "dur": [10, 10, 10, 0],
            "name": pd.Categorical(["mm", "add", "mm", "relu"]),
            "phase": pd.Categorical(["data", None, "forward", None]),
            "step": pd.array([0, 0, 1, None], dtype="Int32"),
        }
    )


def rows(selection: Selection, table: pd.DataFrame, **kwargs: object) -> list[int]:
    return np.flatnonzero(selection.mask(table, **kwargs)).tolist()


def test_the_number_of_a_line_is_no_place() -> None:
    with pytest.raises(SelectionError, match="'cell:2'; got 2"):
        Selection().update(line=2)


def test_a_viewer_is_not_filtered_by_what_it_set(slices):
    selection = Selection()
    selection.update("timeline", window=(5, 25))
    selection.update("table", name="mm")
    assert rows(selection, slices) == [0, 2]
    assert rows(selection, slices, viewer="table") == [0, 1, 2]
    assert rows(selection, slices, viewer="timeline") == [0, 2]
    selection.name = "mm"  # the same value: the clause stays the table's
    assert rows(selection, slices, viewer="table") == [0, 1, 2]


def test_window_is_one_tuple_property_and_reads_text():
    selection = Selection()
    selection.window = ("2.1ms", "5 ms")
    assert selection.window == (2_100_000, 5_000_000)
    assert selection.window.dur == 2_900_000
    selection.window = (1.5, np.float64(2.25))  # a page sends fractions; the window widens to whole ns
    assert selection.window == (1, 3)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nmae": "x"}, ["nmae", "'name'", "window, name, category"]),
        ({"window": (5, 1)}, ["must end after its start"]),
        ({"window": 5}, ["pair"]),
        ({"window": ("2 parsecs", "3ms")}, ["2 parsecs"]),
        ({"window": (float("nan"), 3)}, ["whole numbers"]),
        ({"name": 3}, ["names", "3"]),
        ({"name": ["a", None]}, ["names"]),
        ({"step": "four"}, ["whole numbers", "four"]),
        ({"step": True}, ["whole numbers"]),
    ],
)
def test_refusals_say_what_is_wrong_and_change_nothing(values, words):
    selection = Selection(step=1)
    with pytest.raises(SelectionError) as caught:
        selection.update(track=2, **values)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert selection.track is None
    assert selection.revision == 0


def test_unknown_attribute_names_the_nearest():
    selection = Selection()
    with pytest.raises(AttributeError, match="'step'"):
        selection.stpe
    with pytest.raises(SelectionError, match="'step'"):
        selection.stpe = 3
    assert not hasattr(selection, "_nothing")
    assert {"window", "focus", "step"} <= set(dir(selection))


def test_watchers_are_called_once_per_change():
    selection, changes = Selection(), []
    unwatch = selection.watch(lambda s, patch, source: changes.append((patch, source, s.revision)))
    assert selection.update("table", name="mm", step=[2, 1, 2])
    assert not selection.update("table", name=["mm"], step=(1, 2))  # the same: silent
    selection.focus = 7
    assert selection.clear()
    assert not selection.clear()
    assert changes == [
        ({"name": ["mm"], "step": [1, 2]}, "table", 1),
        ({"focus": 7}, None, 2),
        ({"name": None, "step": None, "focus": None}, None, 3),
    ]
    unwatch()
    unwatch()
    selection.step = 1
    assert len(changes) == 3


def test_a_failing_watcher_reaches_neither_writer_nor_the_others(caplog, capsys):
    selection, calls = Selection(), []

    def fails(*_):
        raise ValueError("boom")

    selection.watch(fails)
    selection.watch(lambda *_: calls.append(1))
    with caplog.at_level(logging.ERROR, logger="notebook_prof.selection"):
        selection.step = 1
    assert calls == [1]
    assert "boom" in caplog.text
    assert capsys.readouterr().err == ""


def test_a_watcher_may_write_and_all_see_the_changes_in_order():
    selection, first, second = Selection(), [], []

    def answer(s, patch, source):
        first.append(patch)
        if "step" in patch:
            s.update("watcher", name="mm")

    selection.watch(answer)
    selection.watch(lambda s, patch, source: second.append(patch))
    selection.step = 3
    assert first == second == [{"step": [3]}, {"name": ["mm"]}]


def test_watchers_are_called_outside_the_lock():
    selection, done = Selection(), threading.Event()

    def other_thread_reads(s, patch, source):
        thread = threading.Thread(target=lambda: (s.to_state(), done.set()))
        thread.start()
        thread.join(60)

    selection.watch(other_thread_reads)
    selection.apply_patch({"step": [1]}, "page")
    assert done.is_set()


def test_pinned_tracks_keep_their_order_filter_nothing_and_survive_clearing(slices):
    selection, changes = Selection(step=3), []
    selection.watch(lambda s, patch, source: changes.append((patch, source)))
    selection.pinned = np.array([7, 0, 7])
    assert selection.pinned == (7, 0)
    assert "pinned" not in selection.clauses
    assert selection.clear()
    assert selection.pinned == (7, 0)
    assert rows(selection, slices) == [0, 1, 2, 3]
    assert selection.apply_patch({"pinned": [0, 7]}, "tracks", base_revision=selection.revision)
    assert selection.pinned == (0, 7)
    selection.pinned = 3
    selection.pinned = None
    assert selection.pinned == ()
    assert [patch for patch, _ in changes if "pinned" in patch] == [
        {"pinned": [7, 0]}, {"pinned": [0, 7]}, {"pinned": [3]}, {"pinned": None},
    ]  # fmt: skip
    assert changes[2][1] == "tracks"
    with pytest.raises(SelectionError, match="pinned takes whole numbers"):
        selection.pinned = "stream 7"


@pytest.mark.parametrize("patch", [{"nmae": []}, {"focus": "x"}, {"pinned": ["x"]}, {"window": [3]}])
def test_a_wrong_patch_changes_nothing(patch):
    selection = Selection()
    with pytest.raises(SelectionError):
        selection.apply_patch({"step": [1], **patch}, "page")
    assert selection.step is None


def test_threads_lose_no_change():
    selection, changes = Selection(), []
    selection.watch(lambda s, patch, source: changes.append((source, next(iter(patch.values())))))

    def write(dimension: str) -> None:
        for value in range(200):
            selection.update(dimension, **{dimension: value})

    dimensions = ("step", "track", "rank")
    in_threads(*(partial(write, dimension) for dimension in dimensions))
    assert selection.revision == 600
    for dimension in dimensions:
        assert [value for source, value in changes if source == dimension] == [[v] for v in range(200)]


def test_undo_and_redo_walk_the_states_whoever_made_them() -> None:
    selection = Selection(step=1)
    selection.update("table", name="mm", step=None)
    selection.focus = 7
    selection.update("timeline", window=(0, 5))
    assert selection.undo()
    assert (selection.name, selection.window, selection.focus) == (("mm",), None, 7)
    assert selection.undo()
    assert (selection.step, selection.name) == ((1,), None)
    assert not selection.undo()
    assert selection.redo()
    # a page that goes back by itself sends the values of before
    selection.apply_patch({"name": None, "step": [1]})
    assert selection.redo()
    assert selection.redo()
    assert selection.window == (0, 5)
    assert not selection.redo()
    selection.undo()
    selection.phase = "forward"
    assert not selection.redo(), "another change ends what could be made again"


def test_many_changes_can_be_taken_back() -> None:
    selection = Selection()
    for step in range(300):
        selection.step = step
    assert sum(iter(selection.undo, False)) == 100
    assert selection.step == (199,)
