"""What the first recording of this process leaves for the next ones: how far apart the clocks were."""

from __future__ import annotations

from ..analysis.device.launches import least_launch_delay
from ..trace.trace import Trace

_first_delay_ns: int | None = None


def from_before() -> dict[str, int]:
    """Return metadata about the first recording with device work; empty in that one itself."""
    return {} if _first_delay_ns is None else {"first_launch_delay_ns": _first_delay_ns}


def remember(trace: Trace) -> None:
    """Keep the least launch delay of the first recording that has one.

    Later ones are compared with that and not with one another, so that a shift that stays is told in
    every recording that has it.
    """
    global _first_delay_ns
    if _first_delay_ns is None:
        _first_delay_ns = least_launch_delay(trace)
