"""What TypeScript says of questions and answers is what Python decodes and gives."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from notebook_prof.errors import NotebookProfError
from notebook_prof.service.questions import QUESTIONS, decode
from notebook_prof.views.page_queries import PageQueries

from ..page_types import fields


def test_questions_are_declared_alike_for_the_page_and_the_kernel() -> None:
    kinds = {name: kind for name, (kind, _) in fields("Asked").items()}
    assert kinds == {name: question.__name__ for name, question in QUESTIONS.items()}
    for question in QUESTIONS.values():
        ours = {one.name: one.default is UNSET for one in msgspec.structs.fields(question)}
        assert ours == {name: optional for name, (_, optional) in fields(question.__name__).items()}


def test_every_question_and_answer_is_declared() -> None:
    assert QUESTIONS.keys() == fields("Answers").keys() == {*PageQueries.questions, "ranks"}


def test_a_malformed_question_says_what_is_wrong() -> None:
    with pytest.raises(NotebookProfError, match=r"question 'timeline' is invalid: .*float.*px"):
        decode({"t": "timeline", "a": 0, "b": 9, "px": "wide"})
    with pytest.raises(NotebookProfError, match="missing required field `b`"):
        decode({"t": "timeline", "a": 0})


def test_what_is_left_out_has_its_default() -> None:
    assert decode({"t": "find", "id": 7, "rid": "x"}) == {"t": "find", "id": 7, "by": 1, "rid": "x"}
    assert "descending" not in decode({"t": "table"})
