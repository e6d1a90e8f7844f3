"""A report of more slices than one file holds: sums stand in for those that were left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.service.store import ViewStore
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.report import report

from ..browser.drawn import drawn_profile
from ..many import KEPT, many_slices
from ..node import ask_report


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Profile]]:
    """Two reports that hold a part of their slices."""
    folder = tmp_path_factory.mktemp("sums")
    out = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "embedded", lambda trace: {})  # the tabs are not used
        for name, profile, most in (
            ("many", Profile(many_slices()), KEPT),
            ("drawn", drawn_profile(gpu=True), 300),
        ):
            patch.setattr(report, "MOST_SLICES", most)
            profile.export.html(folder / f"{name}.html")
            out[name] = (folder / f"{name}.html", profile)
    return out


@pytest.fixture(params=["many", "drawn"])
def sums(files: dict[str, tuple[Path, Profile]], request: pytest.FixtureRequest) -> tuple[Path, Profile]:
    """One of them."""
    return files[request.param]


def test_what_is_drawn_is_as_busy_as_the_recording(sums: tuple[Path, Profile], tmp_path: Path) -> None:
    """At any zoom: rectangles and bins of each row add up to the busy time that the kernel knows."""
    path, profile = sums
    store = ViewStore(profile.trace)
    span, rows = store.trace.span, np.arange(store.columns.n_rows)
    question = {"t": "timeline", "px": 900, "rows": rows.tolist(), "max_quads": 4000}
    windows = [(0.0, 1.0), (0.11, 0.63), (0.4, 0.44), (0.5, 0.502)]
    requests = [
        {**question, "a": span.start + begin * span.dur, "b": span.start + end * span.dur}
        for begin, end in windows
    ]
    for content, data in ask_report(path, [({}, request) for request in requests], tmp_path):
        check_busy(store, rows, content, data)


def check_busy(store: ViewStore, rows: np.ndarray, content: dict[str, Any], data: dict[str, Any]) -> None:
    assert content["mode"] == "dense"
    bins, width = content["bins"], content["bin_ns"]
    edges = content["bin_start"] + width * np.arange(bins + 1)
    exact = np.diff(store.rows.busy_until(rows, np.rint(edges).astype(np.int64)), axis=1)
    busy = data["busy"].reshape(len(rows), bins) / 255 * width
    if content.get("sums"):  # cells wider than pixels hold what is not drawn one by one
        for x, dur, slot in zip(data["x0"], data["dur"], data["slot"], strict=True):
            inside = np.minimum(x + dur, edges[1:]) - np.maximum(x, edges[:-1])
            busy[int(slot)] += np.clip(inside, 0, None)
        slack = width / 255 * 2 + 2  # shares come as bytes, rounded up, so that nothing disappears
        np.testing.assert_allclose(busy, exact, atol=slack)
    # cells reach over the edges of pixels: over all bins nothing is gained or lost
    slack = bins * (width / 255 + 2) + 2 * store.trace.span.dur / 500
    assert (np.abs(busy.sum(axis=1) - exact.sum(axis=1)) <= slack).all()
    touched = exact > 2
    drawn = data["count"].reshape(len(rows), bins) > 0
    if content.get("sums"):
        assert (drawn | (busy > 0))[touched].all()
    else:
        assert drawn[touched].mean() > 0.98


PARTS: list[tuple[dict[str, Any], float]] = [
    ({"window": (0.25, 0.75)}, 0.02),
    ({"window": (0.301, 0.352)}, 0.25),
    ({"step": [1, 2]}, 0.02),
    ({"name": ["operator_3"]}, 0.02),
]
"""Selections, windows as shares of the span, and how far an estimate may be off."""


@pytest.mark.parametrize("sums", ["many"], indirect=True)
def test_a_part_is_estimated_and_says_so(sums: tuple[Path, Profile], tmp_path: Path) -> None:
    path, profile = sums
    request, end = {"t": "table", "by": "category"}, profile.trace.span.end
    protocol = PageQueries(profile.trace, profile.selection)
    selections, known = [], []
    for selection, _ in PARTS:
        if "window" in selection:
            selection = {"window": [int(share * end) for share in selection["window"]]}
        profile.selection.update(**selection)
        known.append(protocol.answer(request)[0])
        profile.selection.clear()
        selections.append(selection)
    answers = ask_report(path, [(selection, request) for selection in selections], tmp_path)
    for (selection, within), ours, (theirs, _) in zip(PARTS, known, answers, strict=True):
        assert theirs["estimate"], selection
        assert theirs["count"] == pytest.approx(ours["count"], rel=within), selection
        assert theirs["self_ns"] == pytest.approx(ours["self_ns"], rel=within), selection


def test_selected_slices_that_the_file_has_are_where_the_kernel_has_them(
    sums: tuple[Path, Profile], tmp_path: Path
) -> None:
    """They are said to be a part, and on no row are there more than the recording has."""
    path, profile = sums
    name = str(profile.trace.slices["name"][profile.trace.slices["dur"].idxmax()])
    profile.selection.update(name=name)
    state = profile.selection.to_state()
    request = {"t": "selected", "a": 0, "b": profile.trace.span.end / 2}
    content, columns = PageQueries(profile.trace, profile.selection).answer(request)
    profile.selection.clear()
    ((theirs, data),) = ask_report(path, [(state, request)], tmp_path)
    assert theirs["estimate"] is True
    assert "estimate" not in content
    assert 0 < theirs["count"] <= content["count"]
    rows = np.frombuffer(columns[0], np.uint32)
    assert set(data["row"]) <= set(rows.tolist())
