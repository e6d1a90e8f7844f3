"""operators and kernels on drawn traces."""

import pandas as pd
import pytest

from notebook_prof import TraceBuilder
from notebook_prof.analysis import kernels, operators
from notebook_prof.errors import OptionError, SelectionError
from notebook_prof.testing import draw


def rows(table: pd.DataFrame, *columns: str) -> dict[str, tuple]:
    return {r["name"]: tuple(r[c] for c in columns) for r in table.to_dict("records")}


@pytest.fixture
def trace():
    return draw(
        """
        main:     [linear/forward    ] [relu/forward ]
        main:      [mm    ][add    ]
        main:        [go]
        stream 7:       [gemm      ][copy]
        steps:    [3                  ][4            ]
        """,
        categories={"go": "launch", "copy": "memcpy"},
        launches=[("go", "gemm"), ("relu", "copy")],
    )


def test_work_launched_before_the_window_still_belongs_to_its_operator(trace):
    table = operators(trace, window=(22, 24)).set_index("name")
    assert table.loc["relu", ["count", "self_ns"]].tolist() == [1, 2]
    assert operators(trace, window=(17, 18)).set_index("name").loc[
        "mm", ["count", "device_self_ns"]
    ].tolist() == [0, 1]


def test_redispatch_of_one_call_counts_once():
    trace = draw(
        """
        main: [div_  ] [div_  ]
        main:  [div_]   [mul ]
        """
    )
    assert rows(operators(trace), "count", "total_ns") == {"div_": (2, 16), "mul": (1, 6)}


def test_grouping_and_filters(trace):
    whole = operators(trace).set_index("name")["share"]
    some = operators(trace, name=["mm", "add"]).set_index("name")["share"]
    assert some.to_dict() == whole[["add", "mm"]].to_dict()
    assert operators(trace, name="nothing").empty
    assert set(operators(trace, category="launch")["name"]) == {"go"}
    b = TraceBuilder()
    row = {"track": b.track("main"), "name": "mm"}
    b.slices(ts=0, dur=5, step=0, phase="forward", module="a", shapes="[1]", **row)
    b.slices(ts=10, dur=6, step=0, phase="backward", module="b", shapes="[1]", **row)
    b.slices(ts=20, dur=7, step=1, shapes="[2]", **row)
    grouped = b.seal()
    by_module = operators(grouped, by="module")
    assert by_module["self_ns"].tolist() == [7, 6, 5]
    assert by_module["module"].isna().tolist() == [True, False, False]
    assert operators(grouped, by=("name", "shapes")).values.tolist()[0][:4] == ["mm", "[1]", 2, 11]
    assert operators(grouped, by="step")["step"].tolist() == [0, 1]
    assert operators(grouped, step=0)["self_ns"].tolist() == [11]
    assert operators(grouped, phase=["forward", "backward"])["self_ns"].tolist() == [11]
    assert operators(grouped, phase="forward", step=[0, 1])["share"].tolist() == [1.0]


def test_refusals_name_what_exists(trace):
    with pytest.raises(OptionError, match="'module'"):
        operators(trace, by="modul")
    with pytest.raises(SelectionError, match="'forward'"):
        operators(trace, phase="forwards")
    with pytest.raises(SelectionError, match="'kernel'"):
        kernels(trace, category="kernels")


def test_kernels_and_instants(trace):
    table = kernels(trace)
    names = ["name", "count", "total_ns", "mean_ns", "share"]
    assert table[names].values.tolist() == [["gemm", 1, 12, 12.0, 12 / 18], ["copy", 1, 6, 6.0, 6 / 18]]
    assert table[["min_ns", "max_ns"]].values.tolist() == [[12, 12], [6, 6]]
    assert kernels(trace, step=3)["name"].tolist() == ["gemm"]
    assert kernels(trace, category="memcpy")["share"].tolist() == [1.0]
    assert kernels(trace, window=(7, 10))[names].values.tolist() == [["gemm", 1, 3, 3.0, 1.0]]
    table = operators(draw("main: [mm  ] |mark"))
    assert rows(table, "count", "total_ns", "self_ns") == {"mm": (1, 6, 6), "mark": (1, 0, 0)}


def test_locks_that_differ_in_an_address_are_waits():
    """The table has one row for them, under a name without an address: it is hidden with the other waits."""
    lock = "<built-in method acquire of _thread.lock object at 0x7f{}>"
    b = TraceBuilder()
    names = [lock.format("3d01"), lock.format("3d02"), "aten::mm"]
    b.slices(ts=[0, 3, 6], dur=[2, 2, 2], name=names, track=b.track("m"))
    trace = b.seal()
    assert set(operators(trace)["name"]) == {"<built-in method acquire of _thread.lock object>", "aten::mm"}
    assert operators(trace, waits=False)["name"].tolist() == ["aten::mm"]
    assert operators(trace, waits=True)["count"].tolist() == [2]
