"""Selected slices that are out of sight: a sentence at the timeline's edge, and a click that goes there."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from notebook_prof import Profile, TraceBuilder

from .dashboard import Report
from .jupyter_page import NotebookPage

SETUP = "from drawn_tracks import many_tracks\np = many_tracks()"
SAID = "v.timeline.indicators.snapshot()"
# tracks by where their names are seen: in the box that scrolls, above it or below
TRACKS = """(box => { const out = {above: [], seen: [], below: []}, edge = box.getBoundingClientRect();
    for (const row of document.querySelectorAll('.nbp-gutter .nbp-track-lane')) {
        const {top, height} = row.getBoundingClientRect(), middle = top + height / 2;
        const side = middle < edge.top ? 'above' : middle > edge.bottom ? 'below' : 'seen';
        out[side].push(Number(row.dataset.key)); }
    for (const row of document.querySelectorAll('.nbp-gutter-pins .nbp-track-lane'))
        out.seen.push(Number(row.dataset.key));
    return {...out, time: [v.range.start, v.range.end]}; })(v.timeline.gutter.box)"""
# the same from the table of selected slices
COUNTED = """import json
s, where = p.selected, json.loads('{where}')
a, b = where['time']
shown = s[s['track'].isin(where['seen'])]
ends = shown["ts"] + shown["dur"]
counts = dict(above=s['track'].isin(where['above']).sum(), below=s['track'].isin(where['below']).sum(),
    before=(ends <= a).sum(), after=(shown["ts"] >= b).sum())
counts['inSight'] = len(shown) - counts['before'] - counts['after']
counts['folded'] = len(s) - counts['above'] - counts['below'] - len(shown)
print(json.dumps({{k: int(n) for k, n in counts.items() if n or k == 'inSight'}}))"""
INSIDE = "() => Boolean(document.activeElement.closest('.nbp'))"


def hold_to_python(shown: NotebookPage) -> dict[str, Any]:
    """Hold what is said against ``p.selected``; gives it."""
    shown.settle()
    where = json.dumps(shown.views(TRACKS))
    counts: dict[str, Any] = json.loads(shown.kernel(COUNTED.format(where=where)))
    shown.wait_views(f"JSON.stringify(Object.entries({SAID}).sort()) === '{_entries(counts)}'")
    assert shown.sentences.count() == len(counts) - 1
    return counts


def _entries(counts: dict[str, Any]) -> str:
    return json.dumps(sorted([name, n] for name, n in counts.items())).replace(" ", "")


def test_a_sentence_leads_to_what_is_selected(notebook: Callable[..., NotebookPage]) -> None:
    shown = notebook("offscreen.ipynb", SETUP, "p")
    shown.wait_ready()
    shown.lanes(13)
    shown.to_views()
    assert not shown.sentences.count()
    top = shown.table.bounding_box()
    shown.row("load").click()
    shown.wait_kernel("print(p.selection.name)", "('load',)")
    assert hold_to_python(shown) == {"inSight": 30, "below": 90}
    below = shown.sentence("below")
    assert below.inner_text().replace("\n", "") == "↓90 selected slices on 9 tracks below"
    assert below.get_attribute("aria-label") == "90 selected slices on 9 tracks below: scroll to the nearest"
    assert shown.table.bounding_box() == top, "nothing moves"
    # below, by the mouse and by the keys
    below.click()
    shown.wait_views("v.timeline.laneRange.end > 0")
    assert 0 < hold_to_python(shown)["below"] < 90
    shown.sentence("below").focus()
    shown.page.keyboard.press("Enter")
    shown.sentence("below").wait_for(state="hidden")
    assert shown.page.evaluate(INSIDE), "the keys stay in the views"
    shown.views("v.timeline.gutter.box.scrollTop = 1e6")
    assert hold_to_python(shown)["above"] > 0
    shown.sentence("above").focus()
    shown.page.keyboard.press("Space")
    shown.sentence("above").wait_for(state="hidden")
    hold_to_python(shown)
    _unfold(shown)
    _move(shown)
    shown.clear.first.click()
    shown.wait_views("v.store.isEmpty()")
    shown.sentences.first.wait_for(state="hidden")


def _unfold(shown: NotebookPage) -> None:
    """A folded group, a hidden track and a pinned one."""
    shown.views("v.timeline.gutter.box.scrollTop = 0")
    group = shown.part(".nbp-track-group", has_text="process 100").locator(".nbp-fold")
    group.click()
    assert hold_to_python(shown) == {"inSight": 0, "folded": 120}
    folded = shown.sentence("folded")
    assert folded.inner_text().replace("\n", "") == "▸120 selected slices in 1 folded group"
    folded.click()
    shown.wait_views(f"{SAID}.inSight > 0")
    assert "folded" not in hold_to_python(shown)
    worker = shown.track("worker 2")
    worker.focus()
    shown.page.keyboard.press("h")
    assert hold_to_python(shown)["folded"] == 10
    assert "in 1 hidden track" in shown.sentence("folded").inner_text()
    shown.sentence("folded").click()
    shown.sentence("folded").wait_for(state="hidden")
    assert shown.track("worker 2").is_visible()
    before = hold_to_python(shown)
    shown.track("worker 1").first.focus()
    shown.page.keyboard.press("p")
    shown.wait_kernel("print(p.selection.pinned)", "(2,)")
    shown.views("v.timeline.gutter.box.scrollTop = 0")
    hold_to_python(shown)
    shown.views("v.timeline.gutter.box.scrollTop = 1e6")
    after = hold_to_python(shown)
    assert sum(before.values()) == sum(after.values()) == 120


def _move(shown: NotebookPage) -> None:
    """Away in time by the wheel, and back to what is nearest; then a brushed time."""
    left, top, width, height = shown.frame()
    shown.page.mouse.move(left + 0.5 * width, top + 0.5 * height)
    shown.page.keyboard.down("Control")
    for _ in range(6):
        shown.page.mouse.wheel(0, -600)
    shown.page.keyboard.up("Control")
    shown.wait_views("v.range.end - v.range.start < 20e6")
    said = hold_to_python(shown)
    assert said["before"] > 0
    assert said["after"] > 0
    for side, moved in (("after", ">"), ("before", "<")):
        start = shown.views("v.range.start")
        shown.sentence(side).click()
        shown.wait_views(f"v.range.start {moved} {start}")
        assert hold_to_python(shown)["inSight"] > 0
    shown.kernel("p.selection.clear(); p.selection.update(window=('70ms', '75ms'))")
    shown.views("v.setView(0, 10e6)")
    shown.settle()
    assert not shown.sentence("after").is_visible(), "all of a time is marked as a whole"
    shown.kernel("p.selection.name = [str(name) for name in p.trace.slices['name'].unique()]")
    shown.settle()
    shown.wait_views(f"{SAID}.after > 0")
    said = shown.views(SAID)
    assert said["inSight"] == 0
    assert said["after"] > 0
    assert sum(said.values()) == int(shown.kernel("print(len(p.selected))"))
    shown.sentence("after").click()
    shown.wait_views(f"v.range.end > 60e6 && {SAID}.inSight > 0")


def test_slices_deep_in_a_track_in_view_are_scrolled_to(report: Callable[..., Report]) -> None:
    """Clicking a table row scrolls to its slices without changing the visible time."""
    builder = TraceBuilder()
    track, depth = builder.track("main"), 60
    starts = np.arange(depth)
    names = [f"call {k}" for k in range(depth)]
    builder.slices(ts=starts, dur=2 * depth - 2 * starts, name=names, track=track)
    opened = report(Profile(builder.seal()))
    opened.views("v.store.set({name: ['call 59']}, 'timeline')")
    opened.wait_views(f"{SAID}.below === 1")
    assert opened.views("v.timeline.laneRange.end") == 0, "who selects in the timeline sees it"
    opened.views("v.store.set({name: ['call 58']}, 'table')")
    opened.wait_views(f"{SAID}.inSight === 1")
    assert opened.views("[v.range.start, v.range.end]") == opened.views("v.meta.span")


def test_a_rank_that_is_chosen_elsewhere_is_scrolled_to(report: Callable[..., Report]) -> None:
    builder = TraceBuilder()
    for rank in range(6):
        for k in range(5):
            track = builder.track(f"worker {k}", pid=rank + 1, tid=k + 1, rank=rank)
            builder.slices(ts=[0], dur=[10], name=["work"], track=track)
    opened = report(Profile(builder.seal()))
    opened.lanes(10)
    opened.views("v.store.set({rank: [4]}, 'ranks')")
    opened.wait_views("v.timeline.laneRange.start > v.timeline.lanes.placeOfRow(20)")
    assert opened.views("v.timeline.laneRange.end <= v.timeline.lanes.placeOfRow(20)")
    assert not opened.sentences.count(), "a rank is marked as a whole"
    opened.views("v.store.set({rank: [0]}, 'ranks')")
    opened.wait_views("v.timeline.laneRange.end <= v.timeline.lanes.placeOfRow(0)")
