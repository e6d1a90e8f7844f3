"""The detail line of a report tells what a slice was called with, as the live view does."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.service.answers.arguments import arguments_of
from notebook_prof.views.report import arguments as arguments_in_file

from ..unit.test_arguments_in_file import made
from .jupyter_page import Browser

ASK = """async (ids) => {
    const v = document.querySelector('.nbp-host').nbp, out = [];
    for (const id of ids) out.push((await v.transport.request({t: 'detail', id})).content);
    return out;
}"""
READY = "() => document.querySelector('.nbp-host')?.nbp?.counts.table"


def test_a_report_tells_arguments(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = made(300, 40)
    Profile(trace).export.html(tmp_path / "all.html")
    monkeypatch.setattr(arguments_in_file, "MOST_BYTES", 300)
    Profile(trace).export.html(tmp_path / "some.html")
    page, ids = browser.page, list(range(40))
    browser.blank()
    page.goto((tmp_path / "all.html").as_uri())
    page.wait_for_function(READY)
    row = next(row for row in ids if len(arguments_of(trace, row)) == 2)
    page.evaluate("(id) => document.querySelector('.nbp-host').nbp.store.set({focus: id}, 'timeline')", row)
    page.wait_for_function(
        "() => document.querySelector('.nbp-detail')?.textContent.includes('occupancy 0.5')"
    )
    page.goto((tmp_path / "some.html").as_uri())
    page.wait_for_function(READY)
    missing = [each for each in page.evaluate(ASK, ids) if not each["arguments"]]
    assert missing[0]["left"].endswith("open the profile in a notebook for all.")
    page.evaluate(
        "(id) => document.querySelector('.nbp-host').nbp.store.set({focus: id}, 'timeline')", missing[0]["id"]
    )
    page.wait_for_function(
        "() => document.querySelector('.nbp-detail .nbp-absent-part')?.textContent === 'arguments'"
    )
    assert browser.errors == []
    page.goto("about:blank")
