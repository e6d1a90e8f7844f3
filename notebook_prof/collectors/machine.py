"""Facts about the machine and this process: cores, accelerators, names of threads and child processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return facts for ``metadata["machine"]``. Imports nothing and initialises no device."""
    facts: dict[str, Any] = {
        "cpus": usable_cpus(),  # that this process may run on
        "accelerators": [],  # kinds of devices that torch can use; empty without torch
        "gil": has_gil(),
        "start_method": _start_method(),
    }
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        facts["torch_threads"] = int(torch.get_num_threads())
        facts["accelerators"] = [
            name for name in ("cuda", "mps", "xpu") if _available(getattr(torch, name, None))
        ]
    return facts


def live_threads() -> dict[int, str]:
    """Return the names of the live Python threads by native id."""
    return {thread.native_id: thread.name for thread in threading.enumerate() if thread.native_id is not None}


def live_children() -> dict[int, str]:
    """Return the names that `multiprocessing` has given to the live children, by process id."""
    # active_children() would reap those that have ended
    children = tuple(getattr(sys.modules.get("multiprocessing.process"), "_children", ()))
    return {child.pid: child.name for child in children if child.pid is not None}


def has_gil() -> bool:
    """Return whether Python threads share a GIL; free-threaded builds of Python 3.13 or later have none."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return True if enabled is None else bool(enabled())


def is_free_threaded() -> bool:
    """Return whether this Python was built without a GIL, which changes the memory layout of objects."""
    return not has_gil() or bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _available(part: Any) -> bool:
    try:
        return part is not None and bool(part.is_available())
    except Exception:
        return False


def _start_method() -> str:
    # asking for the default would set it for the user's code
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen:
        return chosen
    if sys.platform != "linux":
        return "spawn"
    return "forkserver" if sys.version_info >= (3, 14) else "fork"


def usable_cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_cores(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """Count the cores that this process may use: under a container's quota fewer than its CPUs."""
    return min([float(usable_cpus()), *_quotas(cgroups, own)])  # may be fractional


def _quotas(cgroups: Path, own: Path) -> list[float]:
    """Return the CPU quotas of the process's cgroups and their parents, in cores."""
    quotas = []
    for line in _text(own).splitlines():
        number, _, fields = line.partition(":")
        controllers, _, path = fields.partition(":")
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        roots = [cgroups] if number == "0" else [cgroups / controllers, cgroups / "cpu"]
        for root in roots:
            innermost = root / path.strip("/")
            for folder in (innermost, *innermost.parents):
                if folder == root.parent:
                    break
                quotas += _quota(folder)
    return quotas


def _quota(folder: Path) -> list[float]:
    limit = _text(folder / "cpu.max").split() or [
        _text(folder / "cpu.cfs_quota_us").strip(),
        _text(folder / "cpu.cfs_period_us").strip(),
    ]
    try:
        quota, period = int(limit[0]), int(limit[1])
    except (ValueError, IndexError):
        return []
    return [quota / period] if quota > 0 and period > 0 else []


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
