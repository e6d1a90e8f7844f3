"""Durations of one kernel by Nsight Compute and by the collectors."""

from __future__ import annotations

import csv
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Final

PRODUCT: Final = """
import torch
a = torch.randn(4096, 4096, device="cuda")
for _ in range(8):
    a @ a
torch.cuda.synchronize()
"""
_METRIC: Final = "gpu__time_duration.sum"
_TO_NS: Final = {
    "nsecond": 1.0,
    "ns": 1.0,
    "usecond": 1e3,
    "us": 1e3,
    "msecond": 1e6,
    "ms": 1e6,
    "second": 1e9,
    "s": 1e9,
}


def missing() -> str:
    """Why it cannot be compared here; empty if it can."""
    return "" if shutil.which("ncu") else "ncu is not on the PATH"


def rows() -> list[dict[str, Any]]:
    """A matrix product: median durations by `torch`, and by ncu with the clocks as they are."""
    import notebook_prof as nbp

    exec(PRODUCT, {})
    with nbp.profile("torch") as p:
        exec(PRODUCT, {})
    kernels = p.trace.slices[p.trace.slices["category"] == "kernel"]
    name = kernels.groupby("name", observed=True)["dur"].sum().idxmax()
    ours = kernels.loc[kernels["name"] == name, "dur"]
    command = ["ncu", "--csv", "--clock-control", "none", "--metrics", _METRIC, sys.executable, "-c", PRODUCT]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    theirs = durations(done.stdout.splitlines())
    if not theirs:
        raise RuntimeError(f"ncu gave no durations: {(done.stdout + done.stderr)[-800:]}")
    longest = max(theirs, key=lambda kernel: sum(theirs[kernel]))
    median = float(ours.median())
    return [
        {
            "kernel": str(name)[:60],
            "calls": len(ours),
            "ours µs": round(median / 1e3, 2),
            "ncu µs": round(statistics.median(theirs[longest]) / 1e3, 2),
            "ours ÷ ncu": round(median / statistics.median(theirs[longest]), 3),
        }
    ]


def durations(lines: Iterable[str]) -> dict[str, list[float]]:
    """Nanoseconds by kernel, from ncu's CSV; lines before its head are its own messages."""
    text = list(lines)
    head = next((at for at, line in enumerate(text) if line.startswith('"ID"')), None)
    by_kernel: dict[str, list[float]] = {}
    for row in csv.DictReader(text[head:] if head is not None else []):
        if row.get("Metric Name") == _METRIC:
            value = float(row["Metric Value"].replace(",", "")) * _TO_NS[row["Metric Unit"]]
            by_kernel.setdefault(row["Kernel Name"], []).append(value)
    return by_kernel
