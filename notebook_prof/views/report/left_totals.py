"""Totals of the slices that a file does not hold one by one, by the groups of the operator table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...service.grouped import grouped
from ...service.lod import GroupTotals
from ...service.store import ViewStore

SIDES = ("host", "device")


def totals_left_out(store: ViewStore, keep: npt.NDArray[np.bool_], by: str, side: str) -> GroupTotals:
    """What the slices that are in the file lack to the totals of the whole recording.

    Parameters
    ----------
    store : ViewStore
    keep : ndarray of bool, shape (slices,)
        Those that are in the file. Whatever is around one of them has to be in it too.
    by : str
        As `ViewStore.grouping`.
    side : str
        ``host`` or ``device``.

    Returns
    -------
    GroupTotals
        Of every group; added to those of the slices in the file it gives ``analysis.operators`` and
        ``analysis.kernels``.
    """
    span, below = store.trace.span, store.columns.row_below
    window = (int(span.start), int(span.end) + 1)
    whole = store.groups(by, (), side).totals(*window, below)
    work, launcher = store.launches
    known = keep[work] & keep[launcher]
    launches = (work[known], launcher[known]) if side == "host" else None
    there = grouped(store, by, np.flatnonzero(keep & store.side(side)), launches).totals(*window, below)
    parts = ("count", "total_ns", "self_ns", "device_ns", "touched")
    return GroupTotals(*(getattr(whole, part) - getattr(there, part) for part in parts))
