"""Work of matrix products, convolutions and attention."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from .calls import Call, Shape, Work

_FIRST: Final = {"addmm": 1, "_addmm_activation": 1, "baddbmm": 1, "addbmm": 1, "addmv": 1}
"""Where the two factors begin, if not at the front."""

_Positions: TypeAlias = tuple[int, int, int, int | bool | None, int | None]

_CONVOLUTIONS: Final[dict[str, _Positions]] = {
    # stride, padding, dilation, transposed, output padding
    "convolution": (3, 4, 5, 6, 7),
    "_convolution": (3, 4, 5, 6, 7),
    "convolution_overrideable": (3, 4, 5, 6, 7),
    "mkldnn_convolution": (4, 3, 5, None, None),
    "cudnn_convolution": (3, 2, 4, None, None),
    "miopen_convolution": (4, 3, 5, None, None),
}
_DIRECT: Final[_Positions] = (3, 4, 5, None, None)
_TRANSPOSED: Final[_Positions] = (3, 4, 7, True, 5)


def matmul(call: Call) -> Work | None:
    """Count 2·m·n·k for each matrix of a batch."""
    # This is the formula of `torch.utils.flop_counter` (``mm_flop``, ``bmm_flop``), of torch.profiler's
    # ``with_flops`` and of MegEngine's footprint; adding a bias does not count.
    at = _FIRST.get(call.name, 0)
    a, b = call.tensor(at), call.tensor(at + 1)
    if not a or not b:
        return None
    if call.name in ("linear", "mkldnn_linear"):
        out = (*a[:-1], b[0]) if len(b) > 1 else a[:-1]
    elif call.name == "outer":
        return Work("matmul", a[0] * b[0], call.bytes_of(0, 1) + a[0] * b[0] * call.item_bytes())
    else:
        out = _product(a, b)
        if call.name == "addbmm":
            out = out[1:]
    batch = a[0] if call.name == "addbmm" else 1
    flops = 2 * batch * math.prod(out) * a[-1]
    written = math.prod(out) * call.element_bytes[at]
    read = call.bytes_of(*range(at + 2)) + (
        call.bytes_of(2) if call.name in ("linear", "mkldnn_linear") else 0
    )
    return Work("matmul", flops, read + written)


def convolution(call: Call) -> Work | None:
    """Count 2·batch·spatial·c_out·c_in·kernel, with the output's spatial size (the input's, if transposed).

    >>> stride = '["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "1"]'
    >>> shapes = "[[1, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], []]"
    >>> convolution(Call.read("aten::conv2d", shapes, None, stride))
    Work(kind='convolution', flops=3456, bytes=1456.0)
    """
    # This is the formula of `torch.utils.flop_counter.conv_flop_count`; None if strides and paddings were not
    # recorded.
    x, w = call.tensor(0), call.tensor(1)
    out = _output(call, x, w)
    if out is None:
        return None
    spatial, transposed = out
    channels = w[0] if not transposed else w[1] * _groups(x, w)
    flops = 2 * x[0] * math.prod(x[2:] if transposed else spatial) * math.prod(w)
    written = x[0] * channels * math.prod(spatial) * call.item_bytes()
    read = call.bytes_of(0, 1) if call.name == "cudnn_convolution" else call.bytes_of(0, 1, 2)
    return Work("convolution", flops, read + written)


def convolution_backward(call: Call) -> Work | None:
    """Count the forward convolution once for each requested gradient, of input and weight."""
    # As in `torch.utils.flop_counter.conv_backward_flop`; the bias's sum does not count.
    grad, x, w = call.tensor(0), call.tensor(1), call.tensor(2)
    if not (grad and x and w):
        return None
    gradients = (
        [word == "True" for word in call.text(10).strip("[]").split(", ")] if call.text(10) else [True] * 3
    )
    transposed = call.text(7) == "True"
    once = 2 * grad[0] * math.prod((x if transposed else grad)[2:]) * math.prod(w)
    written = sum(
        size for size, want in zip((call.bytes_of(1), call.bytes_of(2)), gradients, strict=False) if want
    )
    return Work("convolution", once * sum(gradients[:2]), call.bytes_of(0, 1, 2) + written)


def attention(call: Call) -> Work | None:
    """Count 2·batch·heads·queries·keys·(d_qk + d_v); (3 d_qk + 2 d_v) backward, recomputing scores."""
    # These are the formulas of `torch.utils.flop_counter` (``sdpa_flop_count``,
    # ``sdpa_backward_flop_count``). A causal mask is not subtracted, since implementations differ in how much
    # they skip.
    backward = call.name.endswith("backward")
    q, k, v = (call.tensor(at + backward) for at in range(3))
    if min(len(q), len(k), len(v)) != 4:
        return None
    # _flash_attention_* and _efficient_attention_* hold (batch, length, heads, size)
    heads, length = (2, 1) if call.name.startswith(("_flash", "_efficient")) else (1, 2)
    pairs = q[0] * q[heads] * q[length] * k[length]
    if backward:
        flops = 2 * pairs * (3 * q[3] + 2 * v[3])
        moved = 2 * call.bytes_of(1, 2, 3) + call.bytes_of(0, 4)
    else:
        flops = 2 * pairs * (q[3] + v[3])
        written = q[0] * q[heads] * q[length] * v[3] * call.item_bytes()
        moved = call.bytes_of(0, 1, 2) + written
    return Work("attention", flops, moved)


def _product(a: Shape, b: Shape) -> Shape:
    """Return the shape of a matrix product, with batches broadcast as torch.matmul does."""
    rows = (a[-2],) if len(a) > 1 else ()
    columns = (b[-1],) if len(b) > 1 else ()
    outer, inner = a[:-2], b[:-2]
    width = max(len(outer), len(inner))
    padded = ((1,) * (width - len(side)) + side for side in (outer, inner))
    return (*(max(pair) for pair in zip(*padded, strict=True)), *rows, *columns)


def _groups(x: Shape, w: Shape) -> int:
    return max(x[1] // w[0], 1)


def _output(call: Call, x: Shape, w: Shape) -> tuple[Shape, bool] | None:
    """Return the spatial size of a convolution's output, and whether the convolution is transposed."""
    size = len(w) - 2
    if size < 1 or len(x) != len(w):
        return None
    positions = _CONVOLUTIONS.get(call.name, _TRANSPOSED if "transpose" in call.name else _DIRECT)
    stride, padding, dilation = (call.ints(at, size) for at in positions[:3])
    flag, extra_at = positions[3], positions[4]
    transposed = flag is True or (flag is not None and call.text(int(flag)) == "True")
    if stride is None or dilation is None:
        return None
    if padding is None:
        if call.text(positions[1]) == "same":
            return x[2:], False
        if call.text(positions[1]) != "valid":
            return None
        padding = [0] * size
    if transposed:
        extra = call.ints(extra_at, size) if extra_at is not None else None
        more = extra or [0] * size
        spatial = tuple(
            (x[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (w[i + 2] - 1) + more[i] + 1
            for i in range(size)
        )
    else:
        spatial = tuple(
            (x[i + 2] + 2 * padding[i] - dilation[i] * (w[i + 2] - 1) - 1) // stride[i] + 1
            for i in range(size)
        )
    return spatial, transposed
