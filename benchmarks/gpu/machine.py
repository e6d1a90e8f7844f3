"""A description of this machine and its card, and NVML's readings next to those of ``nvidia-smi``."""

from __future__ import annotations

import importlib
import platform
import re
import statistics
import subprocess
import sys
import time
from importlib.metadata import distributions
from typing import Any, Final

import notebook_prof as nbp
from notebook_prof.collectors.cuda import driver
from notebook_prof.collectors.nvml import NvmlCollector
from notebook_prof.collectors.nvml.metrics import METRICS, visible, why_missing
from notebook_prof.trace.clocks import Clock

_LIBRARIES: Final = re.compile(
    r"torch|triton|cup(y|ti)|jax|numba|nvidia-(ml|cuda-cupti)|numpy|pandas|pyarrow|pytest$"
)
_CARD: Final = "name,uuid,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max,mig.mode.current"
_NOW: Final = (
    "memory.used,power.draw,utilization.gpu,clocks.sm,clocks.mem,temperature.gpu,"
    "clocks_throttle_reasons.active"
)
_READINGS: Final = 30


def facts() -> list[dict[str, Any]]:
    """Return the card, driver, libraries, permissions and collectors."""
    state = driver.ask_in_child()
    cupti = state.problem or state.refused or f"works, with a driver for CUDA {state.version / 1000:.1f}"
    packages = {one.metadata["Name"]: one.version for one in distributions()}
    libraries = [f"{name}={packages[name]}" for name in sorted(packages) if _LIBRARIES.match(name)]
    collectors = nbp.list_collectors().itertuples(index=False)
    return [
        {
            "python": sys.version.split()[0],
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "card": _printed("nvidia-smi", f"--query-gpu={_CARD}", "--format=csv,noheader"),
            "administrators": _printed("grep", "ProfilingAdminOnly", "/proc/driver/nvidia/params"),
            "cupti-python": f"{driver.package_version() or 'not installed'}: {cupti}",
            "libraries": " ".join(libraries),
            **{f"collector {row.name}": f"{row.available}: {row.reason}" for row in collectors},
        }
    ]


def counters(seconds: float = 3.0) -> list[dict[str, Any]]:
    """Return a row for the collector's thread, one per metric with its cost, and one for nvidia-smi."""
    collector = NvmlCollector()
    collector.start(Clock())
    begun = time.process_time()
    time.sleep(seconds)
    spent = time.process_time() - begun
    collector.stop()
    pynvml: Any = importlib.import_module("pynvml")
    pynvml.nvmlInit()
    cards, sure = visible(pynvml)
    order = f"{len(cards)} cards, numbers {'surely' if sure else 'not surely'} CUDA's"
    rows: list[tuple[Any, ...]] = [("thread, CPU in 10 ms", round(1e4 * spent / seconds, 1), "", order)]
    for metric in METRICS:
        times, value = [], ""
        for _ in range(_READINGS):
            start = time.perf_counter()
            try:
                value = str(metric.read(pynvml, cards[0].handle))
            except (pynvml.NVMLError, AttributeError) as error:
                value = why_missing(metric.name, error, cards[0].name)
            times.append(1e6 * (time.perf_counter() - start))
        rows.append((metric.name, round(statistics.median(times), 1), round(max(times), 1), value))
    pynvml.nvmlShutdown()
    theirs = _printed("nvidia-smi", f"--query-gpu={_NOW}", "--format=csv", "-i", cards[0].uuid)
    rows.append(("nvidia-smi", "", "", theirs))
    return [dict(zip(("nvml", "median µs", "most µs", "value"), row, strict=True)) for row in rows]


def _printed(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return (done.stdout.strip() or done.stderr.strip()).replace("\n", "; ")
