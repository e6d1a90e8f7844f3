"""What is run on a card, in the order of what teaches most: the minutes are few."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .outcomes import FACTS


@dataclass(frozen=True, slots=True)
class Job:
    """One process.

    Attributes
    ----------
    name : str
        As in ``--only``: ``scene/torch-cnn``, ``scene/cupy-raw:cupti``, ``test/test_gpu.py::…``.
    limit_s : float
        After that it is killed.
    """

    name: str
    limit_s: float

    def command(self, device: str) -> list[str]:
        """What runs it; the folder for recordings is added by the runner."""
        kind, _, what = self.name.partition("/")
        if kind == "test":
            quiet = ["-q", "-rs", "--tb=short", "-p", "no:cacheprovider", "-m", "gpu"]
            return [sys.executable, "-m", "pytest", f"tests/gpu/{what}", *quiet]
        return [sys.executable, "-m", "benchmarks.gpu", "--inside", self.name, "--device", device]


JOBS: Final = (
    Job(FACTS, 60),
    Job("kernel/torch-cnn", 180),
    Job("kernel/torch-transformer", 120),
    Job("kineto/launches", 60),
    Job("kineto/reasons", 60),
    Job("sessions/torch-graph", 60),
    Job("scene/cupy-and-torch", 60),
    Job("scene/cupy:kineto", 60),
    Job("scene/cupy-raw:cupti", 60),
    Job("nvml/calls", 60),
    Job("scene/torch-graph", 60),
    Job("scene/torch-copies", 60),
    Job("scene/triton", 60),
    Job("scene/numba:kineto", 60),
    Job("scene/jax", 90),
    Job("scene/cupy:counters", 60),
    Job("scene/torch-two-streams", 60),
    Job("scene/torch-growth", 60),
    Job("scene/cupy-unfinished", 60),
)
TEST_LIMIT_S: Final = 90.0
_FIRST: Final = (
    "test_every_kernel_is_there",
    "test_repeated_recordings_with_idle_between",
    "test_many_recordings_of_one_process",
    "test_cupy_kernels_without_a_line_of_torch",
    "test_a_cuda_graph_owns_its_kernels",
    "test_kernels_of_every_library_are_counted",
)


def tests(collected: Sequence[str]) -> list[Job]:
    """A job for each test of ``tests/gpu``, from pytest's names of them; those about kernels come first."""
    names = [line.partition("tests/gpu/")[2] for line in collected if "tests/gpu/" in line and "::" in line]
    names.sort(key=lambda name: not any(first in name for first in _FIRST))
    return [Job(f"test/{name}", TEST_LIMIT_S) for name in names]
