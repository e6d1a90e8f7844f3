"""What the page draws of the critical path is the path that Python lists."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Selection, analysis
from notebook_prof.analysis.verdict.inputs import judged_extent
from notebook_prof.service.executor import QueryService
from notebook_prof.testing import draw
from notebook_prof.trace import Trace
from notebook_prof.units import format_ns, format_share
from notebook_prof.views.report import report_columns

LAUNCHED = draw(
    """
    steps:    [0               ]
    main:     [mm]  [sync     ]
    stream 7:     [gemm    ]
    """,
    launches=[("mm", "gemm")],
    categories={"sync": "sync"},
)


def patient(trace: Trace) -> QueryService:
    """A service that waits for its answers, however busy the machine is."""
    service = QueryService(trace, Selection())
    service.executor._patience_s = 60
    return service


def ask(trace: Trace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Content and columns of the answer."""
    content, buffers = patient(trace).answer({"t": "path"})
    named = zip(content["columns"], buffers, strict=True)
    return content, {name: np.frombuffer(part, f"<{kind}") for (name, kind), part in named}


def check_path(trace: Trace) -> None:
    """Its segments partition what is judged and sum by track to the table; its sentence stands there."""
    content, segments = ask(trace)
    if not content["found"]:
        assert segments == {}
        assert "no critical path" in content["text"]
        return
    extent = tuple(judged_extent(trace))
    assert content["call"] == f"p.critical_path(window={extent}, end='last')"
    pieces = analysis.critical_path(trace, window=extent, end="last")
    assert (segments["start"][1:] == segments["end"][:-1]).all()
    assert (np.diff(segments["track"]) != 0).all()
    assert [segments["start"][0], segments["end"][-1]] == [pieces["start_ns"].min(), pieces["end_ns"].max()]
    drawn = pd.Series(segments["end"] - segments["start"]).groupby(segments["track"]).sum()
    listed = pieces["dur_ns"].groupby(pieces["track"].fillna(-1).astype("int64")).sum()
    assert drawn[drawn.index >= 0].astype("int64").to_dict() == listed[listed.index >= 0].to_dict()
    classes = pieces.groupby("class", observed=True)["dur_ns"].sum()
    shares = set(map(format_share, (classes / classes.sum()).tolist()))
    assert f"Critical path, {format_ns(int(classes.sum()))}: " in content["text"]
    assert set(re.findall(r"[\d.]+ %", content["text"])) <= shares


def test_what_a_step_waited_for() -> None:
    content, segments = ask(LAUNCHED)
    assert {name: column.tolist() for name, column in segments.items()} == {
        "track": [0, 1, 0],
        "start": [0, 4, 14],
        "end": [4, 14, 18],
    }
    assert content["text"].startswith("Critical path, 18 ns: kernels 55.6 %")


def test_why_draws_the_path_of_its_segment() -> None:
    content, buffers = patient(LAUNCHED).answer({"t": "why", "id": 1})
    start, end = (np.frombuffer(buffers[at]) for at in (1, 2))
    assert [start[0], end[-1]] == content["window"]


def test_a_report_keeps_the_longest_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    store = QueryService(LAUNCHED, Selection()).store
    kept = report_columns._path(store)
    assert kept["content"] == {
        name: value for name, value in ask(LAUNCHED)[0].items() if name in ("found", "text", "call")
    }
    monkeypatch.setattr(report_columns, "_MOST_SEGMENTS", 2)
    monkeypatch.setattr(report_columns, "deflated", lambda column: column.tolist())
    assert report_columns._path(store)["columns"]["start"] == [0, 4]
    monkeypatch.setattr(report_columns, "_MOST_WITH_PATH", 1)
    assert "p.critical_path()" in report_columns._path(store)["content"]["text"]
