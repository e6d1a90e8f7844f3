"""What a verdict says of drawn traces: its tables must carry it."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from notebook_prof import Trace, TraceBuilder, analysis
from notebook_prof.analysis import Claim
from notebook_prof.analysis.time.thread_time import judged_span
from notebook_prof.testing import draw
from tests.strategies import traces

NUMBER = re.compile(r"(?<![\w.])<?\d[\d,]*(?:\.\d+)? (?:%|ns|µs|ms|s|min|h)(?!\w)")
"""Shares and durations, as verdicts write them."""
CONSTANTS = ("less than 10 µs", "under 10 µs", "takes 1 % of")
ANOTHER_WHOLE = re.compile(r" of (?:its|their|that|what|the device's) ")
"""Words that name another whole than the sentence's."""


HOST = ("launch-call", "launch-latency", "host-operator", "python", "overhead")
"""Classes of a critical path in which the host takes the time."""


def value_of(result: analysis.Verdict, column: str) -> Any:
    """The first number of the verdict that comes from this column, or is a share of it."""
    return next(claim.value for claim in result.claims if claim.column == column)


def tables_of(trace: Trace) -> Callable[..., pd.DataFrame]:
    """Public analyses by name and arguments, each worked out once."""
    cache: dict[tuple[str, str], pd.DataFrame] = {}

    def table(name: str, arguments: Any) -> pd.DataFrame:
        key = (name, repr(sorted(arguments.items())))
        if key not in cache:
            cache[key] = getattr(analysis, name)(trace, **arguments)
        return cache[key]

    return table


def cell(tables: Callable[..., pd.DataFrame], source: Any) -> Any:
    """The number that a claim or its whole names, looked up independently of `Claim.evaluate`."""
    table = tables(source.table, source.arguments)
    keep = pd.Series(True, index=table.index)
    for name, value in source.where.items():
        values_of = value if isinstance(value, tuple) else (value,)
        keep &= pd.Series([got in values_of for got in table[name].tolist()], index=table.index)
    values = table.loc[keep.to_numpy(dtype=bool), source.column]
    if source.reduce == "count":
        return len(values)
    if len(values) and isinstance(values.iloc[0], str):
        return values.iloc[0]
    return getattr(values, source.reduce)() if len(values) else 0


def check_claims(trace: Trace) -> tuple[analysis.Verdict, list[float]]:
    """Every number is the cell that it names, stands where it says, and no share exceeds the whole."""
    # returned beside the verdict: what each claim is a share of, as the tables have it; 0 where it is none
    result, table = analysis.verdict(trace), tables_of(trace)
    wholes = []
    for claim in result.claims:
        value, of, whole = cell(table, claim), claim.of, 0.0
        if of is not None:
            whole = float(cell(table, of))
            value /= max(whole, 1)
        wholes.append(whole)
        if isinstance(value, str):
            assert value == claim.value, claim
        else:
            assert float(value) == pytest.approx(float(claim.value), rel=1e-9, abs=1e-9), claim
        line = result.lines[claim.line]
        assert line[claim.start : claim.start + len(claim.text)] == claim.text
        if claim.text.endswith("%"):
            assert 0 <= claim.value <= 1 + 1e-9, claim
    return result, wholes


def without_claims(result: analysis.Verdict, number: int) -> str:
    """A line of the verdict without the pieces that tables prove, and without names of code."""
    line, at, text = result.lines[number], 0, ""
    for claim in sorted((c for c in result.claims if c.line == number), key=lambda c: c.start):
        text += line[at : claim.start] + "#"
        at = claim.start + len(claim.text)
    text = re.sub(r"`[^`]*`", "", text + line[at:])
    for constant in CONSTANTS:
        text = text.replace(constant, "")
    return text


def shares(result: analysis.Verdict, line: int) -> list[Claim]:
    return [claim for claim in result.claims if claim.line == line and claim.text.endswith("%")]


def check_words(result: analysis.Verdict, wholes: list[float]) -> None:
    """ "Most" is over half of what it names; a sentence has one whole or names the other."""
    for number, line in enumerate(result.lines):
        assert not NUMBER.search(without_claims(result, number)), without_claims(result, number)
        for match in re.finditer(r"\b[Mm]ost(?:ly)? of (?!it\b)", line):
            largest = [claim for claim in shares(result, number) if claim.start > match.start()]
            assert largest, line
            assert largest[0].value > 0.5, line
        if line.startswith("Kernels: "):
            labels = [piece.rpartition(" ")[0].rpartition(" ")[0] for piece in line[9:].split(" · ")]
            assert len(set(labels)) == len(labels), line
        if line.startswith("Phases: "):
            assert sum(claim.value for claim in shares(result, number)) <= 1 + 1e-9, line
    of = [(c, whole) for c, whole in zip(result.claims, wholes, strict=True) if c.line == 0 and c.of]
    for (before, one), (after, other) in pairwise(of):
        between = result.lines[0][before.start : after.start + len(after.text) + 24]
        assert one == pytest.approx(other, rel=0.01) or ANOTHER_WHOLE.search(between), result.lines[0]


def check_kind(trace: Trace, result: analysis.Verdict) -> None:
    """The kind is one that public tables allow."""
    once = float(analysis.one_time(trace)["share"].sum())
    assert once <= 1 + 1e-9
    if result.kind == "one-time":
        assert once > 0.5
    waits = analysis.host_waits(trace)
    waiting = waits[waits["kind"] == "waiting"]
    if result.kind == "launch-bound":
        assert once <= 0.5
        assert waiting["share"].sum() < 0.25 or "critical path" in result.sentence
        begin, end = (int(side[at]) for side, at in zip(judged_span(trace), (0, -1), strict=True))
        causes = analysis.idle_causes(trace, window=(begin, end))
        causes = causes[causes["device"] == result.claims[0].where["device"]]
        host = causes["cause"].isin(["host-bound", "launch-latency"])
        most_idle = causes.loc[host, "idle_ns"].sum() > causes.loc[~host, "idle_ns"].sum()
        pieces = analysis.critical_path(trace, window=(begin, end), end="last")
        on_host = pieces["class"].isin(HOST)
        if "critical path" in result.sentence:
            assert pieces.loc[on_host, "dur_ns"].sum() > pieces.loc[~on_host, "dur_ns"].sum()
        else:
            assert most_idle
    if result.kind == "sync-bound" and "most of it in" in result.sentence:
        assert waiting["total_ns"].iloc[0] > waiting["total_ns"].sum() / 2
    if result.kind == "communication-bound" and len(trace.steps):
        table = analysis.phases(trace)
        spent = table.loc[table["phase"] == "communication", "host_ns"].sum()
        assert result.share == pytest.approx(spent / table["host_ns"].sum())
        claims = [
            c
            for c in result.claims
            if result.lines[c.line].startswith("Phases") and "communication" in c.where.values()
        ]
        assert claims[0].text in result.sentence
    if result.kind in ("python-bound", "library-bound"):
        assert (trace.slices["category"] == "python").any()


def check_verdict(trace: Trace) -> None:
    """All that holds of what is said of a recording."""
    result, wholes = check_claims(trace)
    check_words(result, wholes)
    check_kind(trace, result)
    check_sums(trace)


def check_sums(trace: Trace) -> None:
    """Steps, the host's time and each device's add up, over the same span."""
    start, end = judged_span(trace)
    waits = analysis.host_waits(trace)
    if len(waits):
        assert waits["total_ns"].sum() == (end - start).sum()
        assert waits["share"].sum() == pytest.approx(1)
    device, causes = analysis.device(trace), analysis.idle_causes(trace)
    assert (device["busy_ns"] + device["idle_ns"] == device["window_ns"]).all()
    assert (device["exposed_communication_ns"] <= device["communication_ns"]).all()
    of_device = causes.groupby("device")
    assert of_device["idle_ns"].sum().tolist() == device["idle_ns"].tolist()
    assert of_device["window_ns"].first().tolist() == device["window_ns"].tolist()
    sums = of_device["share"].sum().to_numpy() + (device["busy_ns"] / device["window_ns"].clip(lower=1))
    assert np.allclose(sums[device["window_ns"] > 0], 1)
    phases = analysis.phases(trace)
    assert phases.groupby("step")["host_ns"].sum().sum() == trace.steps["dur"].sum()
    account = analysis.account(trace)
    if len(account):
        assert account["dur"].sum() == trace.span.dur
        assert account["share"].sum() == pytest.approx(1)


@given(traces())
def test_what_is_said_of_drawn_traces(trace: Trace) -> None:
    check_verdict(trace)


def test_a_blocking_copy_is_no_launch() -> None:
    """A server on MI300: the thread stands in ``hipMemcpyWithStream`` for all but 1 % of its time."""
    builder = TraceBuilder(metadata={"source": "kineto"})
    main, stream = builder.track("main"), builder.track("gpu", "stream", device=0, stream=7)
    names, kinds = (
        ["aten::argmax", "hipLaunchKernel", "hipMemcpyWithStream"],
        ["operator", "launch", "launch"],
    )
    calls = builder.slices(ts=[0, 20, 100], dur=[100, 50, 9_900], name=names, category=kinds, track=main)
    work = builder.slices(ts=80, dur=4_000, name="argmax", category="kernel", track=stream)
    builder.flows("launch", calls[1:2], work)
    trace = builder.seal()
    first = analysis.host_waits(trace).iloc[0]
    assert (first["kind"], first["name"], first["share"]) == ("waiting", "hipMemcpyWithStream", 0.99)
    result, wholes = check_claims(trace)
    check_words(result, wholes)
    assert result.kind == "sync-bound"
    assert "99.0 %" in result.sentence
    assert "hipMemcpyWithStream" in result.sentence


STEPS = ([0, 1], [0, 40], [13, 30])
OVER_THE_EDGE: dict[str, tuple[Any, ...]] = {
    # 44 ns out of steps of 43 ns were "102.3 %"
    "a name": ([2, 48], [60, 44], ["conv"] * 2, ["annotation", "python"], STEPS, "Own time: conv 100.0 %"),
    "an operator": (
        *([2, 48], [20, 44], ["relu", "conv"], ["operator"] * 2, STEPS),
        "conv alone takes 68.8 % of the work begun in the steps",
    ),
    # only an instant of the slice lies in the step; its whole duration is a claim, too
    "work from before": (
        *([0, 50], [40, 0], ["mm", "mark"], ["operator", "annotation"], ([0], [5], [67])),
        "Nothing that began in the steps took time: of 67 ns, only 1 instant",
    ),
}


@pytest.mark.parametrize("name", OVER_THE_EDGE)
def test_what_begins_or_ends_outside_of_the_steps_takes_no_more_than_they_do(name: str) -> None:
    ts, dur, names, kinds, steps, said = OVER_THE_EDGE[name]
    builder = TraceBuilder()
    builder.slices(ts=ts, dur=dur, name=names, category=kinds, track=builder.track("main"))
    builder.steps(*steps, "loop")
    result, wholes = check_claims(builder.seal())
    check_words(result, wholes)
    assert said in str(result)


def test_a_wrong_claim_is_found() -> None:
    """The checks above can fail."""
    trace = draw("main: [mm  ][ad]")
    claim = Claim("operators", "share", {"name": "mm"}, text="60.0 %", value=0.6)
    assert claim.holds(trace)
    assert not replace(claim, text="61.0 %", value=0.61).holds(trace)
    assert NUMBER.search("it takes 61.0 % of")
    assert NUMBER.search("(5 µs)")
    assert not NUMBER.search("device 0 is")
