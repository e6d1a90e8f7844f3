"""The vocabulary of the model: categories, phases, kinds of tracks, sources of steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final


def group_of_word(groups: Mapping[str, str]) -> dict[str, str]:
    """Map each word to its group. Each value of the input lists words separated by spaces."""
    return {word: group for group, words in groups.items() for word in words.split()}


CATEGORIES: Final = (
    "operator", "kernel", "launch", "memcpy", "memset", "collective", "python", "annotation", "module", "io",
    "sync", "overhead",
)  # fmt: skip
"""Kinds of slices. All work on devices is `kernel`, `memcpy`, `memset` or `collective`."""

DEVICE_CATEGORIES: Final = ("kernel", "memcpy", "memset", "collective")
"""Categories of slices that run on a device if their track is a stream."""

PHASES: Final = ("data", "forward", "backward", "optimizer", "communication", "evaluation", "other")
"""Phases of a training step. Every instant of a step belongs to exactly one.

`evaluation` is the work of models in eval mode or without gradients."""

TRACK_KINDS: Final = ("thread", "stream", "counter", "memory", "process")
STEP_SOURCES: Final = ("mark", "hook", "loop", "file", "heuristic")
FLOW_KINDS: Final = ("launch", "fwdbwd", "link")
"""Kinds of flows: call to the device work it started, forward to backward, other arrows of a file."""

MODULE_PREFIX: Final = "nn.Module#"
"""Prefix of the ranges that the torch collector opens around module calls."""

EVALUATION_SUFFIX: Final = "#evaluation"
"""Suffix of such a range around an outermost module in evaluation. The names of slices do not contain it."""

BACKWARD_NODE_PREFIX: Final = "autograd::engine::evaluate_function: "
"""Prefix of the slices in which PyTorch's autograd engine runs one node."""

LOADER_START: Final = "DataLoader: start"
LOADER_FETCH: Final = "DataLoader: fetch"
LOADER_COLLATE: Final = "DataLoader: collate"
LOADER_SEND: Final = "DataLoader: send"
LOADER_PIN: Final = "DataLoader: pin memory"
LOADER_WAIT: Final = "DataLoader: wait"
"""Names of slices of DataLoaders. A worker starts, fetches a batch and collates its items, and one of its
threads pickles and sends the batch. A thread of the main process copies it into pinned memory, and the main
process waits for batches."""

LOADER_MISSING: Final = -(1 << 62)
"""Marks an unknown instant or number in the recorded tables of DataLoaders."""

STEP_PREFIX: Final = "ProfilerStep#"
"""Prefix of the ranges that ``torch.profiler``'s ``step()`` opens."""

_COLLECTIVE_RANGES: Final = (
    "nccl:", "rccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:", "cncl:", "mccl:", "bkcl:",
)  # fmt: skip
"""Prefixes of torch's ranges around a collective on the host: the backend, before the operation."""

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
"""Operators that communicate with other ranks: torch's functional and symmetric-memory operators, and those
of inference servers.
"""

_LIBRARY_KERNEL: Final = re.compile(
    r"nccl|rccl|hccl|hcom_|oneccl|mscclpp|nvshmem|rocshmem|userbuffers_"
    r"|deep_ep|(?<![a-z])dpsk(?:::|\d+)ep|hybrid_ep::|(?<![a-z])mori(?:::|\d+)moe|(?<![a-z])pplx::"
    r"|ep(?:dispatch|combine)(?:intra|inter)node|moea2a(?:prepare)?(?:dispatch|combine)"
    r"|moe_?distribute_?(?:dispatch|combine)"
    r"|cross_device_reduce|multimem_|symmetric_memory::|quickreduce::"
    r"|(?:^|::)(?:\w*_)?(?:put|wait)_signal_kernel|(?:^|::)barrier_kernel$"
)
"""Kernels of libraries that only communicate: NCCL, RCCL, HCCL, oneCCL, MSCCL++, NVSHMEM, rocSHMEM,
TransformerEngine's userbuffers, DeepEP (``dpsk::ep::`` in DeepSeek's own recordings), MORI, pplx, ``moeA2A``
of TensorRT-LLM and FlashInfer, Ascend's MoeDistribute, and the reductions over peers' memory of torch, vLLM,
SGLang and AITER."""

_BRACKETS: Final = re.compile(r"([<>(])")
_WORD_KERNEL: Final = re.compile(_WORD)
_COMPUTING_KERNEL: Final = re.compile(r"gemm|matmul|^triton_[a-z]+_fused|cub_|cub::")
"""Kernels that compute, despite their names: matrix products that send their result at once, and kernels that
Inductor names after all neighbouring operators (``triton_poi_fused_all_reduce_add_0``).
"""


_SUFFIX: Final = r"(?:_ptsz|_ptds|_spt|_v\d+)*"
"""Suffixes of calls: variants for the per-thread default stream, and versions in CUPTI."""
LAUNCH_CALL: Final = re.compile(
    r"_{0,2}(?:cuda|cu|hip|musa|mu)(?:Ext|Hcc|Drv)?(?:Module)?(?:GraphLaunch|Launch"
    r"(?:(?:Cooperative)?Kernel(?:ExC?)?(?:MultiDevice)?|MultiKernelMultiDevice|Grid(?:Async)?|ByPtr)?)"
    rf"{_SUFFIX}|(?:ur|pi)Enqueue(?:Cooperative)?KernelLaunch\w*"
)
"""Runtime or driver calls that start at least one kernel each."""
_WAIT_CALL: Final = re.compile(rf"\w*(?:Device|Stream|Event|Ctx|Thread)Synchronize{_SUFFIX}")
_ASKING_CALL: Final = re.compile(
    r"_{0,2}(?:cuda|cu|hip)(?:GetDevice|GetLastError|PeekAtLastError|GetErrorName|GetErrorString"
    r"|PointerGetAttributes?|CtxGetCurrent|CtxGetDevice|DeviceGetAttribute|DevicePrimaryCtxGetState"
    r"|EventQuery|StreamQuery|StreamIsCapturing|StreamGetCaptureInfo|ThreadExchangeStreamCaptureMode"
    rf"|DriverGetVersion|RuntimeGetVersion|PushCallConfiguration|PopCallConfiguration){_SUFFIX}"
)
"""Runtime or driver calls that start, await and load nothing."""


def call_category(name: str) -> str:
    """Return the category of a runtime or driver call, judging by its name."""
    if _WAIT_CALL.fullmatch(name):
        return "sync"
    return "overhead" if _ASKING_CALL.fullmatch(name) else "launch"


def device_category(name: str) -> str:
    """Return the category of work that a device ran, by its name."""
    lowered = name.lower()
    if is_collective_kernel(name):
        return "collective"
    if "memset" in lowered or "fillbuffer" in lowered:
        return "memset"
    return "memcpy" if "memcpy" in lowered or "copybuffer" in lowered else "kernel"


def phase_of(name: str) -> str | None:
    """Return the phase that a slice's name alone implies; None if it implies none."""
    by_prefix = next((phase for prefix, phase in _PHASE_OF_PREFIX if name.startswith(prefix)), None)
    if by_prefix is None and _COLLECTIVE_OPERATOR.match(name) and "matmul" not in name and "gemm" not in name:
        return "communication"
    return by_prefix


_PASS_ON: Final = (
    ("torch/nn/modules/module.py", ("_wrapped_call_impl", "_call_impl", "inner")),
    ("torch/optim/optimizer.py", ("wrapper", "_use_grad")),
    ("torch/utils/_contextlib.py", ("decorate_context",)),
)


def passes_on(function: str, file: str) -> bool:
    """Return whether this function of PyTorch only passes a call on.

    >>> passes_on("Module._call_impl", "/lib/site-packages/torch/nn/modules/module.py")
    True
    """
    # they took three of four rows of a module in the timeline
    name = function.rpartition(".")[2]
    return any(name in names and file.replace("\\", "/").endswith(end) for end, names in _PASS_ON)


def is_collective_kernel(name: str) -> bool:
    """Return whether a kernel moves data between ranks, judging by its function's name."""
    # Arguments and template parameters do not count, since a matrix product may take a library's handle.
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
    """Return whether a host range encloses a collective, such as ``gloo:all_reduce``."""
    return name.startswith(_COLLECTIVE_RANGES)
