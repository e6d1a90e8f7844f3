"""Pages of the guide: each call of a Profile that they show can be made, or is refused with a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from notebook_prof import NotebookProfError, Profile, open_profile

ROOT = Path(__file__).parents[2]
PAGES = ("index", "guide", "views", "tables", "files", "profile", "memory", "input", "limits", "what-if")
FENCE = re.compile(r"^(?P<marks>`{3,}).*?^(?P=marks)[ \t]*$", re.MULTILINE | re.DOTALL)
LEAST = {"guide": 1, "views": 30, "tables": 20, "files": 6, "profile": 60, "limits": 1}
"""Calls of a page that are answered, not refused."""
LONG = ("p.replay(",)
"""Calls that take seconds; tests of their own hold them."""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Profile]:
    """Five steps of a small network on a CPU, in a folder where files may be written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("guide"))
        yield open_profile(ROOT / "tests" / "data" / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz")


def calls(page: str) -> list[str]:
    """Return the calls of a page: code in its text, and lines of its examples that are whole."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    code = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    code += [line for block in FENCE.finditer(text) for line in block[0].splitlines()]
    shown = []
    for line in code:
        call = re.sub(r" {2,}#.*", "", line.removeprefix(">>> ")).strip()
        if call.startswith("p.") and "…" not in call and "..." not in call and not call.startswith(LONG):
            try:
                ast.parse(call, mode="eval")
            except SyntaxError:
                continue  # an assignment, or what an example prints
            shown.append(call)
    return sorted(set(shown))


asked: dict[str, str] = {}
"""Calls of all pages, and why they are not answered; many stand on several."""


@pytest.mark.parametrize("page", PAGES)
def test_calls_of_a_page_can_be_made(page: str, profile: Profile) -> None:
    """Many answers are empty here, or refused by a sentence of ours; nothing else may be raised."""
    row = pd.Series({"what_if": {"scale": {"aten::mm": 0.5}}, "select": {"name": "aten::mm"}})
    track, query = profile.trace.tracks["track"].iloc[0], "select name from operators limit 2"
    names: dict[str, Any] = {"p": profile, "at": 1000, "track": track, "name": "aten::mm", "row": row}
    names |= {"query": query, "a": 0, "b": 10**7}
    wrong, answered = {}, 0
    for call in calls(page):
        if call not in asked:
            try:
                eval(call, names)
                asked[call] = ""
            except (NotebookProfError, AssertionError):
                asked[call] = "refused"
            except Exception as error:
                asked[call] = wrong[call] = repr(error)
        answered += not asked[call]
    profile.selection.clear()
    assert wrong == {}
    assert answered >= LEAST.get(page, 3)
