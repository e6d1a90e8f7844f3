"""Time by kernel, and the library and operator that a kernel's name reveals."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...trace import Trace
from ...trace.schema import SLICES, Table
from ...trace.taxonomy import is_collective_kernel
from ..grouping import group
from ..scope import Numbers, Texts, WindowLike, many, on_device
from .busy import device_attributes, uses_tensor_cores

_TYPES: Final = r"(?:bool|u?int(?:8|16|32|64)|b?float(?:16|32|64)|complex(?:64|128))"
_CUPY: Final = re.compile(rf"cupyx?_(\w+?)(?:__{_TYPES}(?:_{_TYPES})*)?")
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


def kernel_origin(name: str) -> tuple[str, str, str]:
    """Return the library, operator and kind of a kernel, from its name, demangled or not."""
    # Libraries: ``cupy torch triton cublas cutlass cudnn cufft cusparse cusolver curand cub nccl other``. The
    # operator is what the user called, such as ``add``, or else the kernel's plain name. Kinds:
    # ``elementwise reduction scan sort gemm convolution fft sparse solver random collective fused raw``.
    # CuPy names a ufunc's kernel ``cupy_add__`` followed by the types of its arguments. Kernels of
    # ``ElementwiseKernel`` and ``ReductionKernel`` have the name that their author chose (default ``kernel``,
    # ``reduce_kernel``); reductions by CUB begin with ``cupy_cub_``. Source: ``cupy/_core/_kernel.pyx`` and
    # the names in CuPy 13.6.
    if is_collective_kernel(name):
        return "nccl", _base_name(name), "collective"
    if match := _CUPY.fullmatch(name):
        return "cupy", *_cupy(match[1])
    for pattern, library, kind in _LIBRARIES:
        if pattern.search(name):
            return library, _base_name(name), kind
    return "other", _base_name(name), "raw"


def _cupy(name: str) -> tuple[str, str]:
    """Return the operator and kind of a CuPy kernel, from its name without prefix and types."""
    operator = _SUFFIX.sub("", name.removeprefix("cub_").removeprefix("cupy_"))
    if _SCANS.fullmatch(name):
        return operator, "scan"
    if _REDUCTIONS.fullmatch(name):
        return operator, "reduction"
    if "sparse" in name:
        return operator, "sparse"
    return operator, "random" if _RANDOM.fullmatch(name) else "elementwise"


def _base_name(name: str) -> str:
    """Return a C++ kernel's name without result, namespaces, templates and arguments."""
    match = _BARE.match(name.split("<", 1)[0].split("(", 1)[0] if "anonymous" not in name else name)
    return match[1] if match else name


LAUNCH: Final = (
    *("grid", "block", "registers_per_thread", "shared_memory_bytes"),
    *("graph", "graph_node", "priority"),
)
"""Launch attributes that kernels can be grouped by."""


def kernels(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    category: Texts = None,
    line: Texts = None,
) -> pd.DataFrame:
    """Count and time everything that ran on device streams, grouped by name: kernels, copies, fills.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; durations are cut at its edges.
    by : str or sequence of str
        ``name``, or any of ``name category module phase line step track device stream`` together and, if
        launch attributes were recorded, of ``grid block registers_per_thread shared_memory_bytes graph
        graph_node priority``; missing for work without one.
    name, phase, category, line : str or iterable of str, optional
        Keep only these; `name` does not change any `share`.
    step : int or iterable of int, optional
        Keep only work launched by these steps.

    Returns
    -------
    DataFrame
        By `total_ns`, longest first; no rows for a trace without device work.

        - the columns of `by`;
        - ``count`` int64; ``total_ns`` int64: sum of durations, over all streams; ``mean_ns`` float64;
          ``min_ns``, ``max_ns`` int64;
        - ``share`` float64: of the summed durations in the same window, steps, phases and categories;
        - if launch attributes were recorded: ``blocks_per_sm``, ``occupancy`` (0–1) float64, weighted by
          duration, ``registers_per_thread``, ``shared_memory_bytes`` float64: the largest; NaN for copies;
        - with `name` in `by`: ``tensor_cores`` bool, by the kernel's name;
        - ``doubt`` str, only if there is any, and not by launch attributes: codes of `trust` that affect at
          least 1 % of the row's time, like ``throttled``; empty for other rows.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> stream = b.track("stream 7", "stream", device=0, stream=7)
    >>> _ = b.slices(ts=[0, 5], dur=[3, 1], name=["gemm", "gemm"], category="kernel", track=stream)
    >>> kernels(b.seal())[["name", "count", "total_ns", "mean_ns", "share"]].values.tolist()
    [['gemm', 2, 4, 2.0, 1.0]]
    """
    columns = [by] if isinstance(by, str) else list(by)
    launched = [column for column in columns if column in LAUNCH]
    device = on_device(trace, window).where(step=step, phase=phase, category=category, line=line)
    if not len(device.rows) and not launched:
        return _without_rows(tuple(columns)).copy(deep=False)
    groups = group(device.slices, [column for column in columns if column not in LAUNCH])
    attributes = device_attributes(trace, device)
    for column in launched:
        if attributes is None or column not in attributes:
            raise OptionError(f"{column!r} of launches was not recorded, so kernels cannot be grouped by it")
    frame = pd.DataFrame({"code": groups.code[device.rows], "dur": device.end - device.ts})
    if attributes is not None:
        frame = pd.concat([frame, attributes], axis=1)
    table = _sums(frame, launched)
    codes = table["code"].tolist()
    keys = groups.keys.reindex(codes).reset_index(drop=True)  # without columns, `keys` has no rows
    table = pd.concat([keys, table.drop(columns="code")], axis=1)
    if len(table) and not launched:  # without attributes, each row is one of `groups`
        from ..trust.doubts import kernel_doubts, mark

        doubts = kernel_doubts(trace, device, groups.code[device.rows], len(groups.keys), window)
        mark(table, [doubts[code] for code in codes])
    table["share"] = table["total_ns"] / max(int(table["total_ns"].sum()), 1)
    if "name" in table:
        table["tensor_cores"] = table["name"].map(uses_tensor_cores).astype("bool")
    if name is not None and "name" in table:
        table = table[table["name"].isin(many(name))]
    first = [*columns, "count", "total_ns", "mean_ns", "share", "min_ns", "max_ns"]
    first += ["doubt"] * ("doubt" in table)
    table = table[[*first, *(column for column in table if column not in first)]]
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


@functools.cache
def _without_rows(columns: tuple[str, ...]) -> pd.DataFrame:
    """Return the table of a trace without device work."""
    dtypes = dict.fromkeys(("count", "total_ns"), "int64") | dict.fromkeys(("mean_ns", "share"), "float64")
    dtypes |= dict.fromkeys(("min_ns", "max_ns"), "int64")
    dtypes |= {"tensor_cores": "bool"} if "name" in columns else {}
    keys = group(SLICES.empty(), columns).keys
    return keys.assign(**{name: pd.Series([], dtype=dtype) for name, dtype in dtypes.items()})


def _sums(frame: pd.DataFrame, launched: list[str]) -> pd.DataFrame:
    """Return the count, durations and attributes of each group, in the order of codes."""
    by, dur = ["code", *launched], frame["dur"].astype("float64")
    attributes: dict[str, Any] = {}
    for name in ("blocks_per_sm", "occupancy"):  # weighted by duration
        if name in frame:
            value = frame[name].astype("float64")
            attributes |= {name: (value * dur).fillna(0), f"{name} weight": dur.where(value.notna(), 0)}
    for name in ("registers_per_thread", "shared_memory_bytes"):
        if name in frame and name not in launched:
            attributes[name] = frame[name].astype("float64")
    groups = frame[[*by, "dur"]].assign(**attributes).groupby(by, dropna=False, sort=True)
    table = groups["dur"].agg(count="count", total_ns="sum", mean_ns="mean", min_ns="min", max_ns="max")
    for name in attributes:
        if (weight := f"{name} weight") in attributes:
            whole = groups[weight].sum()
            table[name] = groups[name].sum() / whole.where(whole > 0)
        elif not name.endswith(" weight"):
            table[name] = groups[name].max()
    whole_numbers = dict.fromkeys(("count", "total_ns", "min_ns", "max_ns"), "int64")
    return table.reset_index().astype({**whole_numbers, "mean_ns": "float64"})


_COLUMNS = Table.of(
    "kernel_origins", "library:str operator:str kind:str count:int64 total_ns:int64 share:float64"
)


def kernel_origins(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Sum kernels by the operator in their names, regardless of what launched them.

    Works without recorded operators, so also for CuPy, Numba and raw kernels.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns.
    step : int or iterable of int, optional

    Returns
    -------
    DataFrame
        ``library operator kind count total_ns share``, longest first; no rows without kernels.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("stream 7: [cupy_add__float32_float32_float32][cupy_sum__float32_float32][sgemm_nn]")
    >>> kernel_origins(trace)[["library", "operator", "kind"]].values.tolist()
    [['cupy', 'add', 'elementwise'], ['cupy', 'sum', 'reduction'], ['cublas', 'sgemm_nn', 'gemm']]
    """
    work = on_device(trace, window).where(step=step, category=("kernel", "collective"))
    names, columns = trace.slices["name"].cat.categories, ["library", "operator", "kind"]
    used, code = np.unique(work.codes("name"), return_inverse=True)
    origins = pd.DataFrame([kernel_origin(str(names[one])) for one in used.tolist()], columns=columns)
    table = origins.iloc[code].assign(total_ns=work.end - work.ts)
    table = table.groupby(columns)["total_ns"].agg(["count", "sum"]).reset_index()
    table = table.rename(columns={"sum": "total_ns"}).sort_values("total_ns", ascending=False, kind="stable")
    table["share"] = table["total_ns"] / max(int(table["total_ns"].sum()), 1)
    return _COLUMNS.frame({name: table[name].reset_index(drop=True) for name in _COLUMNS.names})
