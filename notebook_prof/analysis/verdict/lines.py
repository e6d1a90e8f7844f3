"""The lines below a verdict: account of the cell, steps, phases, longest names, memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ...units import format_bytes, format_items, format_share
from ..memory.curve import RECORDER_SHARE
from ..memory.level_growth import matters
from ..memory.names import MAPPED, memory_names
from ..time.cpu import cores_were_lost, cpu_use
from ..time.host_states import waits_by_name
from ..time.phases import stepping_track
from ..trust.trust import few_samples
from .claims import Claim, Sentence, Source, cite, cite_ns, cite_share, joined, say
from .facts import OPERATORS, Facts

_SHOWN: Final = 3
_SMALL: Final = 0.01
"""Parts of the account below this share are summed."""
_SAMPLES_OF_A_NAME: Final = 3
"""A name in fewer samples may have taken no time. With n independent samples and no hit, the share is below 3
/ n in 95 of 100 cases (rule of three).
"""


def supporting_lines(facts: Facts) -> list[Sentence]:
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
    lines.append(_memory(facts))
    return lines


def _account(facts: Facts) -> Sentence:
    """Return the cell as a sum of its largest parts."""
    table = facts.account
    whole = Source("account", "dur")
    total = int(table["dur"].sum())
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
    return say("Cell: ", cite_ns(total, whole), " = ", joined(pieces, " + "), _issues(facts))


def _compilations(facts: Facts) -> Sentence | None:
    """Return the time of ``torch.compile`` in the cell, and the costliest reason for recompiling."""
    if "compilations" not in (facts.trace.metadata.get("tables") or {}):
        return None
    from ..source.compilations import compilations, graph_breaks

    table = compilations(facts.trace)
    total, cell = int(table["dur"].sum()), int(facts.account["dur"].sum())
    if not total or total < _SMALL * cell:
        return None
    source = Source("compilations", "dur")
    share = say(" (", cite_share(total / cell, source, Source("account", "dur")), ")") if cell else say()
    number = cite(format_items(len(table), "compilation"), len(table), replace(source, reduce="count"))
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
    number = cite(
        format_items(len(breaks), "graph break"), len(breaks), Source("graph_breaks", "count", reduce="count")
    )
    first = str(breaks["place"].iloc[0])
    location = cite(first, first, Source("graph_breaks", "place", {"place": first}))
    return say(sentence, "; ", number, ", the first at ", location)


def _cores(facts: Facts) -> Sentence | None:
    """Return how long threads waited for cores that other programs had, if that is significant."""
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
    """Return a part of the account in words; a number of steps is a claim of its own."""
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


def _updates(facts: Facts) -> Sentence | str:
    """Say how often optimizers stepped, unless once per step: gradients are accumulated, or several step."""
    source = Source("steps", "updates", {}, facts.arguments)
    updates = int(source.value(facts.trace))
    if updates in (0, len(facts.steps)):
        return ""
    return say(" with ", cite(format_items(updates, "optimizer step"), updates, source))


def _steps(facts: Facts) -> Sentence:
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
            cite(
                format_items(len(steps), "step"), len(steps), Source("steps", "step", {}, arguments, "count")
            ),
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


def _issues(facts: Facts) -> Sentence:
    issues = [issue for issue in facts.trace.report if issue.severity != "info"]
    return say(f" · {format_items(len(issues), 'issue')} in trace.report") if issues else say()


def _phases(facts: Facts) -> Sentence:
    pieces = []
    for name, spent in facts.phase_ns.items():
        if spent:
            if len(facts.steps):
                source = Source("phases", "host_ns", {"phase": name}, facts.arguments)
            else:
                by = {"by": ("phase", "track"), **facts.arguments}
                source = Source(
                    "operators", "total_ns", {"phase": name, "track": stepping_track(facts.trace)}, by
                )
            pieces.append(
                say(f"{name} ", cite_share(spent / facts.total_ns, source, facts.total, {"phase": name}))
            )
    return say("Phases: ", joined(pieces, " · "))


def _path(facts: Facts, path: pd.DataFrame) -> Sentence:
    """Return the classes of the critical path, which show what a faster device would change."""
    from ..critical_path.classes import IN_WORDS

    shown = path[path["share"] >= _SMALL].head(_SHOWN)
    pieces = [
        say(
            f"{IN_WORDS[name]} ",
            cite(
                format_share(share),
                share,
                Source("critical_path", "share", {"class": name}, facts.path_arguments),
            ),
        )
        for name, share in zip(shown.index.astype(str), shown["share"].tolist(), strict=True)
    ]
    sentence = say("Critical path: ", joined(pieces, " · "))
    if (row := facts.next_class) is None:
        return sentence

    def of_next(column: str) -> Claim:
        share = float(row[column])
        source = Source("critical_path_next", column, {"class": str(row["class"])}, facts.next_arguments)
        return cite(format_share(share), share, source)

    first, following = IN_WORDS[str(row["class"])], IN_WORDS[str(row["next"])]
    left, most = of_next("left_share"), of_next("next_share")
    without = f"; without {_WITHOUT.get(first, first)} "
    if most.text == format_share(1.0):
        return sentence + say(without, left, f" of it would be left, all of that {following}")
    return sentence + say(without, left, f" of it would be left, above all {following} (", most, ")")


_WITHOUT: Final = {"between operators": "time between operators"}


def _longest_names(facts: Facts) -> Sentence | None:
    if len(facts.kernels):
        rows = facts.kernels.head(_SHOWN)
        arguments = {**facts.in_steps, "category": ("kernel", "collective")}
        pieces = [
            say(
                f"{facts.label(name)} ",
                cite(
                    format_share(share),
                    share,
                    Source("kernels", "share", {"name": name}, arguments),
                    select={"name": name},
                ),
            )
            for name, share in zip(rows["name"].tolist(), rows["share"].tolist(), strict=True)
        ]
        return say("Kernels: ", joined(pieces, " · "))
    works = [not waits_by_name(str(name)) for name in facts.top["name"]]
    few = next(iter(few_samples(facts.trace, facts.window)), None) if facts.top_is_python else None
    small = _SMALL if few is None else max(_SMALL, min(0.5, _SAMPLES_OF_A_NAME / few.count))
    enough = facts.top["self_ns"] >= max(small * facts.total_ns, 1)
    rows = facts.top[np.array(works, dtype=bool) & enough].head(_SHOWN)
    if rows.empty:
        return None
    by: dict[str, Any] = {"by": ("name", "track"), **facts.in_steps}
    if not facts.top_is_python:
        by["category"] = OPERATORS
    track = stepping_track(facts.trace)
    own_ns, own, _ = facts.own
    pieces = [
        say(
            f"{short(name)} ",
            cite_share(
                self_ns / own_ns,
                Source("operators", "self_ns", {"name": name, "track": track}, by),
                own,
                {"name": name},
            ),
        )
        for name, self_ns in zip(rows["name"].tolist(), rows["self_ns"].tolist(), strict=True)
    ]
    if not facts.top_is_python:
        return say("Operators: ", joined(pieces, " · "))
    if few is None:
        return say("Own time: ", joined(pieces, " · "))
    source = Source("trust", "count", {"code": few.code}, facts.arguments)
    samples = cite(format_items(few.count, "sample"), few.count, source)
    return say("Own time (", samples, "): ", joined(pieces, " · "))


def _memory(facts: Facts) -> Sentence:
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
        highest = cite(format_bytes(row["peak_bytes"]), int(row["peak_bytes"]), peak)
        growing = say()
        if grows := facts.growth_bytes.get((device, source)):
            growth = cite(format_bytes(grows), grows, Source("level_growth", "growth_bytes", rows))
            growing = say(", growing ", growth, " every step")
        if device < 0 and source != "rss" and resident:
            pieces.append(say("recorded blocks up to ", highest, " of it", growing))
            continue
        before = cite(format_bytes(row["base_bytes"]), int(row["base_bytes"]), base)
        kind = say(", resident; ", before, " at the start") if source == "rss" else say()
        if (own := int(row["recorder_bytes"])) >= RECORDER_SHARE * int(row["peak_bytes"]) > 0:
            most = cite(
                format_bytes(own), own, Source("memory_peak", "recorder_bytes", rows, facts.arguments)
            )
            kind += say(", up to ", most, " held by the recording itself")
        piece = say("peak ", highest, f" ({where}") + kind + say(") at ", cite_ns(int(row["ts"]), ts))
        pieces.append(piece + growing)
    return say("Memory: ", joined([*pieces, *_names(facts)], " · "))


def _names(facts: Facts) -> list[Sentence]:
    """Return the name that grows most and, after an out-of-memory error, the one that holds most."""
    if facts.window is not None:
        return []
    names = memory_names(facts.trace)
    names = names[names["name"].notna() & (names["kind"] != MAPPED)]
    pieces = []
    if "out_of_memory" in facts.trace.metadata and len(names):
        largest = names.loc[names["bytes"].idxmax()]
        size, share = _cite_name(largest, "bytes"), float(largest["share"])
        of = Source("memory_names", "share", _row_of(largest))
        pieces.append(say(f"not enough: `{short(largest['name'])}` holds ", size, ", ",
                          cite(format_share(share), share, of), " of what is used"))  # fmt: skip
    grows = names[names["bytes_per_step"].fillna(0) > 0]
    if len(grows):
        row = grows.loc[grows["bytes_per_step"].astype("int64").idxmax()]
        more, count = int(row["bytes_per_step"]), len(facts.trace.steps) - 2
        if matters(more, count, facts.peak, int(row["device"]), "allocator"):
            growth = _cite_name(row, "bytes_per_step")
            pieces.append(say(f"`{short(row['name'])}` grows by ", growth, " every step"))
    return pieces


def _row_of(row: pd.Series[Any]) -> dict[str, Any]:
    return {"name": str(row["name"]), "kind": str(row["kind"]), "device": int(row["device"])}


def _cite_name(row: pd.Series[Any], column: str) -> Claim:
    """Return a claim about bytes of a name."""
    size = int(row[column])
    return cite(format_bytes(size), size, Source("memory_names", column, _row_of(row)))


def short(name: object, limit: int = 48) -> str:
    """Cut a long name."""
    text = str(name)
    return text if len(text) <= limit else text[: limit - 1] + "…"
