"""A profile whose every text is markup, script or template, and a hand that touches all of it."""

from typing import Any

import numpy as np

from notebook_prof import Profile, TraceBuilder

EVIL = (
    "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script></script>"
    '<svg onload=window.hacked=1>" onmouseover="window.hacked=1" \'-window.hacked=1-\' '
    "{{window.hacked=1}}<%= window.hacked=1 %>${window.hacked=1}$$x^2$$\\(x\\)&lt;b&gt;--><!--]]>"
)
"""Breaks out of elements, attributes, strings, comments and templates of every kind."""


def hostile_trace() -> Any:
    """Every field of text that a trace has."""
    builder = TraceBuilder(
        metadata={key: f"{key} {EVIL}" for key in ("source", "cell_source", "host", "device", "steps_source")}
        | {EVIL: EVIL, "arguments": {EVIL: [EVIL]}}
    )
    main = builder.track("thread " + EVIL, pid=1, tid=1)
    stream = builder.track("stream " + EVIL, "stream", device=0, stream=7)
    counter = builder.track("counter " + EVIL, "counter", unit=EVIL)
    leaf = builder.stack([(EVIL, EVIL, 4), ("function " + EVIL, "file " + EVIL, 3)])
    host = builder.slices(
        ts=[0, 10**5, 5 * 10**5],
        dur=[10**6, 10**5, 2 * 10**5],
        name=["outer " + EVIL, "launch " + EVIL, "backward " + EVIL],
        category=["operator", "launch", "python"],
        phase=["forward", "data", "backward"],
        track=main,
        shapes="shapes " + EVIL,
        module="module " + EVIL,
        stack=leaf,
        step=0,
    )
    many = np.arange(6_000)  # so many that they are drawn as density
    builder.slices(ts=2 * 10**6 + 100 * many, dur=50 + 0 * many, name="bin " + EVIL, track=main, step=1)
    work = builder.slices(
        ts=[2 * 10**5, 6 * 10**5], dur=[10**5, 10**5], name=["kernel " + EVIL, "all " + EVIL],
        category=["kernel", "collective"], track=stream, shapes=EVIL, device=0, stream=7,
    )  # fmt: skip
    builder.flows("launch", host[1:2], work[:1])
    builder.flows("fwdbwd", host[:1], host[2:])
    builder.steps(step=[0, 1], ts=[0, 2 * 10**6], dur=[10**6, 7 * 10**5], source="loop")
    builder.counter(counter, [0, 5 * 10**5, 2 * 10**6], [1.0, 2.0, 3.0])
    builder.allocations(
        ts=[10, 2 * 10**5], addr=[1, 1], bytes=[100, -100], device=0, allocated=[100, 0], reserved=[200, 200],
        track=main,
    )  # fmt: skip
    builder.report.add(EVIL, "error", example="example " + EVIL, effect="effect " + EVIL, advice=EVIL)
    return builder.seal()


def hostile_profile() -> Profile:
    return Profile(hostile_trace())


VIEWS = "document.querySelector('.nbp-host').nbp"


def touch_everything(page: Any) -> list[str]:
    """Hover, click, select, find, filter and open whatever there is; the texts that were shown meanwhile."""
    from .dashboard import settle  # not above: the notebook's kernel imports this file by itself

    def wait(expression: str) -> None:
        page.wait_for_function(f"() => {{ const v = {VIEWS}; return v && ({expression}); }}")

    def ask(expression: str) -> Any:
        return page.evaluate(f"() => {{ const v = {VIEWS}; return {expression}; }}")

    shown = []

    def note(selector: str) -> None:
        shown.extend(page.locator(selector).all_inner_texts())

    wait("v.counts.table && v.counts.timeline && v.counts.counters")
    names = ask("v.meta.nameList")
    ask("v.setView(0, 1.2e6)")
    settle(page)
    for name in (n for n in names if not n.startswith("bin ")):
        page.wait_for_function(f"(name) => {VIEWS}.timeline.locate(name) !== null", arg=name)
        at = page.evaluate(f"(name) => {VIEWS}.timeline.locate(name)", name)
        page.mouse.move(at["x"], at["y"])
        page.locator(".nbp-tooltip:not([hidden])").wait_for()
        note(".nbp-tooltip")
        page.mouse.click(at["x"], at["y"])
        page.wait_for_function(f"(name) => {VIEWS}.detail()?.name === name", arg=name)
        note(".nbp-detail")
        page.mouse.dblclick(at["x"], at["y"])
        wait("v.store.get().name !== null && v.table.snapshot().chosen.length")
        note(".nbp-chips")
        ask("v.store.set({name: null}, 'test')")
    ask("v.setView(...v.meta.span)")
    wait("v.timeline.snapshot().mode === 'dense'")
    box = page.locator(".nbp-timeline").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 60, box["y"] + 80)  # a bin
    for selector in (".nbp-track-lane", ".nbp-track-counter", ".nbp-figure-title", ".nbp-phases"):
        for one in page.locator(selector).all():
            one.hover(force=True)
        note(selector)
    tooltip = page.locator(".nbp-tooltip:not([hidden])").filter(has_text="counter")
    for _ in range(40):  # the verdict may come meanwhile, and move what is below it
        box = page.locator(".nbp-timeline").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 12)
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 10)
        page.wait_for_timeout(250)  # the tooltip comes when the pointer rests
        if tooltip.count():
            break
    note(".nbp-tooltip")
    for opener in page.locator(".nbp-line > .nbp-fold").all():
        opener.click()
    note(".nbp-verdict")
    tracks = ask("v.meta.tracks.map(t => t.track)")
    page.evaluate(f"(tracks) => {VIEWS}.store.set({{track: tracks}}, 'test')", tracks)
    wait("v.timeline.snapshot().filtered !== undefined")
    note(".nbp-chips")
    ask("v.store.set({track: null}, 'test')")
    note(".nbp-tab-body")
    ask("v.panels.show('operators')")
    for by in ("shapes", "module", "category", "name"):
        page.locator("select[aria-label='group by']").select_option(by)
        wait(f"v.table.snapshot().by === '{by}'")
        page.locator(".nbp tbody tr").first.hover()
        note(".nbp tbody tr")
    for tint in ("module", "step", "category", "phase", "name"):
        count = ask("v.counts.timeline")
        page.locator(".nbp-colours select").select_option(tint)
        wait(f"v.counts.timeline > {count}")
    filters = page.locator(".nbp-table input[type=search]")
    for text in (EVIL, f'"{EVIL}"', "/(<img src=x onerror=window.hacked=1>/", f"phase={EVIL.split()[0]}x"):
        filters.fill(text)
        wait("v.table.snapshot() && true")
        settle(page)
        note(".nbp-table")
    filters.fill("")
    finder = page.locator(".nbp-find input")
    for text in ("<img", "/(<img src=x onerror=window.hacked=1>/", f"count>{EVIL.split()[0]}"):
        finder.fill(text)
        finder.press("Enter")
        settle(page)
        note(".nbp-find")
    finder.fill("")
    page.locator("input[aria-label='filter tracks by name']").fill("<img")
    note(".nbp-gutter")
    page.locator("input[aria-label='filter tracks by name']").fill("")
    for tab in page.locator(".nbp-rail button").all():
        tab.click()
        settle(page)
        page.locator(".nbp-tab-body[aria-busy=true]").wait_for(state="detached")
        for one in page.locator(".nbp-tab-body :is(tr, .nbp-card, canvas):visible").all()[:4]:
            one.hover(force=True)
        note(".nbp-tabs")
        for view in page.locator(".nbp-views button").all()[1:]:
            view.click()
            settle(page)
            page.locator(".nbp-tab-body[aria-busy=true]").wait_for(state="detached")
            note(".nbp-tabs")
    page.locator(".nbp-rail button").first.click()
    return shown


def assert_harmless(page: Any, shown: list[str], *, stacks: bool) -> None:
    """Nothing ran, no element came of a text, and the texts are there as texts."""
    assert page.evaluate("() => window.hacked") is None
    made = (
        "() => [...document.querySelectorAll('.nbp :is(img, script, svg, b, iframe)')].map(e => e.outerHTML)"
    )
    assert [html for html in page.evaluate(made) if "hacked" in html or "src=" in html] == []
    attributes = "() => [...document.querySelectorAll('*')].filter(e => e.hasAttribute('onmouseover')).length"
    assert page.evaluate(attributes) == 0
    text = "\n".join(shown)
    kinds = ("outer", "launch", "backward", "kernel", "thread", "counter", "module", "shapes")
    for kind in (*kinds, *(["function"] * stacks)):
        assert f"{kind} <img src=x onerror='window.hacked=1'>" in text, kind
