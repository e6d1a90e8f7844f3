"""What NCCL, RCCL, Gloo, HCCL, torch and deep_ep call collectives, and how large their elements are."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from ...trace.taxonomy import function_name

_OPERATIONS: Final = (
    ("crossdevicereduce", "all_reduce"),
    ("allreduce", "all_reduce"),
    ("reducescatter", "reduce_scatter"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("broadcast", "broadcast"),
    ("notify", "notify"),
    ("dispatchlayout", "layout"),
    ("putsignal", "send"),
    ("waitsignal", "recv"),
    ("barrier", "barrier"),
    ("dispatch", "dispatch"),
    ("combine", "combine"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("send", "send"),
    ("recv", "recv"),
    ("receive", "recv"),
)
SYMMETRIC: Final = frozenset(
    {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier", "send_recv"}
)
"""Operations that no rank can end before all have begun."""

_SEPARATORS: Final = re.compile(r"[_\s-]")
_ELEMENT_BYTES: Final = (
    (re.compile(r"float8|int8|uint8|char|byte|bool"), 1),
    (re.compile(r"bfloat16|bf16|half|float16|f16|int16|short"), 2),
    (re.compile(r"complexdouble|complex128"), 16),
    (re.compile(r"double|float64|f64|int64|long|complex"), 8),
    (re.compile(r"float|int|f32|u32"), 4),
)


def operation_of(name: str) -> str:
    """The collective behind a kernel's, a range's or an argument's name; the name itself if it is none.

    Examples
    --------
    >>> operation_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"), operation_of("gloo:all_reduce")
    ('reduce_scatter', 'all_reduce')
    >>> operation_of("deep_ep::intranode::dispatch<8, 768>"), operation_of("_allgather_base")
    ('dispatch', 'all_gather')
    """
    bare = _SEPARATORS.sub("", function_name(name).lower())
    return next((word for mark, word in _OPERATIONS if mark in bare), name)


def element_bytes(dtype: str) -> int:
    """Bytes of an element type as torch or C++ spells it; 0 if it is not known.

    Examples
    --------
    >>> element_bytes("c10::BFloat16"), element_bytes("Float"), element_bytes("long int"), element_bytes("?")
    (2, 4, 8, 0)
    """
    lowered = dtype.lower()
    return next((size for pattern, size in _ELEMENT_BYTES if pattern.search(lowered)), 0)


def elements(shapes: str) -> int:
    """How many elements the tensors of a text of shapes have together; -1 if it cannot be told.

    Examples
    --------
    >>> elements("[[2, 3], [4]]"), elements("[[]]"), elements("?")
    (10, 1, -1)
    """
    try:
        return sum(_product(shape) for shape in json.loads(shapes))
    except (TypeError, ValueError):
        return -1


def _product(shape: Any) -> int:
    if shape and isinstance(shape[0], list):
        return sum(_product(inner) for inner in shape)
    return math.prod(int(size) for size in shape)


def bus_factor(operation: str, size: int) -> float:
    """How much data a link carries for each byte of the message, with `size` ranks.

    Source: PERFORMANCE.md of NVIDIA's nccl-tests.

    Examples
    --------
    >>> bus_factor("all_reduce", 8), bus_factor("all_gather", 4), bus_factor("broadcast", 8)
    (1.75, 0.75, 1.0)
    """
    if size < 1:
        return float("nan")
    if operation == "all_reduce":
        return 2 * (size - 1) / size
    if operation in ("all_gather", "reduce_scatter", "all_to_all"):
        return (size - 1) / size
    return 1.0
