"""Finds where each of many consecutive records of different lengths begins, without a loop over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray

_WINDOW: Final = 1 << 20
_BLOCK: Final = 256

Bytes = npt.NDArray[np.uint8]
Step = Callable[[IntArray], IntArray]


def record_starts(step: Step, start: int, size: int) -> tuple[IntArray, int]:
    """Return where the whole records of a text begin, in order, and where the last of them ends."""
    # `step` maps positions to the ends of the records that would begin there: always larger than the
    # position, and larger than `size` if there is no whole record. It is called for every byte, as if a
    # record began there. First, for all blocks of a few hundred bytes at once, find where a chain that enters
    # the block at each byte leaves it. Then, from the entries actually used, find the bytes that the chain
    # visits.
    parts, at = [np.empty(0, np.int64)], start
    while at < size:
        low = at
        rows = np.arange(low, min(low + _WINDOW, size))
        visited, length = _visited(step(rows) - low)
        parts.append(visited + low)
        at = low + length
        if at > size:
            last = parts.pop()
            parts.append(last[:-1])
            return np.concatenate(parts), int(last[-1])
    return np.concatenate(parts), at


def _visited(following: IntArray) -> tuple[IntArray, int]:
    """Return the positions that a chain from 0 visits, and its first position beyond the end."""
    size = len(following)
    count = -(-size // _BLOCK)
    padded = np.full(count * _BLOCK, size, np.int64)
    padded[:size] = following
    steps = padded.reshape(count, _BLOCK)
    row = np.arange(count)
    base = row * _BLOCK
    leave = np.empty_like(steps)
    for column in range(_BLOCK - 1, -1, -1):
        to = steps[:, column]
        inside = to < np.minimum(base + _BLOCK, size)
        leave[:, column] = np.where(inside, leave[row, np.where(inside, to - base, 0)], to)
    entries, at = [], 0
    while at < size:
        entries.append(at)
        at = int(leave[at // _BLOCK, at % _BLOCK])
    used = np.zeros(size, bool)
    now = np.array(entries, np.int64)
    limit = (now // _BLOCK + 1) * _BLOCK
    while len(now):
        used[now] = True
        now = padded[now]
        inside = (now < limit) & (now < size)
        now, limit = now[inside], limit[inside]
    return np.flatnonzero(used), at


class Terminated:
    """Finds the ends of parts of a text, each terminated by a byte that does not occur inside it.

    >>> text = np.frombuffer(b"ab\\0c\\0", np.uint8)
    >>> Terminated(text == 0).after(np.array([0, 3, 4, 5]), 1).tolist()
    [3, 5, 5, 7]
    """

    # `ends` marks the bytes that end a part: zeros, or bytes of varints without the highest bit.

    def __init__(self, ends: npt.NDArray[np.bool_]) -> None:
        self._size = len(ends)
        self._ends = np.flatnonzero(ends)
        self._before = np.concatenate([[0], np.cumsum(ends, dtype=np.int64)])

    def after(self, at: IntArray, count: int | IntArray) -> IntArray:
        """Return where the `count`-th part after each position ends; size + 2 if there are fewer parts."""
        index = self._before[np.minimum(at, self._size)] + count - 1
        ok = (index < len(self._ends)) & (at <= self._size) & (index >= 0)
        if not len(self._ends):
            return np.full(len(at), self._size + 2, np.int64)
        return np.where(ok, self._ends[np.where(ok, index, 0)] + 1, self._size + 2)
