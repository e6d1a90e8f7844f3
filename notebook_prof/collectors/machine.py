"""Facts about the machine: cores, accelerators, how Python starts threads and processes, energy counters."""

from __future__ import annotations

import multiprocessing
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock


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


RAPL: Final = Path("/sys/class/powercap")
"""Folder of the energy counters of Intel's and AMD's RAPL: one folder per package, readable only by root."""


class Energy(NamedTuple):
    """The counters of all packages at an instant, in µJ, and the values at which they wrap around."""

    now_ns: int
    microjoules: Mapping[int, int]
    limits: Mapping[int, int]


def read_energy(clock: Clock, root: Path = RAPL) -> Energy:
    """Read the counters of all readable packages, if there are any."""
    microjoules, limits = {}, {}
    for folder in sorted(root.glob("intel-rapl:*")):
        try:
            name = (folder / "name").read_text(encoding="ascii").strip()
            kind, _, number = name.rpartition("-")
            if kind != "package":
                continue  # skip cores (part of packages), memory and platform
            microjoules[int(number)] = int((folder / "energy_uj").read_text(encoding="ascii"))
            limits[int(number)] = int((folder / "max_energy_range_uj").read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return Energy(clock.now_ns(), microjoules, limits)


def put_energy(builder: TraceBuilder, first: Energy, last: Energy) -> None:
    """Add a counter ``package 0 energy`` in J for each package, 0 at the first reading."""
    for number in sorted(first.microjoules.keys() & last.microjoules.keys()):
        used = last.microjoules[number] - first.microjoules[number]
        if used < 0:  # it wrapped around; a second time, after minutes at full power, cannot be detected
            used += first.limits.get(number, 0)
        track = builder.track(f"package {number} energy", "counter", unit="J")
        builder.counter(track, np.array([first.now_ns, last.now_ns]), np.array([0.0, used / 1e6]))
