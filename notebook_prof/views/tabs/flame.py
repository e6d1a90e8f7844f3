"""The flame tab: stacks weighted by time on the host and by device time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ... import analysis
from ...trace import Trace
from .. import figures
from .analyses import followed, selection_of
from .base import Absent, Choice, Note, Panel, Tab, pictures
from .lines import without_lines

_SOME: Final = 1 << 20
_MEANING: Final = {
    "left_heavy": "Equal stacks are one box, as wide as their time, below their caller, the widest to "
    "the left: where time went, not when. A click selects the name.",
    "time": "Stacks from left to right in order of start, by thread; equal "
    "neighbours are one box, and pauses are left out. A click selects the name.",
    "line": "Lines of your source, and below each what ran for it but not for your other lines: as wide "
    "as its self time, the widest to the left. A click on a line selects it, one below it the name.",
    "sandwich": "The selected name, or the one with the most self time: above it its callers, below it "
    "what it called, as wide as its time there. With a kernel, a click puts another name in the middle.",
}


def flame(
    trace: Trace, state: Mapping[str, Any], *, order: str = "left_heavy", every_frame: bool = False
) -> Panel | Absent:
    """Show two icicles, by host time and by device time; the second only if launches are known."""
    selection = selection_of(state)
    drawn = pictures(
        *(
            figures.flame_figure(trace, selection, metric=metric, order=order, fold_libraries=not every_frame)
            for metric in ("self_ns", "device_ns")
        )
    )
    if not drawn:
        if sentence := without_stacks(trace):
            return Absent(sentence)
        if order == "line" and (sentence := without_lines(trace)):
            return Absent(sentence)
        what = "what is selected" if order != "sandwich" or selection.name is None else "the selected name"
        return Absent(f"There is no stack in {what}.")
    note = Note(f"{_MEANING[order]} Box zoom enlarges a part.")
    under = (*followed(analysis.flame), "name")
    return Panel("Flame", (note, *drawn), under, follows_own=order == "sandwich")


def without_stacks(trace: Trace) -> str:
    track = trace.slices["track"].to_numpy()
    host = trace.tracks["track"][trace.tracks["kind"].isin(["thread", "process"])].to_numpy()
    for first in range(0, len(track), _SOME):  # usually the first chunk is enough
        if np.isin(track[first : first + _SOME], host).any():
            return ""
    return "Nothing was recorded on the host, so there are no stacks: this trace has only device work."


TAB: Final = Tab(
    "Flame",
    flame,
    without_stacks,
    place=90,
    summary="What called what, on the host and launched on devices.",
    calls=("p.flame()", 'p.flame(order="time")', "p.flame(by_line=True)", "p.sandwich(name)"),
    plots={"flame": "flame_figure"},
    choices=(
        Choice(
            "order",
            "order",
            {"left_heavy": "Left heavy", "time": "Time order", "line": "By line", "sandwich": "Sandwich"},
        ),
        Choice("every_frame", "every frame"),
    ),
)
