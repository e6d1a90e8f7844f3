"""Torch profilers that get in one another's way: the user's own, and ours that a wrong thread should stop.

A recording with memory belongs to the thread that started it: stopped by another one, torch gives an
empty result and leaves the profiler running on its own thread, where every later one then finds
it. Such a session is kept here and ended when its thread records again.
"""

from __future__ import annotations

import threading
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


_ENABLE: Final = "_enable_profiler"
_FLAG: Final = "_is_profiler_enabled"


def profiling(torch: Any) -> bool:
    """Return whether a torch profiler is running in this process.

    The C++ test sees a profiler of this thread only, not one of all threads; torch's own flag sees both.
    """
    return bool(torch.autograd._profiler_enabled() or getattr(torch.autograd.profiler, _FLAG, False))


class ConflictWatch:
    """Counts profilers that are started between `watch` and `unwatch`.

    torch (2.13) tells nobody: the second profiler takes over, the first ends with nothing. Stopping
    ours would then stop the user's. So the one private function through which every profiler of
    `torch.autograd.profiler` starts is wrapped while we record; where it does not exist, nothing is
    counted.

    Attributes
    ----------
    count : int
    """

    def __init__(self, torch: Any) -> None:
        self._home = torch.autograd.profiler
        self._original: Any = None
        self._wrapper: Any = None
        self.count = 0

    def watch(self) -> None:
        """Begin to count."""
        original = getattr(self._home, _ENABLE, None)
        if original is None or self._original is not None:
            return

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return original(*args, **kwargs)

        self._original, self._wrapper = original, counting
        setattr(self._home, _ENABLE, counting)

    def unwatch(self) -> None:
        """Put the original back."""
        if self._original is not None and getattr(self._home, _ENABLE) is self._wrapper:
            setattr(self._home, _ENABLE, self._original)
        self._original = self._wrapper = None
