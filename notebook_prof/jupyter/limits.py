"""How much memory and how many files this process may still use before it hits a system limit."""

from __future__ import annotations

import os
from typing import Final

NEEDED_BYTES: Final = 128 * 2**20
"""Address space that recording, pandas and pyarrow need. With less, compiled code would end the process."""
NEEDED_DESCRIPTORS: Final = 8
"""File descriptors that must be free. ZeroMQ opens some for a message of more than 64 KiB. If it cannot, it
loses that message and the next ones."""


def too_little_memory() -> str:
    """Return why a recording would endanger the kernel; empty if it does not, or no limit is known."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return ""
        with open("/proc/self/statm", "rb") as stream:
            used = int(stream.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return ""
    left = max(limit - used, 0)
    if left >= NEEDED_BYTES:
        return ""
    return (
        f"only {left >> 20} MiB of address space are left of the {limit >> 20} MiB that this process may "
        f"take, and a recording needs {NEEDED_BYTES >> 20} MiB: raise the limit (ulimit -v, RLIMIT_AS)"
    )


def too_few_descriptors() -> bool:
    """Return whether fewer than `NEEDED_DESCRIPTORS` files can be opened."""
    descriptors: list[int] = []
    try:
        for _ in range(NEEDED_DESCRIPTORS):
            descriptors.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return True
    finally:
        for number in descriptors:
            os.close(number)
    return False
