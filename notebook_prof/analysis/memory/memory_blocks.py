"""Every block of memory: who took it and who gave it back, when, and how long it lived."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...trace import Trace, Window
from ...trace.intervals import IntArray
from ...units import parse_ns
from ..scope import WindowLike, ints, texts
from .block_kinds import KINDS, block_kinds
from .lives import FOREVER, Lives, lives, meaningful


def memory_blocks(
    trace: Trace,
    *,
    window: WindowLike = None,
    device: int | None = None,
    min_bytes: int = 0,
    max_bytes: int | None = None,
    min_lifetime: int | str = 0,
    max_lifetime: int | str | None = None,
) -> pd.DataFrame:
    """List the blocks with the operators of their birth and death.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns: keep blocks that are alive at some instant of it.
    device : int, optional
        Keep this one; -1 is the host.
    min_bytes, max_bytes : int, optional
        Keep blocks of at least, and at most, this size.
    min_lifetime, max_lifetime : int or str, optional
        Keep blocks that lived at least, and at most, so long: ns, or text such as ``"2ms"``. What is not
        seen to be born or to die lived for as long as it was seen.

    Returns
    -------
    DataFrame
        By birth; no rows where no allocator was recorded.

        - ``addr`` uint64, ``device`` int16 (-1: host), ``bytes`` int64;
        - ``birth_ts`` Int64 ns: missing for a block from before the recording; ``death_ts`` Int64 ns: missing
          if it outlived the recording; ``lifetime_ns`` int64: between the two, or as much as was recorded;
        - ``operator``, ``freed_by`` str: the innermost slices of birth and death, except ``aten::empty``
          and the like; ``module``, ``phase`` str and ``step`` Int32 of its birth;
        - ``slice``, ``freed_slice`` Int64: rows of the two in ``trace.slices``;
        - ``kind`` category, as in `memory_live`.

    Raises
    ------
    OptionError
        If a lifetime is no duration.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=0,
    ...               allocated=[64, 72, 8], reserved=128)
    >>> memory_blocks(b.seal(), min_bytes=10)[["bytes", "lifetime_ns"]].values.tolist()
    [[64, 9]]
    """
    events = trace.allocations
    if device is not None:
        events = events[events["device"] == device].reset_index(drop=True)
    found = lives(events)
    order = np.lexsort((found.event, found.birth))
    found = Lives(*(column[order] for column in found))
    size = np.abs(events["bytes"].to_numpy()[found.event])
    last = int(max(trace.span.end, events["ts"].max())) if len(events) else 0
    lifetime = np.where(found.death == FOREVER, last, found.death) - np.maximum(found.birth, 0)
    keep = (size >= min_bytes) & (lifetime >= parse_ns(min_lifetime))
    if max_bytes is not None:
        keep &= size <= max_bytes
    if max_lifetime is not None:
        keep &= lifetime <= parse_ns(max_lifetime)
    if window is not None:
        cut = Window.of(window)
        keep &= (found.birth < cut.end) & ((found.death > cut.start) | (found.birth >= cut.start))
    kind = block_kinds(trace, events, found)[keep]
    found = Lives(*(column[keep] for column in found))
    return _table(trace, events, found, kind, size[keep], lifetime[keep])


def _table(
    trace: Trace, events: pd.DataFrame, found: Lives, kind: Any, size: IntArray, lifetime: IntArray
) -> pd.DataFrame:
    slices, row = trace.slices, np.append(ints(events["slice"]), -1)
    early, late = found.birth < 0, found.death == FOREVER
    born = meaningful(trace, np.where(early, -1, row[found.event]))
    died = meaningful(trace, row[found.end_event])  # -1, not seen, reads the last place
    table = pd.DataFrame(
        {
            "addr": events["addr"].to_numpy()[found.event],
            "device": events["device"].to_numpy()[found.event],
            "bytes": size,
            "birth_ts": pd.arrays.IntegerArray(np.where(early, 0, found.birth), early),
            "death_ts": pd.arrays.IntegerArray(np.where(late, 0, found.death), late),
            "lifetime_ns": lifetime,
        }
    )
    columns = {"operator": ("name", born), "freed_by": ("name", died)}
    columns |= {"module": ("module", born), "phase": ("phase", born)}
    for column, (source, at) in columns.items():
        table[column] = texts(slices[source], np.append(slices[source].cat.codes.to_numpy(), -1)[at])
    number = np.append(ints(slices["step"]), -1)[born]
    table["step"] = pd.arrays.IntegerArray(number.astype(np.int32), number < 0)
    table["slice"] = pd.arrays.IntegerArray(born, born < 0)
    table["freed_slice"] = pd.arrays.IntegerArray(died, died < 0)
    make: Any = pd.Categorical.from_codes
    table["kind"] = make(kind, categories=list(KINDS))
    return table
