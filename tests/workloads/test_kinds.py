"""Kinds of cells and files: what is said of each. docs/truth.md has a row for every one."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

from .conftest import Notebooks
from .kinds import CELLS, Kind, keep, play
from .kinds_of_files import FILES, FileKind, opened
from .truth import DOCUMENT


def check(kind: Kind | FileKind, said: str) -> None:
    if file := os.environ.get("NBP_TRUTH"):
        keep({kind.kind: said}, Path(file))
    assert re.search(kind.said, said), said


@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.kind)
def test_cells(notebooks: Notebooks, kind: Kind) -> None:
    if kind.needs and importlib.util.find_spec(kind.needs) is None:
        pytest.skip(f"needs {kind.needs}")
    check(kind, play(notebooks.kernel("kinds"), kind))


@pytest.mark.parametrize("kind", FILES, ids=lambda kind: kind.kind)
def test_files(kind: FileKind, tmp_path: Path) -> None:
    check(kind, opened(kind, tmp_path))


def test_the_page_has_a_row_for_each_kind() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [one.kind for one in (*CELLS, *FILES) if f"\n| {one.kind} | {one.true} |" not in text] == []
