"""The dashboard as a page shows it: where its parts are, and what it tells of itself.

What the tests know of the page's elements stands here: a page that is laid out anew needs one file changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Locator, Page

SETTLE: Final = """async ([index, most]) => {
    const until = performance.now() + most;
    let before = '', since = performance.now();
    while (performance.now() < until) {
        await new Promise((done) => setTimeout(done, 50));
        const v = document.querySelectorAll('.nbp-host')[index]?.nbp;
        if (!v) continue;
        const {asked, answered, dropped, never = 0} = v.log;
        const now = [asked, answered, v.range.start, v.range.end].join(), open = asked - answered - dropped;
        if (now !== before) since = performance.now();
        before = now;
        const quiet = performance.now() - since;
        if (quiet > 10_000) v.log.never = open; // the kernel has gone
        if (quiet > (open <= never ? 140 : 10_000)) return;
    }
}"""
FRAME: Final = "r => [r.left + 186, r.top + 26, r.width - 206, r.height - 26]"
"""What is drawn of the timeline, without names, axis and edge."""
LANES: Final = "[...document.querySelectorAll('.nbp-track-lane')].map(r => r.ariaLabel.split(',')[0])"
"""Names of the tracks that are shown, from above."""


def settle(page: Page, index: int = 0) -> None:
    """Wait until a dashboard has its answers and its view stands still."""
    page.evaluate(SETTLE, [index, 20_000])


class Dashboard:
    """A dashboard on a page: that of a report, or one of a notebook's."""

    def __init__(self, page: Page) -> None:
        self.page = page

    # what it tells of itself

    def views(self, expression: str, index: int = 0) -> Any:
        """Evaluate JavaScript with ``v``, what the dashboard tells about itself."""
        return self.page.evaluate(
            f"(i) => {{ const v = document.querySelectorAll('.nbp-host')[i].nbp; return {expression}; }}",
            index,
        )

    def wait_views(self, expression: str, index: int = 0) -> None:
        """Wait until the JavaScript expression is true."""
        self.page.wait_for_function(
            f"(i) => {{ const v = document.querySelectorAll('.nbp-host')[i]?.nbp;"
            f" return v && ({expression}); }}",
            arg=index,
        )

    def wait_ready(self, views: int = 1) -> None:
        """Wait until that many dashboards have drawn all their views, and say their verdict."""
        self.page.wait_for_function(
            """(n) => [...document.querySelectorAll('.nbp-host')].filter(
                 h => h.nbp && h.nbp.counts.table && h.nbp.counts.timeline
                     && !h.querySelector('.nbp-headline .nbp-working')).length === n""",
            arg=views,
        )

    def settle(self, index: int = 0) -> None:
        """Wait until the dashboard has its answers and its view stands still."""
        settle(self.page, index)

    def wait_point(self, expression: str) -> tuple[float, float]:
        """Where on the page something is, as soon as it is drawn and stands still."""
        self.wait_views(f"{expression} !== null")
        self.settle()
        before = None
        for _ in range(50):
            self.wait_views(f"{expression} !== null")
            at = self.views(expression)
            if at == before:
                break
            before = at
            self.page.wait_for_timeout(60)  # what is above it may still grow
        return at["x"], at["y"]

    def slice(self, name: str, number: int = 0) -> tuple[float, float]:
        """Where one of the slices of this name is drawn."""
        return self.wait_point(f"v.timeline.locate({name!r}, {number})")

    def theme(self, background: str) -> None:
        """Wait until the dashboard has taken a theme."""
        self.wait_views(f"v.theme().background === {background!r}")

    # where its parts are

    def part(self, selector: str, **more: Any) -> Locator:
        """An element of the page."""
        return self.page.locator(selector, **more)

    @property
    def host(self) -> Locator:
        """All of the dashboard."""
        return self.part(".nbp-host")

    @property
    def keys(self) -> Locator:
        """What has the focus while keys belong to the views."""
        return self.part(".nbp")

    @property
    def tooltip(self) -> Locator:
        """The tooltip, as long as it is shown."""
        return self.part(".nbp-tooltip:not([hidden])")

    @property
    def detail(self) -> Locator:
        """The line that tells of the slice under inspection."""
        return self.part(".nbp-detail")

    @property
    def chips(self) -> Locator:
        """One for each clause of the selection."""
        return self.part(".nbp-chip")

    @property
    def clear(self) -> Locator:
        """Takes all clauses back."""
        return self.part(".nbp-clear")

    @property
    def ruler(self) -> Locator:
        """What the measure tells, as long as it is shown."""
        return self.part(".nbp-ruler:not([hidden])")

    @property
    def trouble(self) -> Locator:
        """What the page says of a kernel that does not answer."""
        return self.part(".nbp-trouble:not([hidden])")

    @property
    def notice(self) -> Locator:
        """What a report says of what it leaves out."""
        return self.part(".nbp-notice")

    @property
    def empty(self) -> Locator:
        """What stands where a view has nothing to show."""
        return self.part(".nbp-empty")

    @property
    def verdict(self) -> Locator:
        """The headline."""
        return self.part(".nbp-verdict").first

    @property
    def claims(self) -> Locator:
        """Links of the headline."""
        return self.part(".nbp-claim")

    @property
    def trust(self) -> Locator:
        """The line of what cannot be trusted."""
        return self.part(".nbp-trust")

    @property
    def account(self) -> Locator:
        """The strip of what a cell spent its time on."""
        return self.part(".nbp-account")

    @property
    def static(self) -> Locator:
        """The form that needs no script."""
        return self.part(".nbp-static")

    # timeline

    @property
    def timeline(self) -> Locator:
        """The figure of slices."""
        return self.part(".nbp-timeline")

    @property
    def overview(self) -> Locator:
        """The whole recording, small."""
        return self.part(".nbp-overview")

    @property
    def folds(self) -> Locator:
        """Each folds a track."""
        return self.part(".nbp-fold")

    @property
    def counter_lanes(self) -> Locator:
        """Names and latest values of counters."""
        return self.part(".nbp-track-counter")

    @property
    def track_filter(self) -> Locator:
        """Box that leaves tracks by name."""
        return self.part("input[aria-label='filter tracks by name']")

    @property
    def colours(self) -> Locator:
        """What slices are coloured by."""
        return self.part(".nbp-colours select")

    @property
    def find(self) -> Locator:
        """Box that finds slices."""
        return self.part(".nbp-find input")

    @property
    def find_status(self) -> Locator:
        """What the box has found."""
        return self.part(".nbp-find-status")

    @property
    def sentences(self) -> Locator:
        """What the timeline says of selected slices that are out of sight."""
        return self.part(".nbp-offscreen > button:not([hidden])")

    def sentence(self, side: str) -> Locator:
        """That of one side: above, below, before, after or folded."""
        return self.part(f".nbp-offscreen-{side}:not([hidden])")

    def track(self, name: str) -> Locator:
        """The head of a track."""
        return self.part(f".nbp-track-lane[aria-label*=': track {name}']")

    def fold_of(self, track: str) -> Locator:
        """What folds a track to its outermost level."""
        return self.track(track).locator(".nbp-fold").first

    def mode(self, name: str) -> None:
        """Have drags pan, or select."""
        self.part(f"button[data-mode={name}]").click()

    def lanes(self, count: int) -> None:
        """Give the timeline room for that many lanes, whatever the window has room for."""
        self.views(f"v.timeline.setHeight({count})")

    def frame(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of what is drawn of the timeline."""
        return tuple(self.views(f"({FRAME})(v.timeline.element.getBoundingClientRect())"))

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the button at one point and let it go at the other."""
        mouse = self.page.mouse
        mouse.move(*begin)
        mouse.down()
        mouse.move((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2, steps=4)
        mouse.move(*end, steps=4)
        mouse.up()

    def brush(self, begin: float, end: float, *, shift: bool = True) -> None:
        """Drag over the timeline between two shares of its width."""
        left, top, width, height = self.frame()
        y = top + height / 2
        if shift:
            self.page.keyboard.down("Shift")
        self.drag((left + begin * width, y), (left + end * width, y))
        if shift:
            self.page.keyboard.up("Shift")

    # steps and phases

    @property
    def phases(self) -> Locator:
        """The bars of steps."""
        return self.part(".nbp-phases")

    def legend(self, phase: str) -> Locator:
        """The phase in the legend."""
        return self.part(f".nbp-legend-item[data-phase={phase}]")

    # table

    @property
    def rows(self) -> Locator:
        """Rows of tables."""
        return self.part(".nbp tbody tr")

    @property
    def table(self) -> Locator:
        """The table of operators, with what stands around it."""
        return self.part(".nbp-table")

    @property
    def row_filter(self) -> Locator:
        """Box that filters rows."""
        return self.part(".nbp-panel-head input[type=search]")

    @property
    def grouping(self) -> Locator:
        """What rows are grouped by."""
        return self.part("select[aria-label='group by']")

    def row(self, name: str) -> Locator:
        """The row of a name."""
        return self.part(f"tr[data-name='{name}']")

    def head(self, column: str) -> Locator:
        """The head of a column, which sorts."""
        return self.part(f"button[data-sort={column}]").first

    # tabs

    @property
    def tab(self) -> Locator:
        """The open tab."""
        return self.part(".nbp-tab")

    @property
    def tab_rows(self) -> Locator:
        """Rows of the open tab."""
        return self.part(".nbp-tab tbody tr")

    @property
    def tab_tables(self) -> Locator:
        """Tables of the open tab."""
        return self.part(".nbp-part-table")

    @property
    def cards(self) -> Locator:
        """Pieces of advice."""
        return self.part(".nbp-card")

    @property
    def widen(self) -> Locator:
        """Gives the tab the whole width, and takes it back."""
        return self.part(".nbp-widen")

    @property
    def rail(self) -> Locator:
        """The names of all tabs."""
        return self.part(".nbp-rail button")

    @property
    def not_recorded(self) -> Locator:
        """Unfolds the names of tabs that have nothing to show."""
        return self.part(".nbp-rail .nbp-more")

    def rail_of(self, name: str) -> Locator:
        """The name of a tab in the rail."""
        return self.part(f".nbp-rail [data-tab={name}]")

    def is_missing(self, name: str) -> bool:
        """Whether the tab says that nothing was recorded for it."""
        return "nbp-missing" in (self.rail_of(name).get_attribute("class") or "")

    def wait_tab(self, title: str) -> None:
        """Wait until a tab is shown."""
        self.wait_views(f"v.panels.snapshot().state === 'shown' && v.panels.snapshot().title === {title!r}")

    def open_tab(self, name: str, title: str) -> None:
        """Open a tab by the mouse."""
        self.rail_of(name).click()
        self.wait_tab(title)

    def wait_tab_rows(self, count: int) -> None:
        """Wait until the open tab has that many rows."""
        self.page.wait_for_function(
            f"() => document.querySelectorAll('.nbp-tab tbody tr').length === {count}"
        )


class Report(Dashboard):
    """An HTML report that a browser has open."""

    def show(self, path: Path) -> Report:
        """Open a file and wait until its views are drawn."""
        self.page.goto(path.as_uri())
        self.wait_views("v.counts.table")
        return self
