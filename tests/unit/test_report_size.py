"""The size limit of a report, what is left out or summed up above it, and that the report says so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import notebook_prof as nbp
from notebook_prof.selection import Selection
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.report import report
from notebook_prof.views.report.report import header, provenance
from notebook_prof.views.report.report_columns import FilePart, longest_slices
from tests.strategies import traces

MIB = 1_000_000


def _trace(n: int, memory: int = 0, tracks: int = 16) -> Trace:
    """Slices of random lengths, two levels deep, on tracks of very different scale."""
    rng = np.random.default_rng(0)
    builder = TraceBuilder()
    each = n // tracks // 2
    for k in range(tracks):
        dur = rng.integers(200, 40_000, each) * (k + 1)
        ts = np.cumsum(dur + rng.integers(0, 3_000, each)) - dur
        builder.slices(
            ts=np.concatenate([ts, ts + dur // 4]),
            dur=np.concatenate([dur, dur // 3]),
            name=[f"operator_{code}" for code in rng.integers(0, 300, 2 * each)],
            track=builder.track(f"worker {k}", pid=1, tid=k + 1),
        )
    if memory:
        size = rng.integers(1, 10**6, memory) * rng.choice([-1, 1], memory)
        at, addr = np.sort(rng.integers(0, 10**8, memory)), rng.integers(1, 10**6, memory)
        held = np.abs(np.cumsum(size))
        builder.allocations(ts=at, addr=addr, bytes=size, device=0, allocated=held, reserved=0)
    return builder.seal()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return _trace(100_000, memory=10_000)


@pytest.fixture
def _no_tabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tabs are of the whole recording, however little of it is in the file."""
    monkeypatch.setattr(report, "embedded", lambda trace: {})


def _page(trace: Trace) -> str:
    return report.report_page(trace, Selection(), verdict="", static="")


def _part(page: str, name: str) -> dict[str, object]:
    match = re.search(rf'<script type="application/json" id="nbp-{name}">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return dict(json.loads(match[1]))


def test_a_hundred_thousand_slices_are_three_megabytes(trace: Trace) -> None:
    page = _page(trace)
    assert len(page.encode()) <= 3 * MIB
    assert _part(page, "settings")["notice"] == ""


@pytest.mark.usefixtures("_no_tabs")
def test_a_report_keeps_its_room_and_says_what_is_out(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    least = len(_page(_trace(32)).encode())
    monkeypatch.setattr(report, "MOST_BYTES", least + MIB // 2)
    monkeypatch.setattr(report, "MOST_EVENTS", 1_000)
    page = _page(trace)
    assert len(page.encode()) <= least + MIB // 2
    assert len(page.encode()) > least + MIB // 4, "and uses it"
    notice = str(_part(page, "settings")["notice"])
    assert re.search(r"has [\d,]+ of 100,000 slices", notice)
    assert "10,000 memory events" in notice
    assert len(_part(page, "given")["meta"]["tracks"]) == 16  # type: ignore[index]


@pytest.mark.usefixtures("_no_tabs")
def test_memory_is_thinned_before_slices_go(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_EVENTS", 1_000)
    monkeypatch.setattr(report, "MOST_BYTES", len(_page(trace).encode()) - 20_000)
    notice = str(_part(_page(trace), "settings")["notice"])
    assert "slices" not in notice
    assert "lowest and the highest" in notice


Rows = npt.NDArray[np.int64]


def _busy_by_hand(store: ViewStore, slices: Rows, edges: Rows) -> Rows:
    """Busy ns of every row between edges, slice by slice."""
    c = store.columns
    out = np.zeros((c.n_rows, len(edges) - 1), np.int64)
    for i in slices.tolist():
        start, end = c.ts[i], c.ts[i] + c.dur[i]
        out[c.row[i]] += np.clip(np.minimum(end, edges[1:]) - np.maximum(start, edges[:-1]), 0, None)
    return out


def _busy_in_file(part: FilePart, n_rows: int) -> Rows:
    """Of the cells, shape (rows, cells)."""
    out = np.zeros(n_rows * part.cells.per_row, np.int64)
    out[part.cells.at] = part.cells.busy_ns
    return out.reshape(n_rows, part.cells.per_row)


def _edges(part: FilePart) -> Rows:
    return part.cells.origin + part.cells.width_ns * np.arange(part.cells.per_row + 1)


@given(traces(), st.integers(1, 12))
def test_slices_and_cells_are_as_busy_as_the_recording(trace: Trace, most: int) -> None:
    """The law of every level of detail: between edges, nothing appears and nothing is lost."""
    store = ViewStore(trace)
    part = FilePart.of(store, most)
    if part is None:
        assert longest_slices(store, most).all()
        return
    kept, edges, every = np.flatnonzero(part.keep), _edges(part), np.arange(store.columns.n)
    assert not part.keep.all()
    busy = _busy_by_hand(store, kept, edges) + _busy_in_file(part, store.columns.n_rows)
    np.testing.assert_array_equal(busy, _busy_by_hand(store, every, edges))
    assert part.cells.count.sum() + len(kept) == store.columns.n
    _assert_longest(store, part.keep)
    assert edges[0] <= store.columns.ts.min()
    assert edges[-1] >= (store.columns.ts + store.columns.dur).max()


def _assert_longest(store: ViewStore, keep: npt.NDArray[np.bool_]) -> None:
    """The longest of every track are kept, and whatever is around a slice that is."""
    c, around = store.columns, store.columns.parent[keep]
    assert keep[around[around >= 0]].all()
    needed = np.isin(np.arange(len(keep)), around)
    for track in np.unique(c.track):
        left, there = (c.track == track) & ~keep, (c.track == track) & keep & ~needed
        assert c.dur[left].max(initial=0) <= c.dur[there].min(initial=2**62)


def test_of_a_file(data: Path, tmp_path: Path) -> None:
    profile = nbp.open_profile(data / "torch213_cpu" / "cnn_sgd.pt.trace.json.gz")
    facts = provenance(profile.trace)
    assert facts["file"] == "cnn_sgd.pt.trace.json.gz"
    assert facts["format"] == "kineto"
    assert facts["recorded"].endswith(" UTC")
    assert facts["options"] == "shapes, stacks, memory, modules, FLOPs"
    assert "devices" not in facts, "none is recorded"
    draw("main: [mm]").save(tmp_path / "small.json")
    small = nbp.open_profile(tmp_path / "small.json")
    small.export.html(tmp_path / "report.html")
    assert "small.json" in header(small.trace)
    assert header(small.trace) in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_nothing_is_made_up() -> None:
    assert provenance(draw("main: [mm]")) == {}
    odd = TraceBuilder(metadata={"start_unix_ns": 5, "kineto": "?", "devices": None}).seal()
    assert "recorded" not in provenance(odd)
