"""The flame tab: stacks weighted by time on the host and by device time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ... import analysis
from ...trace import Trace
from .. import figures
from .analyses import followed, selection_of
from .base import Absent, Note, Panel, Tab, pictures

_SOME: Final = 1 << 20


def flame(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show two icicles, by host and by device time; the second only where device work has a known launch."""
    selection = selection_of(state)
    drawn = pictures(
        figures.flame_figure(trace, selection), figures.flame_figure(trace, selection, metric="device_ns")
    )
    if not drawn:
        return Absent(without_stacks(trace) or "No stack lies in what is selected.")
    note = Note(
        "As wide as what it took, below what called it. A click selects the name; box zoom looks closer."
    )
    return Panel("Flame", (note, *drawn), (*followed(analysis.flame), "name"))


def without_stacks(trace: Trace) -> str:
    """Return why there are no stacks."""
    track = trace.slices["track"].to_numpy()
    host = trace.tracks["track"][trace.tracks["kind"].isin(["thread", "process"])].to_numpy()
    for first in range(0, len(track), _SOME):  # mostly the first look is enough
        if np.isin(track[first : first + _SOME], host).any():
            return ""
    return "Nothing was recorded on the host, so there are no stacks: this is a trace of the device alone."


TAB: Final = Tab(
    "Flame",
    flame,
    without_stacks,
    place=90,
    summary="What called what, on the host and launched on devices.",
    calls=("p.flame()",),
    plots={"flame": "flame_figure"},
)
