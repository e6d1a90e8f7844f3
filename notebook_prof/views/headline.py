"""The headline for the page: its lines in pieces, of which those that a table proves select its rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from ..analysis import Claim, Verdict
from .patches import plain_patch

Piece = tuple[str, dict[str, Any] | None]
"""A text, and what a click on it selects; None where it is only text."""


def claims_of(verdict: Verdict) -> tuple[Claim, ...]:
    """The claims of a verdict."""
    return tuple(getattr(verdict, "claims", ()))


def headline_pieces(text: str, claims: Iterable[Claim] = ()) -> list[list[Piece]]:
    """Cut every line of a headline at its claims.

    Parameters
    ----------
    text : str
        As `Profile.headline`; empty lines are left out.
    claims : iterable of Claim
        Those of the verdict. One that selects nothing, or that does not stand where it says, stays text.

    Returns
    -------
    list of list of (str, dict or None)
        The pieces of a line are the line.

    Examples
    --------
    >>> half = Claim("50 %", "phases", {"phase": "data"}, "share", 0.5, select={"phase": "data"}, start=9)
    >>> headline_pieces("Waiting: 50 %.\\nNo steps.", [half])
    [[('Waiting: ', None), ('50 %', {'phase': ['data']}), ('.', None)], [('No steps.', None)]]
    """
    by_line = {
        line: list(found)
        for line, found in groupby(
            sorted(claims, key=lambda one: (one.line, one.start)), lambda one: one.line
        )
    }
    lines = enumerate(text.split("\n"))
    return [_pieces(line, by_line.get(number, [])) for number, line in lines if line]


def _pieces(line: str, claims: list[Claim]) -> list[Piece]:
    found: list[Piece] = []
    at = 0
    for claim in claims:
        end = claim.start + len(claim.text)
        if claim.start < at or line[claim.start : end] != claim.text or not claim.select:
            continue
        if claim.start > at:
            found.append((line[at : claim.start], None))
        found.append((claim.text, plain_patch(claim.select)))
        at = end
    if at < len(line):
        found.append((line[at:], None))
    return found
