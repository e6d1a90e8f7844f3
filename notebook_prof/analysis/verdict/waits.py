"""Steps that wait: for data, and for other ranks."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import pandas as pd

from ...trace import length, overlap, union
from ..source.lines import line_times
from ..time.operators import operators
from ..time.phases import stepping_track
from .claims import Sentence, Source, cite_ns, cite_share, say
from .code_lines import line_select, line_words
from .device import WAITING, of_device
from .facts import MOST, Facts
from .finding import Finding
from .loader import loader_words

_NEARLY_ALL: Final = 0.9
_LITTLE: Final = 0.1
_WAITS: Final = {"communication": ("communication", "is communication"), "data": ("input", "waits for data")}
"""Phases that wait: the kind of verdict, and its words."""


def judge_waits(facts: Facts) -> tuple[Finding | None, Sentence | None]:
    """Judge waiting for data and communication, from a quarter of the steps; a finding, or a sentence for
    later.
    """
    # It is a finding if it bounds the steps: if there is device work, or no other phase of the steps takes
    # longer.
    waiting = {name: facts.phase_ns.get(name, 0) for name in _WAITS}
    exposed = None if len(facts.steps) else _exposed(facts)
    if exposed is not None:
        waiting["communication"] = max(waiting["communication"], exposed[0])
    phase = max(waiting, key=lambda name: waiting[name])
    spent = waiting[phase]
    if spent < WAITING * facts.total_ns:
        return None, None
    if exposed is not None and phase == "communication":
        return _exposed_communication(facts, exposed), None
    words = say(_waiting_words(facts, phase, spent), ".")
    if not len(facts.device) and spent < _longest_work(facts):
        return None, words
    kind = f"{_WAITS[phase][0]}-bound"
    sentence = say(f"{kind.capitalize()}: ", words)
    return Finding(kind, sentence, spent / facts.total_ns, {f"{phase}_ns": spent}, {"phase": phase}), None


def _exposed(facts: Facts) -> tuple[int, int] | None:
    """Return the device with most communication that no kernel hides, and the time of that communication."""
    if not len(facts.device):
        return None
    row = facts.device.iloc[int(facts.device["exposed_communication_ns"].to_numpy().argmax())]
    return int(row["exposed_communication_ns"]), int(row["device"])


def _exposed_communication(facts: Facts, exposed: tuple[int, int]) -> Finding:
    spent, number = exposed
    of = of_device(facts, number, "window_ns")
    share = cite_share(
        spent / max(facts.extent.dur, 1), of_device(facts, number, "exposed_communication_ns"), of
    )
    took = cite_ns(spent, of_device(facts, number, "exposed_communication_ns"), {"category": "collective"})
    sentence = say(
        "Communication-bound: device ",
        str(number),
        " spends ",
        share,
        " of the time (",
        took,
        " of ",
        cite_ns(facts.extent.dur, of),
        ") in communication that no kernel hides.",
    )
    evidence = {"communication_ns": spent, "device": number}
    return Finding("communication-bound", sentence, share.value, evidence, {"category": "collective"})


def _longest_work(facts: Facts) -> int:
    """Return the time of the longest phase that does not wait, in ns."""
    return max((ns for name, ns in facts.phase_ns.items() if name not in _WAITS), default=0)


def _waiting_words(facts: Facts, phase: str, spent: int) -> Sentence:
    """Return how much of the steps waits, in which line, and what bounds the loader."""
    select = {"phase": phase}
    if len(facts.steps):
        source = Source("phases", "host_ns", {"phase": phase}, facts.arguments)
    else:
        by = {"by": ("phase", "track"), **facts.arguments}
        source = Source("operators", "total_ns", {"phase": phase, "track": stepping_track(facts.trace)}, by)
    share = cite_share(spent / facts.total_ns, source, facts.total, select)
    sentence = say(
        share,
        f" of {facts.whole} {_WAITS[phase][1]} (",
        cite_ns(spent, source, select),
        " of ",
        cite_ns(facts.total_ns, facts.total),
        ")",
    )
    if (line := _line_in_phase(facts, phase, spent, source)) is not None:
        sentence = sentence + ", " + line
    if phase == "data" and facts.window is None and (loader := loader_words(facts.trace)) is not None:
        sentence = sentence + "; " + loader
    return sentence


def _line_in_phase(facts: Facts, phase: str, whole_ns: int, whole: Source) -> Sentence | None:
    """Return the user's innermost line with more than half of the time for data, and little else."""
    # If that line only calls others, like the head of a loop over a loader, the longest of them with a
    # quarter is named. The share is the line's part of the time for data: the line may do other things, such
    # as making the iterator and its workers.
    if phase != "data" or not facts.is_cell:
        return None
    spent, thread = facts.phase_ns.get(phase, 0), facts.thread
    there = thread.among("phase", (phase,))
    waiting = union(thread.ts[there], thread.end[there])
    table, best = line_times(facts.trace, **facts.arguments), None
    below: list[dict[Hashable, Any]] = []
    for row in table[table["total_ns"].between(WAITING * spent, facts.total_ns)].to_dict("records"):
        here = thread.among("name", (line_select(row)["name"],))
        ran = union(thread.ts[here], thread.end[here])
        inside = length(overlap(ran, waiting))
        if inside < _NEARLY_ALL * length(ran):
            continue
        if inside > MOST * spent:
            best, below = row, []  # sorted by time: the last one is the innermost
        elif inside > WAITING * spent:
            below.append(row)
    if best is None:
        return None
    if below and best["self_ns"] < _LITTLE * best["total_ns"]:
        longest = max(below, key=lambda row: int(row["self_ns"]))
        if (said := _share_in_line(facts, phase, longest, WAITING, whole_ns, whole)) is not None:
            return said
    return _share_in_line(facts, phase, best, MOST, whole_ns, whole) or say(
        "most of it in ", *line_words(best)
    )


def _share_in_line(
    facts: Facts, phase: str, row: Any, least: float, whole_ns: int, whole: Source
) -> Sentence | None:
    """Return the share of a phase in a line, if it exceeds the minimum."""
    label = line_select(row)["name"].partition("  ")[0]
    by: dict[str, Any] = {"by": ("phase", "line", "track"), **facts.in_steps}
    where = {"phase": phase, "line": label, "track": stepping_track(facts.trace)}
    table = operators(facts.trace, **by)
    inside = int(table.loc[(table[[*where]] == pd.Series(where)).all(axis=1), "total_ns"].sum())
    if not least * whole_ns < inside <= whole_ns:
        return None
    share = cite_share(inside / whole_ns, Source("operators", "total_ns", where, by), whole, line_select(row))
    return say(share, " of that in ", *line_words(row))
