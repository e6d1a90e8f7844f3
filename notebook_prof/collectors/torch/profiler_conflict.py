"""Torch profilers that get in one another's way: the user's own, and ours that a wrong thread should stop.

A recording with memory belongs to the thread that started it: stopped by another one, torch gives an
empty result and leaves the profiler running on its own thread, where every later one then finds
it. Such a session is kept here and ended when its thread records again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from .session import Session

_waiting: list[Session] = []


def stop_or_strand(session: Session) -> bool:
    """Stop `session` if this thread may; else keep it for its own. Whether it was stopped."""
    if session.owner in (None, threading.get_ident()):
        session.stop()
        return True
    _waiting.append(session)
    return False


def release() -> None:
    """End what is waiting for this thread; its results are dropped."""
    for session in [one for one in _waiting if one.owner == threading.get_ident()]:
        _waiting.remove(session)
        session.stop()


_STARTS: Final = "_run_on_profiler_start"
_OBSERVES: Final = "_enable_execution_trace_observer"
_FLAG: Final = "_is_profiler_enabled"


def profiling(torch: Any) -> bool:
    """Return whether a torch profiler is running in this process.

    The C++ test sees a profiler of this thread only, not one of all threads; torch's own flag sees both.
    """
    return bool(torch.autograd._profiler_enabled() or getattr(torch.autograd.profiler, _FLAG, False))


class ConflictWatch:
    """Counts profilers that are started between `watch` and `unwatch`.

    torch (2.13) tells nobody: the second profiler takes over, the first ends with nothing. Stopping
    ours would then stop the user's. So the private function that every profiler of `torch.autograd.profiler`
    calls before it starts is wrapped while we record; where it does not exist, nothing is counted. It has
    returned when the profiler starts, so no frame of ours is in a profile with stacks.

    Parameters
    ----------
    torch : module
    before : callable
        Called before another profiler starts, and before an observer of execution traces does, which is not
        counted: it records beside us.

    Attributes
    ----------
    count : int
    """

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
        """Put the originals back, and call nobody any more; a second call does nothing."""
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
    """Follow another profiler's start when ours has ended."""
