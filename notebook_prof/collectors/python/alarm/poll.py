"""Ticks from a thread that looks at the others; where the alarm cannot be used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

INTERVAL_S: Final = 0.005


class PollTicker:
    """Looks every 5 ms.

    It waits for the GIL like any thread, so long pieces without a bytecode boundary look shorter in
    number of samples; as each sample stands for the time since the last, not in time.

    Parameters
    ----------
    look : callable
        Called at every tick.
    """

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self.failures: list[Exception] = []

    @property
    def interval_ns(self) -> int:
        """Time between ticks."""
        return round(INTERVAL_S * 1e9)

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="notebook_prof poll", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Join the thread; safe to repeat."""
        self._quit.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._quit.wait(INTERVAL_S):
            try:
                self._look()
            except Exception as error:
                if len(self.failures) < 3:
                    self.failures.append(error)
