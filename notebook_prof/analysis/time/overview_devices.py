"""What the run ran on, and how well that was used."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Trace, length, union
from ..device.device import device, device_of
from ..device.device_attributes import device_attributes, uses_tensor_cores
from ..device.device_counters import device_counters
from ..scope import Mask, Scope, WindowLike, on_device
from ..spans import step_spans

HOST: Final = -1
_COLUMNS: Final = {
    "device": "int16",
    "name": "str",
    "memory_bytes": "float64",
    "capability": "str",
    "window_ns": "int64",
    "utilization": "float64",
    "busy_share": "float64",
    "sm_efficiency": "float64",
    "occupancy": "float64",
    "tensor_core_share": "float64",
}


def overview_devices(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the host and the devices that worked, with how well they were used.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        The host first, where its use was recorded, then devices by number.

        - ``device`` int16, -1 for the host; ``name`` str; ``memory_bytes`` float64, NaN where not known;
          ``capability`` str, as ``7.0``, missing where not known;
        - ``window_ns`` int64: what shares refer to: the steps or, without any, the window or the time from
          the first to the last work;
        - ``utilization`` float64: time with a kernel (or collective) running; for the host, processors in use
          by this process, which may be over 1; ``busy_share`` float64: time with any work running;
        - ``sm_efficiency`` float64: estimated share of multiprocessors in use, ``Σ min(blocks per SM, 1) ·
          duration / window``; ``occupancy`` float64: estimated, weighted by duration; both NaN where launch
          attributes were not recorded;
        - ``tensor_core_share`` float64: of the kernels' summed time, by their names;
        - where the `nvml` collector read a card, the columns of `device_counters`: power, energy,
          temperature, clock, memory.

    Notes
    -----
    Formulas of VisualDL's and the PyTorch TensorBoard plugin's overviews, where the window is the sum of the
    steps.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> overview_devices(draw("stream 7: [gemm][gemm]  [gemm]"))["utilization"].tolist()
    [0.9]
    """
    work = on_device(trace, window)
    where = device_of(trace, work)
    attributes = device_attributes(trace, work)
    busy = device(trace, window=window).set_index("device")
    steps = int(step_spans(trace, window)["dur"].sum())
    rows = _host(trace, steps)
    for number in np.unique(where).tolist():
        total = steps or int(busy.loc[number, "window_ns"])
        rows.append({"device": number, **device_properties(trace, number), "window_ns": total})
        rows[-1] |= _use(work, where == number, attributes, max(total, 1))
        rows[-1]["busy_share"] = int(busy.loc[number, "busy_ns"]) / max(total, 1)
    table = pd.DataFrame(rows, columns=list(_COLUMNS))
    # astype makes the text "nan" of what is missing in pandas 2
    table["capability"] = pd.Series([row.get("capability") for row in rows], dtype="str")
    table = table.astype({name: kind for name, kind in _COLUMNS.items() if name != "capability"})
    counters = device_counters(trace, window=window)
    return table if counters.empty else table.join(counters, on="device")


def _use(work: Scope, here: Mask, attributes: pd.DataFrame | None, total: int) -> dict[str, float]:
    kernel = here & work.among("category", [name for name in DEVICE_CATEGORIES if not name.startswith("mem")])
    spent = (work.end - work.ts)[kernel].astype(np.float64)
    words = [uses_tensor_cores(name) for name in work.slices["name"].cat.categories]
    tensor = np.append(np.array(words, dtype=bool), False)[work.codes("name")[kernel]]
    use = {
        "utilization": length(union(work.ts[kernel], work.end[kernel])) / total,
        "tensor_core_share": float(spent[tensor].sum() / max(spent.sum(), 1.0)),
    }
    if attributes is None:
        return use
    own = attributes[kernel]
    if "blocks_per_sm" in own:
        blocks = own["blocks_per_sm"].astype("float64").fillna(0).clip(upper=1).to_numpy()
        use["sm_efficiency"] = float((blocks * spent).sum() / total)
    if "occupancy" in own:
        value = own["occupancy"].astype("float64").to_numpy()
        known = ~np.isnan(value)
        if spent[known].sum():
            use["occupancy"] = float((value * spent)[known].sum() / spent[known].sum())
    return use


def device_properties(trace: Trace, number: int) -> dict[str, Any]:
    """What is told of a device itself: ``name``, and ``memory_bytes`` and ``capability`` where known."""
    names = trace.metadata.get("devices")
    known = isinstance(names, list | tuple) and number < len(names)
    found: dict[str, Any] = {
        "name": str(names[number]) if known and names is not None else f"device {number}"
    }
    told = trace.metadata.get("device_properties")
    for row in told if isinstance(told, list | tuple) else ():
        if not isinstance(row, dict) or row.get("id") != number:
            continue
        if isinstance(total := row.get("totalGlobalMem", row.get("total_global_memory")), int | float):
            found["memory_bytes"] = total
        major = row.get("computeMajor", row.get("compute_major"))
        minor = row.get("computeMinor", row.get("compute_minor"))
        if major is not None:
            found["capability"] = f"{major}.{minor or 0}"
    return found


def _host(trace: Trace, steps: int) -> list[dict[str, Any]]:
    use = trace.metadata.get("process_cpu_utilization")
    row = {"device": HOST, "name": str(trace.metadata.get("host") or "host")}
    whole = steps or trace.span.dur
    return [{**row, "window_ns": whole, "utilization": use}] if isinstance(use, int | float) else []
