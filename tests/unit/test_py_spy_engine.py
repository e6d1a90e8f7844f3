"""What the engine beside py-spy does when a look from inside fails."""

from __future__ import annotations

import pytest

from notebook_prof.collectors.python.py_spy_engine import PySpy
from notebook_prof.trace import ImportReport


def test_a_look_that_fails_is_reported_and_does_not_end_its_thread() -> None:
    report = ImportReport()
    engine, tries = PySpy(report), []

    def no_frame() -> None:
        tries.append(1)
        if len(tries) == 2:
            engine._quit.set()
        raise AttributeError("no field with name 'f_code'")

    engine._attach = no_frame  # type: ignore[method-assign]
    engine._run()
    issue = report["look-inside-failed"]
    assert (issue.severity, issue.count) == ("info", 2)
    assert issue.example == "AttributeError: no field with name 'f_code'"


@pytest.mark.parametrize(
    ("seconds", "ended_ns", "told"),
    [(0.05, 0, ""), (0.5, 0, "took no sample in 0.5 s"), (0.05, 1, "was ended from outside")],
)
def test_no_sample_of_py_spy_is_a_loss_where_there_was_time(seconds: float, ended_ns: int, told: str) -> None:
    report = ImportReport()
    engine = PySpy(report)
    engine._handed_over_ns = ended_ns
    engine._tell_lost((0, int(seconds * 1e9)))
    assert [issue.code for issue in report] == (["py-spy-ended"] if told else [])
    if told:
        assert told in report["py-spy-ended"].example
