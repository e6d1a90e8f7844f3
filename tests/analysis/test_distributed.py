"""Communication and computation, against other tools' figures for the same files."""

import pytest
from hypothesis import given

from notebook_prof.analysis import collectives, device, distributed
from notebook_prof.testing import draw
from tests.strategies import traces

KINDS = {"nccl": "collective", "gloo": "collective", "copy": "memcpy"}


def test_steps_of_a_device():
    trace = draw(
        """
        steps: [0           ][1           ]
        main:  [run]         [run]
        stream 7: [gemm  ]      [gemm]
        stream 9:     [nccl   ]       [nccl]
        """,
        categories=KINDS,
    )
    columns = ["step", "communication_ns", "computation_ns", "overlap_ns", "exposed_ns", "busy_ns", "span_ns"]
    assert distributed(trace)[columns].values.tolist() == [[0, 9, 8, 4, 5, 13, 13], [1, 6, 6, 0, 6, 12, 12]]
    assert distributed(trace, step=1)["step"].tolist() == [1]
    whole = distributed(trace, by="trace")
    assert whole["step"].isna().all()
    assert whole["communication_ns"].tolist() == [15]
    assert distributed(trace, window=(0, 8), by="trace")["communication_ns"].tolist() == [1]


def test_collectives_of_the_host():
    trace = draw(
        """
        steps: [0                 ]
        main:  [mm   ]     [add]
        gloo worker: [gloo   ]
        """,
        categories=KINDS,
    )
    row = distributed(trace).iloc[0]
    columns = ["device", "communication_ns", "computation_ns", "overlap_ns"]
    assert [row[column] for column in columns] == [-1, 9, 12, 4]


@pytest.mark.parametrize(("phase", "before"), [("data", "read"), ("other", "mm")])
def test_what_came_before_a_collective(phase: str, before: str):
    trace = draw(
        f"""
        steps: [0                             ][1                             ]
        main:  [read/{phase}    ][mm][all_reduce][read/{phase}    ][mm][all_reduce]
        """,
        categories={"read": "annotation", "all_reduce": "collective"},
    )
    assert collectives(trace)["before"].tolist() == [before, before]


@given(traces())
def test_parts_add_up(trace):
    for by in ("step", "trace"):
        table = distributed(trace, by=by)
        assert (table["overlap_ns"] + table["exposed_ns"] == table["communication_ns"]).all()
        assert (table["busy_ns"] <= table["span_ns"]).all()
        assert (table["overlap_ns"] >= 0).all()
        either = table["communication_ns"] + table["computation_ns"] - table["overlap_ns"]
        assert (either <= table["busy_ns"]).all()
    devices = device(trace)
    if len(devices):
        assert (
            distributed(trace, by="trace")["exposed_ns"].tolist()
            == devices["exposed_communication_ns"].tolist()
        )
