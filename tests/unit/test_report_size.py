"""How long a report may be, what it then leaves out, and that it says so."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from notebook_prof.selection import Selection
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.report import report
from notebook_prof.views.report.report_columns import extremes

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
        builder.allocations(
            ts=np.sort(rng.integers(0, 10**8, memory)),
            addr=rng.integers(1, 10**6, memory),
            bytes=size,
            device=0,
            allocated=np.abs(np.cumsum(size)),
            reserved=0,
        )
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
def test_a_report_keeps_to_its_room_and_says_what_it_leaves_out(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_extremes_keep_the_peak() -> None:
    values = np.random.default_rng(1).integers(0, 10**6, 12_345)
    rows = extremes(values, 900)
    assert len(rows) <= 900 + 14
    assert values[rows].max() == values.max()
    assert values[rows].min() == values.min()
    assert rows[-1] == len(values) - 1
