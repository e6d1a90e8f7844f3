"""What a block of memory is for, as far as its life tells."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace
from ...trace.intervals import IntArray
from ..scope import ints
from .lives import FOREVER, Lives

KINDS: Final = ("activation", "gradient", "optimizer", "input", "temporary", "parameter", "earlier", "other")


def block_kinds(trace: Trace, events: pd.DataFrame, found: Lives) -> npt.NDArray[np.int8]:
    """Tell activations, gradients and optimizer state apart, by the phases of birth and death.

    Parameters
    ----------
    trace : Trace
    events : DataFrame
        Rows of ``trace.allocations``.
    found : Lives
        The lives of their blocks.

    Returns
    -------
    ndarray of int8, shape (blocks,)
        Place in `KINDS`.

    Notes
    -----
    ===========  =====================================================================================
    kind         rule
    ===========  =====================================================================================
    earlier      from before the recording: parameters and state, mostly
    parameter    born before the first of these phases, and alive two steps later: what belongs to a model
                 that was made while recording, its buffers too
    input        born in phase data
    activation   born in phase forward, and not gone before the forward is over
    gradient     born in phase backward, and not gone before the backward is over
    optimizer    born in phase optimizer, and alive after it: the optimizer's state
    temporary    born in one of these three and gone in the same phase of the same step
    other        anything else
    ===========  =====================================================================================
    """
    words = list(trace.slices["phase"].cat.categories)
    of_slice = np.append(trace.slices["phase"].cat.codes.to_numpy(), -1)
    rows = ints(events["slice"])
    birth = of_slice[rows[found.event]]
    ended = found.end_event >= 0
    death = np.where(ended, of_slice[rows[np.where(ended, found.end_event, 0)]], -1) if len(rows) else birth
    same_step = step_index(trace, found.birth) == step_index(trace, found.death)
    brief = (birth == death) & same_step & ended
    kind = np.full(len(birth), KINDS.index("other"), dtype=np.int8)
    for phase, lasting in (
        ("forward", "activation"),
        ("backward", "gradient"),
        ("optimizer", "optimizer"),
        ("data", "input"),
    ):
        mine = birth == (words.index(phase) if phase in words else -2)
        kind[mine] = KINDS.index(lasting)
        if phase != "data":
            kind[mine & brief] = KINDS.index("temporary")
    kind[_lasting(trace, found) & (kind == KINDS.index("other"))] = KINDS.index("parameter")
    kind[found.birth < 0] = KINDS.index("earlier")
    return kind


def _lasting(trace: Trace, found: Lives) -> npt.NDArray[np.bool_]:
    """Which blocks are older than the first work of any phase and outlive two steps; none without steps."""
    slices, steps = trace.slices, trace.steps
    words = slices["phase"].cat.categories.isin(["data", "forward", "backward", "optimizer"])
    work = np.append(words, False)[slices["phase"].cat.codes.to_numpy()]
    calls = work & (slices["category"] == "module").to_numpy()
    work = calls if calls.any() else work  # what sets a module up may look like a forward
    if not len(steps) or not work.any():
        return np.zeros(len(found.birth), dtype=bool)
    start = int(slices["ts"].to_numpy()[int(work.argmax())])  # slices stand by start
    ends = np.sort((steps["ts"] + steps["dur"]).to_numpy())
    ends = ends[ends > start]
    return (found.birth < start) & (found.death > (ends[:2].max() if len(ends) else start))


def step_index(trace: Trace, instants: IntArray) -> IntArray:
    """How many steps have begun at each instant, so that two instants in one step are equal."""
    start = np.sort(trace.steps["ts"].to_numpy())
    return np.where(instants == FOREVER, -1, np.searchsorted(start, instants, side="right"))
