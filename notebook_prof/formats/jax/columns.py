"""What an xplane file and a trace.json have in common: planes, their lines, and events on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from ...trace.arrays import IntArray
from ...trace.strings import Coded

STATISTICS: Final = ("step_num", "hlo_op", "hlo_module", "correlation_id", "tf_op", "memcpy_details")
"""Statistics of events from which the tables are made."""
_ELSEWHERE: Final = frozenset({"step_num", "hlo_module", "correlation_id"})
"""Statistics that are columns of the slices."""
_SOURCE: Final = "_src"


def is_argument(name: str) -> bool:
    """Return whether a statistic of an event is more than what joins threads, as ``_pt`` does.

    >>> is_argument("batch"), is_argument("_src"), is_argument("_pt")
    (True, True, False)
    """
    return name == _SOURCE or not name.startswith("_")


def as_arguments(own: list[dict[str, Any]]) -> Coded | None:
    """Return what no column tells of each event, as JSON objects; None where no event tells more."""
    texts: dict[str, int] = {}
    codes = np.full(len(own), -1, np.int64)
    for row, stats in enumerate(own):
        if others := {
            name: _plain(v) for name, v in stats.items() if name not in _ELSEWHERE and is_argument(name)
        }:
            codes[row] = texts.setdefault(msgspec.json.encode(others).decode(errors="replace"), len(texts))
    return Coded(codes, list(texts)) if texts else None


def _plain(value: Any) -> Any:
    return f"{len(value)} bytes" if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class Line:
    """One thread, stream or derived row."""

    plane: str  # `/host:CPU`, `/device:GPU:0`
    name: str  # `python`, `Stream #17(Kernel)`
    id: int  # thread or stream, as the file numbers it
    ts: IntArray  # ns on the clock of the file
    dur: IntArray
    names: Coded
    # by the names in `STATISTICS`, a value or None for each event; absent where no event has it
    stats: dict[str, list[Any]] = field(default_factory=dict)
    args: Coded | None = None  # from `as_arguments`


@dataclass(frozen=True, slots=True)
class Space:
    """A whole recording."""

    lines: list[Line]  # in the order of the file
    # statistics by plane, of those that have some
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    planes: list[str] = field(default_factory=list)  # names of all planes, also of those without lines


def coded(texts: list[str]) -> Coded:
    """Intern a list of names."""
    code_of: dict[str, int] = {}
    codes = np.fromiter((code_of.setdefault(text, len(code_of)) for text in texts), np.int64, len(texts))
    return Coded(codes, list(code_of))
