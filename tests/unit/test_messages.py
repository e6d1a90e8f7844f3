"""Whatever a page sends: an answer for each question, and never an exception in the kernel."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.jupyter.widget import ProfileWidget
from notebook_prof.profiles.profile import Profile
from notebook_prof.views.page_queries import PageQueries

from ..browser.drawn import drawn_profile
from ..draws import draws

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = ["rid", "seq", "patch", "origin", "revision", "a", "b", "px", "rows", "by", "to", "id"]
ARGUMENTS += ["at", "top", "start", "sort", "filter", "text", "name", "tracks", "device", "scope", "messages"]
KEYS = st.sampled_from(ARGUMENTS)
KINDS = st.sampled_from([*PageQueries.questions, "select", "bokehjs", "start", "several", ""])
QUESTION = st.builds(lambda kind, more: {**more, "t": kind}, KINDS, st.dictionaries(KEYS, JSON, max_size=5))
SEVERAL = st.builds(
    lambda messages: {"t": "several", "messages": messages}, st.lists(QUESTION | JSON, max_size=4)
)


class Heard(ProfileWidget):
    """Keeps what it sends."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.sent: list[Any] = []

    def send(self, content: Any, buffers: Any = None) -> None:
        """Instead of a comm."""
        assert sum(map(len, buffers or ())) < 20_000_000
        self.sent += content.get("several", [content])


@pytest.fixture(scope="module")
def widget() -> Iterator[Heard]:
    made = Heard(drawn_profile(gpu=True))
    yield made
    made.close()


def ask(widget: Heard, message: Any) -> list[Any]:
    widget.sent.clear()
    widget._receive(widget, message, [])
    return widget.sent


@settings(max_examples=draws(150))
@given(message=QUESTION | SEVERAL | JSON)
def test_every_question_gets_an_answer(widget: Heard, message: Any) -> None:
    """What is no mapping is no question: it has no number by which it could be answered."""
    several = isinstance(message, dict) and message.get("t") == "several"
    messages = message.get("messages") if several else [message]
    questions = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    answers = ask(widget, message)
    assert [repr(one.get("rid")) for one in answers] == [repr(one.get("rid")) for one in questions]


def test_a_page_without_buffers_gets_them_as_text(widget: Heard) -> None:
    """Some front-ends drop the buffers of messages; the page then asks for text."""
    plain = ask(widget, {"t": "names", "rid": "1", "start": 0})[0]
    coded = ask(widget, {"t": "names", "rid": "1", "start": 0, "base64": True})[0]
    assert "base64" not in plain
    answer, buffers = widget._reply({"t": "names", "start": 0})
    assert [base64.b64decode(part) for part in coded["base64"]] == buffers
    assert coded["buffers"] == len(buffers) == 1
    assert coded["names"] == answer["names"]


@pytest.mark.parametrize(
    "message",
    [
        {"t": "select", "patch": 3},
        {"t": "select", "patch": ["name"]},
        {"t": "select", "patch": {"step": [["a"]]}},
        {"t": "select", "patch": {"window": [1]}},
        {"t": "select", "patch": {}, "revision": "x"},
        {"t": "select", "patch": {"name": ["aten::mm"]}, "revision": [1]},
    ],
)
def test_a_malformed_selection_is_reported_and_changes_nothing(widget: Heard, message: Any) -> None:
    before = {**widget._profile.selection.to_state(), "revision": 0}
    [answer] = ask(widget, {**message, "rid": 7})
    assert answer["failed"]
    assert answer["rid"] == 7
    assert {**widget._profile.selection.to_state(), "revision": 0} == before
