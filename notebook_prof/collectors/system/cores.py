"""How many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_cores(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """Count the CPUs that this process may run on, or what its container's quota leaves of them.

    Parameters
    ----------
    cgroups, own : Path
        Where Linux tells of control groups.

    Returns
    -------
    float
        More than 0. A container that was started with 1.5 CPUs on a machine of 64 has 1.5 cores.

    Examples
    --------
    >>> 0 < usable_cores() <= usable_cpus()
    True
    """
    return min([float(usable_cpus()), *_quotas(cgroups, own)])


def _quotas(cgroups: Path, own: Path) -> list[float]:
    """Return quotas of the process's groups and of all groups around them, in cores."""
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
