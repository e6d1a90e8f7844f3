"""The ranks' page: a colour means one thing, the same as in the views of one recording."""

from __future__ import annotations

from notebook_prof.ranks.page.frames import BUBBLES, PARTS, TALK
from notebook_prof.service.palette import CATEGORIES, PHASES, STATUS

SAME = {
    frozenset({"compute"}): CATEGORIES["kernel"],
    frozenset({"exposed communication", "collectives", "transfer"}): CATEGORIES["collective"],
    frozenset({"waiting for data"}): PHASES["data"],
    frozenset({"waiting for the last rank"}): CATEGORIES["sync"],
    frozenset({"copies"}): CATEGORIES["memcpy"],
}
"""Parts that are one thing, and the colour that it has everywhere."""


def test_a_colour_means_one_thing_in_all_panels() -> None:
    meaning = [pair for parts in (PARTS, BUBBLES, TALK) for pair in parts.values()]
    for words, colour in SAME.items():
        assert {text for text, used in meaning if used == colour} == words
    neutral = {"idle", "not shared", "warm-up", "between", "drain"}
    assert {text for text, _ in meaning} == neutral.union(*SAME)
    assert not {colour for _, colour in meaning} & set(STATUS.values())


def test_no_two_parts_of_a_panel_look_alike() -> None:
    for parts in (PARTS, BUBBLES, TALK):
        assert len({colour for _, colour in parts.values()}) == len(parts)
