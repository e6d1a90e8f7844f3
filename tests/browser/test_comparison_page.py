"""Two recordings on one page: what is clicked on one side is selected on both, in a file without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, Locator, Page

from notebook_prof import compare
from notebook_prof.comparison.comparison import Comparison
from notebook_prof.comparison.verdict import signed_ns
from notebook_prof.units import format_ns

from ..comparison.test_selected import LINES_A, LINES_B, A, B, step_loop
from ..node import install_packages
from .conftest import SIZE
from .jupyter_page import Browser, NotebookPage
from .test_accessibility import AXE, VIOLATIONS

NAME = "aten::mkldnn_convolution"
OPEN = "[...document.querySelectorAll('.nbp-host')].map((host) => host.nbpComparison).find(Boolean)"
MARKED = (
    "(c) => c.sides.map(({timeline}) => { const a = timeline.pictures.have?.answer; "
    "return a?.filtered ? [...new Set(Array.from(a.data.name).filter((_, i) => a.data.match[i])"
    ".map(timeline.ctx.nameOf))] : null; })"
)
"""Names of the slices that each timeline shows as selected; null where nothing is."""
PRESSED = """() => addEventListener(
    'pointerdown', ({target}) => { window.pressedRow = target.closest('tr')?.innerText; }, true)"""


class ComparedPage:
    """The page of a comparison, in a file or a notebook."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def ask(self, expression: str) -> Any:
        """What a function of the page's object gives."""
        return self.page.evaluate(f"() => ({expression})({OPEN})")

    def wait(self, expression: str, timeout_ms: float | None = None) -> None:
        """Wait until a function of the page's object gives true."""
        asked = f"() => {{ const c = {OPEN}; return c && ({expression})(c); }}"
        try:
            self.page.wait_for_function(asked, timeout=timeout_ms)
        except Error as error:
            sides = "c.sides.map(({store, asker: {log}}) => [store.get(), log])"
            shown = self.ask(f"(c) => c && [c.store.get(), c.counts, ...{sides}]")
            text = self.page.locator(".nbp-host").all_inner_texts()
            raise AssertionError(f"not {expression}: {shown}, {text}") from error

    def press(self, row: Locator, expression: str) -> None:
        """Press a row that moves before it is let go, as on a busy page; wait until a function gives true."""
        self.page.evaluate(PRESSED)
        while True:
            self.rest()
            row.scroll_into_view_if_needed()
            row.hover()
            self.page.mouse.down()
            if self.page.evaluate("() => window.pressedRow") == row.inner_text():
                break
            self.page.mouse.up()  # the page moved between aiming and pressing
        row.evaluate("row => { row.closest('table').style.translate = '0 90px'; }")
        self.page.mouse.up()
        self.wait(expression)

    def ready(self) -> ComparedPage:
        """Wait until both timelines and the differences are drawn."""
        self.wait("(c) => c.counts.differences && c.sides.every((side) => side.timeline.pictures.have)")
        return self

    def rest(self) -> None:
        """Wait until every question has its answer."""
        self.wait("(c) => c.sides.every(({asker: {log}}) => log.asked === log.answered)")

    def timeline(self, side: int) -> tuple[float, float, float, float]:
        """Where the slices of a side are drawn: left, top, right, bottom."""
        box = self.page.locator(".nbp-timeline").nth(side).bounding_box()
        assert box is not None
        frame = self.ask(f"(c) => {{ const f = c.sides[{side}].timeline.view.frame.bbox; "
                         "return [f.left, f.top, f.right, f.bottom]; }")  # fmt: skip
        left, top, right, bottom = frame
        return box["x"] + left, box["y"] + top, box["x"] + right, box["y"] + bottom

    def rows(self, title: str) -> Locator:
        return self.page.locator(f"[role=grid][aria-label^={title!r}] tbody tr")


@pytest.fixture(scope="module")
def recorded(data: Path) -> Comparison:
    folder = data / "torch213_cpu"
    files = (folder / f"{name}.pt.trace.json.gz" for name in ("cnn_sgd", "cnn_adam"))
    return compare(*files, names=("sgd", "adam"))


@pytest.fixture(scope="module")
def drawn() -> Comparison:
    return compare(step_loop(A, LINES_A), step_loop(B, LINES_B, 2, first=70_000))


@pytest.fixture(scope="module")
def files(recorded: Comparison, drawn: Comparison, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("compared")
    for number, c in enumerate((recorded, drawn)):
        c.to_html(folder / f"{number}.html")
    return sorted(folder.iterdir())


@pytest.fixture
def opened(
    browser: Browser, recorded: Comparison, files: list[Path]
) -> Iterator[Callable[[Comparison], ComparedPage]]:
    """Opens the file of a comparison; no complaint may come, and nothing may be asked of anybody."""

    def show(c: Comparison) -> ComparedPage:
        browser.blank()
        browser.page.bring_to_front()
        browser.page.set_viewport_size(SIZE)
        browser.page.goto(files[c is not recorded].as_uri())
        return ComparedPage(browser.page).ready()

    yield show
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.evaluate("() => localStorage.clear()")  # what was set stays for a file
    browser.page.goto("about:blank")


def test_a_row_of_differences_selects_on_both_timelines(
    opened: Callable[[Comparison], ComparedPage], recorded: Comparison
) -> None:
    """And the same row again takes it back; a slice does what a row does."""
    shown = opened(recorded)
    at = recorded.operators["name"].tolist().index(NAME)
    row = shown.rows("Operators").nth(at)
    row.click()
    shown.wait(f"(c) => JSON.stringify(({MARKED})(c)) === JSON.stringify([[{NAME!r}], [{NAME!r}]])")
    assert row.get_attribute("aria-selected") == "true"
    assert shown.ask("(c) => c.store.get().phase") == ["forward"]
    totals = shown.page.locator(".nbp-totals").inner_text()
    delta, change = recorded.operators.loc[at, ["delta_ns", "change"]]
    noise = "≈ " if change == "same" else ""
    assert totals.startswith(f"Δ {noise}{'−' if delta < 0 else '+'}")
    assert totals.endswith(" a step")
    row.click()
    shown.wait(f"(c) => ({MARKED})(c).every((names) => names === null)")
    point = shown.ask(f"(c) => c.sides[1].timeline.locate({NAME!r})")
    shown.page.mouse.click(point["x"], point["y"])
    shown.wait("(c) => c.store.get().name?.length === 1")
    shown.rest()
    assert shown.page.locator(".nbp-chip").count() == 1
    shown.page.keyboard.press("Escape")
    shown.wait("(c) => c.store.isEmpty()")


def test_a_slice_that_is_clicked_says_what_it_corresponds_to(
    opened: Callable[[Comparison], ComparedPage], recorded: Comparison
) -> None:
    """Its own facts, and of both steps calls and totals, as each Profile's tables have them."""
    shown = opened(recorded)
    lines = shown.page.locator(".nbp-compared-detail .nbp-detail")
    height = shown.page.locator(".nbp-comparison").bounding_box()
    assert lines.first.inner_text().startswith("Click a slice")
    shown.rows("Operators").nth(recorded.operators["name"].tolist().index(NAME)).click()  # scrolls to it
    shown.wait(f"(c) => c.sides.every(({{timeline}}) => timeline.locate({NAME!r}))")
    point = shown.ask(f"(c) => c.sides[1].timeline.locate({NAME!r})")
    shown.page.mouse.click(point["x"], point["y"])
    shown.wait("(c) => c.counts.detail")
    own, other = (" ".join(text.split()) for text in lines.all_inner_texts())
    a, b = (profile.trace.slices for profile in recorded.shown)
    clicked, at_a = b.loc[point["id"]], recorded.aligned[0]
    step = int(clicked["step"])
    for fact in (NAME, "adam", f"step {step}", f"took {format_ns(clicked['dur'], 4)}", "phase forward"):
        assert fact in own, own
    same = [rows[rows["name"].eq(NAME) & rows["step"].eq(n)] for rows, n in ((a, at_a.step), (b, step))]
    assert len(same[0]) == len(same[1]) > 1
    number = same[1].index.get_loc(point["id"])
    matched = same[0].iloc[number]
    delta = signed_ns(float(clicked["dur"] - matched["dur"]))
    assert (
        f"corresponds to number {number + 1} of {len(same[1])} in sgd, step {at_a.step}: "
        f"{format_ns(matched['dur'], 4)} (Δ {delta})" in other
    )
    tables = [
        profile.operators(name=NAME, step=n).iloc[0]
        for profile, n in zip(recorded.shown, (at_a.step, step), strict=True)
    ]
    for name, n, row in zip(recorded.names, (at_a.step, step), tables, strict=True):
        assert f"{name}, step {n}: {row['count']} × in {format_ns(row['total_ns'])}" in other
    assert other.endswith(f"Δ {signed_ns(float(tables[1]['total_ns'] - tables[0]['total_ns']))}")
    marked = "(c) => c.sides.map(({timeline}) => timeline.detail?.id ?? null)"
    assert shown.ask(marked) == [int(matched.name), point["id"]], "outlined on both sides"
    assert shown.page.locator(".nbp-comparison").bounding_box() == height, "what is below stays where it is"
    point = shown.ask(f"(c) => c.sides[0].timeline.locate({NAME!r}, 1)")
    shown.page.mouse.click(point["x"], point["y"])
    shown.wait(f"(c) => c.sides[0].timeline.detail?.id === {point['id']}")
    assert shown.ask("(c) => c.sides.map(({store}) => store.get().focus ?? null)") == [point["id"], None]
    shown.page.mouse.click(point["x"], point["y"])
    shown.wait("(c) => c.store.isEmpty() && c.sides.every(({timeline}) => !timeline.detail)")
    assert lines.first.inner_text().startswith("Click a slice")


def test_a_window_that_is_brushed_on_one_side_is_the_same_on_the_other(
    opened: Callable[[Comparison], ComparedPage], recorded: Comparison
) -> None:
    """It lies as far from the aligned step's start, and its self times are those of Python."""
    shown = opened(recorded)
    left, top, right, bottom = shown.timeline(1)
    mouse, keyboard = shown.page.mouse, shown.page.keyboard
    keyboard.down("Shift")
    mouse.move(left + 0.3 * (right - left), (top + bottom) / 2)
    mouse.down()
    mouse.move(left + 0.6 * (right - left), (top + bottom) / 2, steps=4)
    mouse.up()
    keyboard.up("Shift")
    shown.wait("(c) => c.sides.every(({store}) => store.get().window)")
    window = shown.ask("(c) => c.store.get().window")
    starts = [at.ts for at in recorded.aligned]
    of_sides = shown.ask("(c) => c.sides.map(({store}) => store.get().window)")
    assert of_sides == [[start + at for at in window] for start in starts]
    visible = "(c) => c.sides.map(({host}) => host.model('timeline_window').visible)"
    assert shown.ask(visible) == [True, True]
    shown.wait("(c) => c.totals.box.textContent.includes('self time')")
    selected = recorded.select(window=tuple(window))
    by_sides = [table.loc[table["on"] == "host", "time_ns"].sum() for table in (selected.a, selected.b)]
    written = shown.page.locator(".nbp-totals").inner_text()
    assert [text.split("× ")[1] for text in written.split(" · ")[:2]] == [format_ns(ns) for ns in by_sides]
    recorded.selection.clear()


def test_the_sides_pan_together_and_flip_in_place(
    opened: Callable[[Comparison], ComparedPage], recorded: Comparison
) -> None:
    shown = opened(recorded)
    page = shown.page
    left, top, right, bottom = shown.timeline(0)
    page.mouse.move((left + right) / 2, (top + bottom) / 2)
    page.mouse.down()
    page.mouse.move((left + right) / 2 - 120, (top + bottom) / 2, steps=4)
    page.mouse.up()
    ranges = "(c) => c.sides.map(({range, start}) => [range.start - start(), range.end - start()])"
    a, b = shown.ask(ranges)
    assert a == pytest.approx(b)
    assert a[0] > 0, "panned to the right"
    both = shown.timeline(0), shown.timeline(1)
    assert both[1][1] > both[0][3], "above one another"
    page.locator(".nbp-comparison").focus()
    sides = page.locator(".nbp-compared")
    for number in (0, 1, 0):
        page.keyboard.press("f")
        assert [sides.nth(i).evaluate("e => getComputedStyle(e).visibility") for i in (0, 1)] == [
            "visible" if i == number else "hidden" for i in (0, 1)
        ]
    assert shown.timeline(0) == shown.timeline(1), "in the same place"
    page.keyboard.press("b")
    assert (shown.timeline(0), shown.timeline(1)) == both


def test_another_step_is_aligned(opened: Callable[[Comparison], ComparedPage], recorded: Comparison) -> None:
    shown = opened(recorded)
    steps = recorded.steps[recorded.steps["side"] == "adam"].set_index("step")
    shown.page.locator(".nbp-bar select").nth(1).select_option("5")
    shown.wait(f"(c) => c.store.get().starts[1] === {steps.loc[5, 'ts']}")
    start = shown.ask("(c) => c.sides[1].range.start")
    assert steps.loc[4, "ts"] < start < steps.loc[5, "ts"]
    assert shown.ask("(c) => c.aligned()") == [recorded.aligned[0].step, 5]


def test_a_line_of_the_source_selects_what_it_became(
    opened: Callable[[Comparison], ComparedPage], drawn: Comparison
) -> None:
    shown = opened(drawn)
    rows = shown.rows("source of both sides")
    assert rows.count() == 5
    rows.filter(has_text="old(x)").click()
    shown.wait("(c) => c.store.get().line?.[0] === 'cell:3'")
    shown.wait(f"(c) => JSON.stringify(({MARKED})(c).map((names) => names?.length)) === '[2,0]'")
    rows.filter(has_text="work(x)").click()
    shown.wait("(c) => c.sides[1].store.get().line?.[0] === 'cell:3'")
    shown.wait(f"(c) => ({MARKED})(c).every((names) => names?.includes('op_work') && names.length === 2)")
    assert "line-gone" in (rows.filter(has_text="old(x)").get_attribute("class") or "")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 560)])
def test_axe_finds_nothing_and_nothing_sticks_out(
    opened: Callable[[Comparison], ComparedPage],
    recorded: Comparison,
    drawn: Comparison,
    scheme: Any,
    width: int,
) -> None:
    install_packages()
    for c in (recorded, drawn):
        shown = opened(c)
        page = shown.page
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        shown.rest()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert page.evaluate(VIOLATIONS, ".nbp") == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        frames = [shown.timeline(0), shown.timeline(1)]
        assert frames[0][0] == frames[1][0]
        check_labels(shown)
        if c is recorded:
            ends = "({view: {frame: {bbox}}}) => [bbox.left, bbox.right]"
            memory, side = shown.ask(f"(c) => [c.memory, c.sides[0].timeline].map({ends})")
            assert memory == pytest.approx(side, abs=1.5), "one axis of time"
    page.emulate_media(color_scheme="light")


def check_labels(shown: ComparedPage) -> None:
    """What is written into boxes of the stacks lies in them, whole where there is room."""
    labels = shown.page.evaluate(
        f"""() => {{ const pen = document.createElement('canvas').getContext('2d');
            pen.font = '11px helvetica';
            const px = (text) => pen.measureText(text).width;
            return {OPEN}.parts.snapshot().flatMap(({{labels}}) => labels ?? [])
                .map((one) => ({{...one, px: px(one.text), whole: px(one.label)}})); }}"""
    )
    assert len(labels) > 3
    for one in labels:
        assert one["left"] < one["x"], one
        assert one["x"] + one["px"] < one["right"], one
        room = one["right"] - one["left"] - 6
        assert one["text"] == one["label"] or (one["text"].endswith("…") and one["whole"] > room), one


TURNS = """%%profile_ab c --rounds 1
total = 0
for i in range(6):
    total += sum(x * x for x in range(900_000))
%% b
total = 0
for i in range(6):
    total += sum(x * x for x in range(300_000))
"""


def test_turns_show_the_page_live_and_python_selects_in_it(notebook: Callable[..., NotebookPage]) -> None:
    shown = notebook("turns.ipynb", "%load_ext notebook_prof", TURNS, "c.select(phase='forward'); None")
    page = ComparedPage(shown.page).ready()
    page.wait("(c) => c.sides.every(({store}) => store.get().phase?.[0] === 'forward')")
    shown.page.locator(".nbp-static").first.wait_for(state="hidden")  # it gives way
    selected = "(c) => c.store.get().line?.length === 1 && (c.store.get().revision ?? 0) > 1"
    line = page.rows("source of both sides").filter(has_text="total +=").first  # it has nearly all samples
    page.press(line, selected)
    shown.kernel("assert c.selection.line and c.selection.phase is None, c.selection")
    shown.kernel("assert c.selection.a.line and len(c.selected.a)")
    shown.kernel("c.selection.clear()")
    page.wait("(c) => c.store.isEmpty() && c.sides.every(({store}) => store.isEmpty())")
