"""Tabs say which dimensions of the selection they follow: the page does not ask again for the others."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.selection import Selection
from notebook_prof.service.palette import name_styles
from notebook_prof.trace import Trace
from notebook_prof.views.tab_answers import packed
from notebook_prof.views.tabs import TABS, Panel
from notebook_prof.views.tabs.base import Absent

from ..browser.drawn import drawn_trace
from ..browser.drawn_cell import drawn_cell
from ..browser.drawn_gpu import drawn_training

_MODEL = re.compile(r"\bp\d{4,}\b")
"""Number of a Bokeh model, which is another one in each figure."""


def _content(trace: Trace, made: Panel | Absent, state: dict[str, Any]) -> object:
    if isinstance(made, Absent):
        return made.sentence
    answer = packed("tab", made, name_styles(trace), 50, state)
    return _MODEL.sub("", repr(answer.content)), {k: v.tobytes() for k, v in answer.arrays().items()}


def _one_of_each(trace: Trace) -> dict[str, Any]:
    """Return a clause for each dimension of which the trace has values."""
    start, length = trace.span.start, trace.span.dur
    clauses: dict[str, Any] = {"window": [start + length // 4, start + length // 2]}
    for name in ("name", "category", "track", "step", "phase", "line"):
        values = trace.slices[name].dropna()
        if len(values):
            middle = values.iloc[len(values) // 2]
            clauses[name] = [int(middle) if name in ("track", "step") else str(middle)]
    return clauses


@pytest.fixture(scope="module", params=["training", "cell", "adam"])
def trace(request: pytest.FixtureRequest, data: Path) -> Trace:
    if request.param == "adam":
        return nbp.open_profile(data / "torch213_cpu/cnn_adam.pt.trace.json.gz").trace
    return drawn_training() if request.param == "training" else drawn_cell()


@pytest.mark.parametrize("name", TABS)
def test_a_tab_is_the_same_under_what_it_does_not_follow(trace: Trace, name: str) -> None:
    tab = TABS[name]
    if tab.missing(trace):
        return
    for values in itertools.product(*(choice.texts for choice in tab.choices)):
        chosen = tab.chosen(dict(zip((choice.key for choice in tab.choices), values, strict=True)))
        nothing = Selection().to_state()
        whole = tab.build(trace, nothing, **chosen)
        expected = _content(trace, whole, nothing)
        under = whole.under if isinstance(whole, Panel) else ()
        for dimension, clause in _one_of_each(trace).items():
            state = {**nothing, dimension: clause}
            if dimension not in under:
                made = tab.build(trace, state, **chosen)
                assert _content(trace, made, state) == expected, (values, dimension)


def test_two_peaks_of_the_host_are_told_apart() -> None:
    made = TABS["overview"].build(drawn_trace(gpu=True), Selection().to_state())
    facts = made.parts[0].facts
    peaks = [fact.note for fact in facts if fact.label == "peak memory"]
    assert peaks == ["host, resident", "host, recorded blocks"]
