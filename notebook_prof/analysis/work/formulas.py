"""A recorded call of an operator, and the formula for its work."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from ... import extensions

Shape: TypeAlias = tuple[int, ...]

_ELEMENT_BYTES: Final = (
    (re.compile(r"float8|int8|uint8|char|byte|bool"), 1),
    (re.compile(r"bfloat16|bf16|half|float16|f16|int16|short"), 2),
    (re.compile(r"complex<?double|complex128"), 16),
    (re.compile(r"double|float64|f64|int64|long|complex"), 8),
    (re.compile(r"float|int|f32|u32"), 4),
)
_NUMBER: Final = re.compile(r"-?\d+")
_NO_TENSOR: Final = frozenset({"", "Scalar", "ScalarList"})


class CallWork(NamedTuple):
    """The work of one call, if each input is read once and each output is written once."""

    kind: str
    # Floating-point operations; a multiplication and an addition count as two.
    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Call:
    """The inputs of a call."""

    # The operator's name without the prefix ``aten::``.
    name: str
    # One entry per argument; ``()`` for arguments that are not tensors, and for tensors without dimensions.
    shapes: Sequence[Any]
    # Bytes per element of each argument; 0 for arguments that are not tensors.
    element_bytes: Sequence[float]
    # Arguments that are not tensors, as text; empty if unknown.
    values: Sequence[str]

    @classmethod
    def read(cls, name: str, shapes: str, dtypes: str | None, concrete: str | None) -> Call:
        """Parse a call from the texts of a trace; ValueError or SyntaxError for malformed shapes."""
        sizes = [_shape(entry) for entry in ast.literal_eval(shapes)]
        types = json.loads(dtypes) if dtypes else None
        if types is None or len(types) != len(sizes):
            types = ["unknown" if size else "Scalar" for size in sizes]
        elements = [0 if text in _NO_TENSOR else element_bytes(str(text)) or 4 for text in types]
        values = [str(value) for value in json.loads(concrete)] if concrete else []
        return cls(name.removeprefix("aten::"), sizes, elements, values)

    def tensor(self, at: int) -> Shape:
        """Return the shape of an argument; () if there is no such argument."""
        return self.shapes[at] if at < len(self.shapes) and not _is_list(self.shapes[at]) else ()

    def elements_of(self, at: int) -> int:
        """Return the number of elements of an argument, over all tensors of a list; 0 for no tensor."""
        if at >= len(self.shapes) or not self.element_bytes[at]:
            return 0
        shape = self.shapes[at]
        return sum(map(math.prod, shape)) if _is_list(shape) else math.prod(shape)

    def largest(self) -> int:
        """Return the number of elements of the largest argument."""
        return max(map(self.elements_of, range(len(self.shapes))), default=0)

    def bytes_of(self, *at: int) -> float:
        """Return the bytes of these arguments (by default, of all)."""
        chosen = at or range(len(self.shapes))
        return float(sum(self.elements_of(i) * self.element_bytes[i] for i in chosen if i < len(self.shapes)))

    def item_bytes(self) -> float:
        """Return the size of an element of the first tensor."""
        return next((size for size in self.element_bytes if size), 4.0)

    def ints(self, at: int, count: int) -> list[int] | None:
        """Return an argument such as ``[1, 1]`` or ``2`` as `count` numbers; None if unknown."""
        if at >= len(self.values):
            return None
        numbers = [int(text) for text in _NUMBER.findall(self.values[at])]
        if len(numbers) == 1:
            numbers *= count
        return numbers if len(numbers) == count else None

    def text(self, at: int) -> str:
        """Return the text of an argument; empty if unknown."""
        return self.values[at] if at < len(self.values) else ""


def _is_list(entry: Any) -> bool:
    return bool(entry) and isinstance(entry[0], tuple)


def _shape(entry: Any) -> Any:
    if entry and isinstance(entry[0], list | tuple):
        return tuple(_shape(inner) for inner in entry)
    return tuple(int(size) for size in entry)


def element_bytes(dtype: str) -> int:
    """Return the size in bytes of an element type, as spelt by torch or C++; 0 if unknown."""
    lowered = dtype.lower()
    return next((size for pattern, size in _ELEMENT_BYTES if pattern.search(lowered)), 0)


# Work of operators that touch each element a fixed number of times.

Formula: TypeAlias = Callable[[Call], "CallWork | None"]
_BACKWARD: Final = re.compile("backward|_grad$")


def elementwise(call: Call) -> CallWork | None:
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
    return CallWork("elementwise", flops, call.bytes_of() + elements * call.element_bytes[tensors[0]])


def per_element(kind: str, forward: int, backward: int) -> Formula:
    """Return a formula that counts operations per element of the largest input."""

    def formula(call: Call) -> CallWork | None:
        elements = call.largest()
        each = backward if _BACKWARD.search(call.name) else forward
        written = elements * call.item_bytes()
        return CallWork(kind, each * elements, call.bytes_of() + written) if elements else None

    return formula


# statistics, difference, scale, shift; backward two sums of products, and the forward's last three for each
norm: Final = per_element("norm", 5, 8)
# maximum, difference, exponential, sum or quotient
softmax: Final = per_element("softmax", 4, 3)


def reduction(call: Call) -> CallWork | None:
    """Count one operation for each element read; writes do not count."""
    elements = call.elements_of(0)
    return CallWork("reduction", elements, call.bytes_of()) if elements else None


def pooling(call: Call) -> CallWork | None:
    """Count elements of the output × elements of the window; if adaptive, the input's elements."""
    x = call.tensor(0)
    if "backward" in call.name:
        elements = call.elements_of(0)
        return CallWork("pooling", elements, call.bytes_of() + call.bytes_of(1)) if elements else None
    if call.name.lstrip("_").startswith("adaptive"):
        return CallWork("pooling", math.prod(x), call.bytes_of()) if x else None
    size = 1 if "1d" in call.name else 3 if "3d" in call.name else 2
    window = call.ints(1, size)
    if not x or len(x) < size or window is None:
        return None
    stride, padding = call.ints(2, size) or window, call.ints(3, size) or [0] * size
    out = [(x[i - size] + 2 * padding[i] - window[i]) // max(stride[i], 1) + 1 for i in range(size)]
    elements = math.prod(x[: len(x) - size]) * math.prod(out)
    return CallWork("pooling", elements * math.prod(window), call.bytes_of(0) + elements * call.item_bytes())


def embedding(call: Call) -> CallWork | None:
    """Count the rows read and written, without operations; the backward adds each row once."""
    if "backward" in call.name:
        elements = call.elements_of(0)
        return CallWork("embedding", elements, 2 * call.bytes_of(0) + call.bytes_of(1))
    table = call.tensor(0)
    at = 2 if call.name == "index_select" else 1
    rows = call.elements_of(at)
    if not table or not rows:
        return None
    moved = rows * math.prod(table[1:]) * call.element_bytes[0]
    return CallWork("embedding", 0, 2 * moved + call.bytes_of(at))


def copy(call: Call) -> CallWork | None:
    """Count the inputs as read, and as much as written, without operations."""
    if call.name in ("fill_", "zero_"):
        return CallWork("copy", 0, call.bytes_of(0))
    if call.name == "copy_":
        return CallWork("copy", 0, call.bytes_of(0, 1))
    return CallWork("copy", 0, 2 * call.bytes_of()) if call.bytes_of() else None


def _broadcast(shapes: list[Shape]) -> Shape:
    # unlike NumPy's, for Paddle's operators that align axes from another one on
    width = max(map(len, shapes), default=0)
    padded = [(1,) * (width - len(shape)) + shape for shape in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))


# Work of matrix products, convolutions and attention.

_FIRST: Final = {"addmm": 1, "_addmm_activation": 1, "baddbmm": 1, "addbmm": 1, "addmv": 1}
"""Index of the first of the two factors among the arguments, if not 0."""

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


def matmul(call: Call) -> CallWork | None:
    """Count 2·m·n·k for each matrix of a batch."""
    # This is the formula of `torch.utils.flop_counter` (``mm_flop``, ``bmm_flop``), of torch.profiler's
    # ``with_flops`` and of MegEngine's footprint; adding a bias does not count.
    at = _FIRST.get(call.name, 0)
    a, b = call.tensor(at), call.tensor(at + 1)
    if not a or not b:
        return None
    linear = call.name in ("linear", "mkldnn_linear")
    if linear:
        out = (*a[:-1], b[0]) if len(b) > 1 else a[:-1]
    elif call.name == "outer":
        return CallWork("matmul", a[0] * b[0], call.bytes_of(0, 1) + a[0] * b[0] * call.item_bytes())
    else:
        out = _product(a, b)
        if call.name == "addbmm":
            out = out[1:]
    batch = a[0] if call.name == "addbmm" else 1
    flops = 2 * batch * math.prod(out) * a[-1]
    written = math.prod(out) * call.element_bytes[at]
    read = call.bytes_of(*range(at + 2 + linear))
    return CallWork("matmul", flops, read + written)


def convolution(call: Call) -> CallWork | None:
    """Count 2·batch·spatial·c_out·c_in·kernel, with the output's spatial size (input's, if transposed)."""
    # This is the formula of `torch.utils.flop_counter.conv_flop_count`; None if strides and paddings were not
    # recorded.
    x, w = call.tensor(0), call.tensor(1)
    out = _output(call, x, w)
    if out is None:
        return None
    spatial, transposed = out
    channels = w[0] if not transposed else w[1] * max(x[1] // w[0], 1)
    flops = 2 * x[0] * math.prod(x[2:] if transposed else spatial) * math.prod(w)
    written = x[0] * channels * math.prod(spatial) * call.item_bytes()
    read = call.bytes_of(0, 1) if call.name == "cudnn_convolution" else call.bytes_of(0, 1, 2)
    return CallWork("convolution", flops, read + written)


def convolution_backward(call: Call) -> CallWork | None:
    """Count the forward convolution once for each requested gradient, of input and weight."""
    # This is the rule of `torch.utils.flop_counter.conv_backward_flop`; summing for the bias does not count.
    grad, x, w = call.tensor(0), call.tensor(1), call.tensor(2)
    if not (grad and x and w):
        return None
    wanted = (call.text(10) or "[True, True, True]").strip("[]").split(", ")
    gradients = [word == "True" for word in wanted]
    transposed = call.text(7) == "True"
    once = 2 * grad[0] * math.prod((x if transposed else grad)[2:]) * math.prod(w)
    written = sum(call.bytes_of(at) for at, want in zip((1, 2), gradients, strict=False) if want)
    return CallWork("convolution", once * sum(gradients[:2]), call.bytes_of(0, 1, 2) + written)


def attention(call: Call) -> CallWork | None:
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
    return CallWork("attention", flops, moved)


def _product(a: Shape, b: Shape) -> Shape:
    """Return the shape of a matrix product, with batches broadcast as torch.matmul does."""
    rows = (a[-2],) if len(a) > 1 else ()
    columns = (b[-1],) if len(b) > 1 else ()
    return (*_broadcast([a[:-2], b[:-2]]), *rows, *columns)


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


_FORMULAS: Final[tuple[tuple[str, Formula], ...]] = (
    (r"mm|addmm|bmm|baddbmm|addbmm|matmul|linear|mkldnn_linear|mv|addmv|dot|outer|_scaled_mm|_addmm_activation"
     r"|_int_mm", matmul),
    (r"conv[123]d|conv_transpose[123]d|_?convolution|convolution_overrideable"
     r"|(?:mkldnn|cudnn|miopen)_convolution", convolution),
    (r"convolution_backward(?:_overrideable)?", convolution_backward),
    (r"(?:_?scaled_dot_product|_flash|_efficient)\w*attention\w*", attention),
    (r"(?:native_|cudnn_|miopen_|_fused_)?(?:batch|layer|group|instance|rms)_norm(?:_backward)?"
     r"|_batch_norm_(?:impl_index|with_update)(?:_backward)?", norm),
    (r"_?(?:log_)?softmax(?:_backward_data)?|logsumexp", softmax),
    (r"(?:_?adaptive_)?(?:max|avg)_pool[123]d(?:_with_indices)?(?:_backward)?"
     r"|_adaptive_avg_pool[123]d(?:_backward)?", pooling),
    (r"embedding|embedding_dense_backward|index_select", embedding),
    (r"sum|mean|amax|amin|max|min|prod|var|std|norm|linalg_vector_norm|any|all|argmax|argmin|cumsum",
     reduction),
    (r"(?:_foreach_(?!norm)\w+|_fused_(?:adamw?|sgd|adagrad)_?|(?:add|sub|rsub|mul|div|neg|abs|exp|log|sqrt|rsqrt"
     r"|pow|reciprocal|tanh|sigmoid|relu|gelu|silu|mish|elu|leaky_relu|hardtanh|hardswish|threshold|clamp|clamp_min"
     r"|clamp_max|where|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|maximum|minimum|addcmul|addcdiv|lerp|sin|cos|erf"
     r"|sign|floor|ceil|round|fmod|remainder|masked_fill|native_dropout)_?(?:_backward|_grad_input)?)",
     elementwise),
    (r"copy_|clone|_to_copy|cat|stack|fill_|zero_|constant_pad_nd|repeat|roll|flip", copy),
)  # fmt: skip
_PATTERNS: Final = tuple((re.compile(pattern), formula) for pattern, formula in _FORMULAS)


def work_of(
    name: str, shapes: str, dtypes: str | None = None, concrete: str | None = None, source: str = ""
) -> CallWork | None:
    """Count the FLOPs and bytes of one call; None without a formula, or if its inputs were not recorded."""
    formula = formula_of(name, source)
    if formula is None:
        return None
    try:
        return formula(Call.read(name, shapes, dtypes, concrete))
    except (ValueError, SyntaxError, TypeError, IndexError):
        return None  # unexpected shapes: presumably a different operator with this name


def formula_of(name: str, source: str = "") -> Formula | None:
    """Return the formula for an operator's name in recordings of `source`; None without one."""
    if source in extensions.OURS["formulas"]:
        formula: Formula | None = extensions.load("formulas", source)(name)
        return formula
    if not name.startswith("aten::"):
        return None
    return next((formula for pattern, formula in _PATTERNS if pattern.fullmatch(name, len("aten::"))), None)
