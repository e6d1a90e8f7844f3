"""Records when the thread of a DataLoader copies batches into pinned memory.

torch starts this thread for an iterator with workers and ``pin_memory=True``, if there is an accelerator. The
thread may pin before the iterator is complete, so `PinWatch` recognises it by its target function. Copies by
other threads, such as the loop's without workers, are not counted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

from .patches import drop_frame
from .ring import clock

_LOOP: Final = "_pin_memory_loop"
_NO_BATCHES: Final = ("_IterableDatasetStopIteration", "_ResumeIteration")
_MOST_EVENTS: Final = 1_000_000

Pinned = list[tuple[int, int]]
"""Begin and end of each batch's copy."""


class PinWatch:
    """Times torch's ``pin_memory``, which is called for each batch and then for each of its parts."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._pinned: dict[int, Pinned] = {}
        self._inside: set[int] = set()

    def of(self, thread: threading.Thread) -> Pinned:
        """Return the list of a thread's copies, which grows while the thread pins."""
        return self._pinned.setdefault(thread.ident or 0, [])

    def timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of ``pin_memory``."""

        def pin_memory(data: Any, device: Any = None) -> Any:
            me = threading.get_ident()
            if me in self._inside or not self._is_of_a_loader(me):
                return original(data, device)
            begin = clock()
            self._inside.add(me)
            try:
                return original(data, device)
            except BaseException as error:
                drop_frame(error)
                raise
            finally:
                self._inside.discard(me)
                self._note(me, data, begin)

        return pin_memory

    def _note(self, me: int, data: Any, begin: int) -> None:
        pinned = self._pinned.setdefault(me, [])
        if type(data).__name__ not in _NO_BATCHES and len(pinned) < _MOST_EVENTS:
            pinned.append((begin, clock()))

    def _is_of_a_loader(self, me: int) -> bool:
        """Return whether a thread pins for an iterator, even one that is not complete yet."""
        if os.getpid() != self._pid:
            return False
        if me in self._pinned:
            return True
        target = vars(threading.current_thread()).get("_target")
        if getattr(target, "__name__", "") != _LOOP:
            return False
        self._pinned[me] = []
        return True
