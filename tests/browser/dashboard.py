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


class Part:
    """An element of the page, with its selector."""

    def __init__(self, selector: str, meaning: str) -> None:
        self.selector, self.__doc__ = selector, meaning

    def __get__(self, shown: Dashboard, owner: type) -> Locator:
        return shown.part(self.selector)


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
        return self.page.locator(selector, **more)

    host = Part(".nbp-host", "All of the dashboard.")
    keys = Part(".nbp", "What has the focus while keys belong to the views.")
    tooltip = Part(".nbp-tooltip:not([hidden])", "The tooltip, as long as it is shown.")
    detail = Part(".nbp-detail", "The line that tells of the slice under inspection.")
    chips = Part(".nbp-chip", "One for each clause of the selection.")
    clear = Part(".nbp-clear", "Takes all clauses back.")
    ruler = Part(".nbp-ruler:not([hidden])", "What the measure tells, as long as it is shown.")
    trouble = Part(".nbp-trouble:not([hidden])", "What the page says of a kernel that does not answer.")
    notice = Part(".nbp-notice", "What a report says of what it leaves out.")
    empty = Part(".nbp-empty", "What stands where a view has nothing to show.")
    verdict = Part(".nbp-verdict >> nth=0", "The headline.")
    claims = Part(".nbp-claim", "Links of the headline.")
    trust = Part(".nbp-trust", "The line of what cannot be trusted.")
    account = Part(".nbp-account", "The strip of what a cell spent its time on.")
    static = Part(".nbp-static", "The form that needs no script.")

    # timeline

    timeline = Part(".nbp-timeline", "The figure of slices.")
    overview = Part(".nbp-overview", "The whole recording, small.")
    folds = Part(".nbp-fold", "Each folds a track.")
    counter_lanes = Part(".nbp-track-counter", "Names and latest values of counters.")
    track_filter = Part("input[aria-label='filter tracks by name']", "Box that leaves tracks by name.")
    colours = Part(".nbp-colours select", "What slices are coloured by.")
    find = Part(".nbp-find input", "Box that finds slices.")
    find_status = Part(".nbp-find-status", "What the box has found.")
    sentences = Part(
        ".nbp-offscreen > button:not([hidden])",
        "What the timeline says of selected slices that are out of sight.",
    )

    def sentence(self, side: str) -> Locator:
        """That of one side: above, below, before, after or folded."""
        return self.part(f".nbp-offscreen-{side}:not([hidden])")

    def track(self, name: str) -> Locator:
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

    phases = Part(".nbp-phases", "The bars of steps.")

    def legend(self, phase: str) -> Locator:
        return self.part(f".nbp-legend-item[data-phase={phase}]")

    # table

    rows = Part(".nbp tbody tr", "Rows of tables.")
    table = Part(".nbp-table", "The table of operators, with what stands around it.")
    row_filter = Part(".nbp-panel-head input[type=search]", "Box that filters rows.")
    grouping = Part("select[aria-label='group by']", "What rows are grouped by.")

    def row(self, name: str) -> Locator:
        return self.part(f"tr[data-name='{name}']")

    def head(self, column: str) -> Locator:
        return self.part(f"button[data-sort={column}]").first

    # tabs

    tab = Part(".nbp-tab", "The open tab.")
    tab_rows = Part(".nbp-tab tbody tr", "Rows of the open tab.")
    tab_tables = Part(".nbp-part-table", "Tables of the open tab.")
    cards = Part(".nbp-card", "Pieces of advice.")
    widen = Part(".nbp-widen", "Gives the tab the whole width, and takes it back.")
    rail = Part(".nbp-rail button", "The names of all tabs.")
    not_recorded = Part(".nbp-rail .nbp-more", "Unfolds the names of tabs that have nothing to show.")

    def rail_of(self, name: str) -> Locator:
        return self.part(f".nbp-rail [data-tab={name}]")

    def is_missing(self, name: str) -> bool:
        """Whether the tab says that nothing was recorded for it."""
        return "nbp-missing" in (self.rail_of(name).get_attribute("class") or "")

    def wait_tab(self, title: str) -> None:
        self.wait_views(f"v.panels.snapshot().state === 'shown' && v.panels.snapshot().title === {title!r}")

    def open_tab(self, name: str, title: str) -> None:
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
