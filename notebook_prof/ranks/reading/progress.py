"""A text bar while many ranks are read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, TypeAlias

Progress: TypeAlias = Callable[[int, int], None] | bool | None
"""Called with ranks done and the total; True shows a bar, None only in an interactive session."""

_QUIET_S: Final = 2.0
_WIDTH: Final = 30


class Bar:
    """Write ``ranks ███░░░ 12/256 · 40 s left`` to standard output, after two seconds and on one line."""

    def __init__(self, total: int, show: Progress = None) -> None:
        self._total, self._done, self._started = total, 0, time.monotonic()
        self._call = show if callable(show) else None
        self._always = show is True
        self._text = show is True or (show is None and _watched())
        self._drawn = False

    def advance(self) -> None:
        """Count another rank as done."""
        self._done += 1
        if self._call is not None:
            self._call(self._done, self._total)
        passed = time.monotonic() - self._started
        if self._text and (self._always or passed > _QUIET_S):
            filled = _WIDTH * self._done // max(self._total, 1)
            left = passed / self._done * (self._total - self._done)
            bar = "█" * filled + "░" * (_WIDTH - filled)
            sys.stdout.write(f"\rranks {bar} {self._done}/{self._total} · {left:.0f} s left ")
            sys.stdout.flush()
            self._drawn = True

    def close(self) -> None:
        """Remove the bar."""
        if self._drawn:
            sys.stdout.write("\r" + " " * (_WIDTH + 40) + "\r")
            sys.stdout.flush()


def _watched() -> bool:
    return "ipykernel" in sys.modules or sys.stdout.isatty()
