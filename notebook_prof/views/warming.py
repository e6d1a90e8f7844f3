"""Indexes of long traces, built beside the questions: the timeline answers while the table is prepared."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from .answers import phases, table
from .store import ViewStore

LONG: Final = 2_000_000
"""Slices from which on the first table and phases are made in a thread of their own."""

SLOW: Final = ("table", "phases")


class Warming:
    """Whether the slow questions can be answered now.

    Parameters
    ----------
    store : ViewStore
    long : int
        With fewer slices everything is built when asked for.
    """

    def __init__(self, store: ViewStore, long: int = LONG) -> None:
        self._store = store
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        if len(store.trace.slices) < long:
            self._ready.set()

    def ready(self, kind: str) -> bool:
        """True unless the question must wait; the first one that must starts the work."""
        if kind not in SLOW or self._ready.is_set():
            return True
        if self._thread is None:
            _ = self._store.columns, self._store.rows  # what both sides need, built once
            self._thread = threading.Thread(target=self._work, name="notebook_prof views", daemon=True)
            self._thread.start()
        return False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for it; for scripts and tests."""
        return self._ready.wait(seconds)

    def _work(self) -> None:
        nothing: Mapping[str, Any] = {}
        try:
            table(self._store, nothing, {"top": 1})
            phases(self._store, nothing, nothing)
            _ = self._store.choices.members  # for the first name that is selected
            for device in self._store.memory_devices:
                self._store.memory_owners(device)
        except Exception:
            pass
        finally:
            self._ready.set()
