"""Every call of an operator with time, work and shapes: the rows ranked by ``notebook-prof analyze``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ..device.launches import launching_rows
from ..scope import WindowLike, on_device, on_host
from ..work.slices import slice_work

_RENAMED: Final = {"flop_count": "flops", "memory_bytes": "bytes"}
_COLUMNS: Final = {
    "id": "str",
    "name": "str",
    "type": "str",
    "device_ns": "Int64",
    "device_kern_ns": "Int64",
    "host_ns": "Int64",
    "host_kern_ns": "Int64",
    "flops": "Float64",
    "bytes": "Float64",
    "in_shapes": "object",
    "out_shapes": "object",
    "in_layouts": "object",
    "in_dtypes": "object",
}


def calls(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List every call of an operator.

    Parameters
    ----------
    trace : Trace
        A recording in any format. For MegEngine's static graphs, the rows are the graph's operators.
    window : (int, int), optional
        Half-open, in ns. Ignored for graphs.

    Returns
    -------
    DataFrame
        In the order of execution; no rows without operators.

        - ``id``, ``name``, ``type`` str: the graph's own, else the row in ``trace.slices``, the name twice;
        - ``device_ns`` Int64: time of the work that the call itself launched, missing if there is none;
          ``host_ns`` Int64: its self time; ``device_kern_ns``, ``host_kern_ns`` Int64: until the kernel's
          call returned, where known;
        - ``flops``, ``bytes`` Float64: missing where not known;
        - ``in_shapes``, ``out_shapes``, ``in_layouts``: JSON text or None; ``in_dtypes``: lists of str.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=0, dur=9, name="aten::mm", shapes="[[2, 3], [3, 4]]", track=b.track("main"))
    >>> calls(b.seal())[["name", "host_ns", "flops"]].values.tolist()
    [['aten::mm', 9, 48.0]]
    """
    tables = trace.metadata.get("tables")
    recorded = tables.get("operators") if isinstance(tables, dict) else None
    if isinstance(recorded, pd.DataFrame) and {"flop_count", "device_ns", "host_ns"} <= set(recorded.columns):
        return _typed(recorded.rename(columns=_RENAMED))
    host = on_host(trace, window).where(category=("operator", "collective"))
    slices, rows = trace.slices, host.rows
    device = on_device(trace, window)
    launcher = launching_rows(trace)[device.rows]
    owned = launcher >= 0
    size = len(slices)
    spent = np.bincount(launcher[owned], (device.end - device.ts)[owned], minlength=size).astype(np.int64)
    launched = np.bincount(launcher[owned], minlength=size) > 0
    work = slice_work(trace)
    unknown = work.kind[rows] < 0
    names = slices["name"].astype("object").to_numpy()[rows]
    device_ns = pd.arrays.IntegerArray(spent[rows], ~launched[rows])
    host_ns = pd.arrays.IntegerArray(host.self_ns, np.zeros(len(rows), dtype=bool))
    return _typed(
        pd.DataFrame(
            {
                "id": rows.astype(str),
                "name": names,
                "type": names,
                "device_ns": device_ns,
                "device_kern_ns": device_ns,
                "host_ns": host_ns,
                "host_kern_ns": host_ns,
                "flops": pd.arrays.FloatingArray(work.flops[rows], unknown),
                "bytes": pd.arrays.FloatingArray(work.bytes[rows], unknown),
                "in_shapes": slices["shapes"].astype("object").to_numpy()[rows],
            }
        )
    )


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    ready: dict[str, Any] = {}
    for name, dtype in _COLUMNS.items():
        values = table[name] if name in table else pd.Series([None] * len(table), dtype=object)
        ready[name] = values.astype(object) if dtype == "object" else values.astype(dtype)
    return pd.DataFrame(ready).reset_index(drop=True)
