"""Whether further processes may help to read a file, and how many."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final

WORTH_BYTES: Final = 48 << 20
"""Of less text, one process has read the most before another one has started."""

MOST: Final = 3
"""More do not help: one process hands out the text and puts the columns together."""

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_OLD_QUOTA: Final = tuple(Path("/sys/fs/cgroup/cpu") / f"cpu.cfs_{name}_us" for name in ("quota", "period"))

_alone: ContextVar[bool] = ContextVar("notebook_prof_alone", default=False)


class ShareLost(Exception):
    """Another process did not do its share: the file has to be read anew, by one process."""


@contextmanager
def one_process() -> Iterator[None]:
    """Inside, every file is read by the calling process alone, as where many files are read side by side.

    Examples
    --------
    >>> with one_process():
    ...     further_processes(10**10)
    0
    """
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def further_processes(expected_bytes: int) -> int:
    """How many processes may help with a file of about so much text.

    None in a process that `multiprocessing` started or in a thread, as in a worker of Dask: there files are
    read side by side already. None where no Python can be started, or for lack of CPUs.

    Examples
    --------
    >>> further_processes(1_000_000)
    0
    """
    if expected_bytes < WORTH_BYTES or _alone.get() or not _can_start():
        return 0
    return max(0, min(cpus() - 1, MOST))


def cpus() -> int:
    """How many CPUs this process may use, by its affinity and by the quota of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return count if quota is None else max(1, min(count, int(quota)))


def _quota() -> float | None:
    for files in (_QUOTA,), _OLD_QUOTA:
        with suppress(OSError, ValueError, ZeroDivisionError):  # "max" is no number
            quota, period = map(int, " ".join(file.read_text() for file in files).split())
            return quota / period if quota > 0 else None
    return None


def _can_start() -> bool:
    started = sys.modules.get("multiprocessing.process")
    return (
        os.name == "posix"
        and threading.current_thread() is threading.main_thread()
        and (started is None or started.parent_process() is None)
        and not getattr(sys, "frozen", False)
        and Path(sys.executable or "").name.startswith("python")
    )
