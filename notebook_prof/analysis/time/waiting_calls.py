"""Calls in which a host thread waits for a device: synchronisations and copies that block."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...trace import Trace
from ...trace.intervals import IntArray
from ..device.launch_calls import launch_calls
from ..scope import Mask, Scope, once

LATE_NS: Final = 1_000
"""A call that ends this little before the work that it waits for is rounding of two clocks."""
ITEM_NS: Final = 10_000
"""Reading a number out of a tensor takes less than this, unless it waits for a device."""

_SYNCHRONISES: Final = re.compile(
    r"(?:cuda|cu|hip|musa)(?:Device|Stream|Event|Ctx|Context)Synchronize\w*"
    r"|aclrtSynchronize\w+|ze\w+Synchronize|ur(?:EventWait|QueueFinish)|pi(?:EventsWait|QueueFinish)"
    r"|<built-in method synchronize .*|.*torch[/.](?:cuda|xpu|npu|mps)\b.*: synchronize"
    r"|synchronize \(torch/.*"
    r"|.*(?:^|[\s.])(?:block_until_ready|try_to_block|BlockHostUntilReady)\b.*"
)
_COPIES: Final = re.compile(r"(?:cuda|cu|hip|musa)Memcpy(?!DtoD)(?!\w*Async)\w*")
_COPIES_LATER: Final = re.compile(r"(?:cuda|cu|hip|musa)Memcpy\w*Async\w*")
_READS: Final = re.compile(r"aten::(?:_local_scalar_dense|item|is_nonzero)")


def waiting(trace: Trace, scope: Scope) -> Mask:
    """Which slices of host threads wait for a device.

    Parameters
    ----------
    trace : Trace
    scope : Scope
        Slices of host threads.

    Returns
    -------
    ndarray of bool, shape (n,)
        See `host_waits` for the rule.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> from notebook_prof.analysis.scope import on_host
    >>> trace = draw("main: [mm][cudaStreamSynchronize]", categories={"cudaStreamSynchronize": "launch"})
    >>> waiting(trace, on_host(trace)).tolist()
    [False, True]
    """
    code = scope.codes("name")
    waits = _named(trace, _SYNCHRONISES)[code] | _named(trace, _COPIES)[code]
    waits |= scope.among("category", ("sync",))
    later = _named(trace, _COPIES_LATER)[code]
    if later.any():
        done = _work_done(trace)[scope.rows]
        waits |= later & (done > scope.ts) & (scope.end + LATE_NS >= done)
    if not once(trace, "runtime calls", lambda: _has_calls(trace)):
        waits |= _named(trace, _READS)[code] & (scope.end - scope.ts >= ITEM_NS)
    return np.asarray(waits, dtype=bool)


def _named(trace: Trace, pattern: re.Pattern[str]) -> Mask:
    """Which names match, and at the end a False for code -1; there may be a million of them."""
    names = trace.slices["name"].cat.categories.astype("str")
    return once(
        trace,
        ("named", pattern.pattern),
        lambda: np.array([*(pattern.fullmatch(name) is not None for name in names), False], dtype=bool),
    )


def _has_calls(trace: Trace) -> bool:
    return bool(trace.slices["category"].isin(["launch", "sync"]).any())


def _work_done(trace: Trace) -> IntArray:
    """When the device work that each slice launched ended; -1 for slices that launched none."""
    call = launch_calls(trace)[:-1]
    slices = trace.slices
    end = (slices["ts"] + slices["dur"]).to_numpy()
    done = np.full(len(slices), -1, np.int64)
    known = call >= 0
    np.maximum.at(done, call[known], end[known])
    return done
