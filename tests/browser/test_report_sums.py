"""A report of more slices than one file holds: sums stand in for those that were left out."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.dashboard import AXIS_PX, LANE_PX
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.report import report

from .drawn import drawn_profile
from .jupyter_page import Browser

ASK = """async ([state, request]) => {
    const v = document.querySelector('.nbp-host').nbp;
    const none = {window: null, name: null, category: null, track: null, step: null, phase: null};
    v.store.set({...none, ...state}, 'test');
    const {content, buffers} = await v.transport.request(request);
    const text = (b) => btoa(Array.from(new Uint8Array(b.buffer, b.byteOffset, b.byteLength),
        (c) => String.fromCharCode(c)).join(''));
    return [content, buffers.map(text)];
}"""
KEPT = 8_000


def _many() -> Trace:
    """33,600 slices: long ones on one track, blocks of short ones on the other."""
    rng = np.random.default_rng(5)
    builder = TraceBuilder()
    blocks, inner = 800, 40
    start = np.arange(blocks) * 100_000
    long = rng.integers(60_000, 95_000, blocks)
    busy = builder.track("worker", pid=1, tid=2)
    builder.slices(ts=start, dur=long, name="block", track=busy)
    inside = (start[:, None] + 1_200 * np.arange(inner)[None, :]).ravel() + 500
    names = [f"operator_{k}" for k in range(7)] * (len(inside) // 7 + 1)
    dur = rng.integers(200, 1_100, len(inside))
    builder.slices(ts=inside, dur=dur, name=names[: len(inside)], track=busy)
    builder.slices(
        ts=start, dur=np.full(blocks, 50_000), name="wait", track=builder.track("main", pid=1, tid=1)
    )
    builder.steps(step=np.arange(8), ts=np.arange(8) * 10**7, dur=np.full(8, 10**7), source="loop")
    return builder.seal()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Profile]]:
    """Two reports that hold a part of their slices."""
    folder = tmp_path_factory.mktemp("sums")
    out = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, profile, most in (
            ("many", Profile(_many()), KEPT),
            ("drawn", drawn_profile(gpu=True), 300),
        ):
            patch.setattr(report, "MOST_SLICES", most)
            profile.to_html(folder / f"{name}.html")
            out[name] = (folder / f"{name}.html", profile)
    return out


@pytest.fixture(params=["many", "drawn"], scope="module")
def _opened(
    browser: Browser, files: dict[str, tuple[Path, Profile]], request: pytest.FixtureRequest
) -> Iterator[tuple[Browser, Profile]]:
    """One of them, open: once for all tests of it."""
    path, profile = files[request.param]
    browser.blank()
    browser.page.set_viewport_size({"width": 1280, "height": 900})
    browser.page.goto(path.as_uri())
    browser.page.wait_for_function(
        "() => document.querySelector('.nbp-host')?.nbp?.counts.table", timeout=30_000
    )
    yield browser, profile
    browser.page.goto("about:blank")


@pytest.fixture
def opened(_opened: tuple[Browser, Profile]) -> Iterator[tuple[Browser, Profile]]:
    """With nothing selected, the whole recording in view; no complaint may come."""
    browser, profile = _opened
    browser.page.evaluate(
        """() => { const v = document.querySelector('.nbp-host').nbp;
        v.store.clear('test'); v.setView(...v.meta.span); }"""
    )
    yield browser, profile
    profile.selection.clear()
    assert browser.errors == []
    assert browser.elsewhere == []


def _asked(
    page: Any, state: dict[str, Any], request: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    content, texts = page.evaluate(ASK, [state, request])
    assert "failed" not in content, content
    buffers = [base64.b64decode(text) for text in texts]
    return content, {
        name: np.frombuffer(part, np.dtype("<" + kind)).astype(float)
        for (name, kind), part in zip(content["columns"], buffers, strict=True)
    }


def _rows(content: dict[str, Any], data: dict[str, Any]) -> dict[tuple[str, str, float], list[float]]:
    numbers = ("count", "total_ns", "self_ns", "device_ns")
    keys = zip(content["label"], content["detail"], data["side"].tolist(), strict=True)
    return {key: [data[name][k] for name in numbers] for k, key in enumerate(keys)}


def test_totals_of_the_whole_recording_are_exact(opened: tuple[Browser, Profile]) -> None:
    browser, profile = opened
    protocol = PageQueries(profile.trace, profile.selection)
    meta, _ = _asked(browser.page, {}, {"t": "meta"})
    for by in meta["groupings"]:
        request = {"t": "table", "by": by, "top": 1000}
        ours, buffers = protocol.answer(request)
        data = {
            name: np.frombuffer(part, np.dtype("<" + kind)).astype(float)
            for (name, kind), part in zip(ours["columns"], buffers, strict=True)
        }
        theirs = _asked(browser.page, {}, request)
        assert _rows(*theirs) == _rows(ours, data), by
        assert "estimate" not in theirs[0]
        assert (theirs[0]["count"], theirs[0]["self_ns"]) == (ours["count"], ours["self_ns"])
    assert meta["slices"] == len(profile.trace.slices)
    ours, buffers = protocol.answer({"t": "phases"})
    place = [name for name, _ in ours["columns"]].index("total")
    _, data = _asked(browser.page, {}, {"t": "phases"})
    np.testing.assert_array_equal(data["total"], np.frombuffer(buffers[place]))


@pytest.mark.parametrize("window", [(0.0, 1.0), (0.11, 0.63), (0.4, 0.44), (0.5, 0.502)])
def test_what_is_drawn_is_as_busy_as_the_recording(
    opened: tuple[Browser, Profile], window: tuple[float, float]
) -> None:
    """At any zoom: rectangles and bins of each row add up to the busy time that the kernel knows."""
    browser, profile = opened
    store = ViewStore(profile.trace)
    span, rows = store.trace.span, np.arange(store.columns.n_rows)
    a, b = (span.start + share * span.dur for share in window)
    request = {"t": "lod", "a": a, "b": b, "px": 900, "rows": rows.tolist(), "max_quads": 4000}
    content, data = _asked(browser.page, {}, request)
    assert content["mode"] == "dense"
    bins, width = content["bins"], content["bin_ns"]
    edges = content["bin_start"] + width * np.arange(bins + 1)
    exact = np.diff(store.rows.busy_until(rows, np.rint(edges).astype(np.int64)), axis=1)
    found = data["busy"].reshape(len(rows), bins) / 255 * width
    if content.get("sums"):  # cells wider than pixels hold what is not drawn one by one
        for x, dur, slot in zip(data["x0"], data["dur"], data["slot"], strict=True):
            inside = np.minimum(x + dur, edges[1:]) - np.maximum(x, edges[:-1])
            found[int(slot)] += np.clip(inside, 0, None)
        slack = width / 255 * 2 + 2  # shares come as bytes, rounded up, so that nothing disappears
        np.testing.assert_allclose(found, exact, atol=slack)
    # cells reach over the edges of pixels: over all bins nothing is gained or lost
    slack = bins * (width / 255 + 2) + 2 * store.trace.span.dur / 500
    assert (np.abs(found.sum(axis=1) - exact.sum(axis=1)) <= slack).all()
    touched = exact > 2
    seen = data["count"].reshape(len(rows), bins) > 0
    if content.get("sums"):
        seen |= found > 0
    if not content.get("sums"):
        assert seen[touched].mean() > 0.98
    else:
        assert seen[touched].all()


@pytest.mark.parametrize(
    ("selection", "within"),
    [
        ({"window": (0.25, 0.75)}, 0.02),
        ({"window": (0.301, 0.352)}, 0.25),
        ({"step": [1, 2]}, 0.02),
        ({"name": ["operator_3"]}, 0.02),
    ],
    ids=["half", "narrow", "steps", "name"],
)
@pytest.mark.parametrize("_opened", ["many"], indirect=True)
def test_a_part_is_estimated_and_says_so(
    opened: tuple[Browser, Profile], selection: dict[str, Any], within: float
) -> None:
    browser, profile = opened
    span = profile.trace.span
    if "window" in selection:
        selection = {"window": [int(share * span.end) for share in selection["window"]]}
    profile.selection.update(**selection)
    protocol = PageQueries(profile.trace, profile.selection)
    ours, _ = protocol.answer({"t": "table", "by": "category"})
    theirs, _ = _asked(browser.page, selection, {"t": "table", "by": "category"})
    assert theirs["estimate"]
    assert theirs["count"] == pytest.approx(ours["count"], rel=within)
    assert theirs["self_ns"] == pytest.approx(ours["self_ns"], rel=within)
    if "name" not in selection:
        browser.page.wait_for_function(
            "() => document.querySelector('.nbp-totals').textContent.startsWith('≈')"
        )
        assert "≈ estimates" in browser.page.locator(".nbp-table").inner_text()


@pytest.mark.parametrize("_opened", ["many"], indirect=True)
@pytest.mark.parametrize("zoom", ["out", "in"])
def test_sums_are_seen_and_explained(opened: tuple[Browser, Profile], zoom: str) -> None:
    browser, _ = opened
    page = browser.page
    notice = page.locator(".nbp-notice").inner_text()
    assert "holds 8,000 of 33,600 slices one by one" in notice
    assert "how busy they keep every row" in notice
    if zoom == "in":
        page.evaluate("() => document.querySelector('.nbp-host').nbp.setView(4.0e7, 4.04e7)")
    page.wait_for_function(
        "() => { const v = document.querySelector('.nbp-host').nbp;"
        " return v.timeline.snapshot().mode === 'dense'; }"
    )
    page.evaluate("() => new Promise(done => setTimeout(done, 300))")
    box = page.locator(".nbp-timeline").bounding_box()
    assert box is not None
    place = page.evaluate("() => document.querySelector('.nbp-host').nbp.timeline.lanes.placeOfRow(2)")
    y = box["y"] + AXIS_PX + (place + 0.5) * LANE_PX
    tip = page.locator(".nbp-tooltip")
    for share in np.linspace(0.4, 0.6, 21):
        page.mouse.move(box["x"] + box["width"] * share, y)
        if tip.is_visible() and "longest: operator_" in tip.inner_text():
            break
    words = tip.inner_text()
    assert "slices in" in words
    assert "busy" in words
    assert ("this file holds them as a sum only" in words) == (zoom == "in")
