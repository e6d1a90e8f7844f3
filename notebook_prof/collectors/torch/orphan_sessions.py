"""Sessions that were to be stopped by a thread that cannot stop them.

A recording with memory belongs to the thread that started it: stopped by another one, torch gives an
empty result and leaves the profiler running on its own thread, where every later one then finds
it. Such a session is kept here and ended when its thread records again.
"""

from __future__ import annotations

import threading

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
