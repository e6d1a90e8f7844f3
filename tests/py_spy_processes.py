"""Which processes of py-spy look at a process."""

from __future__ import annotations

import contextlib

import psutil


def attached_to(pid: int) -> list[psutil.Process]:
    """Processes of py-spy that look at a process; they are nobody's children."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if words and "py-spy" in words[0] and words[-2:] == ["--pid", str(pid)]:
                processes.append(process)
    return processes
