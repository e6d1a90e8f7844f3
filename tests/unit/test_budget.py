"""What is left out of a recording since it was too dear before, and how that is told."""

from __future__ import annotations

import pytest

from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.session import plan
from notebook_prof.session.plan import spent, within
from notebook_prof.trace import ImportReport

CELL = "%%profile p\nloop()\n"
SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_dear", {})


def _decided(source: str | None, shapes: bool | None = None) -> tuple[bool | None, list[str]]:
    report = ImportReport()
    return within(CollectorOptions(shapes=shapes), source, report).shapes, list(report.to_frame()["code"])


@pytest.mark.parametrize(
    ("recorded_ns", "stop_ns", "shapes"),
    [(SECOND // 2, 3 * SECOND, False), (4 * SECOND, 3 * SECOND, True), (SECOND // 10, SECOND // 2, True)],
)
def test_a_cell_that_took_longer_to_stop_than_to_run_is_recorded_without_shapes(
    recorded_ns: int, stop_ns: int, shapes: bool
) -> None:
    assert _decided(CELL) == (True, [])
    spent(CELL, recorded_ns, stop_ns)
    assert _decided(CELL) == (shapes, [] if shapes else ["shapes-left-out"])
    assert _decided("%%profile q --quiet\nloop()\n")[0] is shapes, (
        "its options do not make another cell of it"
    )
    assert _decided("loop()\n")[0] is shapes
    assert _decided("%%profile p\nother()\n") == (True, [])


def test_the_report_says_what_it_took_and_how_to_insist() -> None:
    spent(CELL, SECOND // 2, 3 * SECOND)
    report = ImportReport()
    within(CollectorOptions(shapes=None), CELL, report)
    issue = report["shapes-left-out"]
    assert "took 3 s to stop, the cell 500 ms" in issue.example
    assert "--shapes" in issue.advice
