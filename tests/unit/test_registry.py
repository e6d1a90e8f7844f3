"""Which collectors are made for which names."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from notebook_prof.collectors import registry
from notebook_prof.collectors.base import Availability
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.collectors.registry import list_collectors, make
from notebook_prof.errors import OptionError


def names(*choice: str, **options: object) -> list[str]:
    return [collector.name for collector in make(choice or None, CollectorOptions(**options))]  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notebook_prof.collectors.nvml._availability", lambda: Availability(False, "no GPU"))


def test_the_list_says_what_is_available_and_why_not() -> None:
    table = list_collectors().set_index("name")
    assert list(table.index[:5]) == ["torch", "python", "system", "nvml", "marks"]
    assert table.loc[["python", "system", "marks"], "available"].all()
    assert not table.loc["nvml", "available"]
    assert table.loc["nvml", "reason"] == "no GPU"
    assert (table["records"] != "").all()


def test_python_is_always_chosen_and_torch_where_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert names() == ["system", "marks", "python"]
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert names() == ["torch", "system", "marks", "python"]
    assert names("torch") == ["torch", "system", "marks"]
    assert names("torch", python="sample") == ["torch", "system", "marks", "python"]


def test_an_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"no collector 'toch': did you mean 'torch'\?"):
        make(["toch"])


def test_a_gpu_is_counted_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notebook_prof.collectors.nvml._availability", lambda: Availability(True, "1 GPU"))
    assert names("python") == ["system", "nvml", "marks", "python"]


def test_other_packages_add_collectors(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("broken", "no.such.module:Collector", registry.GROUP),
        EntryPoint("again", "notebook_prof.collectors.python:PythonCollector", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    table = list_collectors().set_index("name")
    assert not table.loc["broken", "available"]
    assert "ModuleNotFoundError" in table.loc["broken", "reason"]
    assert table.loc["again", "available"]
    assert names("again")[0] == "python"
