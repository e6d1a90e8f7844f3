"""How busy the devices were, and with what."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import pandas as pd

from ...trace import DEVICE_CATEGORIES, Trace, length
from ...trace.arrays import BoolArray
from ...trace.intervals import as_ints
from ..busy_time import BusyTime, busy_time, device_of, device_window
from ..distributed.exposed import exposed_communication
from ..scope import Scope, WindowLike, on_device

_COLUMNS: Final = (
    "device",
    "window_ns",
    "busy_ns",
    "idle_ns",
    "compute_ns",
    "communication_ns",
    "memory_ns",
    "exposed_communication_ns",
)


def device(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return the busy and idle time of each device, from the union of its streams.

    Parameters
    ----------
    trace : Trace
    window : (int, int), optional
        Half-open, in ns. Default: from the first to the last work of each device.

    Returns
    -------
    DataFrame
        One row per device, by number; no rows without device work. All times are int64 ns.

        - ``device`` int16; ``window_ns``: length of the window;
        - ``busy_ns``: time with anything on any stream; ``idle_ns``: the rest, so both sum to `window_ns`;
        - ``compute_ns``: kernels; ``communication_ns``: collectives; ``memory_ns``: copies and fills; each is
          a separate union, so they may overlap;
        - ``exposed_communication_ns``: communication while no kernel computes; the phase communication of
          `phases` is the part of it that delays the steps.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> one, two = (b.track("", "stream", device=0, stream=number) for number in (7, 20))
    >>> kind = ["kernel", "kernel", "collective"]
    >>> _ = b.slices(ts=[0, 20, 5], dur=[10, 5, 10], track=[one, one, two], name=kind, category=kind)
    >>> device(b.seal())[["window_ns", "busy_ns", "idle_ns", "exposed_communication_ns"]].values.tolist()
    [[25, 20, 5, 5]]
    """
    work = on_device(trace, window)
    if not len(work.rows):
        return _without_rows().copy(deep=False)
    where = device_of(trace, work)
    return _table([_row(work, where == number, int(number), window) for number in np.unique(where)])


def _table(rows: list[tuple[int, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype("int64").astype({"device": "int16"})


@functools.cache
def _without_rows() -> pd.DataFrame:
    return _table([])


def _row(work: Scope, here: BoolArray, number: int, window: WindowLike) -> tuple[int, ...]:
    cut = device_window(work.only(here), window)
    start, end = as_ints([cut.start]), as_ints([cut.end])

    def during(*categories: str) -> BusyTime:
        return busy_time(work.only(here & work.among("category", categories)), start, end)

    any_work = during(*DEVICE_CATEGORIES)
    return (
        number,
        any_work.window_ns,
        any_work.busy_ns,
        any_work.idle_ns,
        during("kernel").busy_ns,
        during("collective").busy_ns,
        during("memcpy", "memset").busy_ns,
        length(exposed_communication(work.only(here))),
    )
