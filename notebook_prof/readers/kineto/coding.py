"""Numbers for distinct texts, and flags for what events of a kind or name can carry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .activity_types import (
    BOOKKEEPING_KINDS,
    CALL_KINDS,
    DEVICE_KINDS,
    OPERATOR_KINDS,
    concrete_matters,
    known,
)

OPERATOR, CALL, DEVICE, UNKNOWN, EXTRAS, CONCRETE, BOOKKEEPING, NAMELESS = (1 << bit for bit in range(8))
ANY: Final = OPERATOR | CALL | DEVICE | UNKNOWN | EXTRAS

_TELLING_OPERATORS: Final = ("record_param_comms", "nccl:", "c10d::", "triton_")
_AMD_LAUNCH: Final = re.compile(r"hip\w*LaunchKernel")


class Numbers(dict[Any, int]):
    """Gives every distinct thing a number, in order of appearance."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        return number

    def column(self, things: Iterable[Any], count: int) -> npt.NDArray[np.int32]:
        """The numbers of many things."""
        return np.fromiter(map(self.__getitem__, things), np.int32, count)


class FlaggedNumbers(Numbers):
    """Numbers of texts, and a flag for each of them.

    Parameters
    ----------
    flag : callable
        Flag of a text; it may be None.
    """

    def __init__(self, flag: Callable[[str | None], int]) -> None:
        super().__init__()
        self._flag = flag
        self._flags = bytearray()

    def __missing__(self, thing: str | None) -> int:
        self._flags.append(self._flag(thing))
        return super().__missing__(thing)

    def flags(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
        """Flags behind numbers."""
        return np.array(self._flags, np.uint8)[codes]


def flag_of_kind(kind: str | None) -> int:
    """What rows of an activity type can be."""
    kind = (kind or "").lower()
    if kind in BOOKKEEPING_KINDS:
        return BOOKKEEPING
    if kind in DEVICE_KINDS:
        return DEVICE | EXTRAS
    if kind in OPERATOR_KINDS:
        return OPERATOR
    if kind in CALL_KINDS:
        return CALL
    return 0 if known(kind) else UNKNOWN


def flag_of_name(name: str | None) -> int:
    """What a name tells: that there is none, or that arguments of a collective or a launch come with it."""
    if name is None:
        return NAMELESS
    flag = EXTRAS if name.startswith(_TELLING_OPERATORS) or _AMD_LAUNCH.match(name) else 0
    return flag | CONCRETE if concrete_matters(name) else flag
