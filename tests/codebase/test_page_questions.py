"""What TypeScript says of the page's questions is what Python decodes."""

from __future__ import annotations

import pytest

from notebook_prof.errors import NotebookProfError
from notebook_prof.service.messages import DECLARATIONS, QUESTIONS, declarations, decode
from notebook_prof.views.page_queries import PageQueries


def test_the_declarations_are_those_of_the_structs() -> None:
    hint = "run `python -m notebook_prof.service.messages` and commit what it writes"
    assert DECLARATIONS.read_text(encoding="utf-8") == declarations(), hint


def test_every_question_is_declared() -> None:
    assert QUESTIONS.keys() == {*PageQueries.questions, "ranks"}


def test_a_malformed_question_says_what_is_wrong() -> None:
    with pytest.raises(NotebookProfError, match=r"question 'lod' cannot be read: .*float.*px"):
        decode({"t": "lod", "a": 0, "b": 9, "px": "wide"})
    with pytest.raises(NotebookProfError, match="missing required field `b`"):
        decode({"t": "lod", "a": 0})


def test_what_is_left_out_has_its_default() -> None:
    assert decode({"t": "find", "id": 7, "rid": "x"}) == {"t": "find", "id": 7, "by": 1, "rid": "x"}
    assert "descending" not in decode({"t": "table"})
