"""Finished calls, as every way of tracing delivers them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ....trace.arrays import IntArray
from ....trace.clocks import Clock


class Function(NamedTuple):
    """What was called; `file` is empty for functions written in C."""

    name: str
    file: str
    line: int


class Calls(NamedTuple):
    """Finished calls.

    Attributes
    ----------
    ts, dur, tid : ndarray of int64
        Absolute begin and duration in ns, native id of the thread.
    function : ndarray of int64
        Positions in `functions`.
    functions : list of Function
    threads : dict of int to str
        Names of threads.
    lost : int
        Calls that there was no room for.
    """

    ts: IntArray
    dur: IntArray
    tid: IntArray
    function: IntArray
    functions: list[Function]
    threads: dict[int, str]
    lost: int


class Backend(Protocol):
    """Something that traces calls.

    Attributes
    ----------
    slot : int
        Number of the tool of `sys.monitoring` that it is; -1 for none.
    sets_profile : bool
        Whether it needs the interpreter's profile function.
    """

    slot: int
    sets_profile: bool

    def start(self) -> None:
        """Install the hooks."""

    def stop(self) -> None:
        """Remove the hooks; safe to repeat."""

    def calls(self, clock: Clock) -> Calls:
        """Return what was traced."""
