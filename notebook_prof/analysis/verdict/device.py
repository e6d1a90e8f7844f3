"""What bounds a run with devices: their work, the host, waits for them, or one-time work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ..device.busy import copies, device
from ..device.idle import idle_causes
from ..time.one_time import one_time
from ..time.thread_time import host_waits
from .claims import (
    Claim,
    Sentence,
    Source,
    Verdict,
    cite_bytes,
    cite_count,
    cite_ns,
    cite_share,
    fill,
    say,
    short,
)
from .inputs import MOST, WAITING, VerdictInputs

BUSY_DEVICE: Final = 0.7
NOTICEABLE: Final = 0.1
"""Minimum share of the time for which one-time work is reported."""

_LAUNCHING: Final = ("host-bound", "launch-latency")
_FOR: Final = {
    "input": "for data",
    "sync": "for the host, which waits for it",
    "memcpy": "for the host, which copies",
    "communication": "for the host, which talks to other ranks",
    "host-bound": "for the host to launch",
    "launch-latency": "for launches under way",
    "tail": "for nothing: its work is done",
    "unknown": "for what was not recorded",
}
HOST: Final = ("launch-latency", "launch-call", "host-operator", "python", "overhead")
"""Classes of the critical path that count as time of the host."""
_BOUND: Final = {
    "input": "input-bound",
    "sync": "sync-bound",
    "memcpy": "sync-bound",
    "communication": "communication-bound",
}
_ONCE: Final = {
    "compilation": "compilation",
    "loading": "loading of code",
    "graph-capture": "capture of graphs",
    "initialisation": "initialisation",
    "first-step": "what the first step takes beyond the others",
}


def judge_once(facts: VerdictInputs) -> tuple[Verdict | None, Sentence | None]:
    """Judge one-time work: return a verdict if it takes most of the time, a sentence if it is noticeable."""
    table = one_time(facts.trace, window=facts.window)
    share = float(table["share"].sum())
    if share < NOTICEABLE:
        return None, None
    kinds = []
    for row in table[table["share"] >= NOTICEABLE / 10].to_dict("records"):
        kind = str(row["kind"])
        words = _ONCE[kind] + (f" ({short(row['name'], 40)})" if kind != "first-step" else "")
        of_kind = cite_share(
            float(row["share"]), Source("one_time", "share", {"kind": kind}, facts.arguments)
        )
        kinds.append(say(words, " ", of_kind) if len(table) > 1 else say(words))
    once = cite_share(share, Source("one_time", "share", {}, facts.arguments))
    whole = fill("{} of {} happens once: {}", once, facts.whole, say(*kinds, between=", "))
    if share <= MOST:
        return None, whole + "."
    row = table.iloc[0]
    select = {} if row["kind"] == "first-step" else {"name": row["name"]}
    sentence = fill("One-time work: {}; record later steps to see what repeats.", whole)
    return Verdict("one-time", sentence, share, select), None


def judge_device(facts: VerdictInputs) -> Verdict:
    """Judge a run with device work in which neither communication nor data takes much time."""
    # The rules are those of `verdict`, for the busiest device from the first step to the last; without steps
    # also from its first work to its last.
    busiest = facts.device.iloc[int(facts.device["busy_ns"].to_numpy().argmax())]
    number = int(busiest["device"])
    busy = int(busiest["busy_ns"]) / max(int(busiest["window_ns"]), 1)
    host = _host_decides(facts, busy, number)
    if len(facts.kernels):
        if busy >= BUSY_DEVICE:
            when = say(_busy_share(facts, busy, number), f" of {_span(facts)}")
            return host or _busy(facts, busiest, {"window": tuple(facts.extent)}, when, busy)
        if not len(facts.steps) and (judged := _busy_while_it_works(facts, number)) is not None:
            return host or judged
    return _waits(facts, busy, number) or _idle(facts, busy, number, host)


def _busy_share(facts: VerdictInputs, busy: float, number: int) -> Claim:
    return cite_share(busy, of_device(facts, number, "busy_ns"), of_device(facts, number, "window_ns"))


def _span(facts: VerdictInputs) -> str:
    """Name the window that devices' times refer to, since there may be gaps between steps."""
    gaps = facts.extent.dur - facts.total_ns
    return "the time from the first step to the last" if gaps > 0.01 * facts.total_ns else facts.whole


def of_device(facts: VerdictInputs, number: int, column: str) -> Source:
    return Source("device", column, {"device": number}, {"window": tuple(facts.extent)})


def _host_decides(facts: VerdictInputs, busy: float, number: int) -> Verdict | None:
    """Judge a device that nothing waits for: most of the critical path is the host."""
    # Launches bound the device only if it is busy most of the time; otherwise the host does other things.
    if facts.path is None:
        return None
    host = float(facts.path.loc[facts.path.index.isin(HOST), "share"].sum())
    if host <= MOST:
        return None
    lacking = busy > MOST
    sentence = fill(
        "{}evice {} is busy {} of {}, {} {} of {} critical path is the host, which launches {}.",
        "Launch-bound: d" if lacking else "D",
        number,
        _busy_share(facts, busy, number),
        _span(facts),
        "but" if lacking else "and",
        cite_share(host, Source("critical_path", "share", {"class": HOST}, facts.path_arguments)),
        "their" if len(facts.steps) else "its",
        cite_count(int(facts.kernels["count"].sum()), "kernel", facts.of_kernels("count")),
    )
    select = {"category": "launch"} if lacking else {}
    return Verdict("launch-bound" if lacking else "mixed", sentence, host, select)


def _busy_while_it_works(facts: VerdictInputs, number: int) -> Verdict | None:
    """Judge a device that is idle mainly before its first and after its last work, as with a single step."""
    table = device(facts.trace, window=facts.window)
    own = table[table["device"] == number].iloc[0]
    span, busy = int(own["window_ns"]), int(own["busy_ns"]) / max(int(own["window_ns"]), 1)
    if busy < BUSY_DEVICE or span < MOST * facts.extent.dur:
        return None
    of = Source("device", "window_ns", {"device": number}, facts.arguments)
    when = fill(
        "{} of the time from its first work to its last, which is {} of {}",
        cite_share(busy, Source("device", "busy_ns", {"device": number}, facts.arguments), of),
        cite_ns(span, of),
        cite_ns(facts.extent.dur, of_device(facts, number, "window_ns")),
    )
    return _busy(facts, own, facts.arguments, when, busy)


def _busy(
    facts: VerdictInputs, row: pd.Series[Any], arguments: Mapping[str, Any], when: Sentence, busy: float
) -> Verdict:
    """Judge a busy device: by copies if its kernels take less than half of its busy time."""
    number = int(row["device"])
    if int(row["compute_ns"]) + int(row["communication_ns"]) >= MOST * int(row["busy_ns"]):
        name, share = facts.kernels["name"].iloc[0], float(facts.kernels["share"].iloc[0])
        of_it = cite_share(share, facts.of_kernels("share", name=name), select={"name": name})
        text = "Compute-bound: device {} is busy {}; {} takes {} of its work."
        return Verdict(
            "compute-bound", fill(text, number, when, facts.label(name), of_it), busy, {"name": name}
        )
    table = copies(facts.trace, **arguments)
    table = table[table["device"] == number]
    longest, more = str(table["direction"].iloc[0]) if len(table) else "", say("")
    size = table.loc[table["direction"] == longest, "bytes"]
    if longest and size.notna().all():
        source = Source("copies", "bytes", {"device": number, "direction": longest}, arguments)
        more = fill(", {} of it {}", cite_bytes(int(size.sum()), source), longest)
    compute, memory = (
        cite_ns(int(row[column]), Source("device", column, {"device": number}, arguments))
        for column in ("compute_ns", "memory_ns")
    )
    text = "Copy-bound: device {} is busy {}, but its kernels take only {}; it copies for {}{}."
    share = int(row["memory_ns"]) / max(int(row["window_ns"]), 1)
    return Verdict(
        "copy-bound", fill(text, number, when, compute, memory, more), share, {"category": "memcpy"}
    )


def _waits(facts: VerdictInputs, busy: float, number: int) -> Verdict | None:
    """Judge a steps' thread that waits for idle devices."""
    table = host_waits(facts.trace, window=facts.window)
    waits = table[table["kind"] == "waiting"]
    share = float(waits["share"].sum())
    if share < WAITING:
        return None
    whole = Source("host_waits", "total_ns", {}, facts.arguments)
    waiting = Source("host_waits", "total_ns", {"kind": "waiting"}, facts.arguments)
    first, total = waits.iloc[0], int(waits["total_ns"].sum())
    calls = {"category": "sync"} if facts.sync_ns > MOST * total else {"name": str(first["name"])}
    window = int(facts.device.loc[facts.device["device"] == number, "window_ns"].iloc[0])
    sentence = fill(
        "Sync-bound: the host waits for the device {} of {}, {} in {}, while device {} is busy for only "
        "{} of {}.",
        cite_share(share, waiting, whole, calls),
        facts.whole,
        "most of it" if first["total_ns"] > MOST * total else "longest",
        short(first["name"]),
        number,
        cite_ns(round(busy * window), of_device(facts, number, "busy_ns")),
        cite_ns(window, of_device(facts, number, "window_ns")),
    )
    return Verdict("sync-bound", sentence, share, calls)


def _idle(facts: VerdictInputs, busy: float, number: int, host: Verdict | None) -> Verdict:
    """Classify idle time. Falls back to `host` if no cause has half of it and the path is the host."""
    arguments: dict[str, Any] = {"window": tuple(facts.extent)}
    table = idle_causes(facts.trace, **arguments)
    table = table[table["device"] == number].set_index("cause")
    idle = cite_share(1 - busy, of_device(facts, number, "idle_ns"), of_device(facts, number, "window_ns"))
    begin = fill("evice {} is idle {} of {}", number, idle, _span(facts))

    def of(*causes: str) -> Claim:
        share = float(table.loc[list(causes), "share"].sum())
        where = {"device": number, "cause": causes}
        return cite_share(share, Source("idle_causes", "share", where, arguments))

    halves = MOST * (1 - busy)
    kernels = int(facts.kernels["count"].sum())
    if of(*_LAUNCHING).value > halves and kernels:
        count = cite_count(kernels, "kernel", facts.of_kernels("count"))
        text = "Launch-bound: d{}, {} waiting for the host to launch its {}."
        sentence = fill(text, begin, of(*_LAUNCHING), count)
        return Verdict("launch-bound", sentence, 1 - busy, {"category": "launch"})
    longest = str(table["idle_ns"].idxmax())
    if longest in _BOUND and of(longest).value > halves:
        kind = _BOUND[longest]
        text = "{}: d{}, {} waiting {}."
        return Verdict(kind, fill(text, kind.capitalize(), begin, of(longest), _FOR[longest]), 1 - busy)
    if host is not None and kernels:
        return host
    shown = table[table["share"] >= 0.01].sort_values("idle_ns", ascending=False).index[:3]
    pieces = [say(of(str(cause)), f" {_FOR[str(cause)]}") for cause in shown]
    sentence = say("D", begin, "; it waits " if pieces else "", say(*pieces, between=", "), ".")
    return Verdict("mixed", sentence, 1 - busy)
