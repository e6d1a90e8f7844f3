"""What a page is answered has the declared fields, types and columns; on every kind of recording."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from notebook_prof import Selection
from notebook_prof.readers import read_trace
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views import page_queries
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.tabs import TABS

from ..asking import answered as until_answered
from ..page_types import DTYPES, alternatives, fields, interface

HEADER = ("columns", "seq", "revision", "ms")
SAMPLES = (
    "torch213_cpu/mini_noschedule.pt.trace.json.gz",
    "torch_memory/profile.snapshot.pickle.gz",
    "jax_cpu/vm.trace.json.gz",
    "python_profilers/pyinstrument.json",
)
OUTSIDE = draw(
    """
    steps:    [0   ][1   ]
    main:     [mm  ][mm  ]
    stream 7: [k  ][sum  ][k ]           [sum]
    """,
    categories={"sum": "collective"},
)
"""Communication that goes on after the last step."""


def check_answer(question: str, content: Mapping[str, Any], buffers: list[bytes]) -> str:
    """Hold an answer against what is declared; gives which of the alternatives it is."""
    assert not content.get("failed"), content
    given = {name: value for name, value in content.items() if name not in HEADER}
    problems = []
    for name in alternatives(fields("Answers")[question][0]):
        if words := interface(given, name, question):
            problems.append(words)
            continue
        _check_columns(name, dict(content["columns"]))
        assert len(buffers) == len(content["columns"])
        return name
    raise AssertionError(problems)


def _check_columns(name: str, columns: Mapping[str, str]) -> None:
    data, _ = fields(name).get("data", ("", False))
    if data == "PanelColumns":  # a tab's: numbers by part and key
        assert set(columns.values()) <= {"f8"}
        return
    known = fields(data) if data else {}
    allowed = {column: {DTYPES[one] for one in alternatives(kind)} for column, (kind, _) in known.items()}
    assert columns.keys() <= allowed.keys()
    assert {column for column, (_, optional) in known.items() if not optional} <= columns.keys()
    assert {column: kind for column, kind in columns.items() if kind not in allowed[column]} == {}


def _questions(queries: PageQueries) -> Iterator[dict[str, Any]]:
    meta, _ = queries.answer({"t": "meta"})
    (a, b), rows = meta["span"], [track["row"] for track in meta["tracks"]][:20]
    yield {"t": "meta", "doubts": "later"}
    yield {"t": "meta"}
    for t in ("doubts", "names", "account", "phases", "path"):
        yield {"t": t}
    for most in (4000, 3):
        timeline = {"t": "timeline", "a": a, "b": b, "px": 300, "rows": rows, "max_quads": most}
        yield timeline
        yield {**timeline, "picture": queries.answer(timeline)[0]["picture"]}
        yield {**timeline, "find": "a"}
    for tint in meta["tints"]:
        yield {"t": "legend", "tint": tint}
    yield {"t": "selected", "a": a, "b": (a + b) / 2}
    yield {"t": "strip"}
    yield {"t": "strip", "picture": queries.answer({"t": "strip"})[0]["picture"]}
    yield {"t": "memory", "a": a, "b": b}
    yield {"t": "counters", "a": a, "b": b, "tracks": [one["track"] for one in meta["counters"]]}
    for by in meta["groupings"]:
        yield {"t": "table", "by": by, "by_side": True}
    yield {"t": "table", "filter": "self>"}
    for row in (0, 1, 10**9):
        yield {"t": "detail", "id": row}
        yield {"t": "find", "id": row}
        yield {"t": "neighbour", "id": row, "to": "child"}
    yield {"t": "calls", "names": ["a"], "step": 0, "device": False, "place": 0}
    for track in meta["tracks"][:4]:
        for at in ((a + b) // 2, -1):
            yield {"t": "why", "track": track["track"], "at": at}
    yield {"t": "why", "id": 0}
    yield {"t": "what_if", "factor": 0.5}
    for text in ("a", "no such name", "self>"):
        yield {"t": "search", "text": text}
    for name in TABS:
        yield {"t": "panel", "name": name}
    yield {"t": "recording"}


def check_answers(trace: Trace, selected: bool = False) -> set[str]:
    """Ask a page's questions, on request also under a selection. Returns the kinds of answers."""
    selection = Selection()
    queries = PageQueries(trace, selection)
    kinds = {check_answer(one["t"], *until_answered(queries, one)) for one in _questions(queries)}
    if selected:
        selection.name = str(trace.slices["name"].iloc[0])
        selection.window = (trace.span.start, trace.span.end // 2 + 1)
        kinds |= {check_answer(one["t"], *until_answered(queries, one)) for one in _questions(queries)}
    return kinds


@pytest.fixture(scope="module")
def answered(data: Path) -> set[str]:
    return set().union(
        *(check_answers(read_trace(data / name), selected=name == SAMPLES[0]) for name in SAMPLES),
        check_answers(OUTSIDE, selected=True),
        check_answers(TraceBuilder().seal()),
    )


def test_a_page_that_is_gone_keeps_no_recording() -> None:
    trace = draw("steps: [0   ][1   ]\nmain:  [mm  ][mm  ]\nstream 7: [k  ] [k ]")
    check_answers(trace)  # what is made once may stay
    gc.collect()
    gc.disable()
    try:
        check_answers(trace)
        gone = weakref.ref(trace)
        del trace
        assert gone() is None
    finally:
        gc.enable()


def test_every_alternative_comes(answered: set[str]) -> None:
    kinds = [kind for question, (kind, _) in fields("Answers").items() if question != "ranks"]
    assert {one for kind in kinds for one in alternatives(kind)} - answered == {"NoRecording"}


def test_a_recording_that_is_too_long_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_queries, "MOST_IN_PAGE", len(OUTSIDE.slices) - 1)
    queries = PageQueries(OUTSIDE, Selection())
    content, buffers = until_answered(queries, {"t": "recording"})
    assert check_answer("recording", content, buffers) == "NoRecording"
    assert content["too_many"] == len(OUTSIDE.slices)
