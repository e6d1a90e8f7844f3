"""A clock that tests advance by hand."""

from __future__ import annotations

from typing import Final

from notebook_prof.trace.clocks import Clock

START_NS: Final = 1_700_000_000_000_000_000


class FakeClock(Clock):
    """Wall and monotonic time, which move by `advance`."""

    def __init__(self, wall_ns: int = START_NS, monotonic_ns: int = 0) -> None:
        self.wall_ns, self.monotonic_ns = wall_ns, monotonic_ns
        super().__init__(lambda: self.wall_ns, lambda: self.monotonic_ns)

    def advance(self, ns: int, slew_ns: int = 0) -> None:
        """Let `ns` pass; the wall clock is adjusted by `slew_ns` meanwhile."""
        self.monotonic_ns += ns
        self.wall_ns += ns + slew_ns
