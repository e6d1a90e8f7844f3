"""A card, or the reason why there is none; where there is one, every test is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.collectors.nvml import NvmlCollector
from notebook_prof.optional import installed

from .scenes import BY_NAME

ALONE = "NBP_GPU_ALONE"
"""Set in the process of one test, and by ``benchmarks.gpu``, which makes the processes itself."""
LIMIT_S = 150


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """CUPTI has one client a process, and a card can crash one: no test may take the others along."""
    if ALONE in os.environ or not NvmlCollector.availability().ok:
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    begun = time.monotonic()
    outcome, message = run_alone(item.nodeid, Path(item.config.rootpath), LIMIT_S)
    longrepr = (str(item.path), item.location[1] or 0, message) if outcome == "skipped" else message or None
    took = time.monotonic() - begun
    how: tuple[Any, ...] = ({}, outcome, longrepr, "call")
    report = pytest.TestReport(item.nodeid, item.location, *how, duration=took)
    hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def run_alone(nodeid: str, root: Path, limit_s: float) -> tuple[str, str]:
    """``passed``, ``failed`` or ``skipped``, and what was said."""
    quiet = ["-q", "-rs", "-p", "no:cacheprovider", "--tb=short"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", nodeid, *quiet],
            capture_output=True,
            text=True,
            errors="replace",
            cwd=root,
            env=os.environ | {ALONE: "1"},
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as error:
        return "failed", f"killed after {limit_s:g} s\n{error.stdout!s:.4000}\n{error.stderr!s:.4000}"
    lines = done.stdout.splitlines()
    if done.returncode:
        return "failed", f"exit status {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    if any(" passed" in line for line in lines[-3:]):
        return "passed", ""
    skips = [line for line in lines if line.startswith("SKIPPED")]
    return "skipped", skips[0].partition(": ")[2] if skips else "nothing ran"


@pytest.fixture(scope="session", autouse=True)
def card() -> None:
    """Skip everything here where there is no NVIDIA GPU."""
    state = NvmlCollector.availability()
    if not state.ok:
        pytest.skip(f"needs an NVIDIA GPU: {state.reason}")


@pytest.fixture(scope="session")
def cuda_torch(card: None) -> object:
    """PyTorch on CUDA."""
    if reason := BY_NAME["torch-cnn"].missing():
        pytest.skip(reason)
    import torch

    return torch


@pytest.fixture(scope="session")
def cupy(card: None) -> object:
    """CuPy."""
    if not installed("cupy"):
        pytest.skip("cupy is not installed")
    import cupy

    return cupy
