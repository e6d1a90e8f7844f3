"""Kernels that use a part of the device."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...units import format_share
from ..device.device_attributes import device_attributes, uses_tensor_cores
from ..verdict.verdict_lines import short
from .finding import Finding, Run, evidence, names_of

_SHARE: Final = 0.1
_LOW: Final = 0.25
_ELIGIBLE: Final = re.compile(r"gemm|conv|dgrad|wgrad|cudnn.*(fprop|engine)|scudnn|winograd", re.IGNORECASE)
_HAVE: Final = re.compile(
    r"\b(V100|T4|A10\w*|A30|A40|A100|H100|H200|GH200|B100|B200|L4|L40\w*|RTX|TITAN (?:V|RTX)|DGX\w*)", re.I
)
_FASTER: Final = 2
"""Matrix products on tensor cores take at most half the time; NVIDIA's data sheets say 8 to 16 times less."""


def low_occupancy(run: Run) -> Finding | None:
    """Kernels whose grids are too small to fill the device, or that leave it mostly empty."""
    work = run.device
    attributes = device_attributes(run.trace, work)
    if attributes is None:
        return None
    nothing = np.full(len(work.rows), np.nan)
    blocks, occupancy = (
        attributes[name].to_numpy(dtype=np.float64, na_value=np.nan) if name in attributes else nothing
        for name in ("blocks_per_sm", "occupancy")
    )
    kernel = work.among("category", ("kernel",))
    spent = (work.end - work.ts).astype(np.float64)
    few = kernel & ((blocks < 1) | (occupancy < _LOW))
    share = float(spent[few].sum() / max(spent[kernel].sum(), 1.0))
    if share < _SHARE:
        return None
    rows, count = evidence(work, few)
    empty = np.where(blocks < 1, 1 - blocks, 0.0)
    return Finding(
        "low-occupancy",
        f"Kernels with less than one block for each multiprocessor, or an occupancy below "
        f"{format_share(_LOW)}, take {format_share(share)} of the kernels' time.",
        "Give each kernel more to do: a larger batch or larger layers, channels that are multiples of 64, "
        "torch.compile to fuse small ones.",
        int(np.nansum((spent * empty)[few])),
        bound=True,
        select={"name": names_of(work, few)},
        rows=rows,
        count=count,
    )


def tensor_cores_unused(run: Run) -> Finding | None:
    """Matrix products and convolutions that run without the device's tensor cores."""
    if not _has_tensor_cores(run):
        return None
    work = run.device
    words = [str(name) for name in work.slices["name"].cat.categories]
    eligible = [bool(_ELIGIBLE.search(word)) and not uses_tensor_cores(word) for word in words]
    kernel = work.among("category", ("kernel",))
    plain = kernel & np.append(np.array(eligible, dtype=bool), False)[work.codes("name")]
    spent = work.end - work.ts
    share = float(spent[plain].sum() / max(int(spent[kernel].sum()), 1))
    if share < _SHARE:
        return None
    rows, count = evidence(work, plain)
    longest = short(work.slices["name"].iloc[int(rows[0])], 32)
    return Finding(
        "tensor-cores-unused",
        f"Matrix products and convolutions without tensor cores take {format_share(share)} of the kernels' "
        f"time; the longest is {longest}.",
        "Compute in half precision: torch.autocast('cuda', dtype=torch.float16 or bfloat16); on Ampere and "
        "later torch.set_float32_matmul_precision('high'); sizes that are multiples of 8.",
        int(spent[plain].sum()) * (_FASTER - 1) // _FASTER,
        bound=True,
        select={"name": names_of(work, plain)},
        rows=rows,
        count=count,
    )


def _has_tensor_cores(run: Run) -> bool:
    names = run.trace.metadata.get("devices")
    return any(_HAVE.search(str(name)) for name in names) if isinstance(names, list | tuple) else False
