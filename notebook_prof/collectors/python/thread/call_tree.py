"""Stores stacks as a tree: each distinct beginning is stored once, and deep stacks are folded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from types import CodeType
from typing import Final

import numpy as np

from ....trace.arrays import IntArray
from ....trace.strings import readable
from ..frames import FOLDED, KEPT_FRAMES, Frame, Stacks, owner_of
from ..py_spy.file import Functions
from .walk import Place

_FOLD: Final = -1
"""Stands for the code of folded frames."""

_Lines = tuple[list[int], list[int]]


class CallTree:
    """Stacks, with each distinct beginning stored once. Each node is a stack, and node 0 is the empty one."""

    def __init__(self) -> None:
        self.codes: dict[int, CodeType | Place] = {}
        self.folded = self.deepest = 0
        self._nodes: dict[tuple[int, int, int], int] = {}

    def node(self, codes: Sequence[CodeType | Place], instructions: Sequence[int]) -> int:
        """Return the node of a stack, innermost frame first."""
        numbers = list(map(id, codes))
        if len(codes) > 2 * KEPT_FRAMES:
            self.folded += 1
            self.deepest = max(self.deepest, len(codes))
            codes = [*codes[:KEPT_FRAMES], *codes[-KEPT_FRAMES:]]
            numbers[KEPT_FRAMES:-KEPT_FRAMES] = [_FOLD]
            instructions = [*instructions[:KEPT_FRAMES], 0, *instructions[-KEPT_FRAMES:]]
        node, count, known = 0, len(self._nodes), self._nodes.setdefault
        for code, instruction in zip(reversed(numbers), reversed(instructions), strict=True):
            node = known((node, code, instruction), len(self._nodes) + 1)
        if len(self._nodes) > count:
            self.codes.update(zip(map(id, codes), codes, strict=True))
        return node

    def table(self) -> IntArray:
        """Return ``parent code instruction`` of each node, zeros for node 0. Shape (n, 3)."""
        rows = np.array([(0, 0, 0), *self._nodes], dtype=np.int64)
        return rows.reshape(-1, 3)


def decode(nodes: IntArray, tree: CallTree) -> Stacks:
    """Return the stacks of nodes with their lines, root first."""
    table = tree.table()
    parent = table[:, 0]
    used, code_of = np.unique(table[1:, 1], return_inverse=True)
    packed_keys, frame_of = np.unique(code_of.ravel() * 2**32 + table[1:, 2] + 1, return_inverse=True)
    numbers: dict[Frame, int] = {}
    lines: dict[int, _Lines] = {}
    line_of = []
    functions = Functions()
    for packed_key in packed_keys.tolist():
        code, position = tree.codes.get(int(used[packed_key >> 32])), (packed_key & 0xFFFFFFFF) - 1
        if code is None:
            frame = FOLDED
        elif isinstance(code, Place):
            frame = functions.frame(code.function, code.file, position)
        else:
            frame = _frame(code, position, lines)
        line_of.append(numbers.setdefault(frame, len(numbers)))
    frames = np.append(0, np.array(line_of, dtype=np.int64)[frame_of.ravel()])
    levels, homes, now = [], [], nodes
    alive = np.flatnonzero(nodes > 0)
    while len(alive):  # go outwards, for all stacks at once
        levels.append(frames[now[alive]])
        homes.append(alive)
        now = np.where(now > 0, parent[now], 0)
        alive = np.flatnonzero(now > 0)
    empty = np.empty(0, np.int64)
    home, flat = np.concatenate([empty, *homes[::-1]]), np.concatenate([empty, *levels[::-1]])
    lengths = np.bincount(home, minlength=len(nodes)).astype(np.int64)
    return Stacks(flat[np.argsort(home, kind="stable")], lengths, list(numbers))


def _frame(code: CodeType, instruction: int, lines: dict[int, _Lines]) -> Frame:
    if (table := lines.get(id(code))) is None:
        table = lines[id(code)] = _lines(code)
    at = bisect_right(table[0], instruction) - 1
    function, file = readable(getattr(code, "co_qualname", code.co_name)), readable(code.co_filename)
    line = table[1][at] if at >= 0 else code.co_firstlineno
    return Frame(function, file, code.co_firstlineno, line, owner_of(file))


def _lines(code: CodeType) -> _Lines:
    starts, lines, latest = [], [], code.co_firstlineno
    for start, _, line in code.co_lines():
        latest = line if line else latest
        starts.append(start)
        lines.append(latest)
    return starts, lines
