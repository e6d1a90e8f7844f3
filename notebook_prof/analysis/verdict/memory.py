"""The verdict's lines about memory: the peak, its processes, and the variables that hold it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pandas as pd

from ..memory.curve import RECORDER_SHARE, memory_processes
from ..memory.growth import matters
from ..memory.names import FEWEST_STEPS, MAPPED, memory_names
from .claims import Claim, Sentence, Source, cite, cite_bytes, cite_ns, cite_share, fill, say, short
from .inputs import VerdictInputs

_SMALL: Final = 0.01
"""Minimum share of the peak for which child processes are named."""
_LONGEST: Final = 60


def memory_line(facts: VerdictInputs) -> Sentence:
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
    """Name the variable that grows most and, after an out-of-memory error, the one that holds most."""
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
        pieces.append(fill("not enough: `{}` holds {}, {} of what is used", short(largest["name"]), *held))
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
    size, name = int(first["bytes"]), " ".join(str(first["name"]).split())[:_LONGEST]
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
