"""Work of Paddle's operators, against arithmetic by hand."""

import pytest

from notebook_prof import TraceBuilder
from notebook_prof.analysis import operator_work
from notebook_prof.analysis.work.formulas import formula_of, work_of


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
