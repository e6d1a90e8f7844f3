"""The jobs to run on a card, the most informative first: card time is short."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .outcomes import FACTS, LACKS, ROWS

JOBS: Final = (
    FACTS,
    *("kernel/torch-cnn", "kernel/torch-transformer", "scene/torch-graph"),
    *("scene/cupy-and-torch", "scene/cupy:kineto", "scene/cupy-raw:cupti", "nvml/calls"),
    *("scene/torch-copies", "scene/triton", "scene/numba:kineto", "scene/jax"),
    *("scene/cupy:counters", "scene/torch-two-streams", "scene/torch-growth", "scene/cupy-unfinished"),
)
_FIRST: Final = (
    "test_every_kernel_is_there",
    "test_asking_cupti_takes_no_kernels_away",
    "test_repeated_recordings_with_idle_between",
    "test_many_recordings_of_one_process",
    "test_cupy_kernels_without_a_line_of_torch",
    "test_a_cuda_graph_owns_its_kernels",
    "test_kernels_of_every_library_are_counted",
)


def tests(collected: Sequence[str]) -> list[str]:
    """Return a job for each test that pytest lists, those about kernels first."""
    names = [line.removeprefix("tests/gpu/") for line in collected if line.startswith("tests/gpu/")]
    names.sort(key=lambda name: not any(first in name for first in _FIRST))
    return [f"test/{name}" for name in names]


def limit_s(name: str) -> float:
    """Return the time limit of a job, in seconds."""
    return {"kernel": 150.0, "test": 90.0}.get(name.partition("/")[0], 75.0)


def command(name: str, folder: Path, device: str) -> list[str]:
    """Return the command line of a job; recordings go into `folder`."""
    kind, _, what = name.partition("/")
    if kind == "test":
        options = ["-q", "-rs", "--tb=short", "-p", "no:cacheprovider"]
        return [sys.executable, "-m", "pytest", f"tests/gpu/{what}", *options]
    options = ["--inside", name, "--folder", str(folder.resolve()), "--device", device]
    return [sys.executable, "-m", "benchmarks.gpu", *options]


def inside(name: str, folder: Path, device: str) -> int:
    """Run one job in this process and print its rows as a line of JSON."""
    if lacks := _lacks(name, device):
        print(LACKS + lacks)
    else:
        print(ROWS + json.dumps(_rows(name, folder, device), ensure_ascii=False), flush=True)
    return 0


def _lacks(name: str, device: str) -> str:
    from notebook_prof.collectors.nvml import NvmlCollector
    from tests.gpu.scenes import BY_NAME

    kind, what, *route = re.split("[/:]", name)
    if kind in ("machine", "nvml"):
        state = NvmlCollector.availability()
        return "" if state.ok or (name == FACTS and device == "cpu") else state.reason
    needs = ("ipykernel", "jupyter_client") if kind == "kernel" else ("torch",) if "kineto" in route else ()
    return BY_NAME[what].missing(device, needs)


def _rows(name: str, folder: Path, device: str) -> list[dict[str, Any]]:
    from . import kineto, machine, scene

    kind, what, *route = re.split("[/:]", name)
    if kind in ("machine", "nvml"):
        return machine.facts() if name == FACTS else machine.counters()
    if kind == "kernel":
        return kineto.beside(what, folder, device)
    return scene.measure(what, folder, next(iter(route), None), device)
