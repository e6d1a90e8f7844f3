"""The headline in pieces; each piece that a claim proves selects the rows of the claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

import pandas as pd

from .. import analysis
from ..analysis import Claim
from ..analysis.time.account import account_spans
from ..analysis.verdict.claims import matching
from ..trace import Trace
from .cached import locked_cached_property
from .packing import plain_patch

Piece = tuple[str, dict[str, Any] | None, str]
"""A text, what a click on it selects (None for nothing), and the code that gives its number."""

_MOST_STEPS: Final = 10_000


def headline_pieces(trace: Trace, text: str, claims: Iterable[Claim] = ()) -> list[list[Piece]]:
    """Cut every line of a headline at its claims; a claim that selects nothing has its code."""
    rows = _ClaimRows(trace)
    ordered = sorted(claims, key=lambda claim: (claim.line, claim.start))
    by_line = {line: list(group) for line, group in groupby(ordered, lambda claim: claim.line)}
    lines = enumerate(text.split("\n"))
    return [_pieces(line, by_line.get(number, []), rows) for number, line in lines if line]


def _pieces(line: str, claims: list[Claim], rows: _ClaimRows) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for claim in claims:
        end = claim.start + len(claim.text)
        if claim.start < at or line[claim.start : end] != claim.text:
            continue
        if claim.start > at:
            pieces.append((line[at : claim.start], None, ""))
        select = rows.select(claim)
        pieces.append((claim.text, plain_patch(select) if select else None, claim.code))
        at = end
    if at < len(line):
        pieces.append((line[at:], None, ""))
    return pieces


class _ClaimRows:
    """Selections for claims that have none of their own: parts of the account, and steps."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def select(self, claim: Claim) -> Mapping[str, Any]:
        """Return a selection; empty for none, and for everything."""
        if claim.select:
            return claim.select
        if claim.table == "account" and claim.where:
            rows = self._spans["part"].isin(matching(self._account, claim.where).index)
            spans = self._spans[rows]
            ends = spans["ts"] + spans["dur"]
            return {"window": (int(spans["ts"].min()), int(ends.max()))} if len(spans) else {}
        if claim.table == "steps":
            steps = matching(self._steps, claim.where)
            if claim.reduce in ("min", "max"):
                steps = steps[steps[claim.column] == claim.value]
            return {"step": steps["step"].tolist()} if 0 < len(steps) <= _MOST_STEPS else {}
        return {}

    @locked_cached_property
    def _account(self) -> pd.DataFrame:
        return analysis.account(self._trace)

    @locked_cached_property
    def _spans(self) -> pd.DataFrame:
        return account_spans(self._trace)

    @locked_cached_property
    def _steps(self) -> pd.DataFrame:
        return analysis.steps(self._trace)
