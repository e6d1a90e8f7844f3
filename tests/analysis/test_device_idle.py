"""Idle gaps and their causes: drawn, and by law."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import Trace, TraceBuilder, read_trace
from notebook_prof.analysis import device, device_idle, idle_causes, why
from notebook_prof.testing import draw
from notebook_prof.trace.taxonomy import LOADER_WAIT
from tests.programs import Run, program
from tests.strategies import traces

CAUSES = ("input", "sync", "memcpy", "communication", "host", "launch", "tail", "unknown")
PARTS = [f"{cause}_ns" for cause in CAUSES]
LAUNCH = ("call", "cudaMemcpyAsync")
KINDS = dict.fromkeys(LAUNCH, "launch") | {"cudaStreamSync": "sync", "copy": "memcpy", "gloo": "collective"}


def gap(picture, launches=(("call", "gemm"),), **options):
    table = device_idle(draw(picture, categories=KINDS, launches=launches), **options)
    assert len(table) == 1
    return table.iloc[0]


DRAWN = {
    "the host is slow": (
        "main: [call]  [add        ] [call]\nstream 7: [gemm]             [gemm]",
        "host-bound",
        {"dur": 13, "host_ns": 12, "launch_ns": 1},
    ),
    "data is late": ("main: [call][next/data   ][call]\nstream 7: [gemm]           [gemm]", "input"),
    "the host waited for the device itself": (
        "main: [call][cudaStreamSync ][call]\nstream 7: [gemm]           [gemm]",
        "sync",
    ),
    "a copy is prepared": ("main: [call][cudaMemcpyAsync ]\nstream 7: [gemm]           [copy]", "memcpy"),
    "other ranks are waited for": (
        "main: [call]            [call]\nother:     [gloo       ]\nstream 7: [gemm]          [gemm]",
        "communication",
    ),
    "queued work waits for its launch only": (
        "main: [call][call]\nstream 7: [gemm]         [gemm]",
        "launch-latency",
        {"dur": 9, "launch_ns": 9},
    ),
    "nothing was launched": ("stream 7: [k   ]    [k   ]", "unknown"),
    "the thread that launches rests, since the one that it works for waits for data": (
        "main:     [add][next/data      ][add ]\nautograd: [call]                      [call]\n"
        "stream 7:       [gemm]                    [gemm]",
        "input",
        {"input_ns": 10, "launch_ns": 4},
    ),
    "a wait for another thread ends with what that did": (
        "main:     [call]                [call]\nautograd:        [aten::sum ]\n"
        "stream 7: [gemm]                [gemm]",
        "host-bound",
        {"dur": 16, "host_ns": 16},
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_what_causes_a_gap(name):
    picture, cause, *figures = DRAWN[name]
    launches = [pair for pair in (("call", "gemm"), ("cudaMemcpyAsync", "copy")) if pair[1] in picture]
    row = gap(picture, launches)
    assert row["cause"] == cause
    for expected in figures:
        assert {column: row[column] for column in expected} == expected


def test_gaps_at_the_end_and_of_two_devices():
    row = gap("main: [call][add            ]\nstream 7: [gemm]", window=(4, 20))
    assert (row["cause"], row["tail_ns"]) == ("tail", 10)
    assert row[["next", "launch", "step"]].isna().all()
    b = TraceBuilder()
    one, two = (b.track("", "stream", device=number, stream=7) for number in (0, 1))
    b.slices(ts=[0, 9, 3, 20], dur=[2, 2, 4, 1], track=[one, one, two, two], name="k", category="kernel")
    assert device_idle(b.seal())[["device", "ts", "dur"]].values.tolist() == [[0, 2, 7], [1, 7, 13]]


windows = st.tuples(st.integers(0, 120), st.integers(0, 120)).filter(lambda pair: pair[0] < pair[1])


@given(traces(), st.none() | windows)
def test_causes_sum_to_the_gap_and_gaps_to_idle_time(trace, window):
    table = device_idle(trace, window=window)
    assert (table[PARTS] >= 0).all(axis=None)
    assert table[PARTS].sum(axis=1).tolist() == table["dur"].tolist()
    idle = device(trace, window=window).set_index("device")["idle_ns"]
    idle_of_gaps = table.groupby("device")["dur"].sum().reindex(idle.index, fill_value=0)
    assert idle_of_gaps.tolist() == idle.tolist()
    for column, name in (("next", "ts"), ("launch", "ts")):
        has_value = table[column].notna()
        at = trace.slices[name].to_numpy()[table.loc[has_value, column].to_numpy(dtype=np.int64)]
        ends = (table["ts"] + table["dur"])[has_value].to_numpy()
        assert (at == ends).all() if column == "next" else True


def test_the_gaps_of_a_v100(shared_traces: Path):
    name = "resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz"
    trace = read_trace(shared_traces / "kineto_2021" / name)
    table = device_idle(trace)
    assert table["dur"].sum() == device(trace)["idle_ns"].sum() == 187_137_000
    # each step waits for its batch once, in a gap that ends with the copy of the batch
    loads = table[table["input_ns"] > 0]
    assert trace.slices["category"].to_numpy()[loads["next"].to_numpy(dtype=np.int64)].tolist() == [
        "memcpy"
    ] * len(loads)
    assert table["host_ns"].sum() / table["dur"].sum() == pytest.approx(0.8186, abs=1e-3)


def test_time_of_a_loader_worker_is_input():
    b = TraceBuilder()
    main, worker = b.track("main", pid=1, tid=1), b.track("worker", pid=2, tid=2)
    stream = b.track("s", "stream", device=0, stream=7)
    calls = b.slices(ts=[0, 95], dur=[5, 5], name="cudaLaunchKernel", category="launch", track=main)
    waits = b.slices(ts=[10], dur=[84], name=LOADER_WAIT, category="io", phase="data", track=main)
    made = b.slices(ts=[12], dur=[78], name="transform", category="python", track=worker)
    work = b.slices(ts=[5, 100], dur=[5, 5], name="gemm", category="kernel", track=stream)
    b.flows("launch", calls, work)
    b.flows("link", made, waits)
    table = device_idle(b.seal())
    assert table[["dur", "input_ns", "host_ns", "launch_ns"]].values.tolist() == [[90, 84, 1, 5]]


def on_one_stream(seed: int) -> Trace:
    return Run(program(seed, streams=1)).trace()


@given(st.integers(0, 10**6))
def test_causes_are_those_of_the_critical_path(seed):
    """Each gap as `why` tells it: what is a launch under way there is here, and the rest is of threads."""
    trace = on_one_stream(seed)
    for row in device_idle(trace).iloc[seed % 4 :: 4].to_dict("records"):  # 200 gaps in all
        if pd.isna(row["next"]):
            continue
        pieces = why(trace, slice=int(row["next"])).pieces
        begin = np.maximum(pieces["start_ns"], row["ts"])
        pieces = pieces.assign(dur_ns=np.maximum(pieces["end_ns"] - begin, 0))
        by_class = pieces.groupby("class", observed=False)["dur_ns"].sum()
        late = by_class[["launch-latency", "event-latency", "device-gap"]].sum()
        own = pieces.loc[(pieces["slice"] == row["launch"]) & ~pieces["class"].eq("launch-latency"), "dur_ns"]
        assert row["launch_ns"] + row["memcpy_ns"] >= late
        assert by_class.sum() == row["dur"]
        assert row["host_ns"] + row["sync_ns"] + row["launch_ns"] + row["memcpy_ns"] == row["dur"]
        waited = by_class[["sync", "wait-wakeup"]].sum()
        assert row["sync_ns"] <= waited
        assert own.sum() <= row["launch_ns"] + row["memcpy_ns"] - late


def test_a_wait_that_the_verdict_names_is_the_cause(shared_traces: Path):
    """JAX on eight devices: 60 % of the time is in `block_until_ready`; gaps were said to be host-bound."""
    trace = read_trace(shared_traces / "jax_gpu_rocm" / "tw003.xplane.pb")
    table = idle_causes(trace)
    assert (table["idle_ns"].groupby(table["device"]).sum() == device(trace)["idle_ns"].to_numpy()).all()
    sync = table[table["cause"] == "sync"]
    assert (sync["idle_share"] > 0.5).all()
