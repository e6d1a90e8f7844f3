"""From device work back to the call that launched it."""

from __future__ import annotations

import numpy as np

from ...trace import Trace
from ...trace.intervals import IntArray


def launch_calls(trace: Trace) -> IntArray:
    """Row of the call that launched each slice: a runtime call or, without one, an operator.

    Returns
    -------
    ndarray of int64, shape (slices + 1,)
        -1 without such a flow; the last place is -1 too, so that it can be indexed with a missing row.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... main:     [mm]
    ... stream 7:   [gemm]
    ... ''', launches=[("mm", "gemm")])
    >>> launch_calls(trace).tolist()
    [-1, 0, -1]
    """
    flows = trace.flows
    launches = (flows["kind"] == "launch").to_numpy()
    call = np.full(len(trace.slices) + 1, -1, dtype=np.int64)
    call[flows["dst"].to_numpy()[launches]] = flows["src"].to_numpy()[launches]
    return call
