"""What this machine is, so far as it bears on its card; and what is measured of the whole card."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Final

import notebook_prof as nbp
from notebook_prof.collectors.cuda import driver
from notebook_prof.collectors.nvml.collector import NvmlCollector
from notebook_prof.trace.clocks import Clock

LIBRARIES: Final = (
    *("torch", "triton", "cupy-cuda12x", "cupy-cuda13x", "jax", "jaxlib", "jax-cuda12-plugin"),
    *(
        "jax-cuda13-plugin",
        "numba",
        "numba-cuda",
        "nvidia-ml-py",
        "cupti-python",
        "nvidia-cuda-cupti",
        "nvidia-cuda-cupti-cu12",
    ),
    *("numpy", "pandas", "pyarrow", "msgspec", "pytest", "pytest-timeout"),
)
_CARD: Final = "name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max,mig.mode.current"


def facts() -> dict[str, Any]:
    """Card, driver, libraries, permissions, collectors."""
    return {
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "card": _said(["nvidia-smi", f"--query-gpu={_CARD}", "--format=csv,noheader"]),
        "counters": _only_administrators(),
        "cupti-python": _cupti(),
        "ncu": shutil.which("ncu") or "not found",
        "writers": len(entry_points(group="notebook_prof.writers")),
        "libraries": " ".join(filter(None, map(_version, LIBRARIES))),
        **{f"collector {row.name}": f"{row.available}: {row.reason}" for row in _collectors()},
    }


def counters(seconds: float = 5.0) -> dict[str, Any]:
    """What the thread of the `nvml` collector takes of one core, while the process does nothing else."""
    collector = NvmlCollector()
    collector.start(Clock())
    begun = time.process_time()
    time.sleep(seconds)
    spent = time.process_time() - begun
    collector.stop()
    return {"collector": "nvml", "CPU % of one core": round(100 * spent / seconds, 3)}


def ceilings() -> list[dict[str, Any]]:
    """What `nbp.measure_device` finds, a row for each element type."""
    rows = []
    for dtype in ("float32", "float16", "bfloat16"):
        rates = nbp.measure_device(dtype=dtype)
        rows.append(
            {
                "ceilings of": rates.device,
                "type": dtype,
                "TFLOP/s": round(rates.flops_per_s / 1e12, 2),
                "GB/s": round(rates.bytes_per_s / 1e9, 1),
            }
        )
    return rows


def _collectors() -> Any:
    return nbp.list_collectors().itertuples(index=False)


def _version(name: str) -> str:
    try:
        return f"{name}={version(name)}"
    except PackageNotFoundError:
        return ""


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return (done.stdout.strip() or done.stderr.strip()).replace("\n", "; ")


def _only_administrators() -> str:
    try:
        text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8")
    except OSError as error:
        return f"unknown: {error.strerror}"
    return next((line for line in text.splitlines() if "ProfilingAdminOnly" in line), "not told")


def _cupti() -> str:
    said = driver.ask_elsewhere()
    words = said.problem or said.refused or f"works, with a driver for CUDA {said.version / 1000:.1f}"
    return f"{driver.package() or 'not installed'}: {words}"
