"""Labels of GPU kernels by what they do: ``gemm f16 128×128 tn`` for ``ampere_fp16_s16816gemm_…_tn``.

The words are those of PyTorch's, cuBLAS', cuDNN's, CUTLASS', NCCL's and Tensile's own kernel names.
"""

from __future__ import annotations

import re
from typing import Final

_DTYPES: Final = {
    "__half": "f16",
    "__nv_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "BFloat16": "bf16",
    "Half": "f16",
    "bfloat16": "bf16",
    "bfloat16_t": "bf16",
    "bool": "bool",
    "double": "f64",
    "float": "f32",
    "half": "f16",
    "half_t": "f16",
    "int": "i32",
    "int8_t": "i8",
    "long": "i64",
    "uint8_t": "u8",
}
_CAST: Final = re.compile(r"\((?:unsigned )?\w+\)(?=-?\d)")  # Nsight Systems writes ``(int)4``, ``(bool)0``
_DTYPE: Final = re.compile(r"(?<![\w])(?:c10::)?(" + "|".join(_DTYPES) + r")(?![\w*])")
_IN_NAME: Final = re.compile(
    r"(?<![a-z0-9])(bf16|f16|f32|f64|fp16|fp32|tf32|fp8|e4m3|e5m2|i8|u8|i32)(?![0-9])", re.I
)
_GEMM: Final = re.compile(r"(?<!fb)gemm|gemv|cijk_|^dot_kernel|nvjet|splitKreduce", re.I)
_CONVOLUTION: Final = re.compile(r"wgrad|dgrad|fprop|convolve|igemm|implicit", re.I)
_TEMPLATES: Final = frozenset({"Kernel", "Kernel2", "kernel", "device_kernel"})
_GRAPH_NODE: Final = re.compile(r"-op\d+$|\]$")
_TILE: Final = re.compile(r"(?<![\dx])(\d{1,4})x(\d{1,4})(?=[x_]|[^\dx]|$)")
_TENSILE_TILE: Final = re.compile(r"_MT(\d+)x(\d+)x\d+")
_LAYOUT: Final = re.compile(r"_([nt])_?([nt])(?:_|$|>)", re.I)
_CUTLASS_LETTER: Final = {"h": "f16", "s": "f32", "d": "f64", "i": "i8"}
_TENSILE_DTYPE: Final = re.compile(r"^Cijk_\w+?_([HBSDI])(?:[HBSDI]{0,2})_")
_TENSILE_DTYPES: Final = {"H": "f16", "B": "bf16", "S": "f32", "D": "f64", "I": "i8"}

_FUNCTOR: Final = re.compile(
    r"(?:CUDAFunctorOnSelf_|CUDAFunctorOnOther_|CUDAFunctor_)(\w+)|(\w+?)(?:_kernel_cuda|_cuda_kernel|_kernel_impl|_kernel|CUDAKernelImpl|KernelImpl)\b(?=\(|<)"
    r"|(?:binary_internal::)?\b([A-Z]\w*?)(?:Functor|Ops?)\b(?=<|,|\s|>|$)|launch_(\w+?)\(|\b(\w+)_functor\b"
    r"|\b(\w+)_scalar_kernel\b"
)
_WRAPPERS: Final = frozenset(
    {"gpu", "Reduce", "Binary", "AUnary", "BUnary", "Unary", "Opaque", "func_wrapper"}
)
_ELEMENTWISE: Final = re.compile(
    r"\b(?:vectorized_|unrolled_|vectorized_templated_|legacy_)?(?:elementwise_kernel|elementwise_kernel_\w+)\b"
)
_COLLECTIVE: Final = re.compile(
    r"nccl(?:Dev)?Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll)_?(\w*)"
)
_FIXED: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.I), label)
    for pattern, label in (
        (r"soft_?max.*back|softmax_?bw|softmaxbackward", "softmax backward"),
        (r"soft_?max", "softmax forward"),
        (r"flash_bwd|fmha.*(?:bwd|backward)|attention.*backward|mha.*bwd", "attention backward"),
        (r"flash_fwd|fmha|attention_kernel|mha_fwd|flash_attn", "attention forward"),
        (r"paged_attention", "paged attention"),
        (r"layer_?norm.*grad|GammaBetaBackward|layer_?norm.*backward", "layer norm backward"),
        (r"layer_?norm|LayerNormForward|RowwiseMoments", "layer norm forward"),
        (r"rms_?norm.*backward", "RMS norm backward"),
        (r"rms_?norm", "RMS norm forward"),
        (r"bn_bw|batch_?norm.*(?:backward|bwd|grad)", "batch norm backward"),
        (r"bn_fw|batch_?norm|bn_inference", "batch norm forward"),
        (r"(?-i:(?<![A-Za-z])dgrad|Dgrad)", "conv backward data"),
        (r"(?-i:(?<![A-Za-z])wgrad|Wgrad)", "conv backward weight"),
        (r"winograd.*filter", "conv winograd filter"),
        (r"winograd.*output", "conv winograd output"),
        (r"winograd.*data", "conv winograd data"),
        (r"implicit_convolve|fprop|convolve|scudnn|hcudnn|conv2d|miopenSp3AsmConv|igemm_fwd", "conv forward"),
        (r"max_pool.*backward|pooling_bw", "max pool backward"),
        (r"max_pool|pooling_fw", "max pool forward"),
        (r"avg_pool.*backward", "average pool backward"),
        (r"avg_pool|adaptive_average", "average pool forward"),
        (r"nll_?loss.*backward", "nll loss backward"),
        (r"nll_?loss", "nll loss forward"),
        (r"embedding.*backward|embedding_dense_backward", "embedding backward"),
        (r"CatArray", "concatenate"),
        (r"nchwToNhwc", "NCHW to NHWC"),
        (r"nhwcToNchw", "NHWC to NCHW"),
        (r"RadixSort|radixSort|bitonicSort", "sort"),
        (r"Device(?:Scan|ScanInit)Kernel|tensor_kernel_scan|cumsum", "scan"),
        (r"indexSelect|index_select|vectorized_gather|gather_kernel|_gather_", "gather"),
        (r"scatter", "scatter"),
        (r"index_(?:elementwise_)?kernel|index_put", "index"),
        (r"dropout.*backward|masked_scale", "dropout backward"),
        (r"fused_dropout|dropout", "dropout forward"),
        (r"batched_transpose|transpose_kernel", "transpose"),
        (r"multi_tensor_apply_kernel", "foreach"),
    )
)
_SUFFIXES: Final = re.compile(r"(?:_?[kK]ernel(?:Impl|_impl|_cuda|_v\d+)?|\.kd)$")


def kernel_label(name: str) -> tuple[str, str] | None:
    """Return a kernel's family, and its element type, tile and layout; None if its name does not say."""
    # Kernels of a family share a colour.
    if name.startswith("triton_"):
        return _triton(name)
    name = _CAST.sub("", name)
    if collective := _COLLECTIVE.search(name):
        words = " ".join(word for word in collective.group(2).split("_") if word and word != "t")
        return collective.group(1), words
    if _GRAPH_NODE.search(name) or not any(mark in name for mark in "_<(:"):
        return None
    base = base_of(name)
    text = name if base in _TEMPLATES else base
    if _GEMM.search(text) and not _CONVOLUTION.search(text):
        return _gemm(name)
    if _ELEMENTWISE.search(base):
        return f"elementwise {_operation(name) or 'kernel'}", _dtype(name)
    if base.endswith("reduce_kernel"):
        return f"reduce {_operation(name) or 'kernel'}", _dtype(name)
    for pattern, label in _FIXED:
        if pattern.search(text):
            tile = _TILE.search(name) if label.startswith("conv") else None
            return label, " ".join(filter(None, (_dtype(name), f"{tile[1]}×{tile[2]}" if tile else "")))
    return None


def _triton(name: str) -> tuple[str, str]:
    kind, _, fused = name.removeprefix("triton_").partition("_")
    words, _, number = fused.removeprefix("fused_").rpartition("_")
    kinds = {"poi": "pointwise", "red": "reduction", "per": "persistent reduction", "tem": "template"}
    if kind not in kinds or not number.isdigit():
        return f"triton {name.removeprefix('triton_').replace('_', ' ')}", ""
    return f"triton {kinds[kind]}", f"{words.replace('_', ' ').strip()} {number}".strip()


def _gemm(name: str) -> tuple[str, str]:
    family = "gemv" if re.search("gemv", name, re.I) else "gemm"
    if re.search("splitKreduce", name, re.I):
        return "gemm split-K reduce", _dtype(name)
    tile = _TENSILE_TILE.search(name) or _TILE.search(name)
    layout = _LAYOUT.search(name)
    pieces = [_gemm_dtype(name)]
    if tile:
        pieces.append(f"{tile.group(1)}×{tile.group(2)}")
    if layout and not name.startswith("Cijk_"):
        pieces.append((layout.group(1) + layout.group(2)).lower())
    return family, " ".join(piece for piece in pieces if piece)


def _gemm_dtype(name: str) -> str:
    if tensile := _TENSILE_DTYPE.match(name):
        return _TENSILE_DTYPES[tensile.group(1)]
    written = _IN_NAME.search(name) or re.search(r"(bf16|f16|fp16|tf32)", name)
    if written:
        return written.group(1).lower().replace("fp", "f")
    letter = re.search(r"(?:^|_)([hsdi])(?:\d+)?gemm", name)
    return _CUTLASS_LETTER[letter.group(1)] if letter else _dtype(name)


def _dtype(name: str) -> str:
    match = _DTYPE.search(name.partition("<")[2] or name) if "<" in name else None
    if match:
        return _DTYPES[match.group(1)]
    written = _IN_NAME.search(name.partition("<")[0])
    return written.group(1).lower().replace("fp", "f") if written else ""


def _operation(name: str) -> str:
    """Return the operation of an elementwise or reducing kernel: its innermost named functor."""
    head = name.partition("<")[2].partition(">(")[0] or name
    operation = ""
    for match in _FUNCTOR.finditer(head):
        word = next(group for group in match.groups() if group)
        if word not in _WRAPPERS:
            operation = word
            break
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", operation).replace("_", " ").lower()
    return re.sub(r"\b(?:kernel|impl|cuda|direct)\b", "", words).strip()


def base_of(name: str) -> str:
    """Return the function's own name, without return type, namespaces, template arguments and parameters."""
    text = name.replace("(anonymous namespace)", "anonymous").removeprefix("void ")
    stop = len(text)
    for mark in "<(":
        at = text.find(mark, 1)
        if at >= 0:
            stop = min(stop, at)
    return text[:stop].rstrip().rpartition("::")[2].rpartition(" ")[2] or name


def without_suffix(name: str) -> str:
    """Return a function's name without ``Kernel`` or ``.kd`` at its end."""
    return _SUFFIXES.sub("", name) or name
