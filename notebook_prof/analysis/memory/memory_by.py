"""What held the memory at an instant, in groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from .memory_live import memory_live

_BY: Final = ("operator", "module", "phase", "step", "kind", "device")


def memory_by(
    trace: Trace,
    by: str | Sequence[str] = "kind",
    *,
    at: int | str | None = None,
    device: int | None = None,
) -> pd.DataFrame:
    """Add up the blocks that are allocated at an instant.

    Parameters
    ----------
    trace : Trace
    by : str or sequence of str
        ``kind`` (activation, gradient, …), ``operator``, ``module``, ``phase`` or ``step`` of birth,
        ``device``, or several of them.
    at : int or str, optional
        ns from the start of the trace, or text such as ``"2ms"``; default: the highest peak.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        By `bytes`, most first; no rows where no allocator was recorded.

        - the columns of `by`; missing where it is not known;
        - ``blocks`` int64; ``bytes`` int64; ``share`` float64 of all bytes that are live then;
        - ``largest_bytes`` int64: of the largest block.

    Raises
    ------
    OptionError
        If blocks cannot be grouped by `by`.

    Notes
    -----
    The blocks are those of `memory_live`, which are the ones whose allocation or release was recorded: what a
    program took before the recording and keeps is not among them.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.allocations(ts=[0, 5, 9], addr=[1, 2, 1], bytes=[64, 8, -64], device=[0, 1, 0],
    ...               allocated=[64, 8, 0], reserved=128)
    >>> memory_by(b.seal(), "device", at=6)[["device", "blocks", "bytes"]].values.tolist()
    [[0, 1, 64], [1, 1, 8]]
    """
    columns = [by] if isinstance(by, str) else list(by)
    for column in columns:
        if column not in _BY:
            raise OptionError(f"memory cannot be grouped by {column!r}: {nearest(column, _BY)}")
    blocks = memory_live(trace, at, device=device)
    groups = blocks.groupby(columns, dropna=False, observed=True, sort=False)["bytes"]
    table = groups.agg(["count", "sum", "max"]).reset_index()
    table = table.rename(columns={"count": "blocks", "sum": "bytes", "max": "largest_bytes"})
    table = table.astype({"blocks": "int64", "bytes": "int64", "largest_bytes": "int64"})
    table["share"] = table["bytes"] / max(int(table["bytes"].sum()), 1)
    order = [*columns, "blocks", "bytes", "share", "largest_bytes"]
    return table[order].sort_values("bytes", ascending=False, kind="stable").reset_index(drop=True)
