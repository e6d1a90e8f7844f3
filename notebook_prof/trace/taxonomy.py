"""The vocabulary of the model: categories, phases, kinds of tracks, sources of steps."""

from __future__ import annotations

import re
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
"""Kinds of slices. Everything on a device is `kernel`, `memcpy`, `memset` or `collective`."""

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

EVALUATION_SUFFIX: Final = "#evaluation"
"""Suffix of such a range around an outermost module in evaluation; names of slices lack it."""

BACKWARD_NODE_PREFIX: Final = "autograd::engine::evaluate_function: "
"""Start of the names of the slices in which PyTorch's autograd engine runs one node."""

LOADER_START: Final = "DataLoader: start"
LOADER_FETCH: Final = "DataLoader: fetch"
LOADER_COLLATE: Final = "DataLoader: collate"
LOADER_SEND: Final = "DataLoader: send"
LOADER_PIN: Final = "DataLoader: pin memory"
LOADER_WAIT: Final = "DataLoader: wait"
"""Names of slices: a worker of a DataLoader starts, fetches a batch and collates its items, a thread of it
pickles and sends the batch; a thread of the process copies it into pinned memory, and the process waits for
one."""

LOADER_MISSING: Final = -(1 << 62)
"""Marks an unknown instant or number in the recorded tables of DataLoaders."""

STEP_PREFIX: Final = "ProfilerStep#"
"""Start of the names of the ranges that ``torch.profiler``'s ``step()`` opens."""

_COLLECTIVE_RANGES: Final = (
    "nccl:",
    "rccl:",
    "gloo:",
    "mpi:",
    "ucc:",
    "xccl:",
    "hccl:",
    "cncl:",
    "mccl:",
    "bkcl:",
)
"""torch's name of a whole collective on the host: its backend, then the operation."""

_PHASE_OF_PREFIX: Final = (
    ("enumerate(DataLoader)#", "data"),
    ("Optimizer.step#", "optimizer"),
    ("Optimizer.zero_grad#", "optimizer"),
    (BACKWARD_NODE_PREFIX, "backward"),
    ("c10d::", "communication"),
    ("record_param_comms", "communication"),
    *((prefix, "communication") for prefix in _COLLECTIVE_RANGES),
)

_WORD: Final = r"all[-_]?reduce|reduce[-_]?scatter|all[-_]?gather|all[-_]?to[-_]?all"
_COLLECTIVE_OPERATOR: Final = re.compile(
    r"_?c10d_functional::|symm_mem::|(?:vllm|sglang|sgl_kernel|aiter|trtllm|flashinfer|_C_custom_ar)::"
    rf"(?:\w*_)?(?:{_WORD})"
)
"""Operators that communicate with other ranks: torch's functional and symmetric-memory ones, and those of
servers.
"""

_LIBRARY_KERNEL: Final = re.compile(
    r"nccl|rccl|hccl|hcom_|oneccl|mscclpp|nvshmem|rocshmem|userbuffers_"
    r"|deep_ep|(?<![a-z])dpsk(?:::|\d+)ep|hybrid_ep::|(?<![a-z])mori(?:::|\d+)moe|(?<![a-z])pplx::"
    r"|ep(?:dispatch|combine)(?:intra|inter)node|moea2a(?:prepare)?(?:dispatch|combine)"
    r"|moe_?distribute_?(?:dispatch|combine)"
    r"|cross_device_reduce|multimem_|symmetric_memory::|quickreduce::"
    r"|(?:^|::)(?:\w*_)?(?:put|wait)_signal_kernel|(?:^|::)barrier_kernel$"
)
"""Library functions that only communicate: NCCL, RCCL, HCCL, oneCCL, MSCCL++, NVSHMEM, rocSHMEM,
TransformerEngine's userbuffers, DeepEP (``dpsk::ep::`` in DeepSeek's own recordings), MORI, pplx, ``moeA2A``
of TensorRT-LLM and FlashInfer, Ascend's MoeDistribute, and the reductions over peers' memory of torch, vLLM,
SGLang and AITER."""

_BRACKETS: Final = re.compile(r"([<>(])")
_WORD_KERNEL: Final = re.compile(_WORD)
_COMPUTING_KERNEL: Final = re.compile(r"gemm|matmul|^triton_[a-z]+_fused|cub_|cub::")
"""Kernels that compute, despite their names: products that send their result at once, and those that Inductor
names after all operators around them (``triton_poi_fused_all_reduce_add_0``).
"""


_SUFFIX: Final = r"(?:_ptsz|_ptds|_spt|_v\d+)*"
"""Suffix of calls for each thread's default stream, and CUPTI's versions of a call."""
LAUNCH_CALL: Final = re.compile(
    r"_{0,2}(?:cuda|cu|hip|musa|mu)(?:Ext|Hcc|Drv)?(?:Module)?(?:GraphLaunch|Launch"
    r"(?:(?:Cooperative)?Kernel(?:ExC?)?(?:MultiDevice)?|MultiKernelMultiDevice|Grid(?:Async)?|ByPtr)?)"
    rf"{_SUFFIX}|(?:ur|pi)Enqueue(?:Cooperative)?KernelLaunch\w*"
)
"""Calls of a runtime or driver, each of which starts at least one kernel."""
_WAIT_CALL: Final = re.compile(rf"\w*(?:Device|Stream|Event|Ctx|Thread)Synchronize{_SUFFIX}")
_ASKING_CALL: Final = re.compile(
    r"_{0,2}(?:cuda|cu|hip)(?:GetDevice|GetLastError|PeekAtLastError|GetErrorName|GetErrorString"
    r"|PointerGetAttributes?|CtxGetCurrent|CtxGetDevice|DeviceGetAttribute|DevicePrimaryCtxGetState"
    r"|EventQuery|StreamQuery|StreamIsCapturing|StreamGetCaptureInfo|ThreadExchangeStreamCaptureMode"
    rf"|DriverGetVersion|RuntimeGetVersion|PushCallConfiguration|PopCallConfiguration){_SUFFIX}"
)
"""Calls that start nothing, wait for nothing and load nothing."""


def call_category(name: str) -> str:
    """Return the category of a runtime or driver call, by its name."""
    if _WAIT_CALL.fullmatch(name):
        return "sync"
    return "overhead" if _ASKING_CALL.fullmatch(name) else "launch"


def phase_of(name: str) -> str | None:
    """Return the phase that a slice's name alone implies; None if it implies none."""
    by_prefix = next((phase for prefix, phase in _PHASE_OF_PREFIX if name.startswith(prefix)), None)
    if by_prefix is None and _COLLECTIVE_OPERATOR.match(name) and "matmul" not in name and "gemm" not in name:
        return "communication"
    return by_prefix


def is_collective_kernel(name: str) -> bool:
    """Return whether a kernel moves data between ranks, by the name of its function."""
    # Arguments and template parameters do not count: a matrix product may take a library's handle.
    function = function_name(name).lower()
    if _COMPUTING_KERNEL.search(function):
        return False
    return _LIBRARY_KERNEL.search(function) is not None or _WORD_KERNEL.search(function) is not None


def function_name(name: str) -> str:
    """Return the qualified name of a C++ function, without its result, template parameters and arguments."""
    bare = name.removeprefix("void ").replace("(anonymous namespace)", "{}")
    parts, depth = [], 0
    for piece in _BRACKETS.split(bare):
        if piece == "<":
            depth += 1
        elif piece == ">":
            depth = max(depth - 1, 0)
        elif depth == 0:
            if piece == "(":
                break
            parts.append(piece)
    return "".join(parts).replace("{}", "(anonymous namespace)") or name


def is_collective_range(name: str) -> bool:
    """Return whether a host range is a whole collective, such as ``gloo:all_reduce``."""
    return name.startswith(_COLLECTIVE_RANGES)
