"""Numbers and names of the Python threads that are alive, for CUPTI's records."""

from __future__ import annotations

import os
import threading


def short_numbers() -> dict[int, int]:
    """From the lower half of pthread's number, by which CUPTI before 12.0 tells threads, to the system's."""
    known = {thread.ident: thread.native_id for thread in threading.enumerate()}
    return {short & 0xFFFFFFFF: tid for short, tid in known.items() if short is not None and tid is not None}


def thread_names() -> dict[tuple[int, int], str]:
    """Names by process and the system's number."""
    pid = os.getpid()
    known = {thread.native_id: thread.name for thread in threading.enumerate()}
    return {(pid, tid): name for tid, name in known.items() if tid is not None}
