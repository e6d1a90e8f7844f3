"""The pages `docs/coming-from`: their examples give what they show, and every call in a table can be made."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from notebook_prof.cli.main import main
from notebook_prof.jupyter.options import parse
from notebook_prof.views.tabs import TABS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "coming-from").glob("*.md"))
SPAN = re.compile(r"`([^`]+)`")
MAGIC, COMMAND = "%%profile ", "notebook-prof analyze "
EMPTY = {
    *("p.device()", "p.kernels()", "p.distributed()", "p.distributed.collectives()", "p.device.roofline()"),
    *("p.operators.work()", "p.memory()", "p.memory.peak()", "p.input.workers()", "p.memory.growth()"),
    *("p.mindspore.cluster_steps()", "p.mindspore.cluster_links()", "p.mindspore.cluster_advice(stages=2)"),
    *("p.cpu.use()", "ranks.idle()", 'p.operators(where="category=io")', "p.trace.counters"),
    *("p.lines()", "p.advice()"),
}
"""Calls whose answer may have no rows: the recording of a page has no device, no cluster, no collectives."""


@pytest.fixture(scope="module", params=PAGES, ids=lambda page: page.stem)
def page(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture(scope="module")
def names(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the examples of a page have made, in a folder where files may be written."""
    here = tmp_path_factory.mktemp(page.stem)
    for folder in ("docs", "notebooks", "tests"):
        (here / folder).symlink_to(ROOT / folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setattr("notebook_prof.ranks.reduction._QUIET_S", 600)  # of a bar, which a busy machine shows
        yield run_examples(page)


def run_examples(page: Path) -> dict[str, Any]:
    """Run the examples of a page, and give the names that they bind."""
    text = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    assert len(examples.examples) >= 3
    with pd.option_context("display.width", 80, "display.max_columns", 20):
        assert doctest.DocTestRunner().run(examples, clear_globs=False).failed == 0
    return examples.globs


def spans(page: Path) -> list[str]:
    """What stands as code in the page's text and tables, outside of its examples."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return SPAN.findall(text)


def is_empty(answer: Any) -> bool:
    return isinstance(answer, pd.DataFrame) and answer.empty


def test_every_call_of_a_page_can_be_made(page: Path, names: dict[str, Any]) -> None:
    """Of the Profile, the ranks and the package; what gives no rows is one of those that cannot."""
    of_ours = re.compile(rf"({'|'.join(name for name in names if name.isidentifier())})\.\w.*")
    calls = [span for span in spans(page) if of_ours.fullmatch(span)]
    calls = [call for call in calls if "…" not in call and call != "nbp.open_profile"]
    assert len(calls) >= 12, calls
    answers = {call: eval(call, names) for call in calls}
    assert {call for call, answer in answers.items() if is_empty(answer)} <= EMPTY
    assert sum(isinstance(answer, pd.DataFrame) for answer in answers.values()) >= 5


def test_columns_of_a_page_are_those_of_its_tables(page: Path, names: dict[str, Any]) -> None:
    text = page.read_text(encoding="utf-8")
    for columns, call in re.findall(r"((?:`\w+`(?: and )?)+) (?:of|in) `((?:p|ranks)\.[^`]+\))`", text):
        assert set(SPAN.findall(columns)) <= set(eval(call, names).columns), (columns, call)


def test_every_line_and_command_of_a_page_is_understood(
    page: Path, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for span in spans(page):
        if span.startswith(MAGIC):
            assert parse(span.removeprefix(MAGIC)).name == "p"
        if span.startswith(COMMAND):
            assert main(span.split()[1:]) == 0
            assert "total device time" in capsys.readouterr().out


def test_every_tab_of_a_page_is_one_of_the_rail(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tabs = re.findall(r"tabs? \*(\w+)\*(?:, \*(\w+)\*)?", text)
    assert tabs or page.stem == "hta"
    assert {name for pair in tabs for name in pair if name} <= {*TABS, "operators"}
