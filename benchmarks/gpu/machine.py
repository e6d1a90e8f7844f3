"""What this machine is, so far as it bears on its card, and what NVML tells beside ``nvidia-smi``."""

from __future__ import annotations

import importlib
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Final

import notebook_prof as nbp
from notebook_prof.collectors.cuda import driver
from notebook_prof.collectors.nvml.cards import visible
from notebook_prof.collectors.nvml.collector import NvmlCollector
from notebook_prof.collectors.nvml.metrics import METRICS, why_missing
from notebook_prof.trace.clocks import Clock

LIBRARIES: Final = (
    *("torch", "triton", "cupy-cuda12x", "cupy-cuda13x", "jax", "jaxlib", "jax-cuda12-plugin"),
    *("jax-cuda13-plugin", "numba", "numba-cuda", "nvidia-ml-py", "nvidia-cuda-cupti", "cupti-python"),
    *("nvidia-cuda-cupti-cu12", "numpy", "pandas", "pyarrow", "msgspec", "pytest", "ipykernel"),
)
_CARD: Final = "name,uuid,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max,mig.mode.current"
_SMI: Final = {
    "memory": "memory.used",
    "power": "power.draw",
    "utilisation": "utilization.gpu",
    "SM clock": "clocks.sm",
    "memory clock": "clocks.mem",
    "temperature": "temperature.gpu",
    "throttle reasons": "clocks_throttle_reasons.active",
}
"""Of nvidia-smi, by our metric."""
_READINGS: Final = 30


def facts() -> list[dict[str, Any]]:
    """Card, driver, libraries, permissions, collectors."""
    return [
        {
            "python": sys.version.split()[0],
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "card": _said(["nvidia-smi", f"--query-gpu={_CARD}", "--format=csv,noheader"]),
            "administrators": _only_administrators(),
            "cupti-python": _cupti(),
            "writers": len(entry_points(group="notebook_prof.writers")),
            "libraries": " ".join(filter(None, map(_version, LIBRARIES))),
            **{
                f"collector {row.name}": f"{row.available}: {row.reason}"
                for row in nbp.list_collectors().itertuples(index=False)
            },
        }
    ]


def counters(seconds: float = 3.0) -> list[dict[str, Any]]:
    """A row a metric: how long a reading takes, what it tells and what nvidia-smi tells; first the thread."""
    pynvml: Any = importlib.import_module("pynvml")

    collector = NvmlCollector()
    collector.start(Clock())
    begun = time.process_time()
    time.sleep(seconds)
    spent = time.process_time() - begun
    collector.stop()
    pynvml.nvmlInit()
    cards, sure = visible(pynvml)
    rows = [
        {
            "nvml": f"thread, {len(cards)} cards",
            "median µs": round(1e4 * spent / seconds, 1),
            "most µs": "",
            "told": "µs of CPU a 10 ms",
            "nvidia-smi": f"numbers are {'surely' if sure else 'not surely'} CUDA's",
        }
    ]
    for metric in METRICS:
        times, answer = [], ""
        for _ in range(_READINGS):
            start = time.perf_counter()
            try:
                answer = str(metric.read(pynvml, cards[0].handle))
            except (pynvml.NVMLError, AttributeError) as error:
                answer = why_missing(metric.name, error, cards[0].name)
            times.append(1e6 * (time.perf_counter() - start))
        other = _SMI.get(metric.name)
        query = ["nvidia-smi", f"--query-gpu={other}", "--format=csv,noheader", "-i", cards[0].uuid]
        rows.append(
            {
                "nvml": metric.name,
                "median µs": round(statistics.median(times), 1),
                "most µs": round(max(times), 1),
                "told": answer,
                "nvidia-smi": _said(query) if other else "",
            }
        )
    pynvml.nvmlShutdown()
    return rows


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
    said = driver.ask_in_child()
    words = said.problem or said.refused or f"works, with a driver for CUDA {said.version / 1000:.1f}"
    return f"{driver.package_version() or 'not installed'}: {words}"
