"""What a further process does: it takes the events that it is given, and hands over the columns.

It imports neither pandas nor the packages around its modules, so that it starts quickly.
"""

from __future__ import annotations

import mmap
import os
import pickle
import sys
from typing import Final

from .rows import Arguments, OldArguments
from .taking import Taker

DONE: Final = b"."
"""Said for each part that is done, and once for each slot at the start."""

ODD: Final = b"?"
"""Said when a part does not end where it seemed to."""

SLOTS: Final = 2
"""Parts that a worker is given at a time: the one it takes, and the next one."""


def work(memory: int, slot_bytes: int, old: bool, array: bool) -> None:
    """Take parts until there is an empty order, then write all that was taken.

    Orders are lines: the number of a slot, and the lengths of the lists of events in it. That the input ends
    without an empty line means that nobody waits any more.

    Parameters
    ----------
    memory : int
        Descriptor of the file with the slots.
    slot_bytes : int
    old, array : bool
        See `Taker`.
    """
    slots = memoryview(mmap.mmap(memory, SLOTS * slot_bytes, access=mmap.ACCESS_READ))
    taker = Taker(OldArguments if old else Arguments, array)
    _say(DONE * SLOTS)
    for line in sys.stdin.buffer:
        slot, *lengths = map(int, line.split() or (-1,))
        if slot < 0:
            pickle.dump(taker.taken(), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
            return
        at = slot * slot_bytes
        for length in lengths:
            decoded = taker.take(slots[at : at + length], last=False)
            if decoded is None or decoded.tail is not None:
                _say(ODD)
                return
            at += length
        taker.end_part()
        _say(DONE)


def _say(word: bytes) -> None:
    os.write(sys.stdout.fileno(), word)
