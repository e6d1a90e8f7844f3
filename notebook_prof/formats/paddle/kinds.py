"""Paddle's event types, and what they mean here."""

from __future__ import annotations

from typing import Final

from ...trace.taxonomy import call_category, is_collective_kernel

EVENT_TYPES: Final = (
    "Operator",
    "Dataloader",
    "ProfileStep",
    "CudaRuntime",
    "Kernel",
    "Memcpy",
    "Memset",
    "UserDefined",
    "OperatorInner",
    "Forward",
    "Backward",
    "Optimization",
    "Communication",
    "PythonOp",
    "PythonUserDefined",
    "DygraphKernelLaunch",
    "StaticKernelLaunch",
)
"""By number, as the protobuf file holds them. 15 and 16 are Paddle 3's; the schema that Paddle embeds
ends at 14, which is why Paddle 3.3 cannot read its own files."""

MEMORY_TYPES: Final = ("Allocate", "Free", "ReservedAllocate", "ReservedFree")

DEVICE_TYPES: Final = ("Kernel", "Memcpy", "Memset")
RUNTIME_TYPES: Final = ("CudaRuntime", "MluRuntime")

_CATEGORY: Final = {
    "Operator": "operator",
    "OperatorInner": "operator",
    "DygraphKernelLaunch": "operator",
    "StaticKernelLaunch": "operator",
    "Dataloader": "annotation",
    "ProfileStep": "annotation",
    "CudaRuntime": "launch",
    "MluRuntime": "launch",
    "Kernel": "kernel",
    "Memcpy": "memcpy",
    "Memset": "memset",
    "UserDefined": "annotation",
    "Forward": "module",
    "Backward": "annotation",
    "Optimization": "annotation",
    "Communication": "collective",
    "PythonOp": "python",
    "PythonUserDefined": "annotation",
}

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
    # Some states of 2022 and 2023 used 15 for the runtime calls of MLU devices; Paddle 3's kernel launches
    # are told from them by their names.
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
