"""Who holds memory, who allocates it, and who keeps it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import TraceBuilder, read_trace
from notebook_prof.analysis import memory_blocks, memory_by, memory_growth, memory_live, memory_operators
from notebook_prof.errors import OptionError, SelectionError
from tests.strategies import traces

MB = 2**20


def training(steps=6, leak=0, ring=0):
    """Each step: an input, an activation freed by backward, a temporary; a gradient and state that stay."""
    b = TraceBuilder()
    main = b.track("main")
    level, size_of = 0, {}

    def put(ts, key, size):
        nonlocal level
        level += size
        size_of[key] = size
        b.allocations(ts=ts, addr=key, bytes=size, device=0, allocated=level, reserved=100 * MB, track=main)

    def drop(ts, key):
        nonlocal level
        if key not in size_of:
            return
        level -= size_of[key]
        b.allocations(
            ts=ts, addr=key, bytes=-size_of.pop(key), device=0, allocated=level, reserved=100 * MB, track=main
        )

    for n in range(steps):
        at = 100 * n
        names = ["next", "conv", "conv_backward", "adam"]
        phases = ["data", "forward", "backward", "optimizer"]
        b.slices(ts=at + np.arange(4) * 20, dur=np.full(4, 20), name=names, phase=phases, track=main)
        drop(at + 1, 1)
        put(at + 2, 1, 3 * MB)  # input
        put(at + 22, 2, 5 * MB)  # activation
        put(at + 24, 3, 1 * MB)
        drop(at + 26, 3)  # temporary
        put(at + 42, 4, 7 * MB) if 4 not in size_of else None  # gradient, kept
        drop(at + 44, 2)
        put(at + 62, 5, 9 * MB) if 5 not in size_of else None  # state, kept
        if leak:
            put(at + 70, 1000 + n, leak)
        if ring:
            put(at + 72, 2000 + n, ring)
            drop(at + 73, 2000 + n - 2)
        b.steps(n, at, 80, "loop")
    return b.seal(window=(0, 100 * steps))


def test_blocks_are_told_apart_by_their_lives():
    trace = training()
    at = memory_by(trace, at=125).set_index("kind")["bytes"]
    names = ("optimizer", "gradient", "activation", "input", "temporary")
    assert at.to_dict() == dict(zip(names, (9 * MB, 7 * MB, 5 * MB, 3 * MB, MB), strict=True))
    by = memory_by(trace, ["operator", "phase"], at=125)
    assert by["operator"].tolist() == ["adam", "conv_backward", "conv", "next"]
    assert by["bytes"].tolist() == [9 * MB, 7 * MB, 6 * MB, 3 * MB]
    assert by["blocks"].tolist() == [1, 1, 2, 1]
    assert by["share"].sum() == pytest.approx(1)
    assert by["largest_bytes"].tolist() == [9 * MB, 7 * MB, 5 * MB, 3 * MB]


def test_what_a_model_takes_before_the_first_step_is_its_parameters():
    b = TraceBuilder()
    main = b.track("main")
    row = {"name": ["init", "mm", "mm"], "phase": [None, "forward", "forward"], "track": main}
    b.slices(ts=[0, 100, 200], dur=[50, 80, 80], **row)
    b.steps([0, 1], [100, 200], [90, 90], "loop")
    sizes = {"bytes": [40, 7, -7, 5, 3], "allocated": [40, 47, 40, 45, 48], "reserved": 100}
    b.allocations(ts=[10, 20, 150, 110, 195], addr=[1, 2, 2, 3, 4], device=0, track=main, **sizes)
    table = memory_by(b.seal(window=(0, 300)), ["kind"], at=199).set_index("kind")["bytes"]
    assert table.to_dict() == {"parameter": 40, "activation": 5, "other": 3}  # 7 bytes went in the first step


def test_parameters_of_a_recorded_model():
    torch = pytest.importorskip("torch")
    import notebook_prof as nbp

    with nbp.profile("torch") as p:
        model = torch.nn.Linear(300, 200)
        for _ in nbp.steps(range(3)):
            model(torch.ones(8, 300)).sum().backward()
    bytes_of = p.memory.by("kind", at=int(p.steps()["ts"].iloc[1])).set_index("kind")["bytes"]
    assert bytes_of["parameter"] >= 4 * (300 * 200 + 200)
    assert bytes_of["gradient"] == 4 * (300 * 200 + 200)


def test_what_was_there_before_is_known_when_it_is_freed():
    b = TraceBuilder()
    b.allocations(ts=[5], addr=[1], bytes=[-64], device=0, allocated=[0], reserved=0)
    assert memory_by(b.seal(window=(0, 9)), at=2)["kind"].tolist() == ["earlier"]


@given(traces(), st.integers(0, 120))
def test_groups_sum_to_what_is_live(trace, at):
    live = memory_live(trace, at)
    for by in ("kind", "operator", ["module", "phase"], "step", "device"):
        table = memory_by(trace, by, at=at)
        assert table["bytes"].sum() == live["bytes"].sum()
        assert table["blocks"].sum() == len(live)


@given(traces(), st.none() | st.tuples(st.integers(0, 60), st.integers(60, 120)))
def test_operators_increase_sums_to_all_events(trace, window):
    events = trace.allocations
    if window is not None:
        events = events[(events["ts"] >= window[0]) & (events["ts"] < window[1])]
    for by in ("name", ("module", "phase")):
        table = memory_operators(trace, window=window, by=by)
        assert table["increase_bytes"].sum() == events["bytes"].sum()
        assert (table["allocated_bytes"] - table["freed_bytes"] == table["increase_bytes"]).all()
        assert (table["allocation_count"] + table["free_count"]).sum() == (events["bytes"] != 0).sum()


def test_operators_can_be_narrowed():
    trace = training()
    assert memory_operators(trace, step=1, phase="forward")["allocated_bytes"].tolist() == [6 * MB]
    assert memory_operators(trace, device=1).empty
    with pytest.raises(SelectionError, match="forward"):
        memory_operators(trace, phase="forwards")
    for step in ("1", "1:3", slice(1, 3)):
        with pytest.raises(
            SelectionError, match=r"step takes whole numbers, as in step=3 or step=range\(3, 6\)"
        ):
            memory_operators(trace, step=step)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["cnn_adam.pt.trace.json.gz", "cnn_sgd.pt.trace.json", "lm_adamw.pt.trace.json.gz"]
)
def test_pytorch_adds_the_same_up(shared_traces: Path, name: str):
    folder = shared_traces / "torch213_cpu"
    reported = pd.read_csv(folder / f"{name.partition('.')[0]}.key_averages.csv")
    reported = reported[reported["name"].str.startswith(("aten::", "autograd::"))]
    reported = reported.groupby("name")["self_cpu_memory_usage_B"].sum()
    increase = memory_operators(read_trace(folder / name)).set_index("name")["increase_bytes"]
    assert len(reported) > 40
    assert increase.reindex(reported.index, fill_value=0).tolist() == reported.tolist()


def test_a_leak_is_found_and_what_is_none_is_not():
    table = memory_growth(training(leak=2 * MB))
    assert table["operator"].tolist() == ["adam"]
    row = table.iloc[0]
    assert (row["bytes_per_step"], row["blocks_per_step"], row["steps"], row["of_steps"]) == (2 * MB, 1, 4, 4)
    assert row["growth_bytes"] == 2 * MB
    assert row["share"] == 1
    assert row["kept_bytes"] == 6 * 2 * MB + 9 * MB  # with the optimizer's state
    assert row["first_slice"] == 3
    assert memory_growth(training()).empty
    assert memory_growth(training(ring=MB)).empty


def test_the_recorded_leak(shared_traces: Path):
    trace = read_trace(shared_traces / "torch213_cpu" / "variants" / "memory_leak.pt.trace.json")
    row = memory_growth(trace).iloc[0]
    assert (row["operator"], row["bytes_per_step"], row["growth_bytes"]) == ("aten::ones", 65536, 65536)


@pytest.mark.parametrize("name", ["cnn_adam.pt.trace.json.gz", "lm_adamw.pt.trace.json.gz"])
def test_sound_runs_do_not_grow(shared_traces: Path, name: str):
    assert memory_growth(read_trace(shared_traces / "torch213_cpu" / name)).empty


def test_blocks_are_those_of_visualdl(shared_traces: Path):
    """Every block that VisualDL lists with birth and death, in milliseconds of two decimals and KB."""
    folder = shared_traces / "paddle"
    trace = read_trace(next((folder / "v262_full").glob("*.paddle_trace.json")))
    oracle = folder / "visualdl_oracle/v262_full/worker_f_span0/memory_events_Place_cpu.json"
    reported = pd.DataFrame(json.loads(oracle.read_text())["data"]).dropna(
        subset=["AllocatedTimestamp", "FreeTimestamp"]
    )
    reported["addr"] = [int(text, 16) for text in reported["MemoryAddr"]]
    reported = reported.astype({"AllocatedTimestamp": "float64"}).sort_values("AllocatedTimestamp")
    blocks = memory_blocks(trace)
    blocks = blocks[blocks["birth_ts"].notna() & blocks["death_ts"].notna()].copy()
    blocks["addr"] = blocks["addr"].astype("int64")
    blocks["at"] = blocks["birth_ts"].astype("float64") / 1e6
    near = pd.merge_asof(
        reported, blocks.sort_values("at"), left_on="AllocatedTimestamp", right_on="at", by="addr",
        direction="nearest", tolerance=0.02,
    )  # fmt: skip
    assert len(near) == 632
    np.testing.assert_allclose(near["bytes"] / 1024, near["Size"], atol=0.006)
    np.testing.assert_allclose(near["lifetime_ns"] / 1e6, near["Duration"], atol=0.02)


def test_blocks_by_size_and_lifetime():
    trace = training()
    blocks = memory_blocks(trace)
    assert len(memory_blocks(trace, min_bytes=5 * MB)) == int((blocks["bytes"] >= 5 * MB).sum())
    assert blocks.loc[blocks["bytes"] <= 1 * MB, "kind"].unique().tolist() == ["temporary"]
    short = blocks[blocks["lifetime_ns"] <= 5]
    assert len(short) + len(memory_blocks(trace, min_lifetime="6ns")) == len(blocks)
    assert short["freed_by"].tolist() == ["conv"] * len(short)
    in_one = memory_blocks(trace, window=(22, 27))
    assert in_one["bytes"].tolist() == [3 * MB, 5 * MB, MB]
    assert set(in_one["operator"]) == {"next", "conv"}
    for at in (25, 125, 250):  # what is alive is the same as memory_live's
        alive = memory_blocks(trace, window=(at, at + 1))
        live = memory_live(trace, at)
        assert sorted(alive["bytes"]) == sorted(live["bytes"])
    assert memory_blocks(TraceBuilder().seal()).empty
    with pytest.raises(OptionError, match="duration"):
        memory_blocks(trace, min_lifetime="soon")
