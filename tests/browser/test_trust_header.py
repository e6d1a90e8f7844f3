"""What cannot be trusted, on top of the dashboard: one line, its advice when it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.testing import draw

from .jupyter_page import Browser

pytestmark = pytest.mark.browser

LAUNCH = {"cudaLaunchKernel": "launch", "cuLaunchKernel": "launch"}


def page_of(browser: Browser, tmp_path: Path, *, lost: bool) -> None:
    late = "[cuLaunchKernel]" if lost else ""
    trace = draw(
        f"""
        main: [mm                                     ]
        main:  [cudaLaunchKernel]   {late}
        stream 7:     [gemm      ]
        """,
        categories=LAUNCH,
        launches=[("cudaLaunchKernel", "gemm")],
    )
    Profile(trace).export.html(tmp_path / "report.html")
    browser.page.goto((tmp_path / "report.html").as_uri())
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")


def test_a_line_that_opens(browser: Browser, tmp_path: Path) -> None:
    page_of(browser, tmp_path, lost=True)
    box = browser.page.locator(".nbp-trust")
    assert box.locator("summary").inner_text().startswith("! Trust: kernels-lost-at-end")
    advice = box.locator("div").first
    assert not advice.is_visible()
    box.locator("summary").click()
    assert "record fewer steps" in advice.inner_text()
    assert "Trust" not in browser.page.locator(".nbp-verdict").first.inner_text()


def test_nothing_for_a_good_recording(browser: Browser, tmp_path: Path) -> None:
    page_of(browser, tmp_path, lost=False)
    assert browser.page.locator(".nbp-trust").count() == 0
    assert browser.page.locator(".nbp-verdict").count() == 1
