"""Facts about the machine: cores, accelerators, and how Python starts threads and processes."""

from __future__ import annotations

import multiprocessing
import sys
import sysconfig
from typing import Any

from .system import usable_cpus


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
