"""The page gets the same critical path and replay as Python."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Selection, analysis
from notebook_prof.analysis.verdict.inputs import judged_extent
from notebook_prof.profiles.profile import Profile
from notebook_prof.readers import read_trace
from notebook_prof.service.executor import QueryService
from notebook_prof.testing import draw
from notebook_prof.trace import Trace
from notebook_prof.units import format_ns, format_share

from ..asking import asked

LAUNCHED = draw(
    """
    steps:    [0               ]
    main:     [mm]  [sync     ]
    stream 7:     [gemm    ]
    """,
    launches=[("mm", "gemm")],
    categories={"sync": "sync"},
)


def ask(trace: Trace, **question: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Content and columns of the answer about a path."""
    return asked(QueryService(trace, Selection()), **{"t": "path", **question})


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
    content, segments = ask(LAUNCHED, t="why", id=1)
    assert [segments["start"][0], segments["end"][-1]] == content["window"]


@pytest.fixture(scope="module")
def recorded(data: Path) -> Trace:
    return read_trace(data / "torch213_cpu/cnn_adam.pt.trace.json.gz")


def what_if(trace: Trace, factor: float = 0.5, **selected: Any) -> dict[str, Any]:
    return asked(QueryService(trace, Selection(**selected)), t="what_if", factor=factor)[0]


@pytest.mark.parametrize(
    ("selected", "arguments"),
    [
        ({"name": "aten::convolution_backward"}, {"scale": {"aten::convolution_backward": 0.5}}),
        ({"name": ["aten::conv2d", "aten::relu"]}, {"scale": {"aten::conv2d": 0.5, "aten::relu": 0.5}}),
        ({"phase": "backward"}, {"phase": {"backward": 0.5}}),
        ({"category": "operator", "step": [3, 4]}, {"scale": {"category=operator": 0.5}, "step": [3, 4]}),
    ],
)
def test_it_is_what_python_says(recorded: Trace, selected: dict[str, Any], arguments: dict[str, Any]) -> None:
    content = what_if(recorded, **selected)
    answer = analysis.what_if(recorded, **arguments)
    assert content["found"]
    assert (content["text"], content["refused"]) == (str(answer), answer.refused)
    p = Profile(recorded)
    assert str(eval(content["call"], {"p": p})) == str(answer)
    after = sum(time for _, _, time in content["classes"])
    assert format_ns(after) == format_ns(answer.after)
    assert format_ns(sum(time for _, time, _ in content["classes"])) == format_ns(answer.before)


@pytest.mark.parametrize(
    ("selected", "words"),
    [
        ({}, "Select a name"),
        ({"step": [3]}, "Select a name"),
        ({"name": "aten::conv2d", "phase": "forward"}, "Select by one of name and phase"),
        ({"name": "aten::conv2d", "track": 0}, "remove the track"),
        ({"name": "no such name"}, "no slice is called"),
        ({"name": "aten::conv2d", "window": (1, 2)}, ""),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(recorded: Trace, selected: dict[str, Any], words: str) -> None:
    content = what_if(recorded, **selected)
    assert words.lower() in content["text"].lower()
    assert content["text"].endswith(".")


def test_a_long_recording_is_asked_in_python(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["notebook_prof.service.answers.path"], "MOST_SLICES", 10)
    content = what_if(recorded, name="aten::conv2d")
    assert not content["found"]
    assert "p.what_if(scale={'aten::conv2d': 0.5})" in content["text"]
