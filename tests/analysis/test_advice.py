"""Each rule of advice on a drawing that has its cause, and on one that has not."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof.analysis import advice
from notebook_prof.analysis.rules import RULES
from notebook_prof.readers import read_trace
from notebook_prof.selection import Selection
from notebook_prof.testing import draw, traces
from notebook_prof.trace import TraceBuilder

US = 1000
MB = 2**20
SEVERAL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def found(trace, rule, **options):
    table = advice(trace, **options).set_index("rule")
    return table.loc[rule] if rule in table.index else None


def stepped(n=4, us=100, extra=()):
    """A builder with `n` steps, their thread and a stream of a V100."""
    b = TraceBuilder(metadata={"devices": ["Tesla V100-SXM2-32GB"], **dict(extra)})
    main = b.track("main", tid=1)
    stream = b.track("", "stream", device=0, stream=7)
    b.steps(np.arange(n), np.arange(n) * us * US, np.full(n, us * US), "loop")
    b.slices(
        ts=np.arange(n) * us * US, dur=np.full(n, us * US // 2), name="aten::mm", phase="forward", track=main
    )
    return b, main, stream, np.arange(n) * us * US


def test_data_that_workers_make_is_late():
    b, main, _, at = stepped()
    b.slices(ts=at + 60 * US, dur=np.full(4, 30 * US), name=SEVERAL, phase="data", track=main)
    trace = b.seal()
    row = found(trace, "input-bound")
    assert row["gain_ns"] == 4 * 30 * US
    assert row["gain_share"] == pytest.approx(0.3)
    assert row["count"] == len(row["rows"]) == 4
    assert "num_workers" in row["remedy"]
    assert found(trace, "dataloader-workers") is None


def test_data_made_in_the_training_thread():
    trace = draw("steps: [0                 ]\nmain:  [next/data ][mm/forward ]", unit_ns=US)
    assert found(trace, "dataloader-workers")["select"] == {"phase": "data"}
    assert found(trace, "input-bound") is None


def test_exposed_communication():
    trace = draw(
        """
        steps: [0                         ]
        main:  [mm/backward]
        stream 7: [gemm     ]
        stream 9:      [nccl            ]
        """,
        categories={"nccl": "collective"},
    )
    row = found(trace, "communication-exposed")
    assert row["gain_ns"] == 12
    assert trace.slices["name"].iloc[row["rows"]].tolist() == ["nccl"]


def test_a_device_that_waits_for_launches():
    b, main, stream, at = stepped()
    calls = b.slices(
        ts=at + 55 * US, dur=np.full(4, 2 * US), name="cudaLaunchKernel", category="launch", track=main
    )
    work = b.slices(ts=at + 58 * US, dur=np.full(4, 5 * US), name="add", category="kernel", track=stream)
    b.flows("launch", calls, work)
    row = found(b.seal(), "launch-bound")
    assert row["gain_share"] > 0.8
    assert row["select"] == {"category": "launch"}
    busy, _, stream, at = stepped()
    busy.slices(ts=at, dur=np.full(4, 100 * US), name="add", category="kernel", track=stream)
    assert found(busy.seal(), "launch-bound") is None


def optimizers(names):
    b, main, _, at = stepped()
    for start in at:
        ts = start + 50 * US + np.arange(60) * 500
        b.slices(ts=ts, dur=np.full(60, 400), name=names, phase="optimizer", track=main)
    return b.seal()


def test_an_optimizer_of_many_operators():
    row = found(optimizers("aten::add_"), "unfused-optimizer")
    assert row["gain_ns"] > 0
    assert "60 operators a step" in row["finding"]
    assert found(optimizers("aten::_foreach_add_"), "unfused-optimizer") is None


def test_syncs_after_which_the_device_runs_dry():
    picture = """
    steps: [0                                      ]
    main:  [call][item              ][call]
    main:         [cudaStreamSync ]
    stream 7: [gemm         ]           [gemm     ]
    """
    kinds = {"call": "launch", "cudaStreamSync": "sync"}
    row = found(draw(picture, categories=kinds, launches=[("call", "gemm")]), "sync-points")
    assert "item (1)" in row["finding"]
    assert row["gain_ns"] == 11
    assert row["select"] == {"category": "sync"}
    without = picture.replace("[cudaStreamSync ]", " " * 17)
    assert found(draw(without, categories=kinds, launches=[("call", "gemm")]), "sync-points") is None


@pytest.mark.parametrize(("name", "pinned"), [("Pageable -> Device", False), ("Pinned -> Device", True)])
def test_copies_that_are_not_pinned(name, pinned):
    b, main, stream, at = stepped()
    calls = b.slices(
        ts=at + 10, dur=np.full(4, 9 * US), name="cudaMemcpyAsync", category="launch", track=main
    )
    work = b.slices(
        ts=at + 50, dur=np.full(4, 8 * US), name=f"Memcpy HtoD ({name})", category="memcpy", track=stream
    )
    b.flows("launch", calls, work)
    row = found(b.seal(), "pageable-copies")
    if pinned:
        assert row is None
    else:
        assert row["count"] == 4
        assert row["gain_ns"] >= 4 * 8 * US
        assert "pin_memory" in row["remedy"]


@pytest.mark.parametrize(
    ("kernel", "device", "advised"),
    [
        ("volta_sgemm_64x64_nt", "Tesla V100-SXM2-32GB", True),
        ("volta_h884gemm_64x64_nt", "Tesla V100-SXM2-32GB", False),
        ("volta_sgemm_64x64_nt", "Tesla P100-PCIE", False),
        ("vectorized_elementwise_kernel", "NVIDIA H100", False),
    ],
)
def test_tensor_cores(kernel, device, advised):
    b, _, stream, at = stepped(extra={"devices": [device]}.items())
    b.slices(ts=at, dur=np.full(4, 80 * US), name=kernel, category="kernel", track=stream)
    row = found(b.seal(), "tensor-cores-unused")
    assert (row is not None) == advised
    if advised:
        assert row["gain_ns"] == 4 * 80 * US // 2


def test_low_occupancy(data: Path, tmp_path: Path):
    path = tmp_path / "synthetic_rank0_time_2026.paddle_trace.json"
    with gzip.open(data / "paddle" / "synthetic_rank0.json.gz") as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    row = found(read_trace(path), "low-occupancy")
    # half a block for each multiprocessor over 518 µs, 0.9875 over 160 µs
    assert row["gain_ns"] == 259_000 + 2_000
    assert row["count"] == 8


def memory(sizes, reserved, total=None):
    properties = [{"id": 0, "totalGlobalMem": total}] if total else []
    b, main, stream, at = stepped(extra={"device_properties": properties}.items())
    b.slices(ts=at, dur=np.full(4, 5), name="k", category="kernel", track=stream)
    b.allocations(
        ts=at + 5, addr=np.arange(4) + 1, bytes=64, device=0, allocated=sizes, reserved=reserved, track=main
    )
    return b.seal()


def test_memory_that_is_nearly_full_or_in_pieces():
    trace = memory([900 * MB] * 4, 970 * MB, 1000 * MB)
    row = found(trace, "memory-near-full")
    assert row["gain_bytes"] == 70 * MB
    assert row["gain_ns"] == 0
    assert found(trace, "memory-fragmented") is None
    pieces = memory([300 * MB] * 4, 970 * MB, 4000 * MB)
    assert found(pieces, "memory-fragmented")["gain_bytes"] == 670 * MB
    assert found(pieces, "memory-near-full") is None


def test_many_small_allocations():
    b, main, _, at = stepped()
    for number, start in enumerate(at):
        ts = start + 50 * US + np.arange(250) * 100
        b.slices(ts=ts, dur=np.full(250, 60), name="aten::empty", phase="forward", track=main)
        sizes = {"bytes": 512, "allocated": 512, "reserved": 2 * MB}
        b.allocations(ts=ts + 5, addr=number * 250 + np.arange(250) + 1, device=0, track=main, **sizes)
    row = found(b.seal(), "small-allocations")
    assert row["gain_ns"] == 1000 * 60
    assert row["select"] == {"name": ["aten::empty"]}


def test_warm_up_and_compilation():
    def steps(first, name="aten::mm"):
        b = TraceBuilder()
        main = b.track("main")
        dur = np.array([first, 100, 100, 100]) * US
        ts = np.cumsum(dur) - dur
        b.steps([5, 6, 7, 8], ts, dur, "loop")
        b.slices(ts=ts, dur=dur, name=[name, *["aten::mm"] * 3], phase="forward", track=main)
        return b.seal()

    row = found(steps(400), "warm-up")
    assert (row["gain_ns"], row["select"]) == (300 * US, {"step": [5]})
    assert found(steps(110), "warm-up") is None
    compiles = found(steps(400, "torch/_dynamo/convert_frame.py(1): _compile.compile_inner"), "compilation")
    assert compiles["gain_ns"] == 400 * US
    assert compiles["select"] == {"step": [5]}


def test_none_where_there_is_none():
    sound = draw(
        "steps: [0         ][1         ]\nmain:  [aten::mm/forward][aten::mm/forward]", unit_ns=100 * US
    )
    assert advice(sound).empty
    empty = advice(TraceBuilder().seal())
    assert empty.empty
    assert list(empty) == [
        *["rule", "finding", "remedy", "gain_ns", "gain_share", "gain_bytes", "count", "rows", "select"]
    ]


def test_small_gains_are_left_out():
    trace = draw("steps: [0                 ]\nmain:  [next/data ][mm/forward ]", unit_ns=US)
    assert len(advice(trace)) == 1
    assert advice(trace, min_share=0.9).empty


windows = st.tuples(st.integers(0, 60), st.integers(61, 120))


@settings(max_examples=40, deadline=None)
@given(traces(), st.none() | windows)
def test_advice_is_sound_for_any_trace(trace, window):
    table = advice(trace, window=window, min_share=0)
    assert len(table) == table["rule"].nunique() <= len(RULES)
    assert table["gain_ns"].is_monotonic_decreasing
    assert ((table["gain_ns"] >= 0) & table["gain_share"].between(0, 1)).all()
    for row in table.itertuples():
        assert row.finding.endswith(".")
        assert row.remedy.endswith(".")
        assert pd.Index(row.rows).isin(trace.slices.index).all()
        assert len(row.rows) <= max(row.count, 0)
        selection = Selection()
        selection.update(**row.select)
        if len(row.rows) and row.rule not in ("memory-growth",):
            assert selection.mask(trace.slices)[row.rows].all(), row.rule
