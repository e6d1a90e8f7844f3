"""Why a thread or stream did what it did: laws, and sentences of drawn recordings."""

import re

import numpy as np
import pytest

from notebook_prof import Profile, Trace, TraceBuilder
from notebook_prof.analysis.critical_path.why import Why
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.testing import draw
from notebook_prof.units import format_ns, format_share

NUMBER = re.compile(
    r"(?:waited for|idle for|ran for|from|ended at|until|began at|margin of|these|on,|:) "
    r"(\d[\d.]* (?:ns|µs|ms|s|min(?: \d+ s)?))(?![\w%])"
)
"""Durations and instants of the sentences."""


def check_why(profile: Profile, why: Why, ts: int) -> None:
    """The pieces partition the stretch, and every number of the paragraph is one of the tables."""
    pieces, length = why.pieces, why.end_ns - why.start_ns
    assert pieces["dur_ns"].sum() == length
    if length:
        assert pieces["start_ns"].iloc[0] == why.start_ns
        assert pieces["end_ns"].iloc[-1] == why.end_ns
        assert (pieces["start_ns"].to_numpy()[1:] == pieces["end_ns"].to_numpy()[:-1]).all()
    slices, lines = profile.trace.slices, why.text.splitlines()
    if why.kind == "work":
        own = slices.iloc[why.slice]
        assert own["ts"] <= ts < own["ts"] + own["dur"]
    else:
        assert why.start_ns <= ts < why.end_ns
    durations = {length, *pieces["dur_ns"], *pieces.groupby("line", observed=True)["dur_ns"].sum()}
    if why.slice >= 0:
        durations.add(int(slices["dur"].iloc[why.slice]))
    times = {format_ns(int(ns)) for ns in durations}
    times |= {format_ns(int(ns), 6) for ns in (why.start_ns, why.end_ns, *why.hops["at_ns"])}
    launches = why.hops[why.hops["why"] == "launch"]
    times |= {
        format_ns(int(slices["ts"].iloc[int(row)] - at))
        for row, at in zip(launches["slice"], launches["at_ns"], strict=True)
    }
    times |= {format_ns(int(ns)) for ns in why.hops["margin_ns"].dropna()}
    sentence = next((line for line in lines if line.startswith("Of these ")), None)
    assert (sentence is not None) == (length > 0)
    if sentence is not None:
        by_class = pieces.groupby("class", observed=True)["dur_ns"].sum()
        shares = {format_share(ns / length): name for name, ns in by_class.items()}
        first = re.match(r"Of these (.+?): ([\d.<]+ %) ([\w-]+)", sentence)
        assert first, sentence
        assert first[1] == format_ns(length)
        assert shares[first[2]] == first[3] or by_class[first[3]] == by_class.max()
    said = set(NUMBER.findall(re.sub(r"`.*`", "", why.text)))
    assert said <= times, (said - times, why.text)
    assert ("\nThe line with the largest part is " in why.text) == pieces["line"].notna().any()
    assert ("; " not in lines[0] and " was idle for " in lines[0]) == (why.kind == "wait" and why.slice < 0)


def check_why_anywhere(trace: Trace) -> None:
    """Ask of the busiest threads and of some streams at random instants."""
    profile, slices, tracks = Profile(trace), trace.slices, trace.tracks
    busy = slices.loc[slices["dur"] > 0, "track"].value_counts().index
    threads = busy[busy.isin(tracks.loc[tracks["kind"] == "thread", "track"])].tolist()
    rng = np.random.default_rng(0)
    for key in (*threads[:2], *own_streams(trace)[:2]):
        for ts in rng.integers(0, trace.span.end, 4).tolist():
            check_why(profile, profile.why(ts, key), ts)


def own_streams(trace: Trace) -> list[int]:
    work = trace.slices[
        trace.slices["category"].isin(["kernel", "memcpy", "memset"]) & (trace.slices["dur"] > 0)
    ]
    streams = trace.tracks.loc[trace.tracks["kind"] == "stream", "track"]
    return sorted(set(work["track"]) & set(streams))


def recorded() -> Trace:
    """Two lines, of which the second waits for a copy's data before it launches again."""
    builder = TraceBuilder(
        metadata={"cell_source": "%%profile\nfor x in rows:\n    y = step(load(x))\n    fit(y)"}
    )
    main, stream = builder.track("main"), builder.track("GPU 0 stream 7", kind="stream", device=0, stream=7)
    names = ["cell:3  y = step(load(x))", "load", "cell:4  fit(y)", "aten::mm"]
    builder.slices(
        ts=[100, 110, 900, 910], dur=[790, 780, 90, 40], name=names,
        category=["python", "python", "python", "operator"], track=main,
    )  # fmt: skip
    work = builder.slices(ts=[0, 960], dur=[120, 200], name="gemm", category="kernel", track=stream)
    call = builder.slices(ts=915, dur=10, name="cudaLaunchKernel", category="launch", track=main)
    builder.flows("launch", call, work[1:])
    return builder.seal()


def test_an_idle_device_ends_at_a_line() -> None:
    trace = draw(
        """
        main:     [mm] [load/data ][add]
        stream 7:    [a ]               [b ]
        """,
        launches=[("mm", "a"), ("add", "b")],
    )
    why = Profile(trace).why(12, "stream 7")
    assert (why.kind, why.resource, why.end_ns - why.start_ns) == ("idle", "stream 7", 15)
    found = why.pieces.groupby("class", observed=True)["dur_ns"].sum().to_dict()
    assert found == {"data": 10, "host-operator": 5}
    assert str(why) == why.text
    assert Profile(trace).why(22, 1).kind == "work"
    last = Profile(trace).why(trace.span.end - 1, 0)
    assert last.text.startswith("main was idle for")
    assert "nothing began after that" in last.text


def test_work_that_waited_in_its_queue() -> None:
    trace = draw(
        """
        main:     [mm][mm]
        stream 7:   [gemm         ][gemm]
        """,
        launches=[("mm", "gemm"), ("mm", "gemm")],
    )
    why = Profile(trace).why(20, "stream 7")
    first, of = why.text.splitlines()[:2]
    assert first == "gemm on stream 7 ran for 6 ns, from 17 ns on, 13 ns after its launch was called."
    assert of.startswith("Of these 13 ns: 100.0 % kernel")


def test_work_without_a_launch_on_record_says_so() -> None:
    profile = Profile(draw("main: [mm]\nstream 7:   [a ]     [b ]"))
    between, first = profile.why(13, "stream 7").text, profile.why(8, "stream 7").text
    assert "No launch of b was recorded: what it waited for is unknown." in between
    assert "after the trace began." in first
    assert "What a on stream 7 waited for was not recorded." in first
    assert "No launch" not in first


def test_a_slice_is_asked_about_by_its_row() -> None:
    """The one that is meant, not the innermost at an instant; a wait by the call that waits."""
    trace = draw(
        """
        main:     [linear       ][sync     ]
        main:      [mm]
        stream 7:       [gemm        ]
        """,
        launches=[("mm", "gemm")],
        categories={"sync": "sync"},
    )
    profile, rows = Profile(trace), trace.slices["name"].astype(str).tolist()
    assert profile.why(3).text.startswith("mm on main ran for")
    assert profile.why(slice=rows.index("linear")).text.startswith("linear on main ran for 15 ns")
    wait = profile.why(slice=rows.index("sync"))
    found = (wait.kind, wait.text.splitlines()[1][:40])
    assert found == ("wait", "sync on main waited for gemm on stream 7"[:40])
    assert profile.why(slice=rows.index("gemm")).end_ns == trace.slices["ts"].iloc[rows.index("gemm")]
    with pytest.raises(SelectionError, match="no slice 9: the trace has 4"):
        profile.why(slice=9)
    for arguments in ({}, {"ts": 1, "slice": 0}):
        with pytest.raises(OptionError, match=r"why\(slice=7\)"):
            profile.why(**arguments)


def test_bad_questions_are_answered_with_what_there_is() -> None:
    profile = Profile(draw("main: [mm]\nstream 7:   [a]"))
    for ts in (-1, profile.trace.span.end):
        with pytest.raises(SelectionError, match="the trace lasts from 0 to"):
            profile.why(ts)
    with pytest.raises(SelectionError, match="stream 7"):
        profile.why(1, "stream 8")
    with pytest.raises(SelectionError, match=r"0 \(main\), 1 \(stream 7\)"):
        profile.why(1, 9)
    with pytest.raises(SelectionError, match="name a stream"):
        Profile(draw("stream 7: [a]")).why(0)
