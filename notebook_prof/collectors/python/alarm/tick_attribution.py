"""Which instruction a late tick belongs to.

CPython handles signals only at some instructions: behind a call of a C function, at a jump backwards and
at the beginning of a Python function. An operator, a comparison or a subscript that takes long is
followed by the tick of whatever comes next, perhaps lines later. So a tick that comes late is charged to
the last instruction before it that can take long and does not look for signals itself:

- a frame at its first instruction: the delay was in its caller, before the call;
- a frame at a jump backwards: the delay was in this frame, before the jump.

Where there is no such instruction, the arguments' own calls took the time and the caller's line is right.
The order of instructions stands for the order in which they ran, which is wrong across branches.
"""

from __future__ import annotations

import dis
from array import array
from bisect import bisect_right
from collections.abc import Mapping
from types import CodeType
from typing import Final, NamedTuple

from ..frames import OURS, owner_of

LATE_INTERVALS: Final = 1.5
"""A tick after a longer gap is late."""

_SLOW: Final = (
    *("BINARY", "COMPARE", "CONTAINS", "FOR_ITER", "GET_ITER", "UNARY", "INPLACE", "IS_OP"),
    *("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_ATTR", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "UNPACK"),
)
_LOOKS: Final = ("CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD", "JUMP_ABSOLUTE", "RESUME")


class _Instructions(NamedTuple):
    """Instructions that can take long or look for signals, in order."""

    offsets: list[int]
    looks: list[bool]
    calls: list[bool]
    first: int


class TickAttribution:
    """Charges late ticks; keeps what it has learned of each function.

    Parameters
    ----------
    codes : mapping of int to CodeType
        By their ids, as in `Samples`.
    """

    def __init__(self, codes: Mapping[int, CodeType]) -> None:
        self._codes = codes
        self._instructions: dict[int, _Instructions] = {}

    def in_handler(self, packed: bytes) -> bool:
        """Return whether a look (packed as for `charged`) found the handler, so that the delay was over."""
        numbers = array("q", packed)
        return bool(numbers) and self._is_handler(numbers[0])

    def charged(self, packed: bytes) -> bytes:
        """Return the stack that ran before a late tick.

        Parameters
        ----------
        packed : bytes
            The stack that the tick found, as `Samples` keeps it: ids of code objects, leaf first, and
            then the positions of their instructions.

        Returns
        -------
        bytes
            Of the same form; the same stack where it is right already.
        """
        numbers = array("q", packed)
        depth = len(numbers) // 2
        while depth and self._is_handler(numbers[0]):
            del numbers[depth], numbers[0]
            depth -= 1
        if depth == 0:
            return packed
        code, offset = numbers[0], numbers[depth]
        if offset <= self._instructions_of(code).first:
            if depth == 1:
                return packed
            del numbers[depth], numbers[0]
            depth -= 1
            code, offset = numbers[0], numbers[depth]
        elif not self._is_jump(code, offset):
            return packed
        before = self._slow_before(code, offset)
        if before is not None:
            numbers[depth] = before
        return numbers.tobytes()

    def _is_handler(self, code: int) -> bool:
        return owner_of(self._codes[code].co_filename) == OURS

    def _slow_before(self, code: int, offset: int) -> int | None:
        """Return the slow instruction since the last look for signals before the one at `offset`."""
        instructions = self._instructions_of(code)
        at = bisect_right(instructions.offsets, offset) - 2
        if at >= 0 and not instructions.looks[at]:
            return instructions.offsets[at]
        return None

    def _is_jump(self, code: int, offset: int) -> bool:
        """Return whether signals are looked for here, and not since a call has just ended."""
        instructions = self._instructions_of(code)
        at = bisect_right(instructions.offsets, offset) - 1
        return (
            at >= 0
            and instructions.offsets[at] == offset
            and instructions.looks[at]
            and not instructions.calls[at]
        )

    def _instructions_of(self, code: int) -> _Instructions:
        if (instructions := self._instructions.get(code)) is None:
            instructions = self._instructions[code] = _instructions(self._codes[code])
        return instructions


def _instructions(code: CodeType) -> _Instructions:
    offsets, looks, calls = [], [], []
    first = -1
    for instruction in dis.get_instructions(code):
        if first < 0 and instruction.opname == "RESUME":
            first = instruction.offset
        look = instruction.opname.startswith(_LOOKS)
        if look or instruction.opname.startswith(_SLOW):
            offsets.append(instruction.offset)
            looks.append(look)
            calls.append(instruction.opname.startswith("CALL"))
    return _Instructions(offsets, looks, calls, max(first, 0))
