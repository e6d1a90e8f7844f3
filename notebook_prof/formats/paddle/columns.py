"""The columns shared by Paddle's two kinds of file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pandas as pd

from ...trace.taxonomy import call_category, group_of_word, is_collective_kernel

# Paddle's event types, and their meaning here.

EVENT_TYPES: Final = (
    "Operator", "Dataloader", "ProfileStep", "CudaRuntime", "Kernel", "Memcpy", "Memset", "UserDefined",
    "OperatorInner", "Forward", "Backward", "Optimization", "Communication", "PythonOp", "PythonUserDefined",
    "DygraphKernelLaunch", "StaticKernelLaunch",
)  # fmt: skip
"""By number, as the protobuf file holds them. 15 and 16 are Paddle 3's; the schema that Paddle embeds
ends at 14, which is why Paddle 3.3 cannot read its own files."""

MEMORY_TYPES: Final = ("Allocate", "Free", "ReservedAllocate", "ReservedFree")

DEVICE_TYPES: Final = ("Kernel", "Memcpy", "Memset")
RUNTIME_TYPES: Final = ("CudaRuntime", "MluRuntime")

_CATEGORY: Final = group_of_word(
    {
        "operator": "Operator OperatorInner DygraphKernelLaunch StaticKernelLaunch",
        "annotation": "Dataloader ProfileStep UserDefined Backward Optimization PythonUserDefined",
        "launch": "CudaRuntime MluRuntime",
        "kernel": "Kernel",
        "memcpy": "Memcpy",
        "memset": "Memset",
        "module": "Forward",
        "collective": "Communication",
        "python": "PythonOp",
    }
)

_PHASE: Final = {
    "Dataloader": "data",
    "Forward": "forward",
    "Backward": "backward",
    "Optimization": "optimizer",
    "Communication": "communication",
}

_KERNEL_LAUNCH: Final = " kernel launch"


def event_type(number: int, name: str) -> str:
    """Return Paddle's word for a type number; ``Unknown <n>`` beyond the known ones.

    >>> event_type(15, "relu kernel launch"), event_type(15, "cnInvokeKernel")
    ('DygraphKernelLaunch', 'MluRuntime')
    """
    # Some versions of 2022 and 2023 used 15 for the runtime calls of MLU devices; names distinguish them from
    # Paddle 3's kernel launches.
    if number == EVENT_TYPES.index("DygraphKernelLaunch") and not name.endswith(_KERNEL_LAUNCH):
        return "MluRuntime"
    return EVENT_TYPES[number] if 0 <= number < len(EVENT_TYPES) else f"Unknown {number}"


def has_category(word: str) -> bool:
    """Return whether the type has a category of its own."""
    return word in _CATEGORY


def category(word: str, name: str) -> str:
    """Return the category of an event; unknown types are operators.

    >>> category("Kernel", "ncclKernel_AllReduce_RING_LL_Sum_float"), category("Forward", "Linear")
    ('collective', 'module')
    """
    word_category = _CATEGORY.get(word, "operator")
    if word_category == "kernel" and (is_collective_kernel(name) or "xccl" in name.lower()):
        return "collective"
    return call_category(name) if word_category == "launch" else word_category


def phase(word: str) -> str | None:
    """Return the phase that a type proves; None for types inside phases."""
    return _PHASE.get(word)


# Input shapes and call stacks of Paddle's operators.

_FRAME: Final = re.compile(r"File ['\"]([^'\"\n]*)['\"], line (\d+), in ([^\n\\]+)")


class Inputs(NamedTuple):
    """Shapes and variable kinds of an operator's inputs, by argument."""

    shapes: Mapping[str, Any]
    dtypes: Mapping[str, Any]


def shapes_text(shapes: Mapping[str, Any]) -> str:
    """Return the shapes of all arguments as one list, as `slices.shapes` holds them."""
    flat: list[Any] = []
    for value in shapes.values():
        flat += value if isinstance(value, list) else [value]
    return repr(flat)


def frames(callstack: str) -> list[tuple[str, str, int]]:
    """Return a recorded Python call stack as (function, file, line), root first.

    >>> frames("File 'a.py', line 3, in main\\n  f()\\nFile 'b.py', line 7, in f")
    [('main', 'a.py', 3), ('f', 'b.py', 7)]
    """
    return [(name.strip(), file, min(int(line), 2**31 - 1)) for file, line, name in _FRAME.findall(callstack)]


ROW_COLUMNS: Final = {
    "ts": "int64",
    "dur": "int64",
    "name": "object",
    "type": "object",
    "pid": "int64",
    "tid": "int64",
    "device": "int64",
    "stream": "int64",
    "correlation": "int64",
    "shapes": "object",
    "callstack": "object",
}
"""Columns of `PaddleColumns.rows`. Times in Unix ns; -1 and None are missing; `type` is Paddle's own word."""

DEVICE_COLUMNS: Final = {
    "correlation": "int64",
    "device": "int64",
    "stream": "int64",
    "start_unix_ns": "int64",
    "name": "object",
    "type": "object",
    "context": "Int64",
    "grid": "object",
    "block": "object",
    "registers_per_thread": "Int64",
    "shared_memory_bytes": "Int64",
    "blocks_per_sm": "float64",
    "warps_per_sm": "float64",
    "occupancy": "float64",
    "bytes": "Int64",
    "value": "Int64",
}
"""Columns of ``metadata["tables"]["device_events"]``; `occupancy` is a share from 0 to 1."""

MEMORY_COLUMNS: Final = {
    "ts": "int64",
    "type": "object",
    "place": "object",
    "addr": "uint64",
    "bytes": "int64",
    "allocated": "int64",
    "reserved": "int64",
    "peak_allocated": "int64",
    "peak_reserved": "int64",
    "pid": "int64",
    "tid": "int64",
}
"""Columns of `PaddleColumns.memory`; `type` is Allocate, Free, ReservedAllocate or ReservedFree."""

INPUT_COLUMNS: Final = {"name": "object", "inputs": "object", "dtypes": "object"}
"""Columns of `PaddleColumns.inputs`: JSON text of ``{argument: [shape, ...]}`` and of the variable kinds."""


@dataclass(frozen=True, slots=True)
class PaddleColumns:
    """One file's events."""

    rows: pd.DataFrame  # everything with a duration: `ROW_COLUMNS`
    device_events: pd.DataFrame  # launch attributes and bytes of device work: `DEVICE_COLUMNS`
    memory: pd.DataFrame  # `MEMORY_COLUMNS`
    inputs: pd.DataFrame  # one row per operator call with known inputs: `INPUT_COLUMNS`
    # `ExtraInfo`: thread names by thread id, and utilisations
    extra: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the metadata


def frame(columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """Return a frame of tuples with exact dtypes, also when there are no rows."""
    return pd.DataFrame(rows, columns=pd.Index(list(columns)), dtype=object).astype(dict(columns))
