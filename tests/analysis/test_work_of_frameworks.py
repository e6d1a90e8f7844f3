"""Work of MegEngine's and Paddle's operators: MegEngine's own figures, and arithmetic by hand."""

from pathlib import Path

import pandas as pd
import pytest

from notebook_prof import TraceBuilder, read_trace
from notebook_prof.analysis import operator_work, roofline
from notebook_prof.analysis.work.formulas import formula_of, work_of
from notebook_prof.formats.megengine.memory import footprints


def test_footprints_are_megengines_own(data: Path) -> None:
    recorded = read_trace(data / "megengine/profiling_train.json.gz").metadata["tables"]["operators"]
    operators = recorded.drop(columns=["flop_count", "memory_bytes"]).assign(name=recorded["type"])
    footprint = footprints(operators)
    has_flops = footprint["flop_count"].notna()
    kinds = {"Elemwise", "MatrixMul"}
    kinds |= {f"Convolution{part}" for part in ("Forward", "BackwardData", "BackwardFilter")}
    assert set(recorded.loc[has_flops, "type"]) == kinds
    assert int(has_flops.sum()) == 68
    assert (
        footprint.loc[has_flops, "flop_count"].tolist()
        == recorded.loc[has_flops, "flop_count"].fillna(0).tolist()
    )
    assert (
        footprint.loc[has_flops, "memory_bytes"].tolist() == recorded.loc[has_flops, "memory_bytes"].tolist()
    )


def test_a_dynamic_graph_has_the_work_of_its_static_twin(data: Path) -> None:
    table = roofline(read_trace(data / "megengine/dyn_sampled.chrome_timeline.json.gz")).set_index("name")
    # two iterations of 8×16×30×30 · 27 · 2 and 8×32×13×13 · 144 · 2
    assert table.loc["Convolution", "flops"] == 2 * (8 * 16 * 30 * 30 * 27 * 2 + 8 * 32 * 13 * 13 * 144 * 2)
    assert table.loc["ConvolutionBackwardFilterV2", "flops"] == table.loc["Convolution", "flops"]
    assert table["on_device"].all()


def test_footprints_without_formula_stay_unknown() -> None:
    shapes = {"in_shapes": ["[[4]]", None], "out_shapes": ["[[4]]", "[[4]]"]}
    table = pd.DataFrame({"id": [1, 2], "name": ["Sort", "ADD"], **shapes})
    assert footprints(table)["flop_count"].isna().tolist() == [True, True]
    assert footprints(table)["memory_bytes"].tolist()[0] == 32


@pytest.mark.parametrize(
    ("name", "shapes", "flops"),
    [
        ("matmul_v2", "[[8, 3600], [3600, 10]]", 2 * 8 * 3600 * 10),
        ("matmul_v2", "[[5, 8, 16], [10, 16]]", 2 * 5 * 8 * 16 * 10),
        ("matmul_v2_grad", "[[8, 10], [8, 3600], [3600, 10]]", 4 * 8 * 3600 * 10),
        ("conv2d_grad", "[[16, 3, 3, 3], [8, 3, 32, 32], [8, 16, 30, 30]]", 4 * 8 * 16 * 30 * 30 * 27),
        ("elementwise_add", "[[8, 10], [10]]", 80),
        ("pd_op.relu", "[[8, 10]]", 80),
        ("softmax_with_cross_entropy", "[[8, 1], [8, 10]]", 320),
        ("reduce_mean", "[[8, 1]]", 8),
        ("batch_norm", "[[4], [4], [4], [4], [2, 4, 3]]", 120),
    ],
)
def test_paddle_by_hand(name: str, shapes: str, flops: int) -> None:
    work = work_of(name, shapes, source="paddle")
    assert work is not None
    assert work.flops == flops
    assert work_of(name, shapes) is None  # not a name of PyTorch's


@pytest.mark.parametrize(("name", "shapes"), [("matmul_v2", "[[8, 3], [4, 5]]"), ("matmul_v2", "[[8]]")])
def test_shapes_that_do_not_fit_give_nothing(name: str, shapes: str) -> None:
    assert work_of(name, shapes, source="paddle") is None
    assert formula_of("conv2d", "paddle") is None


def test_paddle_in_a_trace() -> None:
    for source, flops in (("paddle", 24.0), ("kineto", 0.0)):
        b = TraceBuilder(metadata={"source": source})
        b.slices(ts=0, dur=9, name="matmul_v2", shapes="[[2, 3], [3, 2]]", track=b.track("main"))
        assert operator_work(b.seal())["flops"].tolist() == [flops]
