"""The runs of a cell as `%profile_history` shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof.errors import OptionError
from notebook_prof.runs.cell_history import CellHistory, cell_history
from notebook_prof.runs.store import Store
from notebook_prof.units import format_ns

from .test_previous_run import SOURCE, keep, recorded, steps

FASTER = SOURCE.replace("work(x)", "work(x, fast=True)  # <b>")


@pytest.fixture
def shown(history: Path) -> CellHistory:
    keep(recorded(steps(1)), name="baseline")
    keep(recorded(steps(2)))
    keep(recorded(0.4 * steps(3), FASTER), FASTER, kept=True)
    keep(recorded(steps(4), "print(other)"), "print(other)", failed=True)
    return cell_history(Store(history), "baseline")


def test_its_numbers_are_those_of_the_tables(shown: CellHistory) -> None:
    table = shown.table
    runs = nbp.history()
    assert table["run"].tolist() == runs.loc[runs["lineage"] == 1, "run"].tolist() == [1, 2, 3]
    assert np.isnan(table["change"].iloc[0])
    c = nbp.compare(nbp.load(2), nbp.load(3))
    last = table.iloc[2]
    assert (last["change"], last["low"], last["high"]) == (c.change, *c.interval)
    assert table["significant"].tolist() == [False, False, True]
    assert table["source_change"].tolist() == ["", "same", "line 3"]
    assert shown.sparkline == "██▁"


def test_the_text_names_runs_changes_and_calls(shown: CellHistory) -> None:
    text = repr(shown)
    assert text.startswith("3 runs of this cell, ")
    assert "baseline" in text
    assert "%profile_history 2 3    or  nbp.compare(nbp.load(2), nbp.load(3))" in text
    assert "≈ " in text.splitlines()[3]
    assert "line 3, kept" in text.splitlines()[4]


@pytest.mark.parametrize(
    ("what", "runs"),
    [("baseline", [1, 2, 3]), ("3", [1, 2, 3]), ("fast=True", [1, 2, 3]), ("", [4]), ("4", [4])],
)
def test_which_cell_is_meant(shown: CellHistory, history: Path, what: str, runs: list[int]) -> None:
    assert cell_history(Store(history), what).table["run"].tolist() == runs


def test_what_is_not_there(shown: CellHistory, history: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no run, name or cell 'basline': did you mean 'baseline'"):
        cell_history(Store(history), "basline")
    empty = cell_history(Store(tmp_path / "empty"), notes=("A note.",))
    assert repr(empty).startswith("No run of this cell is in the history")
    assert repr(empty).endswith("A note.")
    alone = cell_history(Store(history), "4")
    assert "failed" in repr(alone)
    assert repr(alone).startswith(f"1 run of this cell, {format_ns(alone.table['p50_ns'].iloc[0])}  ")
