"""NVTX: ranges and marks as annotations, PyTorch's as operators; steps and phases by their names."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...readers.codec.columns import (
    FLOATS,
    INTS,
    MISSING,
    TEXTS,
    Kind,
    TableRows,
    Texts,
    groups,
    marked,
    texts,
    texts_in,
)
from ...readers.events import add_arguments, argument_rows, lanes
from ...trace.arrays import BoolArray, IntArray
from ...trace.strings import Coded, by_value
from ...trace.taxonomy import is_collective_range, phase_of
from .session import NsysSession

_MARK, _NESTED, _FREE = 34, 59, 60
_NAMES: Final = (33, 39, 75, 76)
"""Rows that name categories, threads and domains, and rows of NVTX itself."""
_CATEGORY, _THREAD, _DOMAIN = 33, 39, 75
_VALUES: Final[dict[str, Kind]] = {
    **dict.fromkeys(("uint64Value", "int64Value", "uint32Value", "int32Value"), INTS),
    **dict.fromkeys(("doubleValue", "floatValue"), FLOATS),
}
_PREFIX: Final = re.compile(r"^(?:\[[^\]]*\]\s*)+|^:+")
_NUMBER: Final = re.compile(r"[\s_#:=(-]*\d+\)?$")
_STEP: Final = re.compile(
    r"(?P<word>ProfilerStep|(?:(?:global|train|training)[ _-]?)?step|iteration|iter|batch)"
    r"[\s_#:=-]*\(?(?P<number>\d{1,9})\)?",
    re.IGNORECASE,
)
_STEP_WORDS: Final = ("profilerstep", "step", "iteration", "iter", "batch")
"""The ranges of the first of these that occurs are the steps."""
_PART: Final = r"(?:[ _-]?(?:pass|step|compute|func|function))?"
_PHASES: Final = tuple(
    (phase, re.compile(pattern))
    for phase, pattern in (
        (
            "data",
            r"(?:data|input)(?:[ _-]?(?:load(?:ing|er)?|fetch(?:ing)?|wait|next|iter))?"
            r"|(?:load|fetch|get|next|prepare)[ _-]?(?:next[ _-]?)?(?:data|batch|inputs?)"
            r"|batch[ _-]?(?:load(?:ing)?|fetch(?:ing)?|generator)",
        ),
        ("forward", rf"(?:\w+\.)*(?:forward|fwd){_PART}"),
        ("backward", rf"(?:\w+\.)*(?:backward|bwd){_PART}"),
        ("optimizer", r"(?:\w+\.)*(?:optimizer|optim|opt)(?:[ ._-]?(?:step|update))?|zero[ _-]?grad"),
        (
            "communication",
            r"comm(?:unication)?|all[ _-]?reduce|all[ _-]?gather|reduce[ _-]?scatter|all[ _-]?to[ _-]?all"
            r"|grad(?:ient)?s?[ _-](?:sync|reduce|all[ _-]?reduce|reduction)",
        ),
        ("evaluation", r"(?:eval|evaluate|evaluation|valid|validat(?:e|ion))(?:[ _-]?(?:step|epoch|loop))?"),
    )
)


def phase_of_range(name: str) -> str | None:
    """Return the phase that a range is named after; None for other names."""
    if (proved := phase_of(name)) is not None:
        return proved
    word = _NUMBER.sub("", _PREFIX.sub("", name.strip())).strip().lower()
    return next((phase for phase, pattern in _PHASES if pattern.fullmatch(word)), None)


def step_of_range(name: str) -> tuple[str, int] | None:
    """Return the word and the number of a range that is named after a step."""
    match = _STEP.fullmatch(_PREFIX.sub("", name.strip()).strip())
    if match is None:
        return None
    word = match["word"].lower()
    return "step" if word.endswith("step") and word != "profilerstep" else word, int(match["number"])


def add_ranges(session: NsysSession) -> None:
    """Put NVTX's ranges and marks into the builder."""
    # Ranges that were pushed and popped are on their thread; those that were started and ended may
    # overlap, and have lanes beside it. Domains, categories and payloads are in `event_arguments`.
    kinds: dict[str, Kind] = {
        **dict.fromkeys(("start", "end", "eventType", "globalTid", "textId", "domainId", "category"), INTS),
        **_VALUES,
        **dict.fromkeys(("text", "jsonText"), TEXTS),
    }
    every = session.rows("NVTX_EVENTS", kinds)
    kind = every.ints("eventType")
    shown = np.isin(kind, (_MARK, _NESTED, _FREE))
    session.builder.report.add_where(
        "row-not-used",
        "loss",
        ~shown & ~np.isin(kind, _NAMES),
        lambda i: f"NVTX eventType {kind[i]}",
        "these rows of NVTX_EVENTS are left out",
        "report the type to notebook_prof",
    )
    _name_threads(session, every.where(kind == _THREAD))
    rows = every.where(shown)
    if not len(rows):
        return
    kind = kind[shown]
    name, shapes, is_operator = _names(session, rows)
    ts, dur = session.times(rows)
    dur = np.where(kind == _MARK, 0, dur)
    is_open = (kind != _MARK) & (rows.ints("end", MISSING) == MISSING)
    until = "kept until the end of the session"
    session.builder.report.add_where(
        "unclosed-begin", "loss", is_open, lambda i: name.values[name.codes[i]], until
    )
    track = _tracks(session, rows, kind == _FREE, ts, ts + dur)
    category = np.where(is_operator, 1, np.where(marked(name, is_collective_range), 2, 0))
    session.builder.slices(
        ts=ts,
        dur=dur,
        track=track,
        name=name,
        category=Coded(category, ["annotation", "operator", "collective"]),
        phase=by_value(name.codes, [phase_of_range(text) for text in name.values]),
        shapes=shapes,
    )
    _steps(session, name, ts, dur, track, kind != _MARK)
    _arguments(session, every, rows, name, ts, dur, track)


def _name_threads(session: NsysSession, rows: TableRows) -> None:
    """Use the names that the program gave its threads."""
    if len(rows):
        by_id = texts(session.names(rows.ints("textId")))
        inline = texts_in(rows.texts("text")) or [""] * len(rows)
        for thread, *names in zip(rows.ints("globalTid").tolist(), inline, by_id, strict=True):
            if name := next(filter(None, names), ""):
                session.thread_names[thread] = name


def _names(session: NsysSession, rows: TableRows) -> tuple[Coded, Coded | None, BoolArray]:
    """Return names, the shapes that PyTorch's `emit_nvtx` appends to them, and whether it did."""
    import pyarrow.compute as pc

    by_id = session.names(rows.ints("textId"))
    inline = rows.texts("text")
    operator, shapes = np.zeros(len(rows), bool), None
    own = Coded(np.full(len(rows), -1, np.int64), [])
    if inline is not None and inline.present.any():
        cut = inline
        for mark in (", seq = ", ", op_id = "):
            cut, has = cut.before(mark)
            operator |= has
        if operator.any() and pc.any(pc.match_substring(inline.array, ", sizes = ")).as_py():
            shapes = _shapes(inline)
        own = cut.coded()
    shift = len(own.values)
    codes = np.where(own.codes >= 0, own.codes, np.where(by_id.codes >= 0, by_id.codes + shift, -1))
    name = Coded(codes, [*own.values, *by_id.values]).named("unnamed range")
    return name, shapes, operator


def _shapes(inline: Texts) -> Coded:
    """Return the text after ``sizes =``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = pc.split_pattern(inline.array, ", sizes = ", max_splits=1)
    none = pa.scalar(["", None], pa.list_(pa.large_string()))
    several = pc.greater(pc.list_value_length(parts), 1).fill_null(False)
    sizes = pc.list_element(pc.if_else(several, parts, none), 1)
    return Texts(sizes).before(", input_op_ids = ")[0].coded()


def _tracks(session: NsysSession, rows: TableRows, free: BoolArray, ts: IntArray, end: IntArray) -> IntArray:
    """Return the thread of each range, or a lane beside it for ranges that may overlap."""
    thread = rows.ints("globalTid")
    track = np.empty(len(rows), np.int64)
    track[~free] = session.threads(thread[~free])
    of_free = np.flatnonzero(free)
    for number in pd.unique(thread[of_free]):
        own = of_free[thread[of_free] == number]
        lane = lanes(ts[own], end[own])
        for each in range(int(lane.max(initial=-1)) + 1):
            what = "NVTX" + (f" {each + 1}" if each else "")
            track[own[lane == each]] = session.threads(thread[own[:1]], what)
    return track


def _steps(
    session: NsysSession, name: Coded, ts: IntArray, dur: IntArray, track: IntArray, is_range: BoolArray
) -> None:
    """Add the ranges that are named after steps, of the thread that has the most of them."""
    facts = [step_of_range(text) for text in name.values]
    word = np.array([*(_STEP_WORDS.index(step[0]) if step else -1 for step in facts), -1])[name.codes]
    number = np.array([*(step[1] if step else -1 for step in facts), -1], np.int64)[name.codes]
    rows = np.flatnonzero((word >= 0) & is_range)
    if not len(rows):
        return
    rows = rows[word[rows] == word[rows].min()]
    threads, counts = np.unique(track[rows], return_counts=True)
    own = rows[track[rows] == threads[np.argmax(counts)]]
    own = own[np.argsort(ts[own], kind="stable")]
    report = session.builder.report
    effect = "steps are those of the thread that has the most"
    report.add("steps-of-other-threads", "info", len(rows) - len(own), effect=effect)
    numbers = number[own]
    if len(np.unique(numbers)) < len(numbers):
        effect = "numbers occur more than once, as in several epochs: steps are numbered in order of time"
        report.add("steps-renumbered", "info", len(numbers), name.values[name.codes[own[0]]], effect)
        numbers = np.arange(len(numbers))
    session.builder.steps(numbers, ts[own], dur[own], "file")


def _arguments(
    session: NsysSession,
    every: TableRows,
    rows: TableRows,
    name: Coded,
    ts: IntArray,
    dur: IntArray,
    track: IntArray,
) -> None:
    """Add the arguments of ranges: payload, category, and a domain other than the default."""
    in_json = rows.texts("jsonText")
    json = in_json.coded() if in_json is not None else Coded(np.full(len(rows), -1, np.int64), [])
    columns: list[Any] = [rows.ints("domainId", 0), rows.ints("category", 0)]
    columns += [
        rows.floats(each) if kind == FLOATS else rows.ints(each, MISSING) for each, kind in _VALUES.items()
    ]
    columns.append(json.codes)
    code, first = groups(*columns)
    domains, categories = _registered(every, _DOMAIN, "domainId"), _registered(every, _CATEGORY, "category")
    objects = []
    for i in first.tolist():
        domain, category = int(columns[0][i]), int(columns[1][i])
        facts: dict[str, Any] = {}
        if domain:
            facts["domain"] = domains.get(domain, str(domain))
        if category:
            facts["category"] = categories.get(category, str(category))
        payload = [values[i].item() for values in columns[2:-1]]
        payload = [value for value in payload if value not in (MISSING, None) and value == value]
        if payload:
            facts["payload"] = payload[0]
        if json.codes[i] >= 0:
            facts["json"] = json.values[int(json.codes[i])]
        objects.append(msgspec.json.encode(facts).decode() if facts else "")
    arguments = Coded(np.where(np.array([*map(bool, objects), False])[code], code, -1), objects)
    add_arguments(session.builder, [argument_rows(track, ts, dur, name, arguments)])


def _registered(every: TableRows, kind: int, key: str) -> dict[int, str]:
    """Return names of domains or categories, by number."""
    rows = every.where(every.ints("eventType") == kind)
    names = texts_in(rows.texts("text"))
    numbers = rows.ints(key, 0).tolist()
    return {number: name for number, name in zip(numbers, names, strict=False) if name}
