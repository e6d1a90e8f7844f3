"""Odd traces in the report: none may break a view; golden pictures, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.trace import TraceBuilder
from notebook_prof.views.report import report

from .drawn import drawn_trace
from .jupyter_page import Browser, settle
from .test_pictures import _compare


def _empty(builder: TraceBuilder) -> None:
    builder.metadata["source"] = "recording"


def _one_slice(builder: TraceBuilder) -> None:
    builder.slices(ts=[5], dur=[10**6], name="only", track=builder.track("MainThread", pid=1, tid=1))


def _many_tracks(builder: TraceBuilder) -> None:
    rng = np.random.default_rng(0)
    for k in range(300):
        ts = np.cumsum(rng.integers(10_000, 60_000, 60))
        track = builder.track(f"worker {k}", pid=k // 100, tid=k + 1)
        builder.slices(ts=ts, dur=rng.integers(1_000, 9_000, 60), name=f"task {k % 7}", track=track)


def _long_names(builder: TraceBuilder) -> None:
    word = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
    names = [f"{word * 12} {k}" for k in range(20)]
    ts = np.arange(20) * 10**6
    builder.slices(
        ts=ts,
        dur=np.full(20, 900_000),
        name=names,
        track=builder.track("thread " * 30, pid=1, tid=1),
        module=word,
        shapes=word,
    )


def _instants(builder: TraceBuilder) -> None:
    track = builder.track("MainThread", pid=1, tid=1)
    builder.slices(ts=np.arange(50) * 1_000, dur=np.zeros(50, int), name="mark", track=track)


def _two_hours(builder: TraceBuilder) -> None:
    second = 10**9
    ts = np.arange(0, 7200, 60) * second
    track = builder.track("MainThread", pid=1, tid=1)
    builder.slices(ts=ts, dur=np.full(120, 50 * second), name=["train", "validate"] * 60, track=track)
    builder.steps(step=np.arange(120), ts=ts, dur=np.full(120, 60 * second), source="loop")


def _two_microseconds(builder: TraceBuilder) -> None:
    track = builder.track("MainThread", pid=1, tid=1)
    builder.slices(ts=[0, 100, 900], dur=[2_000, 700, 1_000], name=["all", "a", "b"], track=track)


CASES: dict[str, Callable[[TraceBuilder], None]] = {
    "empty": _empty,
    "one-slice": _one_slice,
    "300-tracks": _many_tracks,
    "long-names": _long_names,
    "instants": _instants,
    "two-hours": _two_hours,
    "two-microseconds": _two_microseconds,
}


def _open(browser: Browser, path: Path, scheme: str = "light") -> None:
    browser.blank()
    browser.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    browser.page.set_viewport_size({"width": 1280, "height": 880})
    browser.page.goto(path.as_uri())


@pytest.mark.parametrize("case", CASES)
def test_odd_traces_are_drawn(browser: Browser, tmp_path: Path, case: str) -> None:
    builder = TraceBuilder()
    CASES[case](builder)
    Profile(builder.seal()).export.html(tmp_path / "odd.html")
    try:
        for scheme in ("light", "dark"):
            _open(browser, tmp_path / "odd.html", scheme)
            if case != "empty":
                browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
                settle(browser.page)
            _compare(f"odd-{case}-{scheme}", browser.page.screenshot)
            assert browser.errors == []
    finally:
        browser.page.emulate_media(color_scheme="light")
        browser.page.goto("about:blank")


def test_a_report_of_too_much_says_what_is_left_out(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MOST_SLICES", 500)
    trace = drawn_trace(memory=False, gpu=True)
    Profile(trace).export.html(tmp_path / "part.html")
    _open(browser, tmp_path / "part.html")
    browser.page.wait_for_function("() => document.querySelector('.nbp-host')?.nbp?.counts.table")
    assert "500 of 1,604 slices" in browser.page.locator(".nbp-notice").inner_text()
    assert browser.errors == []
    browser.page.goto("about:blank")
