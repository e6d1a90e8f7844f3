"""The critical path: laws on every kind of recording, and figures of real ones."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Profile, TraceBuilder
from notebook_prof.analysis.critical_path import dependences
from notebook_prof.analysis.critical_path.path import BY, End, critical_path
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.readers import read_trace
from notebook_prof.testing import draw
from notebook_prof.trace import Trace

from .. import samples

SMALL = 3_000_000
KINDS = samples.kinds(SMALL)
DEVICE = ("kernel", "copy", "communication")


def check_laws(profile: Profile, **of: object) -> None:
    """Pieces partition each window, all sums are the same, no work is charged more than it took."""
    path = profile.critical_path
    pieces, spans = path(**of), path.spans(**of)
    for span in spans.to_dict("records"):
        own = pieces if pd.isna(span["step"]) else pieces[pieces["step"] == span["step"]]
        assert own["dur_ns"].sum() == span["dur_ns"]
        assert own["start_ns"].iloc[0] == span["start_ns"]
        assert own["end_ns"].iloc[-1] == span["end_ns"]
        assert (own["start_ns"].to_numpy()[1:] == own["end_ns"].to_numpy()[:-1]).all()
    assert (pieces["dur_ns"] > 0).all()
    total = spans["dur_ns"].sum()
    assert (spans["device_work_ns"] + spans["host_ns"] == spans["dur_ns"]).all()
    for column in BY:
        assert path(by=column, **of)["path_ns"].sum() == total
    charged = pieces[pieces["slice"].notna() & pieces["class"].isin(DEVICE)]
    each = charged.groupby(["step", "slice"], dropna=False)["dur_ns"].sum()
    durations = profile.trace.slices["dur"]
    assert (each.to_numpy() <= durations.loc[each.index.get_level_values("slice")].to_numpy()).all()
    hops = path.hops(**of)
    assert len(hops) == spans["hops"].sum()


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_recording(name: str) -> None:
    profile = Profile(read_trace(samples.path_of(name)))
    check_laws(profile)
    check_laws(profile, end="device")
    end = profile.trace.span.end
    check_laws(profile, window=(end // 3, end // 2 + 1))


def test_dependences_are_found_once_and_go_with_their_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    make = dependences._dependences
    monkeypatch.setattr(dependences, "_dependences", lambda *of: calls.append(of) or make(*of))
    trace = draw("main: [mm][add]")
    profile = Profile(trace)
    for _ in range(2):
        profile.critical_path()
        profile.critical_path.hops()
        profile.why(1)
    assert len(calls) == 1
    alive = weakref.ref(trace)
    calls.clear()
    del trace, profile
    gc.collect()
    assert alive() is None


def test_a_wait_for_a_kernel() -> None:
    trace = draw(
        """
        main:     [mm]  [sync     ][add ]
        stream 7:     [gemm    ]
        """,
        launches=[("mm", "gemm")],
        categories={"sync": "sync"},
    )
    pieces = Profile(trace).critical_path()
    assert pieces[["name", "class", "dur_ns"]].values.tolist() == [
        ["mm", "host-operator", 4],
        ["gemm", "kernel", 10],
        ["sync", "wait-wakeup", 3],
        ["add", "host-operator", 6],
    ]


def test_a_kernel_that_nobody_waits_for_is_not_on_the_path() -> None:
    trace = draw(
        """
        main:     [mm][add           ]
        stream 7:   [gemm]
        """,
        launches=[("mm", "gemm")],
    )
    assert set(Profile(trace).critical_path()["class"]) == {"host-operator"}
    ends = Profile(trace).critical_path.spans()
    assert ends["hops"].tolist() == [0]


def test_the_longer_of_two_streams_binds() -> None:
    trace = draw(
        """
        main:     [a][b][sync        ]
        stream 7:    [short]
        stream 8:       [longer    ]
        """,
        launches=[("a", "short"), ("b", "longer")],
        categories={"sync": "sync"},
    )
    table = Profile(trace).critical_path(by="name").set_index("name")["path_ns"]
    assert "short" not in table.index
    assert table["longer"] == 12


def shifted(ns: int) -> Trace:
    """A host that launches two kernels and waits, so much later."""
    builder = TraceBuilder()
    main, stream = builder.track("main", tid=1), builder.track("s", "stream", device=0, stream=7)
    calls = builder.slices(
        ts=ns + np.array([0, 20]), dur=[10, 10], name="cudaLaunchKernel", category="launch", track=main
    )
    work = builder.slices(
        ts=ns + np.array([15, 70]), dur=[50, 40], name=["k1", "k2"], category="kernel", track=stream
    )
    builder.slices(ts=ns + 40, dur=80, name="cudaDeviceSynchronize", category="sync", track=main)
    builder.flows("launch", calls, work)
    builder.steps([0], [ns], [125], "mark")
    return builder.seal()


def test_a_shift_of_all_times_changes_nothing() -> None:
    columns = ["dur_ns", "class", "name"]
    near, far = (Profile(shifted(ns)).critical_path()[columns] for ns in (0, 10**15))
    pd.testing.assert_frame_equal(near, far)
    assert near.loc[near["class"] == "kernel", "dur_ns"].sum() == 90


def test_what_cannot_be_asked_is_said() -> None:
    path = Profile(shifted(0)).critical_path
    with pytest.raises(OptionError, match="'phase'"):
        path(by="phases")
    with pytest.raises(OptionError, match="'device'"):
        path(end="devices")
    with pytest.raises(SelectionError, match="there is no step 7"):
        path(step=7)


def test_figures_of_other_tools(shared_traces: Path) -> None:
    """HTA's critical-path traces: where both follow the same edges, the kernels are the same."""
    folder = shared_traces / "hta/trace_diff"
    profile = Profile(read_trace(folder / "control.json.gz"))
    check_laws(profile)
    step = int(profile.trace.steps["step"].iloc[1])
    pieces = profile.critical_path(step=step)
    kernels = pieces[pieces["class"].isin(DEVICE) & pieces["slice"].notna()]["slice"].nunique()
    assert kernels >= 10, "HTA's longest path has 10 kernels there"


@pytest.mark.parametrize(("kernel", "later"), [("[gemm]", "host"), ("[gemm                ]", "device")])
def test_it_ends_with_what_ends_later(kernel: str, later: End) -> None:
    trace = draw(
        f"""
        steps:    [0             ]
        main:     [mm]    [add   ]
        stream 7:     {kernel}
        """,
        launches=[("mm", "gemm")],
    )
    last = critical_path(trace, end="last")
    assert last.equals(critical_path(trace, end=later))
    assert last["end_ns"].max() == trace.span.end


def test_a_wait_for_work_from_before_the_recording() -> None:
    """Its launch is not on record; but streams are in order, and the call returns after it."""
    trace = draw(
        """
        main:     [sync            ][mm] [sync  ]
        stream 7: [a ][b  ][c    ]      [gemm]
        """,
        launches=[("mm", "gemm")],
        categories={"sync": "sync"},
    )
    sums = critical_path(trace, by="class").set_index("class")["path_ns"]
    assert sums["kernel"] > sums["wait-wakeup"] + sums["host-operator"]
    assert {"a", "b", "c", "gemm"} <= set(critical_path(trace)["name"].astype(str))
