"""The work of Paddle's operators, as far as it follows from their inputs.

Inputs are in the order of their names (``Filter Input``, ``Out@GRAD X Y``). There is no formula for forward
convolution or pooling, since Paddle records neither stride nor output.
"""

from __future__ import annotations

import math
import re
from typing import Final

from ...analysis.work.formulas import Call, CallWork, Formula, Shape, elementwise, norm, softmax


def matmul(call: Call) -> CallWork | None:
    """Count 2·m·n·k for each matrix in a batch, and twice that for the two gradients."""
    backward = call.name.endswith("_grad")
    a, b = call.tensor(int(backward)), call.tensor(int(backward) + 1)
    sizes = _product(a, b)
    if sizes is None:
        return None
    rows, columns, inner = sizes
    batch = max(math.prod(a[:-2]), math.prod(b[:-2]))
    out = batch * rows * columns
    written = (math.prod(a) + math.prod(b) if backward else out) * call.item_bytes()
    return CallWork("matmul", 2 * out * inner * (1 + backward), call.bytes_of() + written)


def convolution_backward(call: Call) -> CallWork | None:
    """Count the products for input and filter: each 2 · output · filter elements per output."""
    weights, inputs, out = (call.tensor(at) for at in range(3))
    if len(weights) < 3 or len(out) != len(weights):
        return None
    written = (math.prod(weights) + math.prod(inputs)) * call.item_bytes()
    flops = 2 * 2 * math.prod(out) * math.prod(weights[1:])
    return CallWork("convolution", flops, call.bytes_of() + written)


def reduction(call: Call) -> CallWork | None:
    """Count one operation per element of the largest input."""
    elements = call.largest()
    return CallWork("reduction", elements, call.bytes_of()) if elements else None


_FORMULAS: Final[tuple[tuple[re.Pattern[str], Formula], ...]] = tuple(
    (re.compile(pattern), formula)
    for pattern, formula in (
        (r"(?:matmul(?:_v2)?|mul|bmm|mm)(?:_grad)?", matmul),
        (r"(?:depthwise_)?conv[23]d_grad", convolution_backward),
        (r"(?:batch|layer|group|instance)_norm(?:_grad)?", norm),
        (r"(?:log_)?softmax(?:_with_cross_entropy)?(?:_grad)?", softmax),
        (r"reduce_(?:sum|mean|max|min|prod)|mean", reduction),
        (
            r"elementwise_(?:add|sub|mul|div|max|min|pow|mod)(?:_grad)?"
            r"|(?:relu6?|gelu|tanh|sigmoid|silu|swish|exp|log|sqrt|rsqrt|square|abs|scale|leaky_relu|hard_swish)"
            r"(?:_grad)?|sgd|momentum|adamw?|sum",
            elementwise,
        ),
    )
)


def paddle_formula(name: str) -> Formula | None:
    """Return the formula for the name of a Paddle operator; None if there is none."""
    word = name.removeprefix("pd_op.").removesuffix(" dygraph")
    return next((formula for pattern, formula in _FORMULAS if pattern.fullmatch(word)), None)


def _product(a: Shape, b: Shape) -> tuple[int, int, int] | None:
    """Return the rows, the columns and the shared size of two matrices, either of which may be transposed."""
    if len(a) < 2 or len(b) < 2:
        return None
    for rows, inner in ((a[-2], a[-1]), (a[-1], a[-2])):
        for shared, columns in ((b[-2], b[-1]), (b[-1], b[-2])):
            if inner == shared:
                return rows, columns, inner
    return None
