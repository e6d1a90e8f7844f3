"""Processes that are ours, so that their time and memory are not taken for the user's.

Who starts a process for a recording says so with `add`, and waits for it with `reap`.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress

_pids: set[int] = set()
_reaped_cpu_ns = 0


def add(pid: int) -> None:
    """Tell that this process is ours; it stays known after its end, as recordings ask later."""
    _pids.add(pid)


def pids() -> frozenset[int]:
    """Return all processes that were ever ours, in this process."""
    return frozenset(_pids)


def reaped_cpu_ns() -> int:
    """Return the CPU time of our processes that `reap` waited for; since then it is in ``RUSAGE_CHILDREN``.

    Examples
    --------
    >>> reaped_cpu_ns() >= 0
    True
    """
    return _reaped_cpu_ns


def reap(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
    """Wait for one of ours, and keep its CPU time apart from that of the user's children.

    Parameters
    ----------
    process : Popen
        It was given to `add`.
    timeout : float, optional
        Seconds.

    Returns
    -------
    int
        Its exit status.

    Raises
    ------
    subprocess.TimeoutExpired
        As ``process.wait``.
    """
    global _reaped_cpu_ns
    if process.returncode is None and hasattr(os, "waitid"):
        with suppress(ChildProcessError):  # somebody else waited for it
            _wait_unreaped(process, timeout)
            with suppress(OSError):  # its CPU clock, as clock_getcpuclockid(3) names it
                _reaped_cpu_ns += time.clock_gettime_ns((~process.pid << 3) | 2)
    return process.wait(timeout)


def _wait_unreaped(process: subprocess.Popen[bytes], timeout: float | None) -> None:
    how = os.WEXITED | os.WNOWAIT
    if timeout is None:
        os.waitid(os.P_PID, process.pid, how)
        return
    end = time.monotonic() + timeout
    while os.waitid(os.P_PID, process.pid, how | os.WNOHANG) is None:
        if time.monotonic() >= end:
            raise subprocess.TimeoutExpired(process.args, timeout)
        time.sleep(0.001)
