"""What the engine beside py-spy does when a look from inside fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from notebook_prof.collectors.python.py_spy.engine import PySpy
from notebook_prof.trace import ImportReport


def test_a_look_that_fails_is_reported_and_does_not_end_its_thread() -> None:
    report = ImportReport()
    attachment = cast("Any", SimpleNamespace(rate_hz=100, kill=lambda: None))
    engine = PySpy(report, attachment)

    def no_frame() -> None:
        raise AttributeError("no field with name 'f_code'")

    engine._look = no_frame
    engine._look_inside()
    engine._look_inside()
    issue = report["look-inside-failed"]
    assert (issue.severity, issue.count) == ("info", 2)
    assert issue.example == "AttributeError: no field with name 'f_code'"
