"""Makes known instants, from which the offset of an outside sampler's clock follows.

A thread calls functions with known names at known times. The sampler notices each change with its next
sample, up to one interval later. If it is starved, it notices the change even later, but never earlier. So
the shortest delays give the offset of its clock, and the others show whether it was starved.
"""

from __future__ import annotations

import re
import sys
import time
from array import array
from collections.abc import Callable
from threading import Event
from types import FunctionType
from typing import Final, NamedTuple, cast

import numpy as np

from ....trace.arrays import IntArray

BURST: Final = 24
"""Number of quick beats at the start, which give the offset of the clock."""

QUICK_IN_A_RECORDING: Final = 4
"""Number of quick beats when a recording begins."""

QUICK_INTERVALS: Final = 3.3
"""Time between quick beats, in sampling intervals. Not a whole number, so the beats' phases differ."""

CALM_S: Final = 0.05
"""Time between beats after the burst."""

NAMES: Final = 32
BEAT: Final = re.compile(r"notebook_prof_beat_(\d+)\Z")
STARVED_INTERVALS: Final = 4.0
"""Spread of the delays, in sampling intervals, above which samples are missing."""

_LOW: Final = 0.05
_HIGH: Final = 0.75
_FEWEST: Final = 3


def _wait(event: Event, seconds: float) -> bool:
    return event.wait(seconds)


def _renamed_wait(name: str) -> Callable[[Event, float], bool]:
    """Copy `_wait` under another name, since the name is all that a sampler sees."""
    code = _wait.__code__.replace(co_name=name)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return cast("Callable[[Event, float], bool]", FunctionType(code, globals()))


_CALLS: Final = tuple(_renamed_wait(f"notebook_prof_beat_{i}") for i in range(NAMES))


class Heartbeat:
    """Makes the beats. `interval_s` is the sampling interval."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._ns = array("q")
        self._left = BURST

    def again(self) -> None:
        """Make some quick beats. Those during a recording show whether the sampler was starved."""
        # There are only a few, since each takes the GIL once. If the cell's thread holds the GIL during long
        # calls into C, it releases it at its next Python call, and waits there until it is woken up. With a
        # burst of 24 beats with several system calls each, up to a fifth of a cell of 0.3 s was attributed to
        # that call.
        self._left = max(self._left, QUICK_IN_A_RECORDING)

    @property
    def quick(self) -> bool:
        """Whether the burst is still going on."""
        return self._left > 0

    def wait(self, event: Event) -> bool:
        """Make one beat, and wait for the next or for `event`. Returns whether the event is set."""
        quick = QUICK_INTERVALS * self._interval_s
        seconds = quick if self._left > 0 else max(CALM_S, quick)
        self._left -= 1
        number = len(self._ns) % NAMES
        self._ns.append(time.perf_counter_ns())
        return _CALLS[number](event, seconds)

    @property
    def monotonic_ns(self) -> IntArray:
        """Times of the beats on Python's monotonic clock. Beat i used name i % `NAMES`."""
        return np.array(self._ns, dtype=np.int64)


class Offset(NamedTuple):
    """The offset of the sampler's clock."""

    ns: int  # added to the sampler's times, it gives times on Python's monotonic clock
    spread_ns: int  # delay of the slower quarter of the beats behind the promptest; -1 if too few were seen

    def is_starved(self, interval_ns: int) -> bool:
        """Return whether the sampler has missed samples."""
        return self.spread_ns > STARVED_INTERVALS * interval_ns


def align(seen_ns: IntArray, number: IntArray, beats_ns: IntArray, guess_ns: int) -> Offset:
    """Find the offset of a sampler's clock; with fewer than three beats, it is `guess_ns` (± 0.1 s)."""
    if len(seen_ns) == 0 or len(beats_ns) == 0:
        return Offset(guess_ns, -1)
    times = seen_ns + guess_ns
    delay = np.sort(np.concatenate([_delays(times[number == i], beats_ns[i::NAMES]) for i in range(NAMES)]))
    if len(delay) < _FEWEST:
        return Offset(guess_ns, -1)
    low = int(delay[int(_LOW * len(delay))])
    return Offset(guess_ns - low, int(delay[int(_HIGH * len(delay))]) - low)


def _delays(seen_ns: IntArray, beats_ns: IntArray) -> IntArray:
    """Return how long each time is after its nearest beat."""
    if len(seen_ns) == 0 or len(beats_ns) == 0:
        return np.empty(0, np.int64)
    behind = np.searchsorted(beats_ns, seen_ns).clip(1, max(len(beats_ns) - 1, 1))
    before, after = beats_ns[behind - 1], beats_ns[np.minimum(behind, len(beats_ns) - 1)]
    nearest = np.where(seen_ns - before <= after - seen_ns, before, after)
    return np.asarray(seen_ns - nearest, dtype=np.int64)
