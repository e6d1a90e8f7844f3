"""Running sums by group of some of a store's slices, and of the work that they launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy.typing as npt

from ..trace.arrays import IntArray
from .lod import GroupIndex, LaunchedIndex

if TYPE_CHECKING:
    import numpy as np

    from .store import ViewStore


def grouped(
    store: ViewStore,
    by: str,
    chosen: IntArray | None,
    launches: tuple[IntArray, IntArray] | None = None,
    members: npt.NDArray[np.integer] | None = None,
) -> GroupIndex:
    """Return sums of the chosen slices.

    Parameters
    ----------
    store : ViewStore
    by : str
        As `ViewStore.grouping`.
    chosen : ndarray of int64 or None
        Slices to count, ascending; None counts all.
    launches : pair of ndarrays of int64, optional
        Device slices that count for the host, and the slice that launched each.
    members : ndarray of int, shape (slices,), optional
        Group of every slice that may be told what it launched, -1 for none; by default those of `by`.
    """
    c = store.columns
    codes, names, _ = store.grouping(by)
    again, around = store.again
    launched = None
    if launches is not None and len(launches[0]):
        launched = LaunchedIndex(
            lambda: store.rows,
            codes if members is None else members,
            len(names),
            ts=c.ts,
            dur=c.dur,
            work=launches[0],
            launcher=launches[1],
            parent=store.parent,
        )
    return GroupIndex(
        lambda: store.rows,
        codes,
        len(names),
        ts=c.ts,
        dur=c.dur,
        self_ns=c.self_ns,
        track=c.track,
        again=again,
        parent=around,
        launched=launched,
        chosen=chosen,
        around=store.parent if store.shallow else None,
        straddling=c.straddling,
    )
