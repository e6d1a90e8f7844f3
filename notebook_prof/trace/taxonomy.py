"""The words of the model: categories, phases, kinds of tracks, sources of steps."""

from __future__ import annotations

from typing import Final

CATEGORIES: Final = (
    "operator",
    "kernel",
    "launch",
    "memcpy",
    "memset",
    "collective",
    "python",
    "annotation",
    "module",
    "io",
    "sync",
    "overhead",
)
"""What a slice is. Everything on a device is `kernel`, `memcpy`, `memset` or `collective`."""

DEVICE_CATEGORIES: Final = ("kernel", "memcpy", "memset", "collective")
"""Categories that run on a device when the slice's track is a stream."""

PHASES: Final = ("data", "forward", "backward", "optimizer", "communication", "evaluation", "other")
"""Parts of a training step. Every instant of a step belongs to exactly one.

`evaluation` is the work of models in eval mode or without gradients."""

TRACK_KINDS: Final = ("thread", "stream", "counter", "memory", "process")
STEP_SOURCES: Final = ("mark", "hook", "loop", "file", "heuristic")
FLOW_KINDS: Final = ("launch", "fwdbwd", "link")
"""From a call to the device work that it started, from forward to backward, and other arrows of a file."""

MODULE_PREFIX: Final = "nn.Module#"
"""Start of the names of the ranges that the torch collector opens around module calls."""

BACKWARD_NODE_PREFIX: Final = "autograd::engine::evaluate_function: "
"""Start of the names of the slices in which PyTorch's autograd engine runs one node."""

STEP_PREFIX: Final = "ProfilerStep#"
"""Start of the names of the ranges that ``torch.profiler``'s ``step()`` opens."""

_PHASE_OF_PREFIX: Final = (
    ("enumerate(DataLoader)#", "data"),
    ("Optimizer.step#", "optimizer"),
    ("Optimizer.zero_grad#", "optimizer"),
    (BACKWARD_NODE_PREFIX, "backward"),
    ("c10d::", "communication"),
    ("nccl:", "communication"),
    ("gloo:", "communication"),
    ("record_param_comms", "communication"),
)

_COLLECTIVE_KERNELS: Final = ("nccl", "rccl", "hccl", "hcom_", "deep_ep::", "nvshmem")
_COLLECTIVE_RANGES: Final = ("nccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:")


def phase_of(name: str) -> str | None:
    """Phase that a slice's name proves by itself; None for names that leave it open.

    Examples
    --------
    >>> phase_of("Optimizer.step#Adam.step"), phase_of("aten::mm")
    ('optimizer', None)
    """
    return next((phase for prefix, phase in _PHASE_OF_PREFIX if name.startswith(prefix)), None)


def is_collective_kernel(name: str) -> bool:
    """Whether a kernel moves data between ranks, by its name.

    Examples
    --------
    >>> is_collective_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), is_collective_kernel("sgemm")
    (True, False)
    """
    lowered = name.lower()
    return any(mark in lowered for mark in _COLLECTIVE_KERNELS)


def is_collective_range(name: str) -> bool:
    """Whether a host range stands for a whole collective, as ``gloo:all_reduce`` does."""
    return name.startswith(_COLLECTIVE_RANGES)
