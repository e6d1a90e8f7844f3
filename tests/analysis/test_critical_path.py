"""The critical path: laws, and figures of real recordings."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from notebook_prof import Profile, Trace, TraceBuilder, read_trace
from notebook_prof.analysis import critical_path
from notebook_prof.analysis.critical_path.path import BY, End
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.testing import draw
from tests.recording import add_slices

DEVICE = ("kernel", "copy", "communication")


def check_laws(profile: Profile, **of: Any) -> None:
    """Pieces partition each window, all sums are the same, no work is charged more than it took."""
    path, steps = profile.critical_path, profile.trace.steps.set_index("step")
    pieces = path(**of)
    for step, own in pieces.groupby("step"):
        start, end, dur = own["start_ns"], own["end_ns"], own["dur_ns"]
        assert (start.to_numpy()[1:] == end.to_numpy()[:-1]).all()
        assert dur.sum() == end.iloc[-1] - start.iloc[0]
        if not of:
            assert (start.iloc[0], dur.sum()) == tuple(steps.loc[step, ["ts", "dur"]])
    if "window" in of:
        assert pieces["dur_ns"].sum() == of["window"][1] - of["window"][0]
    assert (pieces["dur_ns"] > 0).all()
    for by in ("step", BY):
        assert path(by=by, **of)["path_ns"].sum() == pieces["dur_ns"].sum()
    charged = pieces[pieces["slice"].notna() & pieces["class"].isin(DEVICE)]
    each = charged.groupby(["step", "slice"], dropna=False)["dur_ns"].sum()
    durations = profile.trace.slices["dur"]
    assert (each.to_numpy() <= durations.loc[each.index.get_level_values("slice")].to_numpy()).all()
    hops = path.hops(**of)
    assert hops["at_ns"].isin([*pieces["start_ns"], *pieces["end_ns"]]).all()


def check_critical_path(trace: Trace) -> None:
    """The laws of steps, of device work and of a window."""
    profile, end = Profile(trace), trace.span.end
    check_laws(profile)
    check_laws(profile, end="device")
    check_laws(profile, window=(end // 3, end // 2 + 1))


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


def shifted(ns: int) -> Trace:
    """A host that launches two kernels and waits, so much later."""
    builder = TraceBuilder()
    main, stream = builder.track("main", tid=1), builder.track("s", "stream", device=0, stream=7)
    calls = add_slices(builder, main, "cudaLaunchKernel", ns + np.array([0, 20]), [10, 10], "launch")
    work = add_slices(builder, stream, ["k1", "k2"], ns + np.array([15, 70]), [50, 40], "kernel")
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


def device_work(trace: Trace, pieces: pd.DataFrame) -> pd.DataFrame:
    """The slices of devices on a path, with their start in Unix time."""
    rows = pieces.loc[pieces["class"].isin(DEVICE), "slice"].dropna().unique().astype(int)
    slices = trace.slices.iloc[rows]
    slices = slices[slices["category"].isin(["kernel", "memcpy", "memset"])]
    return slices.assign(at_us=(slices["ts"] + int(trace.metadata["start_unix_ns"])) // 1000)


def test_kernel_by_kernel_with_the_path_that_hta_drew(shared_traces: Path) -> None:
    """HTA marked the path of AlexNet in a copy of its trace: 16 copies, and the 6 last kernels."""
    # The copies are ours too, each of them. The kernels had ended when the host began to wait, so that nobody
    # waited for them; up to the end of the last one all are on ours.
    folder = shared_traces / "hta/critical_path"
    with gzip.open(folder / "overlaid/overlaid_critical_path_trace.json.gz") as file:
        events = [one for one in json.load(file)["traceEvents"] if one.get("args", {}).get("critical")]
    theirs = {one["ts"] for one in events if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")}
    assert len(theirs) == 22
    trace = read_trace(folder / "benchmark_result_493459_1694039959_trace.json.gz")
    origin = int(trace.metadata["start_unix_ns"])
    begins = [1000 * one["ts"] - origin for one in events]
    path = device_work(trace, critical_path(trace, window=(min(begins), max(begins))))
    copies = {one["ts"] for one in events if one["cat"] == "gpu_memcpy"}
    assert set(path["at_us"]) == copies
    assert len(copies) == 16
    slices = trace.slices
    at_us = (slices["ts"] + origin) // 1000
    last = slices[at_us.isin(theirs - copies) & slices["category"].isin(["kernel", "memset"])]
    assert len(last) == 6
    done = int((last["ts"] + last["dur"]).max())
    waits = slices[(slices["category"] == "sync") & slices["name"].str.startswith("cuda")]
    assert (waits.loc[waits["ts"] + waits["dur"] > done, "ts"] > done).all()
    up_to = device_work(trace, critical_path(trace, window=(min(begins), done + 1), end="device"))
    assert theirs <= set(up_to["at_us"])


def test_the_kernels_that_hta_has_between_events(shared_traces: Path) -> None:
    """HTA 0.5 has two kernels of 38 µs on the longest path of this file, and they are ours."""
    trace = read_trace(shared_traces / "hta/critical_path/event_sync/event_sync_trace.json.gz")
    path = device_work(trace, critical_path(trace))
    assert len(path) == 2
    assert path["dur"].sum() // 1000 == 38


@pytest.mark.parametrize("name", ["Command Buffer Full", "Command buffer full", "Buffer flush"])
@pytest.mark.parametrize("track", ["main", "CUPTI"])
def test_a_launch_in_which_the_command_buffer_was_full_waits_for_room(name: str, track: str) -> None:
    """CUPTI says so itself, for a queue of any depth: no overhead of the host, as its other records are."""
    b = TraceBuilder()
    main, stream = b.track("main"), b.track("", "stream", device=0, stream=7)
    calls = b.slices(ts=[0, 10, 20], dur=[5, 5, 60], name="cudaLaunchKernel", category="launch", track=main)
    work = b.slices(ts=[8, 70, 100], dur=[60, 30, 30], name="gemm", category="kernel", track=stream)
    b.flows("launch", calls, work)
    own = main if track == "main" else b.track(track)
    b.slices(ts=[22], dur=[48], name=name, category="overhead", track=own)
    trace = b.seal()
    sums = critical_path(trace, by="class", window=(0, 80)).set_index("class")["path_ns"]
    if name == "Buffer flush":
        assert sums.get("kernel", 0) == 0
        assert sums.get("overhead", 0) == (48 if track == "main" else 0)
    else:
        assert sums["kernel"] == 60  # until the second one begins, when the third may be put into the queue
        assert "overhead" not in sums
        hops = Profile(trace).critical_path.hops(window=(0, 80))
        assert "queue" in hops["why"].tolist()


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
    """Its launch was not recorded; but streams are in order, and the call returns after it."""
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
