"""What TypeScript says of questions and answers is what Python decodes and gives."""

from __future__ import annotations

import pytest

from notebook_prof.errors import NotebookProfError
from notebook_prof.service.messages import ANSWERS, QUESTIONS, decode
from notebook_prof.service.messages.__main__ import TYPES, declarations
from notebook_prof.views.page_queries import PageQueries


def test_the_declarations_are_those_of_the_structs() -> None:
    hint = "run `python -m notebook_prof.service.messages` and commit what it writes"
    for name, text in declarations().items():
        assert (TYPES / name).read_text(encoding="utf-8") == text, hint


def test_every_question_and_answer_is_declared() -> None:
    assert QUESTIONS.keys() == ANSWERS.keys() == {*PageQueries.questions, "ranks"}


def test_a_malformed_question_says_what_is_wrong() -> None:
    with pytest.raises(NotebookProfError, match=r"question 'lod' is invalid: .*float.*px"):
        decode({"t": "lod", "a": 0, "b": 9, "px": "wide"})
    with pytest.raises(NotebookProfError, match="missing required field `b`"):
        decode({"t": "lod", "a": 0})


def test_what_is_left_out_has_its_default() -> None:
    assert decode({"t": "find", "id": 7, "rid": "x"}) == {"t": "find", "id": 7, "by": 1, "rid": "x"}
    assert "descending" not in decode({"t": "table"})
