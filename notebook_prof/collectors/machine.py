"""What the machine has: cores, accelerators, and how Python starts threads and processes."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any, Final

from .system import usable_cpus

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """Number of cores that this process can keep busy at once: its affinity, and its container's quota.

    Examples
    --------
    >>> cores() >= 1
    True
    """
    cpus = usable_cpus()
    try:
        quota, period = _QUOTA.read_text().split()
        return max(1, min(cpus, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no control groups, or "max"
        return cpus


def machine() -> dict[str, Any]:
    """Facts for ``metadata["machine"]``; loads nothing and starts no device.

    Returns
    -------
    dict
        ``cpus`` int; ``accelerators`` list of str: kinds of device that torch can use, empty without torch;
        ``gil`` bool: whether threads of Python take turns; ``start_method`` str: how `multiprocessing`
        starts processes; ``torch_threads`` int, with torch only.

    Examples
    --------
    >>> sorted(machine())[:4]
    ['accelerators', 'cpus', 'gil', 'start_method']
    """
    enabled = getattr(sys, "_is_gil_enabled", None)
    facts: dict[str, Any] = {
        "cpus": cores(),
        "accelerators": [],
        "gil": True if enabled is None else bool(enabled()),
        "start_method": _start_method(),
    }
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        facts["torch_threads"] = int(torch.get_num_threads())
        facts["accelerators"] = [
            name for name in ("cuda", "mps", "xpu") if _available(getattr(torch, name, None))
        ]
    return facts


def _available(part: Any) -> bool:
    try:
        return part is not None and bool(part.is_available())
    except Exception:
        return False


def _start_method() -> str:
    # asking for the default would fix it for the user's code
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen:
        return chosen
    if sys.platform != "linux":
        return "spawn"
    return "forkserver" if sys.version_info >= (3, 14) else "fork"
