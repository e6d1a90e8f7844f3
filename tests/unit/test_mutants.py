"""Some mutated recordings through every analysis; ``make fuzz`` tries many more."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz import mutants

_MUTATED = 6  # evenly among all small recordings, with those beside the repository and without


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
