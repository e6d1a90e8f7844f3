"""Self time by function and line."""

import pytest

from notebook_prof import TraceBuilder
from notebook_prof.analysis import hotspots


@pytest.fixture
def trace():
    b = TraceBuilder()
    main = b.track("main", pid=1, tid=1)
    train = b.stack([("train", "cell.py", 1)])
    line3 = b.stack([("train", "cell.py", 3)])
    loss = b.stack([("train", "cell.py", 3), ("loss", "loss.py", 8)])
    b.slices(
        ts=[0, 10, 20, 60, 70], dur=[100, 80, 30, 20, 10], track=main,
        name=["train", "cell.py:3", "loss", "aten::mm", "aten::add"],
        category=["python", "python", "python", "operator", "operator"],
        stack=[train, line3, loss, -1, -1],
    )  # fmt: skip
    return b.seal()


def test_by_function_line_and_operator(trace):
    table = hotspots(trace)
    found = table[["name", "file", "line", "count", "total_ns", "self_ns"]].values.tolist()
    assert found == [["train", "cell.py", 3, 4, 100, 70], ["loss", "loss.py", 8, 1, 30, 30]]
    assert table["share"].tolist() == [0.7, 0.3]
    table = hotspots(trace, by="line")
    assert table[["file", "line", "self_ns"]].values.tolist() == [
        ["cell.py", 3, 50],
        ["loss.py", 8, 30],
        ["cell.py", 1, 20],
    ]
    table = hotspots(trace, by="operator").set_index("name")
    assert table.loc["aten::add", ["file", "line", "self_ns"]].tolist() == ["cell.py", 3, 10]
    assert table.loc["aten::mm", "total_ns"] == 20
    cut = hotspots(trace, window=(15, 25))
    assert cut[["name", "self_ns"]].values.tolist() == [["train", 5], ["loss", 5]]


def test_names_that_hold_a_place_are_read():
    for name, *row in (
        ("torch/optim/adam.py(214): step", "step", "torch/optim/adam.py", 214),
        ("train.<locals>.inner (/home/me/cell.py:12)", "train.<locals>.inner", "/home/me/cell.py", 12),
        ("<built-in function len>", "<built-in function len>", ""),
    ):
        b = TraceBuilder()
        b.slices(ts=0, dur=5, name=name, track=b.track("main"), category="python")
        assert hotspots(b.seal())[["name", "file", "line"]].iloc[0].tolist()[: len(row)] == row
    assert hotspots(TraceBuilder().seal()).empty
