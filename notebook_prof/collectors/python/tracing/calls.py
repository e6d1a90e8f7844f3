"""Finished calls, which every tracing backend returns."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ....trace.arrays import IntArray
from ....trace.clocks import Clock


class Function(NamedTuple):
    """The called function; `file` is empty for functions written in C."""

    name: str
    file: str
    line: int


class Calls(NamedTuple):
    """Finished calls."""

    # absolute begin and duration in ns, and the native id of the thread
    ts: IntArray
    dur: IntArray
    tid: IntArray
    function: IntArray  # positions in `functions`
    functions: list[Function]
    threads: dict[int, str]  # names by native id
    lost: int  # number of calls dropped for lack of room


class Backend(Protocol):
    """Traces calls."""

    slot: int  # the `sys.monitoring` tool number that it uses; -1 for none
    sets_profile: bool  # whether it needs the interpreter's profile function

    def start(self) -> None:
        """Install the hooks."""

    def stop(self) -> None:
        """Remove the hooks; safe to repeat."""

    def calls(self, clock: Clock) -> Calls:
        """Return the traced calls."""
