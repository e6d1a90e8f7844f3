"""Work of operators that touch each element a fixed number of times."""

from __future__ import annotations

import math
from typing import Final

from .calls import Call, Work

_NORM_FLOPS: Final = 5  # sum, sum of squares, difference, scale, shift
_NORM_BACKWARD_FLOPS: Final = 8  # two sums of products, and the forward's three again for each of them
_SOFTMAX_FLOPS: Final = 4  # maximum, difference, exponential, sum or quotient
_SOFTMAX_BACKWARD_FLOPS: Final = 3


def elementwise(call: Call) -> Work | None:
    """Count elements of the output × (number of inputs − 1), at least one each: MegEngine's rule."""
    # The output is as large as the broadcast inputs; an in-place operator writes its first input.
    tensors = [at for at, size in enumerate(call.element_bytes) if size]
    if not tensors:
        return None
    if call.name.startswith("_f"):  # _foreach_*, _fused_*: lists of tensors, written in place or anew
        elements = call.elements_of(tensors[0])
    else:
        elements = math.prod(_broadcast([call.tensor(at) for at in tensors]))
    inputs = len(tensors) + (len(tensors) == 1 and call.name.rstrip("_") in ("mul", "add", "div", "sub"))
    flops = elements * (max(inputs, 2) - 1)
    return Work("elementwise", flops, call.bytes_of() + elements * call.element_bytes[tensors[0]])


def norm(call: Call) -> Work | None:
    """Count 5 operations per element (statistics, difference, scale, shift), 8 in the backward."""
    backward = call.name.endswith("backward")
    elements = call.elements_of(0)
    each = _NORM_BACKWARD_FLOPS if backward else _NORM_FLOPS
    written = elements * call.item_bytes()
    return Work("norm", each * elements, call.bytes_of() + written) if elements else None


def softmax(call: Call) -> Work | None:
    """Count 4 operations per element, 3 in the backward."""
    elements = call.elements_of(0)
    each = _SOFTMAX_BACKWARD_FLOPS if "backward" in call.name else _SOFTMAX_FLOPS
    return (
        Work("softmax", each * elements, call.bytes_of() + elements * call.item_bytes()) if elements else None
    )


def reduction(call: Call) -> Work | None:
    """Count one operation for each element read; writes do not count."""
    elements = call.elements_of(0)
    return Work("reduction", elements, call.bytes_of()) if elements else None


def pooling(call: Call) -> Work | None:
    """Count elements of the output × elements of the window; the input's elements if it is adaptive."""
    x = call.tensor(0)
    if "backward" in call.name:
        elements = call.elements_of(0)
        return Work("pooling", elements, call.bytes_of() + call.bytes_of(1)) if elements else None
    if call.name.lstrip("_").startswith("adaptive"):
        return Work("pooling", math.prod(x), call.bytes_of()) if x else None
    size = 1 if "1d" in call.name else 3 if "3d" in call.name else 2
    window = call.ints(1, size)
    if not x or len(x) < size or window is None:
        return None
    stride, padding = call.ints(2, size) or window, call.ints(3, size) or [0] * size
    out = [(x[i - size] + 2 * padding[i] - window[i]) // max(stride[i], 1) + 1 for i in range(size)]
    elements = math.prod(x[: len(x) - size]) * math.prod(out)
    return Work("pooling", elements * math.prod(window), call.bytes_of(0) + elements * call.item_bytes())


def embedding(call: Call) -> Work | None:
    """Count the rows read and written, and no operations; the backward adds each row once."""
    if "backward" in call.name:
        elements = call.elements_of(0)
        return Work("embedding", elements, 2 * call.bytes_of(0) + call.bytes_of(1))
    table = call.tensor(0)
    at = 2 if call.name == "index_select" else 1
    rows = call.elements_of(at)
    if not table or not rows:
        return None
    moved = rows * math.prod(table[1:]) * call.element_bytes[0]
    return Work("embedding", 0, 2 * moved + call.bytes_of(at))


def copy(call: Call) -> Work | None:
    """Count no operations; the inputs are read, and as much is written."""
    if call.name in ("fill_", "zero_"):
        return Work("copy", 0, call.bytes_of(0))
    if call.name == "copy_":
        return Work("copy", 0, call.bytes_of(0, 1))
    return Work("copy", 0, 2 * call.bytes_of()) if call.bytes_of() else None


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    width = max(map(len, shapes), default=0)
    padded = [(1,) * (width - len(shape)) + shape for shape in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))
