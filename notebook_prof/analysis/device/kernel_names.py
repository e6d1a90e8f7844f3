"""What a kernel's name says: which library it is from, and which operator it stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ...trace.taxonomy import is_collective_kernel


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a kernel comes from.

    Attributes
    ----------
    library : str
        ``cupy torch triton cublas cutlass cudnn cufft cusparse cusolver curand cub nccl``, else ``other``.
    operator : str
        What the user called, as far as the name tells: ``add``; else the kernel's plain name.
    kind : str
        ``elementwise reduction scan sort gemm convolution fft sparse solver random collective fused``, else
        ``raw``.
    types : tuple of str
        Element types, where the name has them.
    """

    library: str
    operator: str
    kind: str
    types: tuple[str, ...] = ()


_TYPES: Final = r"(?:bool|u?int(?:8|16|32|64)|b?float(?:16|32|64)|complex(?:64|128))"
_CUPY: Final = re.compile(rf"cupyx?_(?P<name>\w+?)(?:__(?P<types>{_TYPES}(?:_{_TYPES})*))?")
_REDUCTIONS: Final = re.compile(
    r"(?:nan)?(?:sum|prod|min|max|mean|argmin|argmax|var_core|amin|amax)(?:_\w+)?|all|any|count_non\w+"
    r"|cub_\w+|norm(?:_\w+)?|median|var_core_out|scipy_ndimage_(?:sum|mean|variance|standard_deviation)"
)
_SCANS: Final = re.compile(r"(?:\w+_)?(?:scan|bsum|cumsum|cumprod)\w*|nonzero_kernel_incomplete_scan")
_RANDOM: Final = re.compile(r"random_\w+|\w+_kernel_(?:random)|(?:poisson|gumbel|laplace|vonmises|wald)_\w+")
_SUFFIX: Final = re.compile(r"_(?:with_dtype|complex_dtype|core|core_out|core_float\d\d)$")

_LIBRARIES: Final = tuple(
    (re.compile(pattern, re.I), library, kind)
    for pattern, library, kind in (
        (r"cudnn|implicit_convolve|winograd|(?:d|w)grad2d|_fprop_|_dgrad_|_wgrad_", "cudnn", "convolution"),
        (r"cutlass|^sm\d\d_xmma_gemm", "cutlass", "gemm"),
        (r"cublas|gemv|gemm|^(?:ampere|volta|turing|maxwell|hopper)_|gemmk1|splitK", "cublas", "gemm"),
        (
            r"cufft|(?:^|\W)(?:regular|vector|multi_bluestein|composite|radix)_?\w*fft|fft\d?d?_",
            "cufft",
            "fft",
        ),
        (r"cusparse|csrmv|csrmm|spmv|spmm|csrgemm", "cusparse", "sparse"),
        (r"cusolver|getrf|potrf|geqrf|syevj|gesvd|trsm_", "cusolver", "solver"),
        (r"curand|philox|distribution_elementwise|gen_sequenced", "curand", "random"),
        (r"RadixSort|radix_sort|MergeSort|thrust::.*sort", "cub", "sort"),
        (r"DeviceReduce|reduce_kernel<.*cub", "cub", "reduction"),
        (r"DeviceScan", "cub", "scan"),
        (r"^triton_\w+", "triton", "fused"),
        (r"at::native::\S*reduce_kernel|at::native::reduce", "torch", "reduction"),
        (r"at::native::.*(?:vectorized|unrolled)?_?elementwise_kernel", "torch", "elementwise"),
        (r"at::", "torch", "raw"),
    )
)
_BARE: Final = re.compile(r"(?:void |int )?(?:[\w:(){}]*::)?(?:\(anonymous namespace\)::)?([A-Za-z_]\w*)")


def kernel_origin(name: str) -> Origin:
    """Read a kernel's name.

    Parameters
    ----------
    name : str
        As recorders write it, demangled or not.

    Returns
    -------
    Origin

    Notes
    -----
    CuPy names a ufunc's kernel after it, two underscores and the types of its arguments, so
    ``cupy_add__float32_float32_float32`` is `cupy.add`; kernels of ``ElementwiseKernel`` and
    ``ReductionKernel`` have the name that their maker chose (default ``kernel``, ``reduce_kernel``),
    reductions by CUB begin with ``cupy_cub_``. Source: ``cupy/_core/_kernel.pyx`` and the names in CuPy
    13.6.

    Examples
    --------
    >>> kernel_origin("cupy_add__float32_float32_float32")
    Origin(library='cupy', operator='add', kind='elementwise', types=('float32', 'float32', 'float32'))
    >>> kernel_origin("ampere_sgemm_128x64_nn").kind
    'gemm'
    """
    if is_collective_kernel(name):
        return Origin("nccl", _bare(name), "collective")
    if match := _CUPY.fullmatch(name):
        types = tuple(re.findall(_TYPES, match["types"] or ""))
        return Origin("cupy", *_cupy(match["name"]), types)
    for pattern, library, kind in _LIBRARIES:
        if pattern.search(name):
            return Origin(library, _bare(name), kind)
    return Origin("other", _bare(name), "raw")


def _cupy(name: str) -> tuple[str, str]:
    """Operator and kind of a CuPy kernel, from its name without prefix and types."""
    operator = _SUFFIX.sub("", name.removeprefix("cub_").removeprefix("cupy_"))
    if _SCANS.fullmatch(name):
        return operator, "scan"
    if _REDUCTIONS.fullmatch(name):
        return operator, "reduction"
    if "sparse" in name:
        return operator, "sparse"
    return operator, "random" if _RANDOM.fullmatch(name) else "elementwise"


def _bare(name: str) -> str:
    """A C++ kernel's name without result, namespaces, templates and arguments."""
    match = _BARE.match(name.split("<", 1)[0].split("(", 1)[0] if "anonymous" not in name else name)
    return match[1] if match else name
