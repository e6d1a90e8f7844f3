"""Ticks from a thread that looks at another one; where the alarm cannot be used."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final

from .samples import Samples

INTERVAL_S: Final = 0.005


class PollTicker:
    """Samples one thread every 5 ms.

    It waits for the GIL like any thread, so long pieces without a bytecode boundary look shorter in
    number of samples; as each sample stands for the time since the last, not in time.

    Parameters
    ----------
    samples : Samples
    target : int
        Identifier of the thread to look at.
    now_ns : callable
        The recording's clock.
    each_tick : callable
        Called with the time after every sample.
    """

    def __init__(
        self,
        samples: Samples,
        target: int,
        now_ns: Callable[[], int],
        each_tick: Callable[[int], object],
    ) -> None:
        self._samples = samples
        self._target = target
        self._now_ns = now_ns
        self._each_tick = each_tick
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
                frame = sys._current_frames().get(self._target)
                now = self._now_ns()
                self._samples.add(now, frame)
                del frame
                self._each_tick(now)
            except Exception as error:
                if len(self.failures) < 3:
                    self.failures.append(error)
