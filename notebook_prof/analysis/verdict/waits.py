"""Steps that wait: for data, and for other ranks."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Intervals, Trace, length, overlap, union
from ...trace.arrays import IntArray, positions
from ...units import format_items
from ..input.loader_bounds import NOT_THE_LOADER, TOO_FEW, loader_bounds
from ..scope import Scope, length_within, on_host
from ..source.lines import line_times
from ..time.host_states import waits_by_name
from ..time.operators import operators
from ..time.phases import stepping_track
from .claims import Sentence, Source, Verdict, cite, cite_ns, cite_share, fill, say, short
from .device import of_device
from .inputs import LITTLE, MOST, NEARLY_ALL, WAITING, VerdictInputs
from .python import line_select, line_words

BOUNDS = {
    "transform": "transforms (items that compute)",
    "storage": "storage (items that wait, not compute)",
    "collate": "collate (with the copy into shared memory)",
    "transport": "sending batches between processes",
    "order": "their order: ready batches wait for a slower one before them",
}
"""Each bound of `loader_bounds` in words."""


def bounding_loader(trace: Trace) -> dict[str, Any] | None:
    """Return the row of `loader_bounds` with the longest waits; None if no loader limits its loop."""
    table = loader_bounds(trace)
    if len(table):
        table = table[~table["bound"].isin([NOT_THE_LOADER, TOO_FEW])]
    if not len(table):
        return None
    waited = table["wait_share"] * table["batches"] / table["rate"]
    row: dict[str, Any] = table.loc[waited.idxmax()].to_dict()
    return row


def loader_words(trace: Trace) -> Sentence | None:
    """Describe what limits the loader, without a full stop, and how many workers suffice if they are few."""
    row = bounding_loader(trace)
    if row is None:
        return None
    where, kind = {"loader": int(row["loader"])}, str(row["bound"])
    bound = cite(BOUNDS[kind], kind, Source("loader_bounds", "bound", where))
    sentence = fill("the batches of `{}` are bound by {}", row["dataset"], bound)
    if pd.isna(row["enough"]) or int(row["enough"]) <= int(row["workers"]) or kind == "order":
        return sentence
    number = int(row["enough"])
    enough = cite(format_items(number, "worker"), number, Source("loader_bounds", "enough", where))
    there = "" if not row["workers"] else f" in place of {int(row['workers'])}"
    return sentence + fill("; {} would do{}", enough, there)


_WAITS: Final = {"communication": ("communication", "is communication"), "data": ("input", "waits for data")}
"""Phases that wait → the kind of verdict, and the words for it."""


def judge_waits(facts: VerdictInputs) -> tuple[Verdict | None, Sentence | None]:
    """Judge waits for data or communication of a quarter of the steps: a verdict, or words to add later."""
    waiting = {name: facts.phase_ns.get(name, 0) for name in _WAITS}
    exposed = None
    if len(facts.device) and not len(facts.steps):  # communication of a device that no kernel hides
        exposed = facts.device.iloc[int(facts.device["exposed_communication_ns"].to_numpy().argmax())]
        waiting["communication"] = max(waiting["communication"], int(exposed["exposed_communication_ns"]))
    phase = max(waiting, key=lambda name: waiting[name])
    spent = waiting[phase]
    if spent < WAITING * facts.total_ns:
        return None, None
    if exposed is not None and phase == "communication":
        number = int(exposed["device"])
        source, of = (of_device(facts, number, name) for name in ("exposed_communication_ns", "window_ns"))
        spent, whole_ns = int(exposed["exposed_communication_ns"]), facts.extent.dur
        share = cite_share(spent / max(whole_ns, 1), source, of)
        select = {"category": "collective"}
        sentence = fill(
            "Communication-bound: device {} spends {} of its time ({} of {}) in communication that no kernel "
            "hides.",
            number,
            share,
            cite_ns(spent, source, select),
            cite_ns(whole_ns, of),
        )
        return Verdict("communication-bound", sentence, share.value, select), None
    words = say(_waiting_words(facts, phase, spent), ".")
    longest_work = max((ns for name, ns in facts.phase_ns.items() if name not in _WAITS), default=0)
    if not len(facts.device) and spent < longest_work:
        return None, words
    kind = f"{_WAITS[phase][0]}-bound"
    sentence = say(f"{kind.capitalize()}: ", words)
    return Verdict(kind, sentence, spent / facts.total_ns, {"phase": phase}), None


def _waiting_words(facts: VerdictInputs, phase: str, spent: int) -> Sentence:
    """Describe how much of the steps is waiting, in which line, and what bounds the loader."""
    select, source = {"phase": phase}, facts.in_phase(phase)
    sentence = fill(
        "{} of {} {} ({} of {})",
        cite_share(spent / facts.total_ns, source, facts.total, select),
        facts.whole,
        _WAITS[phase][1],
        cite_ns(spent, source, select),
        cite_ns(facts.total_ns, facts.total),
    )
    if (line := _line_in_phase(facts, phase, spent, source)) is not None:
        sentence = sentence + ", " + line
    if phase == "data" and facts.window is None and (loader := loader_words(facts.trace)) is not None:
        sentence = sentence + "; " + loader
    return sentence


def _line_in_phase(facts: VerdictInputs, phase: str, whole_ns: int, whole: Source) -> Sentence | None:
    """Name the user's innermost line that takes over half of the time for data, and does little else."""
    # If that line mostly calls others, like the head of a loop over a loader, name the longest of those with
    # over a quarter of the time. The share is the line's part of the time for data: the line may do other
    # things, such as making the iterator and its workers.
    if phase != "data" or not facts.is_cell:
        return None
    spent, thread = facts.phase_ns.get(phase, 0), facts.thread
    waiting = thread.open(thread.among("phase", (phase,)))
    table, best = line_times(facts.trace, **facts.arguments), None
    below: list[dict[Hashable, Any]] = []
    for row in table[table["total_ns"].between(WAITING * spent, facts.total_ns)].to_dict("records"):
        ran = thread.open(thread.among("name", (line_select(row)["name"],)))
        inside = length(overlap(ran, waiting))
        if inside < NEARLY_ALL * length(ran):
            continue
        if inside > MOST * spent:
            best, below = row, []  # rows are sorted by time, so the last one is the innermost
        elif inside > WAITING * spent:
            below.append(row)
    if best is None:
        return None
    if below and best["self_ns"] < LITTLE * best["total_ns"]:
        longest = max(below, key=lambda row: int(row["self_ns"]))
        if (said := _share_in_line(facts, phase, longest, WAITING, whole_ns, whole)) is not None:
            return said
    return _share_in_line(facts, phase, best, MOST, whole_ns, whole) or say(
        "most of it in ", *line_words(best)
    )


def _share_in_line(
    facts: VerdictInputs, phase: str, row: Any, least: float, whole_ns: int, whole: Source
) -> Sentence | None:
    """Say what share of a phase is in a line; None if it does not exceed `least`."""
    label = line_select(row)["name"].partition("  ")[0]
    by: dict[str, Any] = {"by": ("phase", "line", "track"), **facts.in_steps}
    where = {"phase": phase, "line": label, "track": stepping_track(facts.trace)}
    table = operators(facts.trace, **by)
    inside = int(table.loc[(table[[*where]] == pd.Series(where)).all(axis=1), "total_ns"].sum())
    if not least * whole_ns < inside <= whole_ns:
        return None
    share = cite_share(inside / whole_ns, Source("operators", "total_ns", where, by), whole, line_select(row))
    return say(share, " of that in ", *line_words(row))


# Operators that a runtime's threads run while the steps' thread waits, as with XLA on a CPU.

_OPERATORS = ("operator", "collective")


def runtime_verdict(facts: VerdictInputs) -> Verdict | None:
    """Judge a thread that mostly waits for other threads' operators as ``compute-bound``; None for others."""
    # Python frames that do not wait are work, even while operators run. In an annotation, and in a call that
    # waits, the thread is assumed to wait for the operators that run in the meantime.
    thread, trace = facts.thread, facts.trace
    others = on_host(trace, facts.window).where(category=_OPERATORS)
    if len(thread.rows):
        others = others.only(others.ints("track") != thread.ints("track")[0])
    if not len(others.rows) or not len(thread.rows):
        return None
    waits = thread.named(waits_by_name) | thread.among("category", ("sync", "annotation"))
    hidden = np.where(waits, _own_inside(thread, union(others.ts, others.end)), 0)
    words = thread.slices["name"].cat.categories
    hidden_ns = pd.Series(np.bincount(thread.codes("name"), hidden, minlength=len(words)), words)
    seen = facts.top["self_ns"].to_numpy() - hidden_ns.reindex(facts.top["name"].astype("str")).to_numpy()
    total = int(hidden.sum())
    if total <= int(seen.max()):
        return None
    codes = others.codes("name")
    longest = int(np.bincount(codes, weights=others.self_ns).argmax())
    name = str(others.slices["name"].cat.categories[longest])
    longest_ns, calls = int(others.self_ns[codes == longest].sum()), int((codes == longest).sum())
    source = Source("operators", "self_ns", {"name": name}, {"category": _OPERATORS, **facts.arguments})
    counted = cite(format_items(calls, "call"), calls, replace(source, column="count"), select={"name": name})
    sentence = fill(
        "Compute-bound on the CPU: a runtime's threads run operators while Python waits for them; the "
        "longest, {}, takes {} in {}.",
        short(name, 60),
        cite_ns(longest_ns, source, {"name": name}),
        counted,
    )
    share = min(total / max(facts.total_ns, 1), 1.0)
    return Verdict("compute-bound", sentence, share, {"name": name})


def _own_inside(thread: Scope, busy: Intervals) -> IntArray:
    """Return how much of each slice's self time is in `busy`: its overlap less that of its children."""
    whole = length_within(busy, thread.ts, thread.end)
    parent = positions(thread.rows, thread.ints("parent"))
    child = parent >= 0
    last = np.minimum(thread.end[child], thread.end[parent[child]])
    inside = length_within(busy, thread.ts[child], last)
    covered = np.bincount(parent[child], weights=inside, minlength=len(whole)).astype(np.int64)
    return np.asarray(np.clip(whole - covered, 0, thread.self_ns))
