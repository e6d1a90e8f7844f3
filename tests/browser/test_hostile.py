"""Strangers' texts: in the live views, the report and the static form they are text, and nothing runs."""

from collections.abc import Callable
from pathlib import Path

from notebook_prof import Profile
from notebook_prof.analysis import Claim
from notebook_prof.views.report.static_html import write_report

from .conftest import SIZE
from .dashboard import Report
from .drawn_cell import drawn_cell
from .hostile import EVIL, assert_harmless, hostile_profile, touch_everything
from .jupyter_page import Browser, NotebookPage

HACKED = "() => window.hacked"
# what is not of the file, whichever way it comes in
INTRUDE = """() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';
    document.body.append(s); const d = document.createElement('div');
    d.innerHTML = '<img src=x onerror="window.hacked=1">'; document.body.append(d);
    return new Promise((done) => { const image = d.firstChild;
        image.addEventListener('error', () => setTimeout(done, 0)); }); }"""


def test_the_live_views_are_harmless(notebook: Callable[..., NotebookPage]) -> None:
    """And ask for nothing from elsewhere: mathematics would be fetched."""
    shown = notebook("hostile.ipynb", "from hostile import hostile_profile\np = hostile_profile()", "p")
    shown.wait_ready()
    shown.to_views()
    assert_harmless(shown.page, touch_everything(shown.page), stacks=True)
    shown.kernel("import ipywidgets\nipywidgets.Widget.close_all()")
    shown.static.locator("img").first.wait_for(state="visible")
    assert "<img src=x onerror='window.hacked=1'>" in shown.static.inner_text()
    sources = shown.static.locator("img").evaluate_all(
        "images => images.map(image => image.src.split(',')[0])"
    )
    assert set(sources) == {"data:image/png;base64"}, "its own pictures are the only ones"
    assert shown.page.evaluate(HACKED) is None


def test_the_report_is_harmless_with_and_without_its_scripts(browser: Browser, tmp_path: Path) -> None:
    """Under the policy that it brings along, which no other script passes."""
    path, page = tmp_path / "evil.html", browser.page
    hostile_profile().export.html(path)
    browser.blank()
    page.bring_to_front()
    page.set_viewport_size(SIZE)
    page.goto(path.as_uri())
    assert_harmless(page, touch_everything(page), stacks=False)
    assert browser.errors == [], "its own scripts satisfy its policy"
    assert browser.elsewhere == []
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
    assert "default-src 'none'" in policy
    script = next(part for part in policy.split(";") if part.strip().startswith("script-src"))
    assert "unsafe" not in script
    assert "'sha256-" in script
    page.evaluate(INTRUDE)
    assert page.evaluate(HACKED) is None
    assert any("Content Security Policy" in error for error in browser.errors)
    body = path.read_text(encoding="utf-8").partition('id="nbp-static">')[2].partition("<script")[0]
    assert body, "the static form"
    page.goto("about:blank")
    page.set_content(f"<div>{body}</div>")
    assert page.evaluate(HACKED) is None
    assert EVIL[:40] in page.locator("table").last.inner_text()
    assert page.locator("script, svg, iframe").count() == 0
    browser.blank()


def test_account_lines_and_headline_are_harmless(browser: Browser, tmp_path: Path) -> None:
    text = f"Most of it: {EVIL} 50 %."
    claim = Claim("lines", "share", text=EVIL, value=1, select={"name": EVIL}, start=12)
    profile = Profile(drawn_cell(steps=False, evil=EVIL))
    path = tmp_path / "evil.html"
    write_report(profile.trace, profile.selection, path, verdict=text, claims=(claim,))
    browser.blank()
    browser.page.bring_to_front()
    shown = Report(browser.page).show(path)
    shown.wait_tab("Source")
    assert shown.claims.inner_text() == EVIL
    for stretch in range(8):
        at = shown.views(f"v.account.locate({stretch})")
        shown.page.mouse.move(at["x"], at["y"])
    shown.tooltip.wait_for()
    shown.account.focus()
    shown.page.keyboard.press("End")
    shown.claims.click()
    assert EVIL in shown.tab.inner_text()
    shown.part(".nbp-tab .nbp-pickable").first.click()
    assert shown.page.evaluate(HACKED) is None
    assert shown.part(".nbp img, .nbp script, .nbp svg").count() == 0
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.blank()
