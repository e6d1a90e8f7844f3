"""What a brief says of a recording, the most important first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pandas as pd

from ...analysis.critical_path.why import why
from ...analysis.name_labels import name_labels
from ...analysis.time.host_states import waits_by_name
from ...analysis.time.phases import stepping_track
from ...analysis.verdict.claims import Claim, Source, cite, cite_share
from ...analysis.verdict.lines import short
from ...analysis.verdict.verdict import Verdict
from ...trace import Trace
from ...units import format_ns, format_share
from .numbers import Calls, Number, Statement, call_of

SECTIONS: Final = (
    "verdict",
    "before",
    "account",
    "steps",
    "phases",
    "lines",
    "path",
    "work",
    "memory",
    "advice",
    "doubts",
    "unanswered",
)
"""In the order in which they stand in the text."""

_LINES: Final = 5
_FIRST_LINES: Final = 2
_ADVICE: Final = 3
_OWNERS: Final = 3
_DOUBTS: Final = 3
_FIRST_UNANSWERED: Final = 3
_PATH_NAMES: Final = 3
_SMALL: Final = 0.01

_HEADS: Final = {
    "Cell": "account",
    "torch.compile": "account",
    "Phases": "phases",
    "Critical path": "path",
    "Kernels": "work",
    "Operators": "work",
    "Own time": "work",
    "Memory": "memory",
}
"""Sections of the verdict's lines, by their first words; others are about steps."""


class Statements:
    """All statements about a recording; each is worked out when its turn comes.

    Parameters
    ----------
    trace : Trace
    verdict : Verdict
    trust : DataFrame
        As the analysis of this name.
    before : str
        The line of the verdict that tells of the run before; empty without one.
    """

    def __init__(self, trace: Trace, verdict: Verdict, trust: pd.DataFrame, before: str = "") -> None:
        self._trace, self._verdict, self._trust, self._before = trace, verdict, trust, before
        self._calls = Calls(trace, {"trust": lambda: trust})

    def __iter__(self) -> Iterator[Statement]:
        of_verdict = list(self._of_verdict())
        yield from (one for one in of_verdict if one.section in ("verdict", "before"))
        yield from self._doubts("error")
        yield from (one for one in of_verdict if one.section in ("account", "steps"))
        lines, advice = list(self._lines()), self._advice()
        yield from lines[:_FIRST_LINES]
        yield from (one for one in of_verdict if one.section in ("path", "work"))
        yield from _first(advice, 2)
        unanswered = self._unanswered()
        yield from _first(unanswered, _FIRST_UNANSWERED)
        yield from self._causes()
        yield from (one for one in of_verdict if one.section in ("phases", "memory"))
        yield from self._owners(of_verdict)
        yield from advice
        yield from self._doubts("loss")
        yield from lines[_FIRST_LINES:]
        yield from self._path()
        yield from unanswered

    def _of_verdict(self) -> Iterator[Statement]:
        """Return the lines of the verdict, each number with its call."""
        verdict = self._verdict
        claims: dict[int, list[Claim]] = {}
        for claim in verdict.claims:
            claims.setdefault(claim.line, []).append(claim)
        for number, line in enumerate(verdict.lines or (verdict.sentence,)):
            head = line.partition(":")[0].partition(" (")[0]
            section = "verdict" if number == 0 else _HEADS.get(head, "steps")
            if line == self._before:
                yield Statement("before", (Number(line, line, "p.verdict.lines[1]"),))
                continue
            if line == "Memory was not recorded." or (section == "steps" and not len(self._trace.steps)):
                continue  # what cannot be answered says it
            yield self._calls.sentence(section, _cut_at_claims(line, claims.get(number, [])))

    def _lines(self) -> Iterator[Statement]:
        """Return the lines of the user's that take most."""
        table = self._calls.table("lines")
        names = unique_paths(table["file"].unique().tolist())
        number = self._calls.rows("lines", ["file", "line", "text", "total_ns", "share"])
        for row, one in enumerate(table.head(_LINES).to_dict("records")):
            file = names[str(one["file"])]
            yield Statement("lines", (
                f"Line {file}:", number(row, "line", str(one["line"])), " `",
                number(row, "text", short(one["text"], 60)), "`: ",
                number(row, "total_ns", format_ns(one["total_ns"])), ", ",
                number(row, "share", format_share(one["share"])),
            ))  # fmt: skip

    def _advice(self) -> Iterator[Statement]:
        """Return what was found that could be better, then what to do about each."""
        rows = self._calls.table("advice").head(_ADVICE).to_dict("records")
        number = self._calls.rows("advice", ["gain_share", "finding", "remedy", "place"])
        for row, one in enumerate(rows):
            gain: tuple[str | Number, ...] = ()
            if one["gain_ns"]:
                about = "up to " if one["bound"] else "about "
                gain = (f" (saves {about}", number(row, "gain_share", format_share(one["gain_share"])), ")")
            where = (" At ", number(row, "place", str(one["place"])), ".") if one["place"] else ()
            text = number(row, "finding", str(one["finding"]))
            yield Statement("advice", (f"Advice {row + 1}", *gain, ": ", text, *where))
        for row, one in enumerate(rows):
            remedy = number(row, "remedy", str(one["remedy"]))
            yield Statement("advice", (f"Remedy {row + 1}: ", remedy))

    def _doubts(self, severity: str) -> Iterator[Statement]:
        """Return what of the recording cannot be trusted."""
        number = self._calls.rows("trust", ["code", "count", "effect", "advice"])
        rows = [row for row, one in enumerate(self._trust["severity"]) if one == severity]
        for row in rows[:_DOUBTS]:
            one = self._trust.iloc[row]
            effect = (": ", number(row, "effect", str(one["effect"]))) if one["effect"] else ()
            advice = ("; ", number(row, "advice", str(one["advice"]))) if one["advice"] else ()
            yield Statement("doubts", (
                "Doubt: ", number(row, "code", str(one["code"]).replace("-", " ")), ", ",
                number(row, "count", f"{one['count']} ×"), *effect, *advice,
            ))  # fmt: skip

    def _owners(self, of_verdict: list[Statement]) -> Iterator[Statement]:
        """Return what the thread that runs the steps does itself, where the verdict tells of kernels."""
        heads = [one.parts[0] for one in of_verdict if one.section == "work"]
        track = stepping_track(self._trace)
        if not any(isinstance(head, str) and head.startswith("Kernels") for head in heads) or track < 0:
            return
        arguments = {"by": ("name", "track")}
        table = self._calls.table("operators", **arguments)
        own = table[table["track"] == track]
        own = own[[not waits_by_name(str(name)) for name in own["name"]]].head(_OWNERS)
        labels, whole = name_labels(self._trace), Source("operators", "self_ns", {"track": track}, arguments)
        spent = int(table.loc[table["track"] == track, "self_ns"].sum())
        parts: list[str | Claim] = []
        for one in own[own["self_ns"] >= max(_SMALL * spent, 1)].to_dict("records"):
            name = str(one["name"])
            source = Source("operators", "self_ns", {"name": name, "track": track}, arguments)
            share = cite_share(one["self_ns"] / spent, source, whole)
            parts += [
                " · " if parts else "Host, own time of the main thread: ",
                f"{labels.get(name, name)} ",
                share,
            ]
        if parts:
            yield self._calls.sentence("work", parts)

    def _path(self) -> Iterator[Statement]:
        """Return the names with most of the critical path."""
        if not self._knows_path():
            return
        table = self._calls.table("critical_path", by="name")
        labels = name_labels(self._trace)
        parts: list[str | Claim] = []
        for one in table[table["share"] >= _SMALL].dropna(subset="name").head(_PATH_NAMES).to_dict("records"):
            name = str(one["name"])
            where = {"name": name}
            share = cite(
                format_share(one["share"]),
                one["share"],
                Source("critical_path", "share", where, {"by": "name"}),
            )
            parts += [
                " · " if parts else "The critical path is longest in ",
                f"{labels.get(name, name)} ",
                share,
            ]
        if parts:
            yield self._calls.sentence("path", parts)

    def _causes(self) -> Iterator[Statement]:
        """Return why a device was idle the longest: the chain of causes, back to the host."""
        if not self._knows_path():
            return
        idle = self._calls.table("device_idle")
        idle = idle[idle["next"].notna() & (idle["next"] >= 0)]
        if not len(idle):
            return
        gap = idle.loc[idle["dur"].idxmax()]
        track = int(self._trace.slices["track"].iloc[int(gap["next"])])
        at = int(gap["ts"] + gap["dur"] // 2)
        text = why(self._trace, at, track).text
        words = Number(" ".join(text.split()), text, f"p.why({at}, {track}).text")
        yield Statement("path", ("Longest gap of a device: ", words))

    def _knows_path(self) -> bool:
        """Return whether the verdict could follow the critical path."""
        return any(claim.table == "critical_path" for claim in self._verdict.claims)

    def _unanswered(self) -> Iterator[Statement]:
        """Return what this recording cannot answer, each with the call that finds nothing."""
        for question, because, table in _QUESTIONS:
            if not len(self._calls.table(table)):
                yield Statement("unanswered", (
                    f"Cannot answer {question}, because ", Number(because, 0, f"len({call_of(table)})"), ".",
                ))  # fmt: skip
        if len(self._calls.table("device")) and not self._knows_path():
            yield Statement("unanswered", (
                "Cannot answer what faster kernels would change, because what devices waited for was not "
                "recorded, or too much was.",
            ))  # fmt: skip
        if not self._before:
            yield Statement("unanswered", (
                "Cannot answer whether a change helped, because one run cannot tell: nbp.compare(a, b).",
            ))  # fmt: skip


_QUESTIONS: Final = (
    ("how long a step takes", "no steps were found", "steps"),
    ("which line of the source takes the time", "no lines were recorded", "lines"),
    ("what devices did", "no work of a device was recorded", "device"),
    ("what the host ran", "nothing of it was recorded", "operators"),
    ("how much memory was used", "memory was not recorded", "memory_peak"),
    ("whether threads waited or computed", "CPU time was not recorded", "cpu"),
    ("what the recording itself cost", "that was not measured", "overhead"),
)
"""What is asked, why there may be no answer, and the table that has no rows then."""


def _first(statements: Iterator[Statement], count: int) -> Iterator[Statement]:
    """Return so many of them; the others stay in the iterator."""
    for _, one in zip(range(count), statements, strict=False):
        yield one


def _cut_at_claims(line: str, claims: Sequence[Claim]) -> list[str | Claim]:
    """Return a line of the verdict as texts and claims."""
    parts: list[str | Claim] = []
    at = 0
    for claim in sorted(claims, key=lambda claim: claim.start):
        parts += [line[at : claim.start], claim]
        at = claim.start + len(claim.text)
    return [part for part in (*parts, line[at:]) if part]


def unique_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return the shortest end of each path that no other path has.

    Examples
    --------
    >>> unique_paths(["cell", "/a/data/io.py", "/a/model/io.py"])
    {'cell': 'cell', '/a/data/io.py': 'data/io.py', '/a/model/io.py': 'model/io.py'}
    """
    parts = {path: path.replace("\\", "/").split("/") for path in paths}
    ends: dict[str, str] = {}
    for path, words in parts.items():
        count = 1
        while count < len(words) and sum(other[-count:] == words[-count:] for other in parts.values()) > 1:
            count += 1
        ends[path] = "/".join(words[-count:])
    return ends
