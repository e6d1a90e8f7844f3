"""When blocks of memory were born and when they died."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.intervals import IntArray
from ...trace.nesting import climb
from ..scope import ints

FOREVER: Final = np.iinfo(np.int64).max
"""Death of a block that outlived the recording."""
_MERELY_ALLOCATE: Final = (
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::resize_",
    "[memory]",
)


class Lives(NamedTuple):
    """A row a block.

    Attributes
    ----------
    event : ndarray of int64
        Row of the allocation or, for a block from before the recording, of the event that freed it.
    birth, death : ndarray of int64
        ns; birth is -1 before the recording, death is `FOREVER` after it.
    end_event : ndarray of int64
        Row of the event that ended it; -1 where it outlived the recording.
    """

    event: IntArray
    birth: IntArray
    death: IntArray
    end_event: IntArray


def lives(events: pd.DataFrame) -> Lives:
    """Pair the events of each address, in order: a block lives from its allocation to the next event there.

    Examples
    --------
    >>> events = {"ts": [0, 5, 9], "addr": [1, 2, 1], "bytes": [64, 8, -64], "device": [0, 0, 0]}
    >>> found = lives(pd.DataFrame(events))
    >>> found.birth.tolist(), (found.death == FOREVER).tolist(), found.end_event.tolist()
    ([0, 5], [False, True], [2, -1])
    """
    addr, device = events["addr"].to_numpy(), events["device"].to_numpy()
    ts, size = events["ts"].to_numpy(), events["bytes"].to_numpy()
    order = np.lexsort((np.arange(len(ts)), addr, device))
    addr, device, ts, size = addr[order], device[order], ts[order], size[order]
    same = (addr[1:] == addr[:-1]) & (device[1:] == device[:-1])
    last = min(len(ts), 1)
    next_ts = np.append(np.where(same, ts[1:], FOREVER), np.full(last, FOREVER))
    next_event = np.append(np.where(same, order[1:], -1), np.full(last, -1))
    after_birth = np.append(np.zeros(last, bool), same & (size[:-1] > 0))
    after_any = np.append(np.zeros(last, bool), same)
    born, orphan = size > 0, (size < 0) & ~after_birth & ~after_any
    return Lives(
        np.concatenate([order[born], order[orphan]]),
        np.concatenate([ts[born], np.full(int(orphan.sum()), -1)]),
        np.concatenate([next_ts[born], ts[orphan]]),
        np.concatenate([next_event[born], order[orphan]]),
    )


def meaningful(trace: Trace, rows: IntArray) -> IntArray:
    """The slices themselves or, where one only allocates for another, the one around it; -1 stays -1."""
    return climb(ints(trace.slices["parent"]), rows, trace.slices["name"].isin(_MERELY_ALLOCATE).to_numpy())
