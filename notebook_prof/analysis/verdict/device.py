"""What bounds a run with devices: their work, the host, waits for them, or one-time work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from ..device.busy import device
from ..device.copies import copies
from ..device.idle import idle_causes
from ..time.one_time import one_time
from ..time.thread_time import host_waits
from .claims import Claim, Sentence, Source, Verdict, cite_bytes, cite_count, cite_ns, cite_share, say, short
from .inputs import MOST, WAITING, VerdictInputs

BUSY_DEVICE: Final = 0.7
NOTICEABLE: Final = 0.1
"""Least share of the time from which one-time work is reported."""

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
    kinds = [
        say(
            _ONCE[str(row["kind"])],
            f" ({short(row['name'], 40)})" if row["kind"] != "first-step" else "",
            *(
                (" ", _one_time_share(facts, float(row["share"]), {"kind": str(row["kind"])}))
                if len(table) > 1
                else ()
            ),
        )
        for row in table[table["share"] >= NOTICEABLE / 10].to_dict("records")
    ]
    whole = say(
        _one_time_share(facts, share, {}), f" of {facts.whole} happens once: ", say(*kinds, between=", ")
    )
    if share <= MOST:
        return None, whole + "."
    row = table.iloc[0]
    select = {} if row["kind"] == "first-step" else {"name": row["name"]}
    sentence = say("One-time work: ", whole, "; record later steps to see what repeats.")
    return Verdict("one-time", sentence, share, select), None


def judge_device(facts: VerdictInputs, *, costly: bool) -> Verdict:
    """Judge a run with device work in which neither communication nor data takes much time."""
    # The device judged is the busiest from the first step to the last. *Compute-bound* from 70 % busy
    # (without steps, also from its first work to its last), but *launch-bound* if most of the critical path
    # is the host, which no faster device shortens, and *copy-bound* if it computes and communicates for less
    # than half of its busy time. Else *sync-bound* if the thread waits for devices at least 25 % of the time.
    # Else the cause of more than half of the idle time decides: *launch-bound* only if that is the host and
    # the latency of launches, and recording is not what slows the host down.
    busiest = facts.device.iloc[int(facts.device["busy_ns"].to_numpy().argmax())]
    number = int(busiest["device"])
    busy = int(busiest["busy_ns"]) / max(int(busiest["window_ns"]), 1)
    host = None if costly else _host_decides(facts, busy, number)
    if len(facts.kernels):
        if busy >= BUSY_DEVICE:
            if host is not None:
                return host
            share = cite_share(
                busy, of_device(facts, number, "busy_ns"), of_device(facts, number, "window_ns")
            )
            when, arguments = say(share, f" of {_span(facts)}"), {"window": tuple(facts.extent)}
            return _copies(busiest, arguments, when, facts) or _busy(facts, busy, when, number)
        if not len(facts.steps) and (judged := _busy_while_it_works(facts, number)) is not None:
            return host or judged
    return _waits(facts, busy, number) or _idle(facts, busy, number, host, costly=costly)


def _one_time_share(facts: VerdictInputs, share: float, where: dict[str, Any]) -> Claim:
    return cite_share(share, Source("one_time", "share", where, facts.arguments))


def _span(facts: VerdictInputs) -> str:
    """Say which window devices' times refer to, since there may be gaps between steps."""
    gaps = facts.extent.dur - facts.total_ns
    return "the time from the first step to the last" if gaps > 0.01 * facts.total_ns else facts.whole


def of_device(facts: VerdictInputs, number: int, column: str) -> Source:
    """Return the source of a column of `device` for one device."""
    return Source("device", column, {"device": number}, {"window": tuple(facts.extent)})


def _busy(facts: VerdictInputs, busy: float, when: Sentence, number: int) -> Verdict:
    kernel = facts.kernels.iloc[0]
    source = facts.of_kernels("share", name=kernel["name"])
    share, select = float(kernel["share"]), {"name": kernel["name"]}
    sentence = say(
        f"Compute-bound: device {number} is busy ",
        when,
        f"; {facts.label(kernel['name'])} takes ",
        cite_share(share, source, select=select),
        " of its work.",
    )
    return Verdict("compute-bound", sentence, busy, select)


def _host_decides(facts: VerdictInputs, busy: float, number: int) -> Verdict | None:
    """Judge a device that nothing waits for: most of the critical path is the host."""
    # Launches bound the device only if it is busy most of the time; otherwise the host does other things.
    if facts.path is None:
        return None
    host = float(facts.path.loc[facts.path.index.isin(HOST), "share"].sum())
    if host <= MOST:
        return None
    whose = "their" if len(facts.steps) else "its"
    lacking = busy > MOST
    sentence = say(
        f"{'Launch-bound: d' if lacking else 'D'}evice {number} is busy ",
        cite_share(busy, of_device(facts, number, "busy_ns"), of_device(facts, number, "window_ns")),
        f" of {_span(facts)}, {'but' if lacking else 'and'} ",
        cite_share(host, Source("critical_path", "share", {"class": HOST}, facts.path_arguments)),
        f" of {whose} critical path is the host, which launches ",
        _kernel_count(facts),
        ".",
    )
    select = {"category": "launch"} if lacking else {}
    return Verdict("launch-bound" if lacking else "mixed", sentence, host, select)


def _kernel_count(facts: VerdictInputs) -> Claim:
    count = int(facts.kernels["count"].sum())
    return cite_count(count, "kernel", facts.of_kernels("count"))


def _busy_while_it_works(facts: VerdictInputs, number: int) -> Verdict | None:
    """Judge a device that is idle mainly before its first and after its last work, as with a single step."""
    table = device(facts.trace, window=facts.window)
    own = table[table["device"] == number].iloc[0]
    span, busy = int(own["window_ns"]), int(own["busy_ns"]) / max(int(own["window_ns"]), 1)
    if busy < BUSY_DEVICE or span < MOST * facts.extent.dur:
        return None
    of = Source("device", "window_ns", {"device": number}, facts.arguments)
    share = cite_share(busy, Source("device", "busy_ns", {"device": number}, facts.arguments), of)
    when = say(
        share,
        " of the time from its first work to its last (",
        cite_ns(span, of),
        " of ",
        cite_ns(facts.extent.dur, of_device(facts, number, "window_ns")),
        ")",
    )
    return _copies(own, facts.arguments, when, facts) or _busy(facts, busy, when, number)


def _copies(
    row: pd.Series[Any], arguments: Mapping[str, Any], when: Sentence, facts: VerdictInputs
) -> Verdict | None:
    """Judge a device whose kernels take less than half of its busy time, so it is busy with copies."""
    number, busy = int(row["device"]), int(row["busy_ns"])
    if int(row["compute_ns"]) + int(row["communication_ns"]) >= MOST * busy:
        return None

    def part(column: str) -> Claim:
        of = {"device": number}
        return cite_ns(int(row[column]), Source("device", column, of, arguments))

    table = copies(facts.trace, **arguments)
    table = table[table["device"] == number]
    longest, more = str(table["direction"].iloc[0]) if len(table) else "", say("")
    size = table.loc[table["direction"] == longest, "bytes"]
    if longest and size.notna().all():
        source = Source("copies", "bytes", {"device": number, "direction": longest}, arguments)
        more = say(", ", cite_bytes(int(size.sum()), source), f" of it {longest}")
    sentence = say(
        f"Copy-bound: device {number} is busy ",
        when,
        ", but its kernels take only ",
        part("compute_ns"),
        "; it copies for ",
        part("memory_ns"),
        more,
        ".",
    )
    share = int(row["memory_ns"]) / max(int(row["window_ns"]), 1)
    return Verdict("copy-bound", sentence, share, {"category": "memcpy"})


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
    sentence = say(
        "Sync-bound: the host waits for the device ",
        cite_share(share, waiting, whole, calls),
        f" of {facts.whole}, ",
        "most of it in " if first["total_ns"] > MOST * total else "longest in ",
        f"{short(first['name'])}, while device {number} is busy for only ",
        cite_ns(round(busy * window), of_device(facts, number, "busy_ns")),
        " of ",
        cite_ns(window, of_device(facts, number, "window_ns")),
        ".",
    )
    return Verdict("sync-bound", sentence, share, calls)


def _idle(facts: VerdictInputs, busy: float, number: int, host: Verdict | None, *, costly: bool) -> Verdict:
    """Classify idle time. Falls back to `host` if no cause has half of it and the path is the host."""
    arguments: dict[str, Any] = {"window": tuple(facts.extent)}
    table = idle_causes(facts.trace, **arguments)
    table = table[table["device"] == number].set_index("cause")
    idle = cite_share(1 - busy, of_device(facts, number, "idle_ns"), of_device(facts, number, "window_ns"))
    begin = say(f"evice {number} is idle ", idle, f" of {_span(facts)}")

    def of(*causes: str) -> Claim:
        share = float(table.loc[list(causes), "share"].sum())
        where = {"device": number, "cause": causes}
        return cite_share(share, Source("idle_causes", "share", where, arguments))

    halves = MOST * (1 - busy)
    kernels = bool(facts.kernels["count"].sum())
    if of(*_LAUNCHING).value > halves and kernels and not costly:
        waiting = say(", ", of(*_LAUNCHING), " waiting for the host to launch its ", _kernel_count(facts))
        return Verdict(
            "launch-bound", say("Launch-bound: d", begin, waiting, "."), 1 - busy, {"category": "launch"}
        )
    longest = str(table["idle_ns"].idxmax())
    if longest in _BOUND and of(longest).value > halves:
        kind = _BOUND[longest]
        sentence = say(f"{kind.capitalize()}: d", begin, ", ", of(longest), f" waiting {_FOR[longest]}.")
        return Verdict(kind, sentence, 1 - busy)
    if host is not None and kernels:
        return host
    shown = table[table["share"] >= 0.01].sort_values("idle_ns", ascending=False).index[:3]
    pieces = [say(of(str(cause)), f" {_FOR[str(cause)]}") for cause in shown]
    sentence = say("D", begin, "; it waits " if pieces else "", say(*pieces, between=", "), ".")
    return Verdict("mixed", sentence, 1 - busy)
