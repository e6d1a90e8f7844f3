"""Strangers' texts: in the live views, the report and the static form they are text, and nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .hostile import EVIL, assert_harmless, hostile_profile, touch_everything
from .jupyter_page import Browser, NotebookPage, Server, write_notebook


def test_the_live_views_are_harmless(browser: Browser, lab: Server, root: Path) -> None:
    write_notebook(
        root / "hostile.ipynb", ["from hostile import hostile_profile\np = hostile_profile()", "p"]
    )
    notebook = NotebookPage(browser, lab, "hostile.ipynb")
    browser.blank()
    notebook.open()
    notebook.run_all()
    notebook.wait_ready()
    browser.page.evaluate("() => document.querySelector('.nbp-host').scrollIntoView()")
    assert_harmless(browser.page, touch_everything(browser.page), stacks=True)
    notebook.kernel("import ipywidgets\nipywidgets.Widget.close_all()")
    static = browser.page.locator(".nbp-static")
    static.locator("img").wait_for(state="visible")
    assert "<img src=x onerror='window.hacked=1'>" in static.inner_text()
    assert static.locator("img").count() == 1, "the picture is the only one"
    assert browser.page.evaluate("() => window.hacked") is None
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Browser:
    """An open report of hostile texts."""
    hostile_profile().export.html(tmp_path / "evil.html")
    browser.blank()
    browser.page.set_viewport_size({"width": 1400, "height": 1250})
    browser.page.goto((tmp_path / "evil.html").as_uri())
    return browser


def test_the_report_is_harmless_under_its_own_policy(report: Browser) -> None:
    page = report.page
    shown = touch_everything(page)
    assert_harmless(page, shown, stacks=False)
    assert report.errors == [], "its own scripts satisfy its policy"
    assert report.elsewhere == []
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
    assert "default-src 'none'" in policy
    script = next(part for part in policy.split(";") if part.strip().startswith("script-src"))
    assert "unsafe" not in script
    assert "'sha256-" in script
    # what is not of the file does not run, whichever way it comes in
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        " document.body.append(s); const d = document.createElement('div');"
        " d.innerHTML = '<img src=x onerror=\"window.hacked=1\">'; document.body.append(d); }"
    )
    page.wait_for_timeout(200)
    assert page.evaluate("() => window.hacked") is None
    assert any("Content Security Policy" in error for error in report.errors)
    page.goto("about:blank")
    report.forget()


def test_the_report_without_scripts_is_harmless(browser: Browser, tmp_path: Path) -> None:
    hostile_profile().export.html(tmp_path / "evil.html")
    text = (tmp_path / "evil.html").read_text(encoding="utf-8")
    body = text.partition('id="nbp-static">')[2].partition("<script")[0]
    assert body, "the static form"
    browser.page.goto("about:blank")
    browser.page.set_content(f"<div>{body}</div>")
    assert browser.page.evaluate("() => window.hacked") is None
    assert EVIL[:40] in browser.page.locator("table").inner_text()
    assert browser.page.locator("script, svg, iframe").count() == 0
    browser.blank()
