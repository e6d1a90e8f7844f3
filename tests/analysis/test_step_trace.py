"""The step trace: drawn, against MindInsight's figures, and by law."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from notebook_prof import TraceBuilder, read_trace
from notebook_prof.analysis import phases, step_trace
from notebook_prof.testing import draw
from tests.strategies import traces

PARTS = ["gap_ns", "fp_bp_ns", "tail_ns"]
TWO = """
steps: [0                                        ][1                                        ]
main:  [next/data][mm/forward][add/forward]          [next/data][mm/forward][add/forward]
autograd:                          [mm_b/backward]                                   [mm_b/backward]
"""


def test_points_are_found():
    table = step_trace(draw(TWO))
    assert table["total_ns"].tolist() == [43, 43]
    # the second backward outlasts its step
    assert table[PARTS].values.tolist() == [[11, 32, 0], [14, 29, 0]]
    assert table["fp_point"].tolist() == ["mm", "mm"]
    assert table["points"].tolist() == ["found", "found"]
    assert table["data_ns"].tolist() == [11, 11]
    assert table["rank"].isna().all()


def test_points_are_operators_of_any_name():
    trace = draw("""
    steps: [0                                             ]
    main:  [copy/forward][mm/forward][last/backward][update]
    """)
    row = step_trace(trace).iloc[0]
    assert (row["fp_point"], row["bp_point"], row["points"]) == ("copy", "last", "found")


def test_collectives_of_a_step():
    trace = draw(
        """
        steps: [0                   ]
        main:  [mm/forward]
        stream 9:    [nccl   ][nccl ]
        """,
        categories={"nccl": "collective"},
    )
    assert step_trace(trace)["all_reduce_ns"].tolist() == [16]


def test_inference_and_nothing():
    row = step_trace(draw("steps: [0            ]\nmain:     [mm/forward]")).iloc[0]
    assert row[PARTS].tolist() == [3, 12, 0]
    row = step_trace(draw("steps: [0            ]")).iloc[0]
    assert row["gap_ns"] == row["total_ns"]
    assert step_trace(TraceBuilder().seal()).empty
    assert step_trace(draw("main: [mm ]")).empty


@given(traces())
def test_the_three_parts_sum_to_the_step(trace):
    for window in (None, (30, 90)):
        table = step_trace(trace, window=window)
        assert (table[PARTS] >= 0).all(axis=None)
        assert table[PARTS].sum(axis=1).tolist() == table["total_ns"].tolist()
        data = phases(trace, window=window)
        assert table["data_ns"].sum() == data.loc[data["phase"] == "data", "host_ns"].sum()


RESOURCE = "fetched/mindinsight/tests/utils/resource"


@pytest.mark.parametrize(
    ("folder", "summary"), [("run_1/normal_run/profiler", "run_1"), ("profiler", "profiler_0")]
)
def test_mindinsight_gives_the_same_parts(shared_traces: Path, folder: str, summary: str):
    table = step_trace(read_trace(shared_traces / RESOURCE / folder))
    answers = shared_traces / "fetched" / "mindinsight_oracle" / summary
    # MindInsight draws the parts of each step over the steps
    for column, name in (("gap_ns", "iteration_interval"), ("fp_bp_ns", "fp_and_bp"), ("tail_ns", "tail")):
        reported = json.loads((answers / f"step_trace_proc_{name}.json").read_text())
        values = np.array(
            reported["info"][next(iter(reported["info"]))]
            if isinstance(reported["info"], dict)
            else reported["info"]
        )
        np.testing.assert_allclose(table[column].to_numpy() / 1e6, values.astype(float), atol=6e-5)
    assert set(table["points"]) == {"file"}
