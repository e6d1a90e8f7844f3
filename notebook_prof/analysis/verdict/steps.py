"""What bounds the steps of a run, or a recording in which the user's lines are unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ...trace import Trace
from ...units import format_count, format_items
from ..source.frames import is_python
from ..source.hotspots import hot_lines
from ..source.lines import CELL
from .claims import Claim, Sentence, Source, Verdict, cite_count, cite_ns, cite_share, fill, say, short
from .inputs import MOST, WAITING, VerdictInputs
from .python import line_select, line_words, python_verdict

_ELSEWHERE: Final = "steps-in-another-thread"
_NO_OPERATORS: Final = {
    "torch-imported-late": "torch was imported in this cell",
    "profiler-overtaken": "the cell started another profiler",
    "profiler-busy": "another profiler was running",
}
"""Why a recording of torch has no operators: code of the issue → words."""
_NO_FRAMEWORK: Final = frozenset({"trace_event", "viztracer", "speedscope", "collapsed", "perfetto"})
"""Sources whose slices are not operators of a framework, unless PyTorch wrote the file."""


def of_framework(trace: Trace) -> bool:
    """Return whether the slices of a recording may be operators of a framework."""
    return trace.metadata.get("exporter") == "torch" or trace.metadata.get("source") not in _NO_FRAMEWORK


def judge_steps(facts: VerdictInputs) -> Verdict:
    """Judge what bounds the steps; the conditions are those of `verdict`."""
    if _ELSEWHERE in facts.trace.report and not facts.calls and not len(facts.device):
        sentence = say("The steps run in another thread than the cell's, whose operators were not recorded")
        if (row := _longest_line(facts)) is not None:
            line = say(*line_words(row))
            sentence += fill("; {} takes {} of {}", line, _line_share(facts, row), facts.whole)
        return Verdict("mixed", sentence + ".")
    from .device import judge_once

    once, more = judge_once(facts)
    judged = once or _judge(facts)
    return judged if more is None else replace(judged, sentence=say(judged.sentence, " ", more))


def _longest_line(facts: VerdictInputs) -> Any:
    """Return the row of the user's longest line in the steps, apart from heads of loops; or None."""
    heads = set(facts.account["line"].dropna().tolist()) if facts.is_cell else set()
    table = facts.hot.table
    inner = table[~((table["file"] == CELL) & table["line"].isin(heads))]
    inner = inner[inner["total_ns"] <= facts.total_ns]
    return inner.iloc[0] if len(inner) else None


def _judge(facts: VerdictInputs) -> Verdict:
    from .waits import judge_waits, runtime_verdict

    waits, more = judge_waits(facts)
    if waits is not None:
        return waits
    if len(facts.device):
        from .device import judge_device

        return judge_device(facts)
    took = cite_ns(facts.total_ns, facts.total)
    if facts.top.empty:  # the steps were too short, or nothing looked for calls
        sentence = say("No call was recorded.")
        if len(facts.steps):
            text = "Only the times of the steps are known, {} in all: no recorded call is inside one of them."
            sentence = fill(text, took)
        elif facts.is_cell:
            sentence = fill("Only the times of the cell's lines are known, {}: no call was recorded.", took)
        return Verdict("nothing-recorded", sentence)
    if not facts.top["self_ns"].any():
        count = int(facts.top["count"].sum())
        text = "Nothing{} took time: of {}, only {} {} recorded."
        where = " that began in the steps" if len(facts.steps) else ""
        were = "were" if count != 1 else "was"
        return Verdict("nothing-recorded", fill(text, where, took, format_items(count, "instant"), were))
    if facts.top_is_python and not len(facts.steps):
        return runtime_verdict(facts) or python_verdict(facts)
    judged = _on_the_cpu(facts)
    return judged if more is None else replace(judged, sentence=say(judged.sentence, " ", more))


def _line_share(facts: VerdictInputs, row: Any) -> Claim:
    where = {"file": str(row["file"]), "line": int(row["line"])}
    source = Source("lines", "total_ns", where, facts.arguments)
    share = int(row["total_ns"]) / facts.total_ns
    return facts.sampled_share(share, source, facts.total, line_select(row), exact=bool(row["exact"]))


def _on_the_cpu(facts: VerdictInputs) -> Verdict:
    from .waits import runtime_verdict

    if not facts.calls and (judged := runtime_verdict(facts)) is not None:
        return judged
    thread = facts.thread_time
    total = max(int(thread["ns"].sum()), 1)
    python = int(thread.loc["python", "ns"]) / total
    operators = int(thread.loc[["operators", "small operators"], "ns"].sum()) / total
    around = ["small operators", "python", "range", "idle"]
    overhead = int(thread.loc[around, "ns"].sum()) / total
    if python >= MOST and len(facts.hot.table):
        return _python_in_steps(facts, python)
    framework = of_framework(facts.trace)
    if overhead >= MOST and facts.calls and framework:
        return _overhead(facts, overhead, around)
    if operators >= MOST:
        return _operators(facts, operators, framework=framework)
    return _judge_mixed(facts)


def _thread(facts: VerdictInputs, *states: str) -> Source:
    return Source("thread_time", "ns", {"state": states} if states else {}, facts.arguments)


def _python_in_steps(facts: VerdictInputs, python: float) -> Verdict:
    """Judge steps in which Python between operators takes most time; name the loop body's hottest line."""
    waited = _waited_in_steps(facts)
    # without torch's operators, their time counts as their caller's
    why = next((text for code, text in _NO_OPERATORS.items() if code in facts.trace.report), "")
    kind = "mixed" if why else "python-bound"
    if why:
        sentence = say(f"Operators were not recorded, since {why}")
    elif waited is not None and waited.value >= MOST:
        kind = "wait-bound"
        sentence = say("Wait-bound: the thread of the steps waits for ", waited, f" of {facts.whole}")
    else:
        share = cite_share(python, _thread(facts, "python"), _thread(facts))
        sentence = say("Python-bound: ", share, f" of {facts.whole} is Python, not operators")
        if waited is not None and waited.value >= WAITING:
            sentence += say("; the thread waits for ", waited, f" of {facts.whole}")
    select: dict[str, Any] = {"category": "python"}
    if (row := _longest_line(facts)) is not None:
        select = line_select(row)
        sentence += say("; ", *line_words(row), " takes ", _line_share(facts, row))
        sentence += f" of {facts.whole}" if why else ""
        if row["file"] == CELL:
            below = hot_lines(facts.trace, window=facts.window, below=int(row["line"]))
            if len(below.path) > 1:
                row = below.table.iloc[below.path[-1]]
                sentence += say(", of that ", _line_share(facts, row), " is in ", *line_words(row))
    return Verdict(kind, sentence + ".", python, select)


def _waited_in_steps(facts: VerdictInputs) -> Claim | None:
    """Return the share of the steps in which their thread neither ran nor waited for a core, if read."""
    steps = facts.account[facts.account["kind"] == "steps"]
    if not facts.is_cell or facts.window is not None or not len(steps) or steps["wait_ns"].isna().any():
        return None
    where = {"kind": "steps"}
    share = int(steps["wait_ns"].sum()) / int(steps["dur"].sum())
    return cite_share(share, Source("account", "wait_ns", where), Source("account", "dur", where))


def _overhead(facts: VerdictInputs, share: float, states: list[str]) -> Verdict:
    small = int(facts.thread_time.loc["small operators", "count"])
    source = Source("thread_time", "count", {"state": "small operators"}, facts.arguments)
    sentence = fill(
        "Overhead-bound: {} of {} is Python and framework overhead between operators",
        cite_share(share, _thread(facts, *states), _thread(facts)),
        facts.whole,
    )
    if small:
        a_step = f", {format_count(round(small / facts.count))} a step" if len(facts.steps) else ""
        text = " and in {} with less than 10 µs of self time{}"
        sentence += fill(text, cite_count(small, "operator", source), a_step)
    return Verdict("overhead-bound", sentence + ".", share)


def _operators(facts: VerdictInputs, operators: float, *, framework: bool) -> Verdict:
    """Name the longest operator, or the longest entry if slices have no known meaning."""
    first = facts.top.iloc[0]
    spent, select, source = int(first["self_ns"]), {"name": first["name"]}, facts.self_time(first["name"])
    own_ns, own, words = facts.own
    share = cite_share(spent / own_ns, source, own, select)
    said = short(first["name"]), share, words, cite_ns(spent, source, select)
    if not framework:
        return Verdict("mixed", fill("{} has the most self time: {} of {} ({}).", *said), share.value, select)
    sentence = fill("{} alone takes {} of {} ({}).", *said)
    if share.value < MOST:
        whole = cite_share(operators, _thread(facts, "operators", "small operators"), _thread(facts))
        text = "operators run {} of {}; the longest of them, {}, alone takes {} of {} ({})."
        sentence = fill(text, whole, facts.whole, *said)
    return Verdict("compute-bound", say("Compute-bound on the CPU: ", sentence), share.value, select)


_IN_WORDS: Final = {
    "waiting": "waiting",
    "launch": "launching",
    "small operators": "operators under 10 µs",
    "operators": "operators",
    "python": "Python",
    "range": "ranges with nothing recorded inside",
    "idle": "idle (nothing recorded on the thread)",
}


def _judge_mixed(facts: VerdictInputs) -> Verdict:
    thread = facts.thread_time.sort_values("ns", ascending=False, kind="stable").head(3)
    pieces: list[Sentence] = []
    first = float(thread["share"].iloc[0])
    for state, spent in zip(thread.index, thread["share"], strict=True):
        if spent > 0:
            share = cite_share(float(spent), _thread(facts, str(state)), _thread(facts))
            of = f" of {facts.whole} is" if first > MOST and not pieces else ""
            other = state == "python" and not is_python(facts.trace, str(facts.top["name"].iloc[0]))
            words = "code beside operators" if other else _IN_WORDS[str(state)]
            pieces.append(fill("{}{} {}", share, of, words))
    begin = "" if first > MOST else f"Nothing takes half of {facts.whole}: "
    return Verdict("mixed", fill("{}{}.", begin, say(*pieces, between=", ")), first)
