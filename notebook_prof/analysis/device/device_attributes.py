"""How kernels were launched: grid, block, registers, occupancy, where the recording tells."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ..scope import Scope
from ..time.recorded_steps import recorded_table

ATTRIBUTES: Final = (
    "grid",
    "block",
    "registers_per_thread",
    "shared_memory_bytes",
    "blocks_per_sm",
    "warps_per_sm",
    "occupancy",
    "bytes",
    "graph",
    "graph_node",
    "priority",
)
_KEYS: Final = ["device", "stream", "start"]
_TENSOR_CORES: Final = (
    *("h884", "s884", "h1688", "s1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2"),
    *("first_layer_wgrad_kernel", "conv1x1", "conv2d_c1_k1", "direct_group", "xmma_implicit_gemm"),
    *("xmma_sparse_conv", "xmma_warp_specialized_implicit_gemm", "xmma_gemm", "xmma_sparse_gemm", "c1688"),
    *("tensorop", "gmma", "s1684", "i16832", "flash_fwd", "flash_bwd"),
)
"""VisualDL's list, and what newer libraries call theirs."""


def device_attributes(trace: Trace, work: Scope) -> pd.DataFrame | None:
    """Look up the launch attributes of device work.

    Parameters
    ----------
    trace : Trace
        Its ``metadata["tables"]["device_events"]`` holds them, by device, stream and ``start_unix_ns``.
    work : Scope
        Slices of devices.

    Returns
    -------
    DataFrame or None
        A row a slice: those of `ATTRIBUTES` that were recorded; `grid` and `block` as text, as in
        ``[40, 1, 1]``, missing for copies. None where nothing was recorded.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> from notebook_prof.analysis.scope import on_device
    >>> trace = draw("stream 7: [gemm]")
    >>> device_attributes(trace, on_device(trace)) is None
    True
    """
    table = recorded_table(trace, "device_events")
    if table is None or not len(work.rows):
        return None
    own = [name for name in ATTRIBUTES if name in table]
    if not own:
        return None
    origin = int(trace.metadata.get("start_unix_ns", 0))
    known = table.assign(start=table["start_unix_ns"] - origin)
    known = known.astype(dict.fromkeys(_KEYS, "int64")).drop_duplicates(_KEYS)
    wanted = pd.DataFrame(
        {
            "device": work.ints("device"),
            "stream": work.ints("stream"),
            "start": work.slices["ts"].to_numpy()[work.rows],
        }
    )
    found = wanted.merge(known[[*_KEYS, *own]], on=_KEYS, how="left")[own]
    for name in ("grid", "block"):
        if name in found:
            codes, words = pd.factorize(found[name].astype("str").where(found[name].notna()))
            texts = np.array([*words, None], dtype=object)
            found[name] = pd.Series(texts[codes], dtype="str")
    return found


def uses_tensor_cores(name: object) -> bool:
    """Whether a kernel runs on tensor cores, by its name.

    Examples
    --------
    >>> uses_tensor_cores("volta_h884gemm_64x64_ldg8_nn"), uses_tensor_cores("volta_sgemm_64x64_nt")
    (True, False)
    """
    text = str(name).lower()
    return any(mark in text for mark in _TENSOR_CORES)
