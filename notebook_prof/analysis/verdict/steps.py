"""What bounds the steps of a run, or a recording in which no line of the user's is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pandas as pd

from ...trace import length, overlap, union
from ...units import format_count, format_items
from ..source.hot_lines import hot_lines
from ..source.lines import CELL, line_times
from ..time.operators import operators
from ..time.phases import stepping_track
from .claims import Claim, Sentence, Source, cite, cite_ns, cite_share, joined, say
from .device import MOST, WAITING, judge_device, judge_once
from .facts import OPERATORS, Facts
from .finding import Finding
from .lines import short
from .loader import loader_words
from .python import python_verdict
from .runtime import runtime_verdict

COSTLY_RECORDING: Final = 1.2
"""From this ratio of recorded to unrecorded steps on, the text begins with what recording costs."""
_NEARLY_ALL: Final = 0.9
_ELSEWHERE: Final = "steps-in-another-thread"
NO_FRAMEWORK: Final = frozenset({"trace_event", "viztracer", "speedscope", "collapsed"})
"""Sources whose slices may stand for anything: there are no operators with a framework around them."""


def judge_steps(facts: Facts) -> Finding:
    """Say what bounds the steps; the conditions are those of `verdict`."""
    if _ELSEWHERE in facts.trace.report and not facts.calls and not len(facts.device):
        return _judge_unseen_operators(facts)
    costly = _recording_cost(facts)
    once, more = judge_once(facts)
    finding = once or _judge(facts, costly=costly is not None)
    sentence = finding.sentence
    if costly is not None:
        sentence = costly + " " + sentence
    if more is not None:
        sentence = sentence + " " + more
    return replace(finding, sentence=sentence)


def _judge_unseen_operators(facts: Facts) -> Finding:
    """Say that nobody saw the operators of the steps, and the user's line that took most of them."""
    sentence = say("The steps run in another thread than the cell's, whose operators were not recorded")
    heads = set(facts.account["line"].dropna().tolist()) if facts.is_cell else set()
    table = facts.hot.table
    inner = table[~((table["file"] == CELL) & table["line"].isin(heads))]
    inner = inner[inner["total_ns"] <= facts.total_ns]
    if len(inner):
        row = inner.iloc[0]
        sentence = say(
            sentence, "; ", *line_words(row), " takes ", _line_share(facts, row), f" of {facts.whole}"
        )
    return Finding("mixed", say(sentence, "."), 0.0, {}, {})


def _judge(facts: Facts, *, costly: bool) -> Finding:
    waiting = {name: facts.phase_ns.get(name, 0) for name in ("communication", "data")}
    exposed = None if len(facts.steps) else _exposed(facts)
    if exposed is not None:
        waiting["communication"] = max(waiting["communication"], exposed[0])
    longest = max(waiting, key=lambda name: waiting[name])
    if waiting[longest] >= WAITING * facts.total_ns:
        if exposed is not None and longest == "communication":
            return _exposed_communication(facts, exposed)
        return _waits(facts, longest, waiting[longest])
    if len(facts.device):
        return judge_device(facts, costly=costly)
    if facts.top.empty:
        return Finding(
            "nothing-recorded", say("Nothing was recorded in the steps: no slice lies in them."), 0.0
        )
    if not facts.top["self_ns"].any():
        return _instants(facts)
    if facts.top_is_python and not len(facts.steps):
        return _python(facts)
    return _on_the_cpu(facts, costly=costly)


def _recording_cost(facts: Facts) -> Sentence | None:
    measured: Any = facts.trace.metadata.get("overhead")
    if not isinstance(measured, dict) or not measured.get("ratio", 0) > COSTLY_RECORDING:
        return None
    ratio = float(measured["ratio"])
    times_as_long = cite(f"{ratio:.2f}", ratio, Source("overhead", "ratio", {"part": "all"}))
    return say(
        "Recorded steps ran ",
        times_as_long,
        " times as long as others: shares of small operators are too large.",
    )


def _exposed(facts: Facts) -> tuple[int, int] | None:
    """Return the device and time in which no kernel hides its communication, for the one with most of it."""
    if not len(facts.device):
        return None
    row = facts.device.iloc[int(facts.device["exposed_communication_ns"].to_numpy().argmax())]
    return int(row["exposed_communication_ns"]), int(row["device"])


def _exposed_communication(facts: Facts, exposed: tuple[int, int]) -> Finding:
    spent, number = exposed
    of = _device(facts, number, "window_ns")
    share = cite_share(
        spent / max(facts.extent.dur, 1), _device(facts, number, "exposed_communication_ns"), of
    )
    took = cite_ns(spent, _device(facts, number, "exposed_communication_ns"), {"category": "collective"})
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


def _waits(facts: Facts, phase: str, spent: int) -> Finding:
    kind, doing = {
        "data": ("input-bound", "waits for data"),
        "communication": ("communication-bound", "is communication"),
    }[phase]
    select = {"phase": phase}
    if len(facts.steps):
        source = Source("phases", "host_ns", {"phase": phase}, facts.arguments)
    else:
        by = {"by": ("phase", "track"), **facts.arguments}
        source = Source("operators", "total_ns", {"phase": phase, "track": stepping_track(facts.trace)}, by)
    share = cite_share(spent / facts.total_ns, source, facts.total, select)
    sentence = say(
        f"{kind.capitalize()}: ",
        share,
        f" of {facts.whole} {doing} (",
        cite_ns(spent, source, select),
        " of ",
        cite_ns(facts.total_ns, facts.total),
        ")",
    )
    if (line := _line_in_phase(facts, phase, spent, source)) is not None:
        sentence = sentence + ", " + line
    if phase == "data" and facts.window is None and (loader := loader_words(facts.trace)) is not None:
        sentence = sentence + "; " + loader
    return Finding(kind, sentence + ".", share.value, {f"{phase}_ns": spent}, select)


def _line_in_phase(facts: Facts, phase: str, whole_ns: int, whole: Source) -> Sentence | None:
    """Return the user's innermost line that holds more than half of the time for data, and little else.

    The share is that of the time for data which lies in the line: the line may do other things, too, as
    making the iterator and its workers.
    """
    if phase != "data" or not facts.is_cell:
        return None
    spent, thread = facts.phase_ns.get(phase, 0), facts.thread
    there = thread.among("phase", (phase,))
    waiting = union(thread.ts[there], thread.end[there])
    table, best = line_times(facts.trace, **facts.arguments), None
    for row in table[table["total_ns"].between(MOST * spent, facts.total_ns)].to_dict("records"):
        here = thread.among("name", (line_select(row)["name"],))
        ran = union(thread.ts[here], thread.end[here])
        inside = length(overlap(ran, waiting))
        if inside > MOST * spent and inside >= _NEARLY_ALL * length(ran):
            best = row  # they come by their time: the last one is the innermost
    if best is None:
        return None
    label = line_select(best)["name"].partition("  ")[0]
    by: dict[str, Any] = {"by": ("phase", "line", "track"), **facts.in_steps}
    where = {"phase": phase, "line": label, "track": stepping_track(facts.trace)}
    table = operators(facts.trace, **by)
    inside = int(table.loc[(table[[*where]] == pd.Series(where)).all(axis=1), "total_ns"].sum())
    if not MOST * whole_ns < inside <= whole_ns:
        return say("most of it in ", *line_words(best))
    share = cite_share(
        inside / whole_ns, Source("operators", "total_ns", where, by), whole, line_select(best)
    )
    return say(share, " of that in ", *line_words(best))


def _line_share(facts: Facts, row: Any) -> Claim:
    source = Source(
        "lines", "total_ns", {"file": str(row["file"]), "line": int(row["line"])}, facts.arguments
    )
    return cite_share(int(row["total_ns"]) / facts.total_ns, source, facts.total, line_select(row))


def line_select(row: Any) -> dict[str, Any]:
    """Return a selection of the slices of one row of `lines`."""
    short_file = CELL if row["file"] == CELL else str(row["file"]).replace("\\", "/").rpartition("/")[2]
    return {"name": f"{short_file}:{row['line']}  {row['text']}".rstrip()}


def line_words(row: Any) -> tuple[str, ...]:
    """Return a line in words, with its text: ``line 7, `x = f(y)```; with the file outside of the cell."""
    line_name = f"line {row['line']}" if row["file"] == CELL else f"{_file(row['file'])}:{row['line']}"
    return (line_name, f", `{short(row['text'], 60)}`" if row["text"] else "")


def _file(path: object) -> str:
    return str(path).replace("\\", "/").rpartition("/")[2]


def _device(facts: Facts, number: int, column: str) -> Source:
    return Source("device", column, {"device": number}, {"window": tuple(facts.extent)})


def _on_the_cpu(facts: Facts, *, costly: bool) -> Finding:
    if not facts.calls and (finding := runtime_verdict(facts)) is not None:
        return finding
    thread = facts.thread_time
    total = max(int(thread["ns"].sum()), 1)
    python = int(thread.loc["python", "ns"]) / total
    operators = int(thread.loc[["operators", "small operators"], "ns"].sum()) / total
    around = ["small operators", "python", "range", "idle"]
    overhead = int(thread.loc[around, "ns"].sum()) / total
    if python >= MOST and len(facts.hot.table):
        return _python_in_steps(facts, python)
    framework = str(facts.trace.metadata.get("source")) not in NO_FRAMEWORK
    if overhead >= MOST and facts.calls and framework and not costly:
        return _overhead(facts, overhead, around)
    if operators >= MOST:
        return _compute(facts, operators) if framework else _longest(facts)
    return _judge_mixed(facts)


def _thread(facts: Facts, *states: str) -> Source:
    return Source("thread_time", "ns", {"state": states} if states else {}, facts.arguments)


def _python_in_steps(facts: Facts, python: float) -> Finding:
    """Judge steps in which Python between operators takes most, by the hottest line of the loop's body."""
    table = facts.hot.table
    heads = set(facts.account["line"].dropna().tolist()) if facts.is_cell else set()
    inner = table[~((table["file"] == CELL) & table["line"].isin(heads))]
    inner = inner[inner["total_ns"] <= facts.total_ns]
    share = cite_share(python, _thread(facts, "python"), _thread(facts))
    sentence = say("Python-bound: ", share, f" of {facts.whole} is Python, not operators")
    select: dict[str, Any] = {"category": "python"}
    if len(inner):
        row = inner.iloc[0]
        select = line_select(row)
        sentence = sentence + say("; ", *line_words(row), " takes ", _line_share(facts, row))
        row = _innermost(facts, row)
        if row is not None:
            sentence = sentence + say(", of that ", _line_share(facts, row), " is in ", *line_words(row))
    evidence = {"python_share": python}
    return Finding("python-bound", sentence + ".", python, evidence, select)


def _innermost(facts: Facts, row: Any) -> Any:
    if row["file"] != CELL:
        return None
    below = hot_lines(facts.trace, window=facts.window, below=int(row["line"]))
    return below.table.iloc[below.path[-1]] if len(below.path) > 1 else None


def _overhead(facts: Facts, share: float, states: list[str]) -> Finding:
    share_claim = cite_share(share, _thread(facts, *states), _thread(facts))
    small = int(facts.thread_time.loc["small operators", "count"])
    a_step = f", {format_count(round(small / facts.count))} a step" if len(facts.steps) else ""
    count = cite(
        format_count(small),
        small,
        Source("thread_time", "count", {"state": "small operators"}, facts.arguments),
    )
    sentence = say(
        "Overhead-bound: ",
        share_claim,
        f" of {facts.whole} is Python and framework overhead between operators and in ",
        count,
        " operators of less than 10 µs of their own",
        a_step,
        ".",
    )
    evidence = {
        "overhead_ns": round(share * facts.total_ns),
        "operators_under_10us_ns": facts.tiny_ns,
        "calls": facts.calls,
        "operator_ns": facts.operator_ns,
    }
    return Finding("overhead-bound", sentence, share, evidence)


def on_thread(facts: Facts, column: str, **where: Any) -> Source:
    """Return a column of `operators` for the thread of the steps, by name."""
    arguments = {"by": ("name", "track"), **facts.in_steps}
    if not facts.top_is_python:
        arguments["category"] = OPERATORS
    return Source("operators", column, {"track": stepping_track(facts.trace), **where}, arguments)


def _compute(facts: Facts, operators: float) -> Finding:
    first = facts.top.iloc[0]
    name, spent = first["name"], int(first["self_ns"])
    select = {"name": name}
    source = on_thread(facts, "self_ns", name=name)
    own_ns, own, words = facts.own
    share = cite_share(spent / own_ns, source, own, select)
    took = cite_ns(spent, source, select)
    evidence = {"name": name, "self_ns": spent, "calls": int(first["count"])}
    if share.value >= MOST:
        sentence = say(
            f"Compute-bound on the CPU: {short(name)} takes ",
            share,
            f" of {words} by itself (",
            took,
            ").",
        )
    else:
        whole = cite_share(operators, _thread(facts, "operators", "small operators"), _thread(facts))
        sentence = say(
            "Compute-bound on the CPU: operators run ",
            whole,
            f" of {facts.whole}; the longest of them, {short(name)}, takes ",
            share,
            "." if words == facts.whole else f" of {words}.",
        )
    return Finding("compute-bound", sentence, share.value, evidence, select)


def _longest(facts: Facts) -> Finding:
    """Return what is longest, where nobody knows what slices stand for."""
    first = facts.top.iloc[0]
    name, spent = first["name"], int(first["self_ns"])
    source, select = on_thread(facts, "self_ns", name=name), {"name": name}
    own_ns, own, words = facts.own
    share = cite_share(spent / own_ns, source, own, select)
    took = cite_ns(spent, source, select)
    sentence = say(f"{short(name)} is the longest by itself: ", share, f" of {words} (", took, ").")
    return Finding("mixed", sentence, share.value, {"name": name, "self_ns": spent}, select)


_IN_WORDS: Final = {
    "waiting": "waiting",
    "launch": "launching",
    "small operators": "operators under 10 µs",
    "operators": "operators",
    "python": "Python",
    "range": "ranges with nothing below them",
    "idle": "without anything recorded on its thread",
}


def _judge_mixed(facts: Facts) -> Finding:
    thread = facts.thread_time.sort_values("ns", ascending=False, kind="stable").head(3)
    pieces = []
    for state, spent in zip(thread.index, thread["share"], strict=True):
        if spent > 0:
            share = cite_share(float(spent), _thread(facts, str(state)), _thread(facts))
            pieces.append(say(f"{_IN_WORDS[str(state)]} ", share))
    first = float(thread["share"].iloc[0])
    begin = f"Most of {facts.whole} is " if first > MOST else f"Nothing takes half of {facts.whole}: "
    sentence = say(begin, joined(pieces, ", "), ".")
    return Finding("mixed", sentence, first, {"state": str(thread.index[0])})


def _python(facts: Facts) -> Finding:
    return runtime_verdict(facts) or python_verdict(facts)


def _instants(facts: Facts) -> Finding:
    count = int(facts.top["count"].sum())
    where = " that began in the steps" if len(facts.steps) else ""
    sentence = say(
        f"Nothing{where} took time: of ",
        cite_ns(facts.total_ns, facts.total),
        f", {format_items(count, 'instant')} {'were' if count != 1 else 'was'} recorded "
        "and nothing that lasts.",
    )
    return Finding("nothing-recorded", sentence, 0.0, {"instants": count})
