"""From buffers of mixed records to one array a kind, without a loop over records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from .layouts import STRUCTS, record

WORD: Final = 8
"""CUPTI aligns records to 8 bytes."""
KINDS: Final = 64

Words = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Records:
    """What the buffers held.

    Attributes
    ----------
    of : dict of int to structured ndarray
        Records of each kind in `layouts.STRUCTS`, in the order of the buffers.
    unread : dict of int to int
        How many there were of other kinds, whose size is known.
    lost_bytes : int
        Behind a record whose size is not known; nothing after it in its buffer can be read.
    """

    of: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    unread: dict[int, int] = field(default_factory=dict)
    lost_bytes: int = 0


def walk(buffers: Iterable[Words], strides: Mapping[int, int]) -> Records:
    """Take the records of all buffers apart.

    Parameters
    ----------
    buffers : iterable of ndarray of uint64
        The valid part of each.
    strides : mapping of int to int
        Kind → bytes from such a record to the next.

    Notes
    -----
    Where a record begins depends on all before it. Every word whose low half is a known kind *could* begin
    one, and then tells where the next would begin; the true ones are those that can be reached from the
    first word. They are found by pointer doubling: after *k* rounds, all of the first 2^k are known.

    Examples
    --------
    >>> buffer = np.array([39, 7, 1, 39, 8, 2], dtype=np.uint64)
    >>> walk([buffer], {39: 24}).of[39]["externalId"].tolist()
    [7, 8]
    """
    words = np.zeros(KINDS, np.int64)
    for kind, stride in strides.items():
        words[kind] = stride // WORD
    result = Records()
    parts: dict[int, list[npt.NDArray[Any]]] = {}
    for buffer in buffers:
        at, end = starts(buffer, words)
        result.lost_bytes += (len(buffer) - end) * WORD
        kinds = _kinds(buffer)[at]
        for kind in np.unique(kinds).tolist():
            rows = at[kinds == kind]
            if kind not in STRUCTS:
                result.unread[kind] = result.unread.get(kind, 0) + len(rows)
                continue
            whole = buffer[rows[:, None] + np.arange(words[kind])]
            dtype = record(STRUCTS[kind], int(words[kind]) * WORD)
            parts.setdefault(kind, []).append(whole.view(dtype).reshape(-1))
    result.of = {kind: np.concatenate(arrays) for kind, arrays in parts.items()}
    return result


def since(records: Records, device_ns: int) -> Records:
    """Leave out what had ended before a time of CUPTI's clock; what has no times stays, to be counted."""
    for kind, rows in records.of.items():
        names = rows.dtype.names or ()
        column = next((name for name in ("end", "timestamp") if name in names), None)
        if column is not None:
            records.of[kind] = rows[(rows[column] == 0) | (rows[column] >= np.uint64(device_ns))]
    return records


def starts(buffer: Words, words: IntArray) -> tuple[IntArray, int]:
    """Return where records begin, in words, and where the last one that could be read ends.

    Parameters
    ----------
    buffer : ndarray of uint64
    words : ndarray of int64, shape (KINDS,)
        Length of a record by kind; 0 where it is not known.
    """
    n = len(buffer)
    if not n:
        return np.empty(0, np.int64), 0
    length = words[np.minimum(_kinds(buffer), KINDS - 1)]
    candidates = np.flatnonzero(length)
    if not len(candidates) or candidates[0] != 0:
        return np.empty(0, np.int64), 0
    after = candidates + length[candidates]
    whole = after <= n  # a record that is cut off is not one
    nowhere = len(candidates)
    next_candidate = np.full(n + 1, nowhere, np.int64)
    next_candidate[candidates[whole]] = np.flatnonzero(whole)
    jump = np.append(np.where(whole, next_candidate[np.minimum(after, n)], nowhere), nowhere)
    reached = np.zeros(nowhere + 1, bool)
    reached[[0, nowhere]] = whole[0], True
    while True:
        ahead = jump[np.flatnonzero(reached)]
        if reached[ahead].all():
            break
        reached[ahead] = True
        jump = jump[jump]
    rows = np.flatnonzero(reached[:-1])
    return candidates[rows], int(after[rows[-1]]) if len(rows) else 0


def _kinds(buffer: Words) -> npt.NDArray[np.uint32]:
    return buffer.view(np.uint32)[::2]
