"""A comparison of several runs a side: which is shown, how another is, and what a saved notebook keeps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import SIZE
from .desk import Desk
from .jupyter_page import Browser, NotebookPage
from .test_comparison_page import ComparedPage
from .test_without_kernel import SIZE as SIZE_OF_IMAGE
from .test_without_kernel import check_as_html, check_opened_again

SETUP = "%load_ext notebook_prof\nimport notebook_prof as nbp"
CELL = """%%profile_ab c --rounds 2
for step in nbp.steps(range(6)):
    total = sum(x * x for x in range(9_000))
%% b
for step in nbp.steps(range(6)):
    total = sum([x * x for x in range(3_000)])
"""


@pytest.fixture(scope="module")
def ran(desk: Desk) -> Iterator[NotebookPage]:
    """An open notebook that shows a comparison of two runs a side."""
    desk.page.set_viewport_size(SIZE)
    desk.browser.forget()
    page = desk.open("runs.ipynb", [SETUP, CELL])
    page.run_all()
    ComparedPage(page.page).ready()
    yield page
    desk.close()
    desk.browser.forget()


@pytest.fixture(scope="module")
def saved(ran: NotebookPage, root: Path, desk: Desk) -> Path:
    """That notebook, saved and closed."""
    ran.save()
    desk.close()
    ran.browser.forget()
    return root / "runs.ipynb"


def of_kernel(page: NotebookPage, expression: str) -> Any:
    return json.loads(page.kernel(f"import json; print(json.dumps({expression}))"))


def test_another_run_is_chosen_in_the_page_and_in_python(ran: NotebookPage) -> None:
    """The page says which run it shows and has the steps of it; Python has the same one."""
    shown = ComparedPage(ran.page)
    aligned = "[[at.run, at.step, at.ts] for at in c.aligned]"
    before = of_kernel(ran, aligned)
    titles = ran.page.locator(".nbp-compared-title")
    for number, (run, _, _) in enumerate(before):
        assert f"run {run} (of 2, counted from 0)" in titles.nth(number).inner_text()
    run = 1 - before[0][0]
    chooser = ran.page.locator("[data-control='run-a']")
    assert chooser.input_value() == str(before[0][0])
    chooser.focus()
    chooser.select_option(str(run))
    shown.wait(f"(c) => c.settings.shown[0] === {run} && c.counts.differences")
    shown.ready()
    now = of_kernel(ran, aligned)
    assert (now[0][0], now[1]) == (run, before[1]), "the other side keeps its step"
    assert shown.ask("(c) => c.store.get().starts") == [now[0][2], now[1][2]]
    assert shown.ask("(c) => c.aligned()") == [now[0][1], now[1][1]]
    assert f"run {run} (of 2, counted from 0)" in titles.first.inner_text()
    assert chooser.evaluate("e => e === document.activeElement"), "the keyboard stays where it was"
    steps = of_kernel(ran, f"c.steps.query('side == \"a\" and run == {run}')['ts'].tolist()")
    assert shown.ask("(c) => c.settings.steps.a.map(([, ts]) => ts)") == steps
    span = of_kernel(ran, f"c.recording(0, {run}).trace.span.end")
    assert shown.ask("(c) => c.sides[0].meta.span[1]") == span
    other = 1 - now[1][0]
    ran.kernel(f"c.align(b=({other}, 2))")
    shown.wait(f"(c) => c.settings.shown[1] === {other} && c.aligned()[1] === 2 && c.counts.differences")
    shown.ready()
    ran.kernel("c.select(name='for step in nbp.steps(range(6)):')")
    shown.wait("(c) => c.sides.every(({store}) => store.get().name?.length === 1)")
    assert ran.browser.errors == []
    assert ran.browser.elsewhere == []


def _assert_readable(page: Any) -> None:
    """What was compared can be read, and that a kernel is needed for the rest; nothing live is in the way."""
    static = page.locator(".nbp-static").first
    image = static.locator("img")
    image.wait_for(state="visible")
    assert (image.get_attribute("src") or "").startswith("data:image/png;base64,")
    assert image.get_attribute("alt") == "step times: 12 of a and 12 of b"
    wide, high, drawn = image.evaluate(SIZE_OF_IMAGE)
    assert wide > high > 100
    assert drawn > 300
    text = static.inner_text()
    for title in ("Steps", "Phases", "Source", "Operators", "Memory"):
        assert f"{title}\n" in text
    assert "One dot per step; lines are medians." in text
    assert "Run the cell again for the interactive views." in text
    rows = static.locator("table").nth(1).locator("tr").all_inner_texts()
    assert rows[2].endswith("~     total = sum([x * x for x in range(3_000)])"), rows
    last = static.locator("table").nth(1).locator("td:last-child").nth(1)
    assert last.evaluate("e => getComputedStyle(e).textAlign") == "left"
    assert page.locator(".nbp-comparison").count() == 0
    inside = static.evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert inside[0] <= inside[1], "nothing sticks out"


def test_a_saved_comparison_is_small_and_static_wherever_it_is_read(
    browser: Browser, saved: Path, tmp_path: Path
) -> None:
    """No script in the file; converted to HTML and to text it says the same."""
    (cell,) = [
        one for one in json.loads(saved.read_text())["cells"] if "%%profile_ab" in "".join(one["source"])
    ]
    first = next(output for output in cell["outputs"] if "text/html" in output.get("data", {}))
    html = "".join(first["data"]["text/html"])
    assert "<script" not in html
    assert "<svg" not in html
    assert saved.stat().st_size < 300_000
    check_as_html(browser, saved, tmp_path, _assert_readable)


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "untrusted"])
def test_a_saved_comparison_is_opened_again(desk: Desk, saved: Path, trusted: bool) -> None:
    check_opened_again(desk, saved, trusted, _assert_readable)
