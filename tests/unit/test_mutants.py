"""Some mutated recordings through every analysis; ``make fuzz`` tries many more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from notebook_prof.errors import FormatError
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.writers.native import write_native
from tests.fuzz import mutants

_MUTATED = 12  # evenly among all small recordings, with those beside the repository and without


def test_a_few_mutants_of_each_kind(tmp_path: Path) -> None:
    small = [path for path in mutants.samples() if path.stat().st_size < 20_000]
    chosen = small[:: max(1, len(small) // _MUTATED)]
    failed = {
        f"{path.name}:{number}": [f"{name}: {error!r}" for name, error in failures]
        for path in chosen
        for number in (1,)
        if (failures := mutants.one(path, number, tmp_path))
    }
    assert len(chosen) >= _MUTATED
    assert failed == {}


def test_all_is_asked_of_them() -> None:
    names = [name for name, _ in mutants.analyses()]
    assert {"verdict", "copies", "roofline", "lines", "account", "memory_growth"} <= set(names)
    assert len(names) >= 50


@pytest.mark.parametrize(
    ("column", "value"),
    [("depth", -1), ("depth", 5), ("dur", -1), ("ts", 2**62), ("self_ns", -5), ("parent", 3)],
)
def test_tables_with_right_checksums_and_wrong_values(tmp_path: Path, column: str, value: int) -> None:
    """A depth of -1 ended in the picture of the timeline."""
    b = TraceBuilder()
    b.slices(ts=[0, 1, 2], dur=[9, 5, 2], name=["a", "b", "c"], track=b.track("main"))
    trace = b.seal()
    slices = trace.slices.copy()
    slices[column] = slices[column].where(slices.index != 1, value).astype(slices[column].dtype)
    tables = {**trace._tables, "slices": slices}
    write_native(Trace(tables, metadata=trace.metadata, span=trace.span), tmp_path / "t.nbprof.zip")
    with pytest.raises(FormatError, match=rf"slices\.{column} of row 1 is"):
        read_trace(tmp_path / "t.nbprof.zip")


def test_changes_are_drawn_anew() -> None:
    path = mutants.samples()[0]
    assert mutants.mutated(path, random.Random(1)) != mutants.mutated(path, random.Random(2))
