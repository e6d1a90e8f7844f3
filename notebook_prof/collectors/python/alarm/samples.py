"""Stacks of one thread as they are seen, interned so that a tick costs little."""

from __future__ import annotations

from array import array
from types import CodeType, FrameType

import numpy as np

from ....trace.arrays import IntArray


class Samples:
    """Times and stacks, appended to by one writer.

    A stack is kept once, leaf first, as the ids of its code objects followed by the positions of its
    instructions; lines are looked up later. Code objects are kept alive, so their ids stay unique.

    Parameters
    ----------
    below : FrameType, optional
        A frame at which stacks end: it and what calls it is not the user's.
    """

    def __init__(self, below: FrameType | None = None) -> None:
        self.codes: dict[int, CodeType] = {}
        self._below = below
        self._ts = array("q")
        self._stack = array("q")
        self._numbers: dict[bytes, int] = {}

    def add(self, ts: int, frame: FrameType | None) -> None:
        """Note that `frame` was running at `ts` (absolute ns)."""
        codes: list[CodeType] = []
        instructions: list[int] = []
        code_is, instruction_is, below = codes.append, instructions.append, self._below
        while frame is not None and frame is not below:
            code_is(frame.f_code)
            instruction_is(frame.f_lasti)
            frame = frame.f_back
        packed = array("q", map(id, codes)).tobytes() + array("q", instructions).tobytes()
        stack = self._numbers.get(packed)
        if stack is None:
            self._numbers[packed] = stack = len(self._numbers)
            self.codes.update(zip(map(id, codes), codes, strict=True))
        self._ts.append(ts)
        self._stack.append(stack)

    def let_go(self) -> None:
        """Forget the frame at which stacks end, and with it its variables."""
        self._below = None

    def __len__(self) -> int:
        return len(self._ts)

    @property
    def ts(self) -> IntArray:
        """Times in ns, as they came."""
        return np.array(self._ts, dtype=np.int64)

    @property
    def stack(self) -> IntArray:
        """For every time, the position of its stack in `packed`."""
        return np.array(self._stack, dtype=np.int64)

    @property
    def packed(self) -> list[bytes]:
        """Distinct stacks, in order of appearance."""
        return list(self._numbers)
