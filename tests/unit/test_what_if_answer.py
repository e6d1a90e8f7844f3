"""What the page is told of a replay is what Python says of the same selection."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from notebook_prof import Selection, analysis
from notebook_prof.profiles.profile import Profile
from notebook_prof.readers import read_trace
from notebook_prof.service.executor import QueryService
from notebook_prof.trace import Trace
from notebook_prof.units import format_ns


@pytest.fixture(scope="module")
def recorded(data: Path) -> Trace:
    return read_trace(data / "torch213_cpu/cnn_adam.pt.trace.json.gz")


def ask(trace: Trace, factor: float = 0.5, **selected: Any) -> dict[str, Any]:
    service = QueryService(trace, Selection(**selected))
    service.executor._patience_s = 60
    content, _ = service.answer({"t": "what_if", "factor": factor})
    assert "failed" not in content, content
    return content


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
    content = ask(recorded, **selected)
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
    content = ask(recorded, **selected)
    assert words.lower() in content["text"].lower()
    assert content["text"].endswith(".")


def test_a_long_recording_is_asked_in_python(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["notebook_prof.service.answers.path"], "MOST_SLICES", 10)
    content = ask(recorded, name="aten::conv2d")
    assert not content["found"]
    assert "p.what_if(scale={'aten::conv2d': 0.5})" in content["text"]
