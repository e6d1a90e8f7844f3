"""The report: the same views without a kernel, and the same answers as the kernel gives."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.trace import TraceBuilder
from notebook_prof.views.page_queries import PageQueries

from .drawn import drawn_profile
from .jupyter_page import Browser, settle

REQUESTS: list[dict[str, Any]] = [
    {"t": "table", "by": "name"},
    {"t": "table", "by": "module", "sort": "total_ns"},
    {"t": "table", "by": "category"},
    {"t": "table", "by": "name", "filter": "conv self>1ms", "scope": "host"},
    {"t": "table", "by": "name", "filter": "/^aten::(add|copy)_$/", "sort": "label", "descending": False},
    {"t": "memory", "a": 0.0, "b": 2e8, "px": 900},
    {"t": "memory", "a": 1e7, "b": 3e7, "px": 5},
    {"t": "phases"},
    {"t": "account"},
    {"t": "lod", "a": 0.0, "b": 2e8, "px": 900, "rows": [0, 1, 2, 3, 4, 5], "max_quads": 4000},
    {"t": "lod", "a": 1e7, "b": 9e7, "px": 300, "rows": [0, 1, 2, 3, 4, 5], "max_quads": 50, "tint": "phase"},
    {"t": "strip", "px": 500},
    {"t": "detail", "id": 40},
    {"t": "find", "id": 40, "by": 1},
    {"t": "counters", "a": 1e7, "b": 1.5e8, "px": 40, "tracks": [3, 4, 5]},
    {"t": "table", "by": "name", "scope": "device"},
    {"t": "table", "by": "name", "start": 3, "top": 4, "sort": "count"},
    {"t": "neighbour", "id": 12, "to": "parent"},
    {"t": "neighbour", "id": 4, "to": "child"},
    {"t": "neighbour", "id": 12, "to": "next"},
    {"t": "neighbour", "id": -1, "row": 1, "at": 20_000_000},
    {"t": "search", "text": "conv self>1ms", "px": 200, "at": 30_000_000},
    {"t": "search", "text": "/add_$/", "px": 200, "id": 40, "by": -1},
    {"t": "search", "text": "count>3", "px": 20},
    {"t": "lod", "a": -1e8, "b": 3e8, "px": 400, "rows": [0, 1, 2, 5], "max_quads": 10, "tint": "module"},
]
SELECTIONS: list[dict[str, Any]] = [
    {},
    {"window": (31_000_000, 120_000_123)},
    {"name": "aten::conv2d"},
    {"step": [4, 5], "phase": "forward", "window": ("20ms", "90ms")},
    {"category": "kernel"},
]
# which of several equally long slices names a bin, and the order of equal values, are free
FREE = {"ms", "revision", "seq", "columns", "picture"}


def _tangled() -> Profile:
    """Recursion, a call passed on, a slice that outlasts its parent, and work launched from deep inside."""
    builder = TraceBuilder()
    main = builder.track("main", pid=1, tid=1)
    stream = builder.track("stream 7", "stream", device=0, stream=7)
    names = ["f", "f", "mm", "f", "aten::div_", "aten::div_", "long", "late", "inside late"]
    ts = np.array([0, 5, 10, 12, 60, 61, 80, 95, 97]) * 10**6
    dur = np.array([50, 40, 20, 10, 9, 7, 20, 30, 1]) * 10**6
    host = builder.slices(ts=ts, dur=dur, name=names, track=main, step=[0] * 6 + [1] * 3, module="net")
    work = builder.slices(
        ts=np.array([20, 70, 110]) * 10**6,
        dur=np.array([30, 15, 40]) * 10**6,
        name="gemm",
        category="kernel",
        track=stream,
    )
    builder.flows("launch", host[[3, 5, 8]], work)
    builder.steps(step=[0, 1], ts=[0, 80 * 10**6], dur=[80 * 10**6, 50 * 10**6], source="loop")
    return Profile(builder.seal())


@pytest.fixture(params=["drawn", "tangled"])
def report(
    browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[Browser, Profile]]:
    """An open report of a profile."""
    profile = _tangled() if request.param == "tangled" else drawn_profile(gpu=True)
    profile.to_html(tmp_path / "report.html")
    browser.blank()
    browser.page.goto((tmp_path / "report.html").as_uri())
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
    yield browser, profile
    assert browser.errors == []
    assert browser.elsewhere == []
    browser.page.goto("about:blank")


def _columns(content: dict[str, Any], buffers: list[bytes]) -> dict[str, np.ndarray[Any, Any]]:
    return {
        name: np.frombuffer(part, np.dtype("<" + kind)).astype(float)
        for (name, kind), part in zip(content["columns"], buffers, strict=True)
    }


def test_page_and_kernel_give_the_same_answers(report: tuple[Browser, Profile]) -> None:
    browser, profile = report
    protocol = PageQueries(profile.trace, profile.selection)
    ask = """async ([state, request]) => {
        const v = document.querySelector('.nbp-host').nbp;
        const none = {window: null, name: null, category: null, track: null, step: null, phase: null};
        v.store.set({...none, focus: null, ...state}, 'test');
        const {content, buffers} = await v.transport.request(request);
        const text = (b) => btoa(Array.from(new Uint8Array(b.buffer, b.byteOffset, b.byteLength),
            (c) => String.fromCharCode(c)).join(''));
        return [content, buffers.map(text)];
    }"""
    for selection in SELECTIONS:
        profile.selection.clear()
        profile.selection.update(**selection)
        state = {k: v for k, v in profile.selection.to_state().items() if k != "revision"}
        for request in REQUESTS:
            ours, buffers = protocol.answer(request)
            theirs, texts = browser.page.evaluate(ask, [state, request])
            where = f"{request} under {selection}"
            _same(
                where,
                ours,
                _columns(ours, buffers),
                theirs,
                _columns(theirs, [base64.b64decode(t) for t in texts]),
            )


def _same(where: str, ours: dict[str, Any], our_data: Any, theirs: dict[str, Any], their_data: Any) -> None:
    assert {k: v for k, v in ours.items() if k not in FREE} == {
        k: v for k, v in theirs.items() if k not in FREE
    }, where
    assert set(our_data) == set(their_data), where
    if "quads" in ours:  # any order
        our_order, their_order = np.argsort(our_data["id"]), np.argsort(their_data["id"])
        for name in ("x0", "dur", "slot", "name", "tint", "id", "match"):
            np.testing.assert_array_equal(
                our_data[name][our_order], their_data[name][their_order], f"{where}: {name}"
            )
    for name in set(our_data) - (
        {"x0", "dur", "slot", "name", "tint", "id", "match"} if "quads" in ours else set()
    ):
        if name in ("dname", "dtint"):
            continue
        tolerance = 1.01 if name in ("busy", "bright") else 1e-6  # edges of bins are whole ns in the kernel
        np.testing.assert_allclose(
            our_data[name], their_data[name], rtol=1e-9, atol=tolerance, err_msg=f"{where}: {name}"
        )


@pytest.mark.parametrize("report", ["drawn"], indirect=True)
def test_gestures_link_the_views(report: tuple[Browser, Profile]) -> None:
    page = report[0].page
    page.locator("tr[data-name='aten::add_']").click()
    page.wait_for_function("() => document.querySelector('.nbp-host').nbp.timeline.snapshot().filtered")
    page.wait_for_function("() => document.querySelector('.nbp-host').nbp.phases.snapshot().filtered")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('.nbp-host').nbp.timeline.snapshot().filtered")
    settle(page)
    at = page.evaluate("() => document.querySelector('.nbp-host').nbp.timeline.locate('aten::conv2d')")
    page.mouse.click(at["x"], at["y"])
    page.wait_for_function("() => document.querySelector('.nbp-host').nbp.detail()?.name === 'aten::conv2d'")
    assert not page.locator("#nbp-static").is_visible()


def test_the_selection_is_kept(browser: Browser, tmp_path: Path) -> None:
    profile = drawn_profile()
    profile.selection.update(step=5, name="aten::relu")
    profile.save(tmp_path / "report.html")
    browser.page.goto((tmp_path / "report.html").as_uri())
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
    assert browser.page.locator(".nbp-chip").all_inner_texts() == ["aten::relu\n×", "step 5\n×"]


def test_a_profile_of_nothing_is_a_page_too(browser: Browser, tmp_path: Path) -> None:
    Profile(TraceBuilder().seal()).to_html(tmp_path / "nothing.html")
    browser.page.goto((tmp_path / "nothing.html").as_uri())
    assert "Nothing was recorded" in browser.page.locator("body").inner_text()
