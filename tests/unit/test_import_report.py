"""Entries of import reports say everything that they are asked to say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import notebook_prof
from notebook_prof.errors import OptionError
from notebook_prof.trace.report import ADVICE, SEVERITIES, ImportReport, advice_on

SOURCE = "\n".join(path.read_text() for path in Path(notebook_prof.__file__).parent.rglob("*.py"))


def test_advice_is_given_where_none_is() -> None:
    report = ImportReport()
    report.add("truncated-file", "loss", effect="gone")
    report.add("something-new", "loss")
    report.add("own", "info", advice="mine")
    assert report["truncated-file"].advice == ADVICE["truncated-file"]
    assert report["something-new"].advice == advice_on("something-new", "loss")
    assert report["own"].advice == "mine"
    assert len({advice_on("something-new", severity) for severity in SEVERITIES}) == 2


def test_advice_is_of_codes_that_exist() -> None:
    used = {*re.findall(r'"([a-z0-9-]+)"(?!: )', SOURCE)}  # the table of advice has them before a colon
    assert ADVICE.keys() - used == set()


def test_rows_give_their_first_as_an_example() -> None:
    report = ImportReport()
    wrong = np.array([False, True, False, True])
    report.broken_rows(wrong, "abcd".__getitem__, "left out")
    report.add_where("broken-row", "loss", np.array([0]), "abcd".__getitem__)
    report.broken_rows(0, "none")
    report.broken_rows(2, "z")
    report.add_where("unclosed-begin", "loss", np.empty(0, np.int64), "".__getitem__)
    assert [(issue.code, issue.count, issue.example) for issue in report] == [("broken-row", 5, "b")]
    report.add_where("long", "info", wrong, lambda i: "x" * 10_000)
    assert len(report["long"].example) == 120
    with pytest.raises(OptionError, match="severity"):
        report.add("x", "fatal")  # type: ignore[arg-type]
