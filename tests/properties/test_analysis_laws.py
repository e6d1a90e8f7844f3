"""What holds of the analyses for any trace, checked against definitions instant by instant."""

import inspect
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from notebook_prof import TraceBuilder, analysis
from notebook_prof.analysis.time.phases import PRIORITY, stepping_track
from notebook_prof.analysis.time.thread_time import judged_span
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.testing import draw
from notebook_prof.trace import DEVICE_CATEGORIES, PHASES, length, union
from tests.strategies import traces

from ..draws import draws

END = 120
windows = st.tuples(st.integers(0, END), st.integers(0, END)).filter(lambda pair: pair[0] < pair[1])


def by_kind(trace, kind):
    tracks = trace.tracks
    return trace.slices["track"].isin(tracks.loc[tracks["kind"] == kind, "track"]).to_numpy()


def open_at(slices, rows, t):
    """Rows whose slice is open at the instant, latest started last."""
    ts, end = slices["ts"].to_numpy(), (slices["ts"] + slices["dur"]).to_numpy()
    return [i for i in rows if ts[i] <= t < end[i]]


def owners(trace, window):
    """Nanoseconds in the window that each host slice owns, by definition."""
    slices = trace.slices
    host = np.flatnonzero(by_kind(trace, "thread"))
    own = Counter()
    for track in slices["track"].iloc[host].unique():
        rows = [i for i in host if slices["track"].iloc[i] == track]
        for t in range(*window):
            if there := open_at(slices, rows, t):
                own[there[-1]] += 1
    return own


@given(traces(), windows)
def test_operators_self_time_is_what_each_name_owns_in_the_window(trace, window):
    expected = Counter()
    for row, ns in owners(trace, window).items():
        expected[trace.slices["name"].iloc[row]] += ns
    table = analysis.operators(trace, window=window)
    assert dict(zip(table["name"], table["self_ns"], strict=True)) == {
        name: expected[name] for name in table["name"]
    }
    assert table["self_ns"].sum() == expected.total()


@given(traces(), windows)
def test_operators_total_is_time_with_the_name_open(trace, window):
    slices = trace.slices
    host = np.flatnonzero(by_kind(trace, "thread"))
    expected = Counter()
    for name, track in {(slices["name"].iloc[i], slices["track"].iloc[i]) for i in host}:
        rows = [i for i in host if (slices["name"].iloc[i], slices["track"].iloc[i]) == (name, track)]
        expected[name] += sum(bool(open_at(slices, rows, t)) for t in range(*window))
    table = analysis.operators(trace, window=window)
    for name, total in zip(table["name"], table["total_ns"], strict=True):
        assert total == expected[name]
    assert (table["total_ns"] >= table["self_ns"]).all()


@given(traces())
def test_operators_self_time_sums_to_busy_time_of_threads(trace):
    slices = trace.slices
    busy = 0
    for track in slices.loc[by_kind(trace, "thread"), "track"].unique():
        part = slices[slices["track"] == track]
        busy += length(union(part["ts"], part["ts"] + part["dur"]))
    assert analysis.operators(trace)["self_ns"].sum() == busy
    assert analysis.hotspots(trace)["self_ns"].sum() == busy
    assert analysis.operators(trace, by=("name", "module", "phase"))["self_ns"].sum() == busy


@given(traces(steps=False), st.sampled_from(["name", ("name", "module"), "phase"]))
def test_device_time_reaches_everything_around_the_launch_once(trace, by):
    columns = [by] if isinstance(by, str) else list(by)
    slices = trace.slices

    def key(row):
        return tuple(None if v != v else v for v in (slices[c].iloc[row] for c in columns))

    own, total = Counter(), Counter()
    parent = slices["parent"].to_numpy(dtype=np.int64, na_value=-1)
    plumbing = slices["category"].isin(["launch", "sync", "overhead"]).to_numpy()
    for src, dst in zip(trace.flows["src"], trace.flows["dst"], strict=True):
        around, row = [], int(src)
        while row >= 0:
            around.append(row)
            row = parent[row]
        launcher = next((r for r in around if not plumbing[r]), int(src))
        dur = int(slices["dur"].iloc[dst])
        own[key(launcher)] += dur
        for group in {key(r) for r in around[around.index(launcher) :]}:
            total[group] += dur
    table = analysis.operators(trace, by=by)
    labels = [tuple(None if v != v else v for v in row) for row in table[columns].values]
    assert dict(zip(labels, table["device_self_ns"], strict=True)) == {k: own[k] for k in labels}
    assert dict(zip(labels, table["device_ns"], strict=True)) == {k: total[k] for k in labels}


@given(traces(), windows)
def test_phases_sum_to_the_steps(trace, window):
    for table, spans in (
        (analysis.phases(trace), analysis.steps(trace)),
        (analysis.phases(trace, window=window), analysis.steps(trace, window=window)),
    ):
        assert (table["host_ns"] >= 0).all()
        assert table["phase"].tolist() == list(PHASES) * len(spans)
        sums = table.groupby("step")["host_ns"].sum()
        assert sums.tolist() == spans["dur"].tolist()


def around_closures(slices):
    """Rows of the optimizer with forward or backward in them, by a chain of the optimizer's rows."""
    rows = set()
    for i in range(len(slices)):
        if slices["phase"].iloc[i] in ("forward", "backward"):
            above = slices["parent"].iloc[i]
            while above is not pd.NA and slices["phase"].iloc[above] == "optimizer":
                rows.add(int(above))
                above = slices["parent"].iloc[above]
    return rows


def phase_at(trace, track, t):
    """Rule 1 of the notes of `phases`, for one instant; None where it is silent."""
    slices = trace.slices
    host = np.flatnonzero(by_kind(trace, "thread"))
    closures = around_closures(slices)
    there = {
        slices["phase"].iloc[i]
        for i in open_at(slices, host, t)
        if (slices["track"].iloc[i] == track or slices["phase"].iloc[i] == "backward") and i not in closures
    }
    return next((name for name in (*PRIORITY, "other") if name in there), None)


def communicates_at(trace, track, t):
    """Rule 4 of the notes of `phases`, for one instant."""
    slices = trace.slices
    device = np.flatnonzero(by_kind(trace, "stream"))
    running = {slices["category"].iloc[i] for i in open_at(slices, device, t)}
    if "collective" not in running or "kernel" in running:
        return False
    call = dict(zip(trace.flows["dst"], trace.flows["src"], strict=True))
    if not call:
        return True
    ends = slices["ts"] + slices["dur"]
    queued = any(
        ends.iloc[call[i]] <= t < slices["ts"].iloc[i]
        for i in device
        if i in call and slices["category"].iloc[i] != "collective"
    )
    launching = {slices["track"].iloc[src] for src in call.values()} | {track}
    waits = any(
        slices["category"].iloc[i] == "sync" and slices["track"].iloc[i] in launching
        for i in open_at(slices, np.flatnonzero(by_kind(trace, "thread")), t)
    )
    return queued or waits


@given(traces())
def test_phases_are_their_definition(trace):
    assume(len(trace.steps))
    track = stepping_track(trace)
    table = analysis.phases(trace).set_index(["step", "phase"])["host_ns"]
    slices = trace.slices
    elsewhere = by_kind(trace, "thread") & (slices["track"] != track).to_numpy()
    elsewhere &= (slices["category"] == "collective").to_numpy()
    for step, start, dur in zip(trace.steps["step"], trace.steps["ts"], trace.steps["dur"], strict=True):
        label = [phase_at(trace, track, t) for t in range(start, start + dur)]
        named = [i for i, name in enumerate(label) if name]
        for i, j in pairwise(named):
            if label[i] == label[j]:
                label[i:j] = [label[i]] * (j - i)
        for i, name in enumerate(label):
            waits = open_at(slices, np.flatnonzero(elsewhere), start + i)
            label[i] = name or ("communication" if waits else "other")
            if communicates_at(trace, track, start + i):
                label[i] = "communication"
        counts = Counter(label)
        assert {name: table[step, name] for name in PHASES} == {name: counts[name] for name in PHASES}


def kind_at(trace, track, t):
    """What the thread does at an instant, by the definition of `host_waits`."""
    slices = trace.slices
    host = np.flatnonzero(by_kind(trace, "thread") & (slices["track"] == track).to_numpy())
    there = {slices["category"].iloc[i] for i in open_at(slices, host, t)}
    rules = (("waiting", {"sync"}), ("launching", {"launch"}), ("communication", {"collective"}))
    for kind, categories in (*rules, ("computing", {"operator", "module", "python"})):
        if there & categories:
            return kind
    return "other"


@given(traces())
def test_host_waits_are_their_definition(trace):
    track = stepping_track(trace)
    table = analysis.host_waits(trace)
    starts, ends = judged_span(trace)
    assume(len(table))
    counts = Counter(kind_at(trace, track, t) for a, b in zip(starts, ends, strict=True) for t in range(a, b))
    assert table.groupby("kind")["total_ns"].sum().to_dict() == dict(counts)
    assert table["total_ns"].sum() == (ends - starts).sum()
    assert abs(table["share"].sum() - 1) < 1e-9


@given(traces())
def test_device_busy_and_idle_sum_to_the_window(trace):
    table = analysis.device(trace)
    assert (table["busy_ns"] + table["idle_ns"] == table["window_ns"]).all()
    work = by_kind(trace, "stream") & trace.slices["category"].isin(DEVICE_CATEGORIES).to_numpy()
    rows = np.flatnonzero(work)
    busy = sum(bool(open_at(trace.slices, rows, t)) for t in range(END))
    assert table["busy_ns"].sum() == busy
    assert (table["exposed_communication_ns"] <= table["communication_ns"]).all()


@given(traces(), windows)
def test_kernels_add_up_what_lies_in_the_window(trace, window):
    table = analysis.kernels(trace, window=window).set_index("name")
    work = trace.slices[by_kind(trace, "stream")]
    expected = defaultdict(int)
    for name, ts, dur in zip(work["name"], work["ts"], work["dur"], strict=True):
        expected[name] += max(0, min(ts + dur, window[1]) - max(ts, window[0]))
    assert {name: table["total_ns"][name] for name in table.index} == {
        name: expected[name] for name in table.index
    }
    assert table["total_ns"].sum() == sum(expected.values())


@given(traces(), st.integers(0, END))
def test_live_blocks_are_those_not_freed_yet(trace, at):
    events = trace.allocations
    live = {}
    for ts, addr, size in zip(events["ts"], events["addr"], events["bytes"], strict=True):
        if ts > at:
            break
        live.pop(addr, None)
        if size > 0:
            live[addr] = size
    first = {}
    for addr, size in zip(events["addr"], events["bytes"], strict=True):
        first.setdefault(addr, size)
    for ts, addr, size in zip(events["ts"], events["addr"], events["bytes"], strict=True):
        if first.get(addr) == size and size < 0:
            if ts > at:
                live[addr] = -size
            first.pop(addr)
    table = analysis.memory_live(trace, at)
    assert dict(zip(table["addr"], table["bytes"], strict=True)) == live
    assert table["bytes"].is_monotonic_decreasing


NEEDED = {"sandwich": ("mm",), "why": (0,)}
ANALYSES = [name for name in analysis.__all__ if name[0].islower()]  # results have names of their own
WORDS = ("by", "metric", "order", "rule", "end", "phase", "at")
"""Options that take one of some words."""


def asked(name, trace, **options):
    changed = {"data": 0} if name == "what_if" else {}
    return getattr(analysis, name)(trace, *NEEDED.get(name, ()), **changed, **options)


@settings(max_examples=draws(4))  # sixty analyses each
@given(traces())
def test_an_analysis_does_not_change_its_input(trace):
    before = {
        name: getattr(trace, name).copy(deep=True) for name in ("slices", "steps", "allocations", "flows")
    }
    for name in ANALYSES:
        with suppress(SelectionError):  # of traces without threads, or without time, why() has none to tell
            asked(name, trace)
    for name, table in before.items():
        assert getattr(trace, name).equals(table), name


def test_of_nothing_an_analysis_gives_an_empty_table_with_all_columns():
    nothing, some = TraceBuilder().seal(), draw("steps: [0    ]\nmain: [mm ]\nstream 7: [gemm]")
    answers = {name: asked(name, nothing) for name in ANALYSES if name != "why"}
    tables = {name: one for name, one in answers.items() if isinstance(one, pd.DataFrame)}
    assert {*answers} - {*tables} == {"metrics", "overview", "verdict", "what_if"}
    assert {name for name, table in tables.items() if len(table)} == {"thread_time", "training"}
    for name, table in tables.items():
        assert list(table) == list(asked(name, some)), name
    for lonely in ("main: [mm ]", "stream 7: [gemm]"):
        for name in ANALYSES:
            with suppress(SelectionError):
                asked(name, draw(lonely))


def test_a_word_that_is_no_choice_is_refused_with_the_choices():
    trace = draw("steps: [0    ]\nmain: [mm ]\nstream 7: [gemm]")
    refused = 0
    for name in ANALYSES:
        for word in WORDS:
            if word in inspect.signature(getattr(analysis, name)).parameters:
                with pytest.raises((OptionError, SelectionError), match="wrogn"):
                    asked(name, trace, **{word: "wrogn"})
                refused += 1
    assert refused > 40


@given(traces())
def test_there_is_always_a_verdict_in_seven_lines(trace):
    result = analysis.verdict(trace)
    assert 1 <= len(result.lines) <= 7
    assert result.lines[0] == result.sentence
    assert 0 <= result.share <= 1
    assert result.sentence[0].isupper()
    assert result.sentence.endswith(".")
