"""FLOPs and bytes of operators, their rates, and the machine's ceilings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...trace import Trace, inherit
from ..grouping import group
from ..scope import Numbers, Texts, WindowLike, ints, many, of_kind, on_device, on_host
from ..work.slices import KINDS, slice_work
from .kernel_launches import launching_rows

HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The ceilings of a roofline: the fastest matrix product and copy (bytes read and written)."""

    # Name of the device, as in recordings; ``host`` for this machine's processors.
    name: str
    flops_per_s: float
    bytes_per_s: float
    # Element type of the matrix product.
    dtype: str
    # How the ceilings were measured.
    how: str

    @property
    def limits(self) -> dict[str, float]:
        """Arguments of `roofline`: ``p.device.roofline(**nbp.measure_device().limits)``."""
        return {"flops_per_s": self.flops_per_s, "bytes_per_s": self.bytes_per_s}


_MEASURED: dict[str, Ceilings] = {}


def remember(ceilings: Ceilings) -> None:
    """Keep a measurement for `ceilings_of`; a later one of the same device replaces it."""
    _MEASURED[ceilings.name] = ceilings


def forget() -> None:
    _MEASURED.clear()


def ceilings_of(trace: Trace) -> Ceilings | None:
    """Return the ceilings of a trace's device, or of the host without device work; None if not measured."""
    # A file may come from another machine: devices must match by name, and the host's ceilings do not apply.
    devices = trace.metadata.get("devices")
    if (trace.tracks["kind"] == "stream").any():
        names = devices if isinstance(devices, list | tuple) else ()
        return next((_MEASURED[name] for name in map(str, names) if name in _MEASURED), None)
    if "file" in trace.metadata:
        return None
    return _MEASURED.get(HOST)


_SECOND: Final = 1e9


def roofline(
    trace: Trace,
    *,
    window: WindowLike = None,
    by: str | Sequence[str] = "name",
    name: Texts = None,
    step: Numbers = None,
    phase: Texts = None,
    flops_per_s: float | None = None,
    bytes_per_s: float | None = None,
) -> pd.DataFrame:
    """Compare FLOPs and bytes of operators with their time and the machine's ceilings.

    Parameters
    ----------
    trace : Trace
        A recording with shapes; element types and arguments are used if present.
    window : (int, int), optional
        Half-open, in ns. A call that the window cuts counts in proportion.
    by : str or sequence of str
        ``name``, or any of ``name shapes module phase category line step track`` together.
    name, phase : str or iterable of str, optional
    step : int or iterable of int, optional
        Keep these.
    flops_per_s, bytes_per_s : float, optional
        The device's limits, from its data sheet or measured: 989e12 and 3.35e12 for an H100 in bfloat16, say.

    Returns
    -------
    DataFrame
        By `flops`, then `bytes`, largest first; no rows without operators of known work. If operators with
        known work are nested (``aten::linear`` around ``aten::addmm``), only the outermost counts.

        - the columns of `by`; ``kind`` str: the kind with the most work, ``matmul convolution attention
          elementwise norm softmax reduction pooling embedding copy``, or ``given`` if the file has the work;
        - ``count`` int64; ``flops``, ``bytes`` float64, of all calls; elements of a type that was not
          recorded count as 4 bytes;
        - ``time_ns`` int64: device time of launched work, or host time if there is none; ``on_device`` bool
          says which;
        - ``flops_per_s``, ``bytes_per_s`` float64: achieved; missing without time;
        - ``intensity`` float64: FLOPs per byte;
        - ``ideal_ns`` float64: the longer of ``flops / flops_per_s`` and ``bytes / bytes_per_s``;
          ``attained_share`` float64: of `time_ns`; ``bound`` str: ``compute`` or ``memory``, whichever is the
          longer. Missing unless both ceilings are given.

    Notes
    -----
    Formulas and their sources are in `notebook_prof.analysis.work`: those of
    `torch.utils.flop_counter.FlopCounterMode` for matrix products, convolutions and attention; MegEngine's
    for elementwise operators and for its own graphs; the work of Paddle's operators follows from their
    inputs. Bytes are the minimum that must be moved: every input once, every output once. The roofline model
    is from S. Williams, A. Waterman and D. Patterson, CACM 52 (2009).

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=0, dur=100, name="aten::mm", shapes="[[2, 3], [3, 4]]", track=b.track("main"))
    >>> table = roofline(b.seal(), flops_per_s=1e9, bytes_per_s=2e9)
    >>> table[["flops", "bytes", "attained_share", "bound"]].values
    array([[48.0, 104.0, 0.52, 'memory']], dtype=object)
    """
    if any(ceiling is not None and not ceiling > 0 for ceiling in (flops_per_s, bytes_per_s)):
        raise OptionError("flops_per_s and bytes_per_s are limits of the device: they must be above 0")
    work, device = slice_work(trace), on_device(trace, window)
    given = (work.kind == KINDS.index("given")).any()
    counted = device if given else on_host(trace, window)
    counted = counted.only(work.outermost[counted.rows]).where(step=step, phase=phase)
    rows, groups = counted.rows, group(counted.slices, by)
    table, code, size = groups.keys.copy(), groups.code[rows], len(groups.keys)
    # the kind with the most work in each group: by FLOPs, or by bytes without FLOPs
    weight = work.flops[rows] + 1e-6 * work.bytes[rows] + 1e-9
    sums = np.bincount(code * len(KINDS) + work.kind[rows], weight, minlength=size * len(KINDS))
    most = sums.reshape(size, len(KINDS)).argmax(axis=1)
    table["kind"] = pd.Series(np.array(KINDS, dtype=object)[most], dtype="str")
    table["count"] = groups.sum(rows)
    whole = counted.slices["dur"].to_numpy()[rows]
    part = np.where(whole > 0, (counted.end - counted.ts) / np.maximum(whole, 1), 1.0)
    for column, values in (("flops", work.flops), ("bytes", work.bytes)):
        table[column] = np.bincount(code, values[rows] * part, minlength=size)
    # device work launched by the counted calls or inside them
    own = np.full(len(trace.slices), -1)
    own[rows] = rows
    owner = np.append(inherit(ints(trace.slices["parent"]), own), -1)[launching_rows(trace)[device.rows]]
    launched = groups.sum(owner[owner >= 0], (device.end - device.ts)[owner >= 0])
    on_stream = groups.sum(rows[of_kind(trace, ("stream",))[rows]]) > 0
    table["time_ns"] = np.where(launched > 0, launched, groups.sum(rows, counted.end - counted.ts))
    table["on_device"] = (launched > 0) | on_stream
    present = (table["count"] > 0).to_numpy()
    if name is not None and "name" in table:
        present = present & table["name"].isin(many(name)).to_numpy()
    table = table[present].sort_values(["flops", "bytes"], ascending=False, kind="stable", ignore_index=True)
    return _rates(table, flops_per_s, bytes_per_s)


def _rates(table: pd.DataFrame, flops_per_s: float | None, bytes_per_s: float | None) -> pd.DataFrame:
    time = table["time_ns"].to_numpy(dtype=np.float64)
    seconds = np.where(time > 0, time / _SECOND, np.nan)
    flops, moved = table["flops"].to_numpy(), table["bytes"].to_numpy()
    table["flops_per_s"], table["bytes_per_s"] = flops / seconds, moved / seconds
    table["intensity"] = flops / np.where(moved > 0, moved, np.nan)
    if flops_per_s is None or bytes_per_s is None:
        table["ideal_ns"] = table["attained_share"] = np.full(len(table), np.nan)
        table["bound"] = pd.Series([None] * len(table), dtype="str")
        return table
    compute, memory = flops / flops_per_s * _SECOND, moved / bytes_per_s * _SECOND
    table["ideal_ns"] = np.maximum(compute, memory)
    table["attained_share"] = table["ideal_ns"].to_numpy() / np.where(time > 0, time, np.nan)
    table["bound"] = pd.Series(np.where(compute >= memory, "compute", "memory"), dtype="str")
    return table
