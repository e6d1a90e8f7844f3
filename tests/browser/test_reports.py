"""The report: the same views without a kernel. What it answers is in ``tests/unit/test_page_twins.py``."""

from collections.abc import Callable

import numpy as np
import pytest

from notebook_prof import Profile
from notebook_prof.testing import draw
from notebook_prof.views.dashboard import AXIS_PX, LANE_PX
from notebook_prof.views.report import report as report_module

from ..many import KEPT, many_slices
from .conftest import SIZE
from .dashboard import Report
from .drawn import drawn_profile
from .drawn_cell import drawn_cell

Open = Callable[..., Report]


def test_a_report_links_its_views_and_has_its_tabs(report: Open) -> None:
    """What was selected in Python is selected; rows, slices and tabs answer without a kernel."""
    profile = drawn_profile(gpu=True)
    profile.selection.update(step=5, name="aten::relu")
    opened = report(profile)
    page = opened.page
    assert opened.chips.all_inner_texts() == ["aten::relu\n×", "step 5\n×"]
    assert not opened.part("#nbp-static").is_visible()
    assert opened.account.bounding_box() is None, "one part is no strip"
    opened.clear.click()
    opened.wait_views("v.store.isEmpty()")
    opened.row("aten::add_").click()
    opened.wait_views("v.timeline.snapshot().filtered && v.phases.snapshot().filtered")
    page.keyboard.press("Escape")
    opened.wait_views("!v.timeline.snapshot().filtered")
    page.mouse.click(*opened.slice("aten::conv2d"))
    opened.wait_views("v.detail()?.name === 'aten::conv2d'")
    opened.open_tab("steps", "Steps")
    assert opened.tab_rows.count() == 20
    opened.views("void v.store.set({phase: ['forward']}, 'test')")
    opened.wait_views("v.panels.snapshot().scope.startsWith('of the whole recording')")
    opened.tab_rows.nth(3).click()
    assert opened.views("v.store.get().step") == [6]
    assert opened.is_missing("distributed")


OVER_THE_EDGE = """() => [...document.querySelectorAll('.nbp canvas, .nbp-figure, .nbp-account')]
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)
    .map((e) => e.className)"""


TOP = "(e) => e.cells[0].getBoundingClientRect().top"


@pytest.mark.parametrize("paper_px", [717, 1046])
def test_nothing_is_cut_off_on_paper(report: Open, paper_px: int) -> None:
    """A4 upright and lying, within margins; figures stay as they were drawn, but smaller."""
    page = report(Profile(drawn_cell())).page
    drawn = page.locator(".nbp-timeline").evaluate("(e) => e.offsetWidth")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": paper_px, "height": 1000})
    try:
        assert page.evaluate(OVER_THE_EDGE) == []
        assert page.locator(".nbp-timeline").evaluate("(e) => parseFloat(getComputedStyle(e).width)") == drawn
        assert not page.locator(".nbp-bar").is_visible()
        rows = page.locator(".nbp-table tbody tr")
        assert rows.count() == 9
        assert rows.last.is_visible()
        scroll = page.locator(".nbp-table-scroll")
        assert scroll.evaluate("(e) => e.scrollHeight <= e.clientHeight"), "the table is there to its end"
        page.set_viewport_size({"width": paper_px, "height": 300})
        ends = [page.locator(f".nbp-table {part} tr").last.evaluate(TOP) for part in ("tbody", "tfoot")]
        assert ends[0] < ends[1], "the sum is below its rows, wherever a sheet ends"
    finally:
        page.emulate_media(media="screen")
        page.set_viewport_size(SIZE)


def test_a_report_of_too_much_says_what_is_a_sum_and_what_an_estimate(
    report: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "MOST_SLICES", KEPT)
    opened = report(Profile(many_slices()))
    page = opened.page
    page.set_viewport_size({"width": 1280, "height": 900})
    notice = opened.notice.inner_text()
    assert "has 8,000 of 33,600 slices one by one" in notice
    assert "how busy they keep every row" in notice
    for zoomed in (False, True):
        if zoomed:
            opened.views("v.setView(4.0e7, 4.04e7)")
        opened.wait_views("v.timeline.snapshot().mode === 'dense'")
        opened.settle()
        box = opened.timeline.bounding_box()
        assert box is not None
        y = box["y"] + AXIS_PX + (opened.views("v.timeline.lanes.placeOfRow(2)") + 0.5) * LANE_PX
        words = ""
        for share in np.linspace(0.4, 0.6, 21):
            page.mouse.move(box["x"] + box["width"] * share, y)
            words = opened.part(".nbp-tooltip").inner_text()
            if "longest: operator_" in words:
                break
        assert "slices in" in words
        assert "busy" in words
        assert ("this file holds them as a sum only" in words) == zoomed
    opened.views("void v.store.set({step: [1, 2]}, 'test')")
    opened.part(".nbp-totals").filter(has_text="≈").wait_for()
    assert opened.part(".nbp-totals").inner_text().startswith("≈")
    assert "≈ estimates" in opened.table.inner_text()


def test_what_cannot_be_trusted_is_a_line_that_opens(report: Open) -> None:
    """And a good recording has none."""

    def recording(lost: str) -> Profile:
        trace = draw(
            f"""
            main: [mm                                     ]
            main:  [cudaLaunchKernel]   {lost}
            stream 7:     [gemm      ]
            """,
            categories={"cudaLaunchKernel": "launch", "cuLaunchKernel": "launch"},
            launches=[("cudaLaunchKernel", "gemm")],
        )
        return Profile(trace)

    opened = report(recording("[cuLaunchKernel]"))
    line, advice = opened.trust.locator(".nbp-line"), opened.trust.locator(".nbp-line ~ div").first
    assert (
        line.locator("span").inner_text().startswith("! Trust: the kernel of 1 launch at the end is missing")
    )
    assert not advice.is_visible()
    line.click()
    assert "record fewer steps" in advice.inner_text()
    assert "Trust" not in opened.verdict.inner_text()
    report(recording(""))
    assert opened.trust.count() == 0
    assert opened.part(".nbp-verdict").count() == 1
