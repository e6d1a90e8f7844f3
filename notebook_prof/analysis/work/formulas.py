"""The formula for the work of each operator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ... import extensions
from .calls import Call, Work
from .contraction import attention, convolution, convolution_backward, matmul
from .pointwise import copy, elementwise, embedding, norm, pooling, reduction, softmax

Formula = Callable[[Call], "Work | None"]

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
    name: str,
    shapes: str,
    dtypes: str | None = None,
    concrete: str | None = None,
    element_bytes: float = 4,
    source: str = "",
) -> Work | None:
    """Count the FLOPs and bytes of one call; None without a formula, or if its inputs were not recorded.

    >>> work_of("aten::addmm", "[[512], [141, 512], [512, 512], [], []]").flops
    73924608
    """
    formula = formula_of(name, source)
    if formula is None:
        return None
    try:
        return formula(Call.read(name, shapes, dtypes, concrete, element_bytes))
    except (ValueError, SyntaxError, TypeError, IndexError):
        return None  # unexpected shapes: a different operator of the same name


def formula_of(name: str, source: str = "") -> Formula | None:
    """Return the formula for an operator's name in recordings of `source`; None without one.

    Examples
    --------
    >>> formula_of("aten::_softmax").__name__, formula_of("aten::view")
    ('softmax', None)
    """
    if source in extensions.OURS["formulas"]:
        formula: Formula | None = extensions.load("formulas", source)(name)
        return formula
    if not name.startswith("aten::"):
        return None
    word = name[len("aten::") :]
    return next((formula for pattern, formula in _PATTERNS if pattern.fullmatch(word)), None)
