"""Ticks of long time axes stand at whole minutes and hours."""

from __future__ import annotations

from pathlib import Path

from notebook_prof.profiles.profile import Profile
from notebook_prof.trace import TraceBuilder

from .jupyter_page import Browser


def test_ticks_stand_at_whole_minutes(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    track = builder.track("main", pid=1, tid=1)
    builder.slices(ts=[0, 10**12], dur=[3000 * 10**9, 10**12], name=["run", "part"], track=track)
    Profile(builder.seal()).export.html(tmp_path / "long.html")
    browser.page.goto((tmp_path / "long.html").as_uri())
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
    texts = browser.page.evaluate(
        """() => {
            const models = Bokeh.documents.flatMap((d) => [...d._all_models.values()]),
                axis = models.find((m) => m.formatter?.name === 'timeline_time');
            return axis.formatter.doFormat(axis.ticker.get_ticks(0, 3000e9, null, NaN).major);
        }"""
    )
    assert texts == ["0", "10:00 min", "20:00 min", "30:00 min", "40:00 min", "50:00 min"]
    assert browser.errors == []
    browser.page.goto("about:blank")
