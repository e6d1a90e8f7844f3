"""A history of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from notebook_prof.runs import writing
from notebook_prof.runs.folder import NAME, VARIABLE


@pytest.fixture(autouse=True)
def own_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that another test lost are not counted."""
    monkeypatch.setattr(writing, "_writer", writing._Writer())


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the history of this test."""
    folder = tmp_path / NAME
    monkeypatch.setenv(VARIABLE, str(folder))
    monkeypatch.setattr(writing, "_writer", writing._Writer())
    yield folder
    writing.wait(60)
