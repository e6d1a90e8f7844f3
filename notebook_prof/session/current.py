"""The current recording of this process, of which there is at most one, and the latest Profile."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from ..errors import AlreadyRecordingError

if TYPE_CHECKING:
    from ..profiles.profile import Profile

_lock = threading.Lock()
_running: Any = None  # a `Session`, whose module is in a higher layer
_last: Profile | None = None


def running() -> Any:
    """Return the `Session` that is recording in this process, or None."""
    return _running


def is_recording() -> bool:
    """Return whether this process is recording."""
    return _running is not None


def claim(session: Any) -> None:
    """Make this the process's recording. Raises AlreadyRecordingError if another one has not ended."""
    global _running
    with _lock:
        if _running is not None:
            raise AlreadyRecordingError(
                f"a recording is already running in this process ({_running.title}); there can be only one: "
                "end it first, with p.stop() or by interrupting its cell"
            )
        _running = session


def release(session: Any) -> None:
    """Allow the next recording to begin. Does nothing if this recording is not the current one."""
    global _running
    with _lock:
        if _running is session:
            _running = None


def last() -> Profile | None:
    """Return the latest Profile recorded in this process; None before the first.

    >>> import notebook_prof as nbp
    >>> nbp.last is last()
    True
    """
    return _last


def remember(profile: Profile) -> None:
    """Make this the latest Profile."""
    global _last
    _last = profile


def _forget() -> None:
    # a forked child records nothing, since the collectors' threads and timers stayed with the parent
    global _running, _lock
    _running, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
