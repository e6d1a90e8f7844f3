"""Conflicts of torch profilers: the user's, and ours if the wrong thread would have to stop it.

A recording with memory belongs to the thread that started it. If another thread stops it, torch returns an
empty result and leaves the profiler running on its first thread, where it blocks every later one. Such a
session is kept here and ended when its thread records again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from .session import Session

_waiting: list[Session] = []


def stop_or_strand(session: Session) -> bool:
    """Stop `session` if this thread may, else keep it for its own thread; returns whether it was stopped."""
    if session.owner in (None, threading.get_ident()):
        session.stop()
        return True
    _waiting.append(session)
    return False


def release() -> None:
    """End the sessions kept for this thread; their results are dropped."""
    for session in [one for one in _waiting if one.owner == threading.get_ident()]:
        _waiting.remove(session)
        session.stop()


_STARTS: Final = "_run_on_profiler_start"
_OBSERVES: Final = "_enable_execution_trace_observer"
_FLAG: Final = "_is_profiler_enabled"


def profiling(torch: Any) -> bool:
    """Return whether a torch profiler is running in this process."""
    # The C++ test sees a profiler of this thread only, torch's Python flag also one of all threads.
    return bool(torch.autograd._profiler_enabled() or getattr(torch.autograd.profiler, _FLAG, False))


class ConflictWatch:
    """Counts profilers that are started between `watch` and `unwatch`."""

    # torch (2.13) does not report this: the second profiler takes over, and the first one ends with nothing.
    # Stopping ours would then stop the user's. So the private function that every profiler of
    # `torch.autograd.profiler` calls before it starts is wrapped while we record; if it does not exist,
    # nothing is counted. It has returned when the profiler starts, so profiles with stacks have no frame of
    # ours. `before` is called before another profiler starts, and before an observer of execution traces
    # does; that one is not counted, as it records beside us.
    def __init__(self, torch: Any, before: Callable[[], None]) -> None:
        self._homes = (torch.autograd.profiler, _STARTS), (torch.profiler.profiler, _OBSERVES)
        self._before = before
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self.count = 0

    def watch(self) -> None:
        """Begin to count."""
        for home, name in self._homes if not self._undo else ():
            original = getattr(home, name, None)
            if original is not None:
                new = self._telling(original, 1 if name == _STARTS else 0)
                self._undo.append((home, name, original, new))
                setattr(home, name, new)

    def unwatch(self) -> None:
        """Restore the originals; a second call does nothing."""
        while self._undo:
            home, name, original, new = self._undo.pop()
            if getattr(home, name) is new:
                setattr(home, name, original)
        self._before = _nothing

    def _telling(self, original: Any, count: int) -> Any:
        def tell(*args: Any, **kwargs: Any) -> Any:
            self.count += count
            self._before()
            return original(*args, **kwargs)

        return tell


def _nothing() -> None:
    """Replace `before` once our recording has ended."""
