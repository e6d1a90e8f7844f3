"""The module tree: drawn, recorded, and by law."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import TraceBuilder, read_trace
from notebook_prof.analysis import layers, operators
from notebook_prof.analysis.name_labels import name_labels
from notebook_prof.analysis.scope import on_device
from notebook_prof.service.palette import name_styles
from tests.strategies import traces


def network():
    """Net(fc(fc inside itself), conv), backward of fc on another thread, a kernel launched in conv."""
    b = TraceBuilder()
    main, autograd = b.track("main", tid=1), b.track("autograd", tid=2)
    names = ["Net", "fc", "mm", "fc", "conv"]
    kinds = ["module", "module", "operator", "module", "module"]
    row = {"category": kinds, "module": ["Net", "fc", None, "fc", "conv"], "phase": "forward"}
    b.slices(ts=[0, 10, 12, 20, 50], dur=[100, 30, 5, 10, 40], name=names, track=main, **row)
    call = b.slices(ts=60, dur=5, name="launch", category="launch", track=main)
    stream = b.track("", "stream", device=0, stream=7)
    b.flows("launch", call, b.slices(ts=70, dur=11, name="k", category="kernel", track=stream))
    b.slices(ts=200, dur=25, name="mm_b", module="fc", phase="backward", track=autograd)
    b.slices(ts=300, dur=7, name="adam", phase="optimizer", track=main)
    sizes = {"bytes": [64, 32, -32], "allocated": [64, 96, 64], "reserved": 100}
    b.allocations(ts=[12, 21, 55], addr=[1, 2, 2], device=0, track=main, **sizes)
    return b.seal()


def test_the_tree_and_its_times():
    table = layers(network())
    assert table["module"].tolist()[:3] == ["Net", "fc", "conv"]
    assert table["module"].isna().tolist() == [False, False, False, True]
    assert table["parent"].tolist()[1:3] == ["Net", "Net"]
    assert table["depth"].tolist() == [0, 1, 1, 0]
    assert table["calls"].tolist() == [1, 2, 1, 0]
    assert table["forward_ns"].tolist() == [100, 30, 40, 0]
    assert table["backward_ns"].tolist() == [25, 25, 0, 0]
    assert table["optimizer_ns"].tolist() == [0, 0, 0, 7]
    assert table["host_self_ns"].tolist() == [30, 55, 40, 7]
    assert table["device_forward_ns"].tolist() == [11, 0, 11, 0]
    assert table["allocated_bytes"].tolist() == [96, 96, 0, 0]
    assert table["kept_bytes"].tolist() == [64, 96, -32, 0]
    assert table["share"].tolist() == [1, 0, 1, 0]
    assert layers(network(), depth=0)["module"].tolist()[:1] == ["Net"]
    assert len(layers(network(), depth=0)) == 2
    assert layers(network(), window=(10, 40))["forward_ns"].tolist() == [30, 30, 0, 0]


def test_without_modules_or_without_calls():
    assert layers(TraceBuilder().seal()).empty
    b = TraceBuilder()
    b.slices(ts=0, dur=5, name="mm", phase="forward", track=b.track("main"))
    assert layers(b.seal()).empty
    b = TraceBuilder()
    b.slices(ts=[0, 5], dur=[5, 5], name="mm", module=["a", "b"], phase="forward", track=b.track("main"))
    table = layers(b.seal())
    assert set(table["module"].dropna()) == {"a", "b"}
    assert table["depth"].tolist() == [0, 0, 0]


@given(traces(), st.none() | st.tuples(st.integers(0, 60), st.integers(61, 120)))
def test_self_times_sum_to_the_phases(trace, window):
    table = layers(trace, window=window)
    if not len(table):
        assert trace.slices["module"].isna().all()
        return
    phases = ("forward", "backward", "optimizer")
    assert table["host_self_ns"].sum() == operators(trace, window=window, phase=phases)["self_ns"].sum()
    device = on_device(trace, window).where(phase=phases)
    assert table["device_self_ns"].sum() == (device.end - device.ts).sum()
    roots = table["depth"] == 0
    for column in ("forward_ns", "backward_ns", "optimizer_ns"):
        assert (
            table.loc[roots, column].sum()
            == operators(trace, window=window, phase=column[:-3])["self_ns"].sum()
        )
    children = table.groupby("parent")[["forward_ns", "backward_ns"]].sum()
    own = table.set_index("module")[["forward_ns", "backward_ns"]].reindex(children.index)
    assert (own.to_numpy() >= children.to_numpy()).all()


def test_a_recorded_model(shared_traces: Path):
    trace = read_trace(shared_traces / "torch213_cpu" / "cnn_adam.pt.trace.json.gz")
    table = layers(trace).set_index("module")
    assert table.loc["Conv2d_1", "parent"] == "Sequential_0"
    assert table.loc["Sequential_0", "parent"] == "SmallCNN_0"
    assert (table["calls"].dropna().iloc[:-1] == 5).all()
    assert table.loc["MaxPool2d_0", "backward_ns"] > 0
    assert table["share"].iloc[0] == pytest.approx(0.918, abs=1e-3)
    slices = trace.slices
    optimizer = slices.loc[slices["phase"] == "optimizer", "self_ns"].sum()
    assert table["optimizer_ns"].iloc[-1] == optimizer
    assert np.isfinite(table["share"]).all()


def test_parameters_add_up_the_tree():
    b = TraceBuilder()
    counted = pd.DataFrame({"module": ["Net", "fc", "conv", "never"], "parameters": [1, 10, 100, 7]})
    counted["parameter_bytes"] = 4 * counted["parameters"]
    b.metadata["tables"] = {"modules": counted}
    row = {"category": "module", "name": "x", "phase": "forward", "track": b.track("main")}
    b.slices(ts=[0, 10, 40], dur=[100, 20, 20], module=["Net", "fc", "conv"], **row)
    table = layers(b.seal()).set_index("module")
    assert table["parameters"].tolist()[:3] == [111, 10, 100]
    assert table["parameter_bytes"].iloc[0] == 444
    assert table["parameters"].isna().tolist() == [False, False, False, True]
    assert layers(network())["parameters"].isna().all()
    assert str(layers(TraceBuilder().seal())["parameters"].dtype) == "Int64"


def test_a_recording_counts_what_torch_counts():
    torch = pytest.importorskip("torch")
    import notebook_prof as nbp

    shared = torch.nn.Linear(8, 8)
    model = torch.nn.Sequential(shared, torch.nn.ReLU(), shared, torch.nn.Linear(8, 2, bias=False))
    model[3].weight.requires_grad_(False)
    with nbp.profile("torch") as p:
        model(torch.rand(4, 8))
    table = p.layers().set_index("module")
    assert table["parameters"].iloc[0] == sum(one.numel() for one in model.parameters()) == 88
    assert table.loc["3", "parameters"] == 16
    counted = p.trace.metadata["tables"]["modules"].set_index("module")
    classes = {"Sequential": "Sequential", "0": "Linear", "1": "ReLU", "3": "Linear"}
    assert counted["class"].to_dict() == table["class"].dropna().to_dict() == classes
    labels = name_labels(p.trace)
    shown = {name: f"{name} {kind}" if name.isdigit() else name for name, kind in classes.items()}
    assert {name: labels[name] for name in counted.index} == shown
    styles = name_styles(p.trace)
    assert styles.colour("0") == styles.colour("3") == styles.colour("nn.Module: Linear_7")
