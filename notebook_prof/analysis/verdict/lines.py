"""The lines below a verdict: account of the cell, steps, phases, longest names, memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ...units import format_items, format_share
from ..memory.curve import RECORDER_SHARE, memory_processes
from ..memory.growth import matters
from ..memory.names import FEWEST_STEPS, MAPPED, memory_names
from ..scope import recorded_table
from ..time.cpu import cores_were_lost, cpu_use
from ..time.host_states import waits_by_name
from ..time.steps import optimizer_steps
from .claims import (
    Claim,
    Sentence,
    Source,
    cite,
    cite_bytes,
    cite_count,
    cite_ns,
    cite_share,
    fill,
    say,
    short,
)
from .inputs import VerdictInputs
from .steps import of_framework

_SHOWN: Final = 3
_SMALL: Final = 0.01
"""Smaller parts of the account are summed up, and smaller child processes are not named."""
_LONGEST_NAME: Final = 60
_OWN_WORK: Final = 0.1
"""Minimum share of the cell and of its CPU time for which our own work is reported."""
_SAMPLES_OF_A_NAME: Final = 3
"""Minimum samples of a name; with fewer, it may have taken no time. With no hit in n independent samples, the
share is below 3 / n in 95 of 100 cases (rule of three).
"""


def supporting_lines(facts: VerdictInputs) -> list[Sentence]:
    """Return at most nine lines, including one about what was not recorded."""
    lines = [_account(facts) if facts.is_cell and len(facts.account) else None, _compilations(facts)]
    if len(facts.steps) or not any(lines):
        lines.append(_steps(facts))
    if facts.total_ns and facts.phase_ns:
        lines.append(_phases(facts))
    if facts.path is not None:
        lines.append(_path(facts, facts.path))
    if facts.total_ns:
        lines.append(_longest_names(facts))
    lines += [_cores(facts), _own_work(facts), _memory(facts)]
    return [line for line in lines if line is not None]


def _account(facts: VerdictInputs) -> Sentence:
    """Write the cell as a sum of its largest parts."""
    order = facts.account.sort_values("dur", ascending=False, kind="stable")
    whole, total = Source("account", "dur"), facts.cell_ns
    shown = order[order["share"] >= _SMALL].head(_SHOWN)
    others = order.drop(shown.index)
    parts: list[tuple[Any, ...]] = [
        (_part(row), str(row["part"]), row["ts"], int(row["dur"])) for row in shown.to_dict("records")
    ]
    if len(others):
        words = say(format_items(len(others), "other part"))
        parts.append((words, tuple(others["part"]), tuple(others["ts"].tolist()), int(others["dur"].sum())))
    pieces = []
    for words, part, ts, spent in parts:
        source = Source("account", "dur", {"part": part, "ts": ts})
        share = cite_share(spent / max(total, 1), source, whole)
        pieces.append(fill("{} {} ({})", words, cite_ns(spent, source), share))
    said = cite_ns(total, whole), say(*pieces, between=" + "), _raised(facts), _issues(facts)
    return fill("Cell: {} = {}{}{}", *said)


def _raised(facts: VerdictInputs) -> Sentence:
    """Return the exception that ended the cell, and the line of its statement."""
    raised = facts.trace.metadata.get("raised")
    if not isinstance(raised, Mapping):
        return say()
    rows = facts.account[facts.account["line"] == raised.get("line")]
    if not len(rows):
        return say(f"; it ended with {raised.get('error')}")
    last = rows.iloc[-1]
    source = Source("account", "line", {"part": str(last["part"]), "ts": int(last["ts"])})
    line = int(last["line"])
    where = "" if raised.get("at", line) == line else "the statement of "
    return say(f"; it ended with {raised.get('error')} in {where}", cite(f"line {line}", line, source))


def _compilations(facts: VerdictInputs) -> Sentence | None:
    """Describe the time of ``torch.compile`` in the cell, and the reason of the costliest recompilation."""
    if recorded_table(facts.trace, "compilations") is None:
        return None
    from ..source.compilations import compilations, graph_breaks

    table = compilations(facts.trace)
    total, cell = int(table["dur"].sum()), facts.cell_ns
    if not total or total < _SMALL * cell:
        return None
    source = Source("compilations", "dur")
    share = fill(" ({})", cite_share(total / cell, source, Source("account", "dur"))) if cell else say()
    number = cite_count(len(table), "compilation", replace(source, reduce="count"))
    sentence = fill("torch.compile: {}{} in {}", cite_ns(total, source), share, number)
    again = table[table["guard"] != ""]
    if len(again):
        where: dict[str, Any] = {"guard": tuple(again["guard"].unique().tolist())}
        count = cite_count(len(again), "recompilation", Source("compilations", "dur", where, {}, "count"))
        longest = again.loc[again["dur"].idxmax()]
        where = {"ts": int(longest["ts"]), "id": str(longest["id"])}
        guard, line = str(longest["guard"]), str(longest["guard_place"])
        why = cite(short(guard, 60), guard, Source("compilations", "guard", where))
        at = fill(" ({})", cite(line, line, Source("compilations", "guard_place", where))) if line else say()
        sentence += fill(", with {}: `{}` no longer held{}", count, why, at)
    breaks = graph_breaks(facts.trace)
    if len(breaks):
        number = cite_count(len(breaks), "graph break", Source("graph_breaks", "count", reduce="count"))
        first = str(breaks["place"].iloc[0])
        location = cite(first, first, Source("graph_breaks", "place", {"place": first}))
        sentence += fill("; {}, the first at {}", number, location)
    return sentence


def _cores(facts: VerdictInputs) -> Sentence | None:
    """Describe how long threads waited for cores that other programs used, if that is significant."""
    use = cpu_use(facts.trace, window=facts.window)
    if not cores_were_lost(use):
        return None
    lost, ready = (int(use[column].iloc[0]) for column in ("lost_ns", "ready_ns"))
    source, of = (Source("cpu_use", column, {}, facts.arguments) for column in ("lost_ns", "ready_ns"))
    return fill(
        "Cores: threads waited for {} while other programs had the cores, {} of the time in which they could "
        "run: on a quiet machine this is faster",
        cite_ns(lost, source),
        cite_share(lost / ready, source, of),
    )


def _own_work(facts: VerdictInputs) -> Sentence | None:
    """Describe the CPU time of our threads during the cell, such as for earlier recordings, if it matters."""
    if not facts.is_cell or not len(facts.account):
        return None
    begin, end = int(facts.account["ts"].min()), int((facts.account["ts"] + facts.account["dur"]).max())
    during = {"window": (begin, end)}
    ours, whole = (Source("cpu", "cpu_ns", {"kind": kind}, during) for kind in ("profiler", "process"))
    spent, used = (int(source.evaluate(facts.trace)) for source in (ours, whole))
    if spent < _OWN_WORK * used or spent < _OWN_WORK * (end - begin):
        return None
    return fill(
        "Own work: notebook_prof used {} of CPU time while the cell ran, {} of what the process used: run "
        "after a pause, the cell is faster",
        cite_ns(spent, ours),
        cite_share(spent / used, ours, whole),
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


def _updates(facts: VerdictInputs) -> Sentence | str:
    """Describe how often optimizers stepped, unless once per step: gradients accumulate, or several step."""
    updates = int(np.isin(optimizer_steps(facts.trace), facts.steps["step"]).sum())
    if updates in (0, len(facts.steps)):
        return ""
    source = Source("steps", "updates", {}, facts.arguments)
    return say(" with ", cite_count(updates, "optimizer step", source))


def _steps(facts: VerdictInputs) -> Sentence:
    steps, issues = facts.steps, say() if facts.is_cell else _issues(facts)
    if not len(steps):
        if not facts.has_time_unit:
            return say("No steps were found; weights have no unit", issues)
        span = cite_ns(facts.trace.span.dur, Source("account", "dur"))
        return fill("No steps were found; {} recorded{}", span, issues)

    def source(column: str, reduce: str) -> Source:
        return Source("steps", column, {}, facts.arguments, reduce)

    dur, several = steps["dur"], len(steps) > 1
    first, last = int(steps["step"].iloc[0]), int(steps["step"].iloc[-1])
    loops = int(steps["loop"].nunique()) if "loop" in steps else 1
    sentence = fill(
        "{}{} ({}{}, found by {}){}: {}{}",
        cite_count(len(steps), "step", source("step", "count")),
        f" in {loops} loops" if loops > 1 else "",
        cite(str(first), first, source("step", "min")),
        say(" … ", cite(str(last), last, source("step", "max"))) if several else "",
        facts.trace.metadata.get("steps_source") or steps["source"].iloc[0],
        _updates(facts),
        "median " if several else "",
        cite_ns(float(dur.median()), source("dur", "median")),
    )
    shortest, longest = (cite_ns(int(dur.agg(one)), source("dur", one)) for one in ("min", "max"))
    if shortest.text != longest.text:
        sentence += fill(", {} to {}", shortest, longest)
    return sentence + issues


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
    pieces = []
    for name, share in zip(shown.index.astype(str), shown["share"].tolist(), strict=True):
        source = Source("critical_path", "share", {"class": name}, facts.path_arguments)
        pieces.append(say(f"{IN_WORDS[name]} ", cite_share(share, source)))
    sentence = say("Critical path: ", say(*pieces, between=" · "))
    if (row := facts.next_class) is None:
        return sentence
    left, most = (
        cite_share(
            float(row[column]),
            Source("critical_path_next", column, {"class": str(row["class"])}, facts.next_arguments),
        )
        for column in ("left_share", "next_share")
    )
    first, following = IN_WORDS[str(row["class"])], IN_WORDS[str(row["next"])]
    much = "all" if most.text == format_share(1.0) else most
    text = "; if {} took no time, {} of the path would remain, {} of it {}"
    return sentence + fill(text, _NAMED.get(first, first), left, much, following)


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
    works = ~facts.top["name"].astype(str).map(waits_by_name).astype(bool)
    sampled = facts.few if facts.top_is_python else None
    small = _SMALL if sampled is None else max(_SMALL, min(0.5, _SAMPLES_OF_A_NAME / sampled.count))
    rows = facts.top[works & (facts.top["self_ns"] >= max(small * facts.total_ns, 1))].head(_SHOWN)
    if rows.empty:
        return None
    own_ns, own, whole = facts.own
    pieces = []
    for name, spent in zip(rows["name"].tolist(), rows["self_ns"].tolist(), strict=True):
        claim = facts.sampled_share(
            spent / own_ns, facts.self_time(name), own, {"name": name}, exact=sampled is None
        )
        pieces.append(say(f"{short(name)} ", claim))
    operators = not facts.top_is_python and of_framework(facts.trace)
    what: Sentence | str = "Operators" if operators else "Own time"
    if sampled is not None:
        what = fill("Own time ({})", facts.samples())
    return fill("{}: {} of {}", what, say(*pieces, between=" · "), whole)


def _memory(facts: VerdictInputs) -> Sentence:
    """Describe the peak of memory on each device."""
    if not len(facts.peak):
        return say("Memory was not recorded.")
    pieces = []
    resident = bool((facts.peak["source"] == "rss").any())
    for row in facts.peak.to_dict("records"):
        device, source = int(row["device"]), str(row["source"])
        where = "host" if device < 0 else f"device {device}"
        rows = {"device": device, "source": source}
        peak, ts, base = (
            Source("memory_peak", column, rows, facts.arguments)
            for column in ("peak_bytes", "ts", "base_bytes")
        )
        highest = cite_bytes(row["peak_bytes"], peak)
        growing = say()
        if grows := facts.growth_bytes.get((device, source)):
            growth = cite_bytes(grows, Source("level_growth", "growth_bytes", rows))
            growing = say(", growing ", growth, " every step")
        if device < 0 and source != "rss" and resident:
            pieces.append(say("recorded blocks up to ", highest, " of it", growing))
            continue
        before = cite_bytes(row["base_bytes"], base)
        at = cite_ns(int(row["ts"]), ts)
        if source == "rss" and (both := _together(facts)) is not None:
            highest, before, at, children = both
            growing += children
        kind = say(", resident; ", before, " at the start") if source == "rss" else say()
        if (own := int(row["recorder_bytes"])) >= RECORDER_SHARE * int(row["peak_bytes"]) > 0:
            held = Source("memory_peak", "recorder_bytes", rows, facts.arguments)
            kind += say(", up to ", cite_bytes(own, held), " held by the recording itself")
        piece = say("peak ", highest, f" ({where}") + kind
        after = facts.is_cell and at.value > int((facts.account["ts"] + facts.account["dur"]).max())
        piece += say(") after the cell") if after else say(") at ", at)  # as in its traceback
        pieces.append(piece + growing)
    return say("Memory: ", say(*pieces, *_names(facts), between=" · "))


def _names(facts: VerdictInputs) -> list[Sentence]:
    """Name the variable that grows most and, after an out-of-memory error, the one that holds most memory."""
    failed = "out_of_memory" in facts.trace.metadata
    if facts.window is not None or (not failed and len(facts.trace.steps) < FEWEST_STEPS + 2):
        return []
    names = memory_names(facts.trace)
    names = names[names["name"].notna() & (names["kind"] != MAPPED)]
    pieces = []
    if failed and len(names):
        largest = names.loc[names["bytes"].idxmax()]
        size, share = (_of_name(largest, column) for column in ("bytes", "share"))
        held = cite_bytes(int(largest["bytes"]), size), cite_share(float(largest["share"]), share)
        pieces.append(fill("out of memory: `{}` holds {}, {} of what is used", short(largest["name"]), *held))
    grows = names[names["bytes_per_step"].fillna(0) > 0]
    if len(grows):
        row = grows.loc[grows["bytes_per_step"].astype("int64").idxmax()]
        more, count = int(row["bytes_per_step"]), len(facts.trace.steps) - 2
        if matters(more, count, facts.peak, int(row["device"]), "allocator"):
            growth = cite_bytes(more, _of_name(row, "bytes_per_step"))
            pieces.append(fill("`{}` grows by {} every step", short(row["name"]), growth))
    return pieces


def _of_name(row: pd.Series[Any], column: str) -> Source:
    named = {name: str(row[name]) for name in ("name", "kind", "moment")}
    return Source("memory_names", column, {**named, "device": int(row["device"])})


def _together(facts: VerdictInputs) -> tuple[Claim, Claim, Claim, Sentence] | None:
    """Return peak, start and instant of the process with its children, and what these hold, if it matters."""
    table = memory_processes(facts.trace, **facts.arguments)
    children = table[(table["kind"] == "child") & (table["bytes"] > 0)]
    total, theirs, start = (
        int(part.sum()) for part in (table["bytes"], children["bytes"], table["start_bytes"])
    )
    if theirs < max(_SMALL * total, 1):
        return None
    every = Source("memory_processes", "bytes", {}, facts.arguments)
    part = replace(every, where={"pid": tuple(children["pid"].tolist())})
    # a shell that only starts the worker is not counted, as in the sentence about CPU time
    children = children[children["bytes"] >= _SMALL * children["bytes"].max()]
    first, several = children.iloc[0], len(children) > 1
    size, name = int(first["bytes"]), " ".join(str(first["name"]).split())[:_LONGEST_NAME]
    largest = cite_bytes(size, replace(every, where={"pid": int(first["pid"])}))
    large = replace(part, where={"pid": tuple(children["pid"].tolist())}, reduce="count")
    count = cite(str(len(children)), len(children), large)
    who = (
        say(f" child processes, the largest `{name}` with ", largest)
        if several
        else f" child process, `{name}`"
    )
    return (
        cite_bytes(total, every),
        cite_bytes(start, replace(every, column="start_bytes")),
        cite_ns(int(table["ts"].iloc[0]), replace(every, column="ts", where={"kind": "process"})),
        say("; ", cite_bytes(theirs, part), " of the peak in ", count, who),
    )
