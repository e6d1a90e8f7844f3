"""Times on long axes: the page writes them as Python does, and its ticks stand at whole minutes and hours."""

from __future__ import annotations

from pathlib import Path

from notebook_prof.profiles.profile import Profile
from notebook_prof.trace import TraceBuilder
from notebook_prof.units import format_clock
from notebook_prof.views.bundle import script

from ..unit.test_units import CLOCKS
from .jupyter_page import Browser


def test_the_page_writes_a_clock_as_python_does(browser: Browser) -> None:
    browser.blank()
    browser.page.evaluate(
        f"() => {{ {script(('shared/units',))}\n Object.assign(window, {{formatClock}}); }}"
    )
    drawn = [(1.7**k * 1e6 + k, 10.0 ** (k % 12), 1.7**k * 2e6) for k in range(40)]
    given = [list(each) for each, _ in CLOCKS] + [[sign * a, b, c] for a, b, c in drawn for sign in (1, -1)]
    theirs = browser.page.evaluate("(all) => all.map((each) => formatClock(...each))", given)
    assert [text.replace("−", "-") for text in theirs] == [format_clock(*each) for each in given]


def test_ticks_stand_at_whole_minutes(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    track = builder.track("main", pid=1, tid=1)
    builder.slices(ts=[0, 10**12], dur=[3000 * 10**9, 10**12], name=["run", "part"], track=track)
    Profile(builder.seal()).to_html(tmp_path / "long.html")
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
