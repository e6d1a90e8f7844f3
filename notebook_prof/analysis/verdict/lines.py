"""The lines below a verdict: account of the cell, steps, phases, longest names, memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ...units import format_items, format_share
from ..scope import once
from ..time.cpu import cores_were_lost, cpu_use
from ..time.host_states import waits_by_name
from ..trust.trust import few_samples
from .claims import Claim, Sentence, Source, cite, cite_count, cite_ns, cite_share, say, short
from .inputs import VerdictInputs
from .memory import memory_line

_SHOWN: Final = 3
_SMALL: Final = 0.01
"""Parts of the account below this share are summed up as others."""
_SAMPLES_OF_A_NAME: Final = 3
"""Least samples of a name; with fewer, it may have taken no time. With no hit in n independent samples, the
share is below 3 / n in 95 of 100 cases (rule of three).
"""


def supporting_lines(facts: VerdictInputs) -> list[Sentence]:
    """Return at most eight lines, including one about what was not recorded."""
    lines = []
    if facts.is_cell and len(facts.account):
        lines.append(_account(facts))
    if (line := _compilations(facts)) is not None:
        lines.append(line)
    if len(facts.steps) or not lines:
        lines.append(_steps(facts))
    if facts.total_ns and facts.phase_ns:
        lines.append(_phases(facts))
    if facts.path is not None:
        lines.append(_path(facts, facts.path))
    if facts.total_ns and (line := _longest_names(facts)):
        lines.append(line)
    if (line := _cores(facts)) is not None:
        lines.append(line)
    lines.append(memory_line(facts))
    return lines


def _account(facts: VerdictInputs) -> Sentence:
    """Write the cell as a sum of its largest parts."""
    table = facts.account
    whole = Source("account", "dur")
    total = facts.cell_ns
    order = table.sort_values("dur", ascending=False, kind="stable")
    shown = order[order["share"] >= _SMALL].head(_SHOWN)
    others = order.drop(shown.index)
    pieces = [
        say(_part(row), " ", *_amount(int(row["dur"]), total, _rows(row), whole))
        for row in shown.to_dict("records")
    ]
    if len(others):
        left = int(others["dur"].sum())
        source = Source("account", "dur", {"part": tuple(others["part"]), "ts": tuple(others["ts"].tolist())})
        pieces.append(say(format_items(len(others), "other part"), " ", *_amount(left, total, source, whole)))
    return say(
        "Cell: ", cite_ns(total, whole), " = ", say(*pieces, between=" + "), _raised(facts), _issues(facts)
    )


def _raised(facts: VerdictInputs) -> Sentence:
    """Return the exception that ended the cell, and its line."""
    raised = facts.trace.metadata.get("raised")
    if not isinstance(raised, Mapping):
        return say()
    rows = facts.account[facts.account["line"] == raised.get("line")]
    if not len(rows):
        return say(f"; it ended with {raised.get('error')}")
    last = rows.iloc[-1]
    source = Source("account", "line", {"part": str(last["part"]), "ts": int(last["ts"])})
    line = int(last["line"])
    return say(f"; it ended with {raised.get('error')} in ", cite(f"line {line}", line, source))


def _compilations(facts: VerdictInputs) -> Sentence | None:
    """Say how long ``torch.compile`` took in the cell, and what the costliest recompilation was for."""
    if "compilations" not in (facts.trace.metadata.get("tables") or {}):
        return None
    from ..source.compilations import compilations, graph_breaks

    table = compilations(facts.trace)
    total, cell = int(table["dur"].sum()), facts.cell_ns
    if not total or total < _SMALL * cell:
        return None
    source = Source("compilations", "dur")
    share = say(" (", cite_share(total / cell, source, Source("account", "dur")), ")") if cell else say()
    number = cite_count(len(table), "compilation", replace(source, reduce="count"))
    sentence = say("torch.compile: ", cite_ns(total, source), share, " in ", number)
    again = table[table["guard"] != ""]
    if len(again):
        guards = tuple(again["guard"].unique().tolist())
        count = cite(
            str(len(again)), len(again), Source("compilations", "dur", {"guard": guards}, {}, "count")
        )
        longest = again.loc[again["dur"].idxmax()]
        where = {"ts": int(longest["ts"]), "id": str(longest["id"])}
        guard, line = str(longest["guard"]), str(longest["guard_place"])
        why = cite(short(guard, 60), guard, Source("compilations", "guard", where))
        at = say(" (", cite(line, line, Source("compilations", "guard_place", where)), ")") if line else say()
        sentence = say(sentence, ", ", count, " of them again: `", why, "` no longer held", at)
    breaks = graph_breaks(facts.trace)
    if not len(breaks):
        return sentence
    number = cite_count(len(breaks), "graph break", Source("graph_breaks", "count", reduce="count"))
    first = str(breaks["place"].iloc[0])
    location = cite(first, first, Source("graph_breaks", "place", {"place": first}))
    return say(sentence, "; ", number, ", the first at ", location)


def _cores(facts: VerdictInputs) -> Sentence | None:
    """Say how long threads waited for cores that other programs had, if that is significant."""
    arguments = {} if facts.window is None else {"window": facts.window}
    use = cpu_use(facts.trace, window=facts.window)
    if not cores_were_lost(use):
        return None
    lost, ready = (int(use[column].iloc[0]) for column in ("lost_ns", "ready_ns"))
    source = Source("cpu_use", "lost_ns", {}, arguments)
    of = Source("cpu_use", "ready_ns", {}, arguments)
    return say(
        "Cores: threads waited for ",
        cite_ns(lost, source),
        " while other programs had the cores, ",
        cite_share(lost / ready, source, of),
        " of the time in which they could run: on a quiet machine this is faster",
    )


def _part(row: Any) -> Sentence:
    """Return a part of the account in words; a number of steps becomes a claim."""
    words, text = str(row["part"]), str(row["text"])
    if row["kind"] == "code" and text and not pd.isna(row["line"]):
        return say(f"{words} `{short(text, 32)}`")
    count = format_items(int(row["steps"]), "step")
    if not words.startswith(count):
        return say(words)
    where = {"part": words, "ts": int(row["ts"])}
    return say(cite(count, int(row["steps"]), Source("account", "steps", where)), words[len(count) :])


def _rows(row: Any) -> Source:
    return Source("account", "dur", {"part": str(row["part"]), "ts": int(row["ts"])})


def _amount(spent: int, total: int, source: Source, whole: Source) -> tuple[str | Claim, ...]:
    return (cite_ns(spent, source), " (", cite_share(spent / max(total, 1), source, whole), ")")


def _updates(facts: VerdictInputs) -> Sentence | str:
    """Say how often optimizers stepped, unless once per step: gradients accumulate, or several step."""
    source = Source("steps", "updates", {}, facts.arguments)
    updates = int(source.evaluate(facts.trace))
    if updates in (0, len(facts.steps)):
        return ""
    return say(" with ", cite_count(updates, "optimizer step", source))


def _steps(facts: VerdictInputs) -> Sentence:
    sentence = say()
    steps = facts.steps
    if len(steps):
        dur, several = steps["dur"], len(steps) > 1
        arguments = facts.arguments
        first, last = int(steps["step"].iloc[0]), int(steps["step"].iloc[-1])
        steps_source = facts.trace.metadata.get("steps_source") or steps["source"].iloc[0]
        loops = int(steps["loop"].nunique()) if "loop" in steps else 1
        end = cite(str(last), last, Source("steps", "step", {}, arguments, "max"))
        numbered = say(" … ", end) if several else ""
        sentence = say(
            cite_count(len(steps), "step", Source("steps", "step", {}, arguments, "count")),
            f" in {loops} loops" if loops > 1 else "",
            " (",
            cite(str(first), first, Source("steps", "step", {}, arguments, "min")),
            numbered,
            f", found by {steps_source})",
            _updates(facts),
            ": median " if several else ": ",
            cite_ns(float(dur.median()), Source("steps", "dur", {}, arguments, "median")),
        )
        if several:
            shortest = cite_ns(int(dur.min()), Source("steps", "dur", {}, arguments, "min"))
            longest = cite_ns(int(dur.max()), Source("steps", "dur", {}, arguments, "max"))
            sentence = sentence + say(", ", shortest, " to ", longest)
    else:
        span = cite_ns(facts.trace.span.dur, Source("account", "dur"))
        sentence = say("No steps were found; ", span, " recorded")
    return sentence + (say() if facts.is_cell else _issues(facts))


def _issues(facts: VerdictInputs) -> Sentence:
    issues = [issue for issue in facts.trace.report if issue.severity != "info"]
    return say(f" · {format_items(len(issues), 'issue')} in trace.report") if issues else say()


def _phases(facts: VerdictInputs) -> Sentence:
    pieces = []
    for name, spent in facts.phase_ns.items():
        if spent:
            share = cite_share(spent / facts.total_ns, facts.in_phase(name), facts.total, {"phase": name})
            pieces.append(say(f"{name} ", share))
    return say("Phases: ", say(*pieces, between=" · "))


def _path(facts: VerdictInputs, path: pd.DataFrame) -> Sentence:
    """Name the classes of the critical path, which show what a faster device would change."""
    from ..critical_path.walk import IN_WORDS

    shown = path[path["share"] >= _SMALL].head(_SHOWN)
    pieces = [
        say(
            f"{IN_WORDS[name]} ",
            cite_share(
                share,
                Source("critical_path", "share", {"class": name}, facts.path_arguments),
            ),
        )
        for name, share in zip(shown.index.astype(str), shown["share"].tolist(), strict=True)
    ]
    sentence = say("Critical path: ", say(*pieces, between=" · "))
    if (row := facts.next_class) is None:
        return sentence

    def of_next(column: str) -> Claim:
        share = float(row[column])
        source = Source("critical_path_next", column, {"class": str(row["class"])}, facts.next_arguments)
        return cite_share(share, source)

    first, following = IN_WORDS[str(row["class"])], IN_WORDS[str(row["next"])]
    left, most = of_next("left_share"), of_next("next_share")
    all_of_it = most.text == format_share(1.0)
    much = say("all") if all_of_it else most
    without = f"; if {_NAMED.get(first, first)} took no time, "
    return sentence + say(without, left, " of the path would remain, ", much, f" of that {following}")


_NAMED: Final = {"between operators": "what runs between operators"}


def _longest_names(facts: VerdictInputs) -> Sentence | None:
    if len(facts.kernels):
        rows = facts.kernels.head(_SHOWN)
        pieces = [
            say(
                f"{facts.label(name)} ",
                cite_share(share, facts.of_kernels("share", name=name), select={"name": name}),
            )
            for name, share in zip(rows["name"].tolist(), rows["share"].tolist(), strict=True)
        ]
        return say("Kernels: ", say(*pieces, between=" · "))
    works = [not waits_by_name(str(name)) for name in facts.top["name"]]
    sampled = few(facts) if facts.top_is_python else None
    small = _SMALL if sampled is None else max(_SMALL, min(0.5, _SAMPLES_OF_A_NAME / sampled.count))
    enough = facts.top["self_ns"] >= max(small * facts.total_ns, 1)
    rows = facts.top[np.array(works, dtype=bool) & enough].head(_SHOWN)
    if rows.empty:
        return None
    own_ns, own, _ = facts.own
    pieces = [
        say(
            f"{short(name)} ",
            cite(
                format_share(self_ns / own_ns, 1 if sampled is None else 0),
                self_ns / own_ns,
                facts.self_time(name),
                own,
                {"name": name},
            ),
        )
        for name, self_ns in zip(rows["name"].tolist(), rows["self_ns"].tolist(), strict=True)
    ]
    if not facts.top_is_python:
        return say("Operators: ", say(*pieces, between=" · "))
    if sampled is None:
        return say("Own time: ", say(*pieces, between=" · "))
    return say("Own time (", samples(facts), "): ", say(*pieces, between=" · "))


def few(facts: VerdictInputs) -> Any:
    """Return the finding of the trust report that the cell's thread has few samples, or None."""
    first = lambda: next(iter(few_samples(facts.trace, facts.window)), None)  # noqa: E731
    return once(facts.trace, ("few-samples", facts.window), first)


def samples(facts: VerdictInputs) -> Claim:
    """Return how many samples there are, where they are `few`."""
    finding = few(facts)
    source = Source("trust", "count", {"code": finding.code}, facts.arguments)
    return cite_count(finding.count, "sample", source)
