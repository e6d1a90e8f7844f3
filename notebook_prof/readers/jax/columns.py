"""What an xplane file and a trace.json have in common: planes, their lines, and events on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.strings import Coded

Ints = npt.NDArray[np.int64]

WANTED: Final = ("step_num", "hlo_op", "hlo_module", "correlation_id", "tf_op", "memcpy_details")
"""Statistics of events that are kept."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thread, stream or derived row.

    Attributes
    ----------
    plane, name : str
        ``/host:CPU``, ``/device:GPU:0``; ``python``, ``Stream #17(Kernel)``.
    id : int
        Thread or stream, as the file numbers it.
    ts, dur : ndarray of int64
        Nanoseconds; `ts` on the clock of the file.
    names : Coded
    stats : dict of str to list
        A value or None for each event, by the names in `WANTED`; absent where no event has it.
    """

    plane: str
    name: str
    id: int
    ts: Ints
    dur: Ints
    names: Coded
    stats: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Space:
    """A whole recording.

    Attributes
    ----------
    lines : list of Line
        In the order of the file.
    facts : dict of str to dict
        Statistics of each plane that has some.
    planes : list of str
        Names of all planes, also of those without lines.
    """

    lines: list[Line]
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    planes: list[str] = field(default_factory=list)


def coded(texts: list[str]) -> Coded:
    """Intern a list of names."""
    known: dict[str, int] = {}
    codes = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, len(texts))
    return Coded(codes, list(known))
