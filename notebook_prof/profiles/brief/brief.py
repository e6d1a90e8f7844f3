"""A recording in so many tokens, for whoever reads on: a person, a ticket, a language model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from ...analysis.scope import sharing
from ...analysis.verdict.verdict import Verdict
from ...errors import OptionError
from ...trace import Trace
from .numbers import Number, Statement
from .statements import SECTIONS, Statements

if TYPE_CHECKING:
    from ..profile import Profile

MIME: Final = "application/vnd.notebook-prof.brief+json"
"""Type of the JSON in a notebook's output."""

VERSION: Final = 1
_MOST_BRIEFED: Final = 1_000_000
"""The advice of more takes seconds, which no display should."""
_HEAD: Final = "Numbers before [n] are what call n gives; p is the Profile."
_CALLS: Final = "Calls:"
_MORE: Final = "There is more: p.brief(tokens={}) has it."
_TOKEN: Final = re.compile(r"[A-Za-z]{1,4}|[0-9]{1,3}|\n|[^\sA-Za-z0-9]")


def token_bound(text: str) -> int:
    """Return how many tokens a text takes at most, without a tokenizer.

    Notes
    -----
    Four letters, three digits, a sign, and each byte of what is not ASCII count as one: tokenizers of
    language models need as many for the words that they know least.

    Examples
    --------
    >>> token_bound("forward 42.4 %"), token_bound("4 µs")
    (6, 4)
    """
    return sum(len(token.encode()) if not token.isascii() else 1 for token in _TOKEN.findall(text))


class Brief:
    """What a recording says, in so many tokens: a text, and the same as JSON.

    Attributes
    ----------
    statements : tuple of Statement
        The lines, in the order of the text.
    calls : tuple of str
        Python that gives the numbers again; `p` is the Profile.
    complete : bool
        Whether nothing was left out.
    """

    def __init__(
        self, kind: str, budget: int, statements: Iterable[Statement], calls: Iterable[str], complete: bool
    ) -> None:
        self._kind, self._budget = kind, budget
        self.statements, self.calls, self.complete = tuple(statements), tuple(calls), complete

    @property
    def text(self) -> str:
        """The lines, and the legend of the calls."""
        lines = [_HEAD, *(_written(one, self.calls) for one in self.statements)]
        if self.calls:
            lines += [_CALLS, *(f"[{number}] {call}" for number, call in enumerate(self.calls, 1))]
        return "\n".join(lines if self.complete else [*lines, _MORE.format(2 * self._budget)])

    @property
    def tokens(self) -> int:
        """How many tokens the text takes at most."""
        return token_bound(self.text)

    def to_dict(self) -> dict[str, Any]:
        """Return the same as JSON has it.

        Returns
        -------
        dict
            ``version verdict budget complete statements calls``. A statement has a ``section``, a ``text``,
            and ``numbers``: ``text value``, the ``call`` that gives it (from 1, as in the text), and the
            ``row`` and ``column`` at which it stands in what that gives, if it is not the value itself.
        """
        number = {call: position for position, call in enumerate(self.calls, 1)}
        statements = [
            {
                "section": one.section,
                "text": "".join(_text(part) for part in one.parts),
                "numbers": [_number(part, number[part.call]) for part in one.numbers],
            }
            for one in self.statements
        ]
        return {
            "version": VERSION,
            "verdict": self._kind,
            "budget": self._budget,
            "complete": self.complete,
            "statements": statements,
            "calls": list(self.calls),
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def brief(profile: Profile, tokens: int = 800) -> Brief:
    """Say what this recording tells in so many tokens, each number with the call that gives it again.

    Verdict, account, lines, chain of causes, what ran most, memory, advice, doubts, and what cannot be
    answered. What matters most comes first into it: the lines of a small brief are in every larger one.

    Parameters
    ----------
    tokens : int
        How many it may take, by an upper bound: four letters, three digits or a sign are one.

    Returns
    -------
    Brief
        Its ``text`` is the same each time; ``to_dict()`` and ``to_json()`` have its numbers unrounded.

    Raises
    ------
    OptionError
        If the verdict alone does not fit.

    Examples
    --------
    >>> from notebook_prof.profiles.profile import Profile
    >>> from notebook_prof.testing import draw
    >>> p = Profile(draw("main: [mm      ][add]"))
    >>> "Cannot answer what devices did, because no work of a device was recorded" in p.brief().text
    True
    """
    since, verdict = profile._since(), profile.verdict
    return brief_of_trace(profile.trace, tokens, verdict, profile.trust, since)


def brief_bundle(profile: Any) -> dict[str, Any]:
    """Return the brief of a Profile by its MIME type, of some 5 kB; nothing where it would take seconds."""
    try:
        return {MIME: profile.brief().to_dict()} if len(profile.trace.slices) <= _MOST_BRIEFED else {}
    except Exception:  # an addition to what is shown, which stands without it
        return {}


@sharing
def brief_of_trace(trace: Trace, tokens: int, verdict: Verdict, trust: pd.DataFrame, before: str) -> Brief:
    """Return the brief of a trace with this verdict, trust report, and line about the run before."""
    return brief_of_statements(Statements(trace, verdict, trust, before), tokens, verdict.kind)


def brief_of_statements(statements: Iterable[Statement], tokens: int, kind: str) -> Brief:
    """Return the brief of the first statements, as many as fit, of a recording with this kind of verdict."""
    used = token_bound("\n".join([_HEAD, _CALLS, _MORE.format(2 * tokens)])) + 2
    kept: list[Statement] = []
    calls: dict[str, None] = {}
    complete = True
    for one in statements:
        added = dict.fromkeys(call for call in one.calls if call not in calls)
        all_calls = {**calls, **added}
        legend = [f"[{len(calls) + position}] {call}" for position, call in enumerate(added, 1)]
        needed = token_bound("\n".join([_written(one, tuple(all_calls)), *legend])) + 1
        if used + needed > tokens:
            if not kept:
                raise OptionError(
                    f"a brief of {tokens} tokens was asked for, and the verdict alone takes {used + needed}: "
                    f"give tokens={used + needed} or more"
                )
            complete = False
            break
        kept.append(one)
        calls, used = all_calls, used + needed
    kept.sort(key=lambda one: SECTIONS.index(one.section))
    return Brief(kind, tokens, kept, calls, complete)


def _text(part: str | Number) -> str:
    return part if isinstance(part, str) else part.text


def _written(statement: Statement, calls: tuple[str, ...]) -> str:
    """Write a line: behind the last of several numbers of one call, which call it is."""
    parts, words = statement.parts, []
    at = [i for i, part in enumerate(parts) if isinstance(part, Number)]
    for i, part in enumerate(parts):
        words.append(" ".join(_text(part).split()) if isinstance(part, Number) else part)
        if isinstance(part, Number):
            following = next((parts[j] for j in at if j > i), None)
            if not isinstance(following, Number) or following.call != part.call:
                words.append(f" [{calls.index(part.call) + 1}]")
    return " ".join("".join(words).split())


def _number(number: Number, call: int) -> dict[str, Any]:
    position = {"row": number.row, "column": number.column}
    return {
        "text": number.text,
        "value": number.value,
        "call": call,
        **{name: value for name, value in position.items() if value is not None},
    }
