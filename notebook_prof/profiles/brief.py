"""``p.brief()``: the verdict, the claims that prove it and three tables, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from .. import analysis
from ..analysis.scope import sharing
from ..analysis.verdict.claims import Claim, Source
from ..trace import Trace
from ..units import format_ns, format_share
from .text import base_name

VERSION: Final = 2
_COLUMNS: Final = {
    "lines": ("file", "line", "text", "total_ns", "share"),
    "advice": ("finding", "remedy", "gain_share", "bound", "place"),
    "trust": ("code", "severity", "count", "effect", "advice"),
}
_ASKED: Final = ("steps", "lines", "device", "operators", "memory_peak", "cpu")


@dataclass(frozen=True, slots=True, repr=False)
class Brief:
    """A short report for an issue, a chat or a language model. Its ``str()`` is Markdown.

    Attributes
    ----------
    verdict : Verdict
    tables : dict of str to DataFrame
        The first rows of ``lines``, ``advice`` and ``trust``.
    absent : tuple of str
        Calls that return no rows, because their data was not recorded.
    """

    verdict: analysis.Verdict
    tables: Mapping[str, pd.DataFrame]
    absent: tuple[str, ...]

    @property
    def text(self) -> str:
        """The Markdown."""
        lines = (" ".join(line.split()) for line in self.verdict.lines)
        parts = ["\n".join(["```text", *lines, "```"])]
        if calls := self._calls():
            numbers = "; ".join(f"{', '.join(texts)}: `{call}`" for call, texts in calls.items())
            parts.append(f"The sources of its numbers (`p` is the Profile): {numbers}.")
        for name, shown in (("lines", _lines), ("advice", _advice), ("trust", _trust)):
            if len(table := self.tables[name]):
                call = "p.trust" if name == "trust" else f"p.{name}()"
                parts.append(f"`{call}`\n\n{_markdown(shown(table))}")
        if self.absent:
            parts.append(
                f"Empty, since their data was not recorded: {', '.join(f'`{c}`' for c in self.absent)}."
            )
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the content for JSON, with unrounded numbers.

        Returns
        -------
        dict
            ``version verdict lines claims tables absent``. A claim has a ``text``, its ``line``, the position
            of its first character (``start``), a ``value``, and the source of the value: the ``call`` that
            returns a table, the rows (``where``), the ``column``, and how they are combined (``reduce``). If
            it has ``of``, the value is a share of that. A table is a list of rows.
        """
        content = {
            "version": VERSION,
            "verdict": self.verdict.kind,
            "lines": list(self.verdict.lines),
            "claims": [_claim(claim) for claim in self.verdict.claims],
            "tables": {name: table.to_dict("records") for name, table in self.tables.items()},
            "absent": list(self.absent),
        }
        plain: dict[str, Any] = json.loads(json.dumps(content, default=_plain))
        return plain

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _calls(self) -> dict[str, list[str]]:
        """Return the calls behind the claims and the numbers from each, both in order of appearance."""
        calls: dict[str, list[str]] = {}
        for claim in sorted(self.verdict.claims, key=lambda claim: (claim.line, claim.start)):
            texts = calls.setdefault(claim.call, [])
            if (text := " ".join(claim.text.split())) not in texts:
                texts.append(text)
        return calls


@sharing
def brief_of(trace: Trace, verdict: analysis.Verdict, trust: pd.DataFrame, rows: int) -> Brief:
    """Make the answer of `Profile.brief`."""
    tables = {"lines": analysis.lines(trace), "advice": analysis.advice(trace), "trust": trust}
    first = {name: table.head(rows)[[*_COLUMNS[name]]] for name, table in tables.items()}
    absent = [name for name in _ASKED if not len(getattr(analysis, name)(trace))]
    return Brief(verdict, first, tuple(Source(name, "").call for name in absent))


def _claim(claim: Claim) -> dict[str, Any]:
    whole = None if claim.of is None else _source(claim.of)
    place = {"text": claim.text, "line": claim.line, "start": claim.start, "value": claim.value}
    return {**place, **_source(claim), "of": whole}


def _source(source: Source) -> dict[str, Any]:
    where = {column: list(v) if isinstance(v, tuple) else v for column, v in source.where.items()}
    return {"call": source.call, "where": where, "column": source.column, "reduce": source.reduce}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _lines(table: pd.DataFrame) -> pd.DataFrame:
    at = [f"{base_name(file)}:{line}" for file, line in zip(table["file"], table["line"], strict=True)]
    code = [f"`` {text} ``" if "`" in text else f"`{text}`" for text in table["text"]]
    share, time = table["share"].map(format_share), table["total_ns"].map(format_ns)
    return pd.DataFrame({"line": at, "text": code, "time": time, "share": share})


def _advice(table: pd.DataFrame) -> pd.DataFrame:
    gains = [
        f"{'up to ' if bound else ''}{format_share(share)}" if share else ""
        for share, bound in zip(table["gain_share"], table["bound"], strict=True)
    ]
    texts = table[["finding", "remedy"]].map(_escaped)
    return texts.assign(gain=gains, place=table["place"].map(_escaped))


def _trust(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(effect=table["effect"].map(_escaped), advice=table["advice"].map(_escaped))


def _escaped(text: str) -> str:
    """Escape names such as ``<module>`` and ``__init__`` for Markdown."""
    return text.replace("<", "\\<").replace("*", "\\*").replace("__", "\\_\\_")


def _markdown(table: pd.DataFrame) -> str:
    rows: list[list[object]] = [list(table), ["---"] * table.shape[1], *table.to_numpy(object).tolist()]
    cells = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
