"""Blocks in memory at one instant, their owners and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from ...errors import checked_columns
from ...trace import Trace
from ...units import parse_ns
from .blocks import Lives, block_table, lives
from .curve import memory_peak


def memory_live(trace: Trace, at: int | str | None = None, *, device: int | None = None) -> pd.DataFrame:
    """List the blocks that are allocated at an instant.

    Parameters
    ----------
    at : int or str, optional
        ns from the start of the trace, or text such as ``"2ms"``; default: the peak (of the host or the
        device with the highest one).
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        One row per block, largest first; empty if no allocator was recorded.

        - ``addr`` uint64, ``device`` int16 (-1: host), ``bytes`` int64;
        - ``birth_ts`` Int64 ns: missing for a block from before the recording, known only by its release;
        - ``death_ts`` Int64 ns: missing if it outlived the recording;
        - ``operator`` str: innermost slice at its birth, except ``aten::empty`` and the like; ``module``,
          ``phase``, ``line`` str and ``step`` Int32 of that slice; ``slice`` Int64: its row in
          ``trace.slices``;
        - ``kind`` category: ``activation gradient optimizer input temporary parameter earlier other``, judged
          by its lifetime; see `memory_by`.

    Notes
    -----
    The events of an address, in order, pair up: a block lives from its allocation to the next event of the
    same address.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=0,
    ...               allocated=[64, 72, 8], reserved=128)
    >>> memory_live(b.seal(), 6)["bytes"].tolist()
    [64, 8]
    """
    events = trace.allocations
    if device is not None:
        events = events[events["device"] == device].reset_index(drop=True)
    instant = peak_instant(trace, device) if at is None else parse_ns(at)
    blocks = lives(events)
    live = (blocks.birth <= instant) & (instant < blocks.death)
    table = block_table(trace, events, Lives(*(column[live] for column in blocks)))
    columns = ["operator", "module", "phase", "line", "step", "slice", "kind"]
    table = table[["addr", "device", "bytes", "birth_ts", "death_ts", *columns]]
    return table.sort_values("bytes", ascending=False, kind="stable").reset_index(drop=True)


def peak_instant(trace: Trace, device: int | None = None) -> int:
    """Return the instant of the allocator's highest peak; 0 if there is none."""
    peaks = memory_peak(trace)
    peaks = peaks[peaks["source"] == "allocator"]
    if device is not None:
        peaks = peaks[peaks["device"] == device]
    if not len(peaks):
        return 0
    return int(peaks["ts"].to_numpy()[peaks["peak_bytes"].to_numpy().argmax()])


_BY: Final = ("operator", "module", "phase", "line", "step", "kind", "device")


def memory_by(
    trace: Trace, by: str | Sequence[str] = "kind", *, at: int | str | None = None, device: int | None = None
) -> pd.DataFrame:
    """Sum up the blocks that are allocated at an instant.

    Parameters
    ----------
    by : str or sequence of str
        ``kind`` (activation, gradient, …), ``operator``, ``module``, ``phase``, ``line`` or ``step`` of
        birth, ``device``, or several of them.
    at : int or str, optional
        ns from the start of the trace, or text such as ``"2ms"``; default: the highest peak.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        By `bytes`, most first; empty if no allocator was recorded.

        - the columns of `by`; missing if unknown;
        - ``blocks`` int64; ``bytes`` int64; ``share`` float64 of all live bytes;
        - ``largest_bytes`` int64: of the largest block.

    Notes
    -----
    The blocks are those of `memory_live`, with a recorded allocation or release: memory that a program
    allocated before the recording and still holds is not included.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=[0, 1, 0],
    ...               allocated=[64, 8, 0], reserved=128)
    >>> memory_by(b.seal(), "device", at=6)[["device", "blocks", "bytes"]].values.tolist()
    [[0, 1, 64], [1, 1, 8]]
    """
    columns = checked_columns("memory cannot be grouped by", by, _BY)
    blocks = memory_live(trace, at, device=device)
    groups = blocks.groupby(columns, dropna=False, observed=True, sort=False)["bytes"]
    table = groups.agg(["count", "sum", "max"]).reset_index()
    table = table.rename(columns={"count": "blocks", "sum": "bytes", "max": "largest_bytes"})
    table = table.astype({"blocks": "int64", "bytes": "int64", "largest_bytes": "int64"})
    table["share"] = table["bytes"] / max(int(table["bytes"].sum()), 1)
    order = [*columns, "blocks", "bytes", "share", "largest_bytes"]
    return table[order].sort_values("bytes", ascending=False, kind="stable").reset_index(drop=True)
