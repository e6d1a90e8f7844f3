"""Device time by library and operator, from the names of kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Column, Table
from ..scope import Numbers, WindowLike, on_device
from .kernel_names import kernel_origin

_COLUMNS = Table(
    "kernel_origins",
    (
        Column("library", "str", "", "where the kernels come from"),
        Column("operator", "str", "", "what the user called"),
        Column("kind", "str", "", "elementwise, reduction, gemm …"),
        Column("count", "int64", "", "kernels"),
        Column("total_ns", "int64", "ns", "their summed time"),
        Column("share", "float64", "1", "of the summed time of all kernels"),
    ),
)


def kernel_origins(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Sum kernels by the operator that their names tell, whoever launched them.

    Works where no operator was recorded: for CuPy, Numba and raw kernels.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.
    step : int or iterable of int, optional

    Returns
    -------
    DataFrame
        ``library operator kind count total_ns share``, longest first; no rows without kernels. What the
        words mean: `kernel_names.Origin`.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("stream 7: [cupy_add__float32_float32_float32][cupy_sum__float32_float32][sgemm_nn]")
    >>> kernel_origins(trace)[["library", "operator", "kind"]].values.tolist()
    [['cupy', 'add', 'elementwise'], ['cupy', 'sum', 'reduction'], ['cublas', 'sgemm_nn', 'gemm']]
    """
    work = on_device(trace, window).where(step=step, category=("kernel", "collective"))
    codes = work.codes("name")
    used = np.unique(codes[codes >= 0])
    names = trace.slices["name"].cat.categories
    origins = [kernel_origin(str(names[code])) for code in used]
    at = np.searchsorted(used, codes)
    spent = np.bincount(at, (work.end - work.ts).astype(np.float64), len(used)).astype(np.int64)
    table = pd.DataFrame(
        {
            "library": [origin.library for origin in origins],
            "operator": [origin.operator for origin in origins],
            "kind": [origin.kind for origin in origins],
            "count": np.bincount(at, minlength=len(used)),
            "total_ns": spent,
        }
    )
    if table.empty:
        return _COLUMNS.empty()
    table = table.groupby(["library", "operator", "kind"], as_index=False, sort=True).sum()
    table = table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)
    table["share"] = table["total_ns"] / max(int(table["total_ns"].sum()), 1)
    return _COLUMNS.frame({name: table[name] for name in _COLUMNS.names})
