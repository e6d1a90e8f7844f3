"""What is run on a card, in the order of what matters most when the minutes are few."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.gpu.scenes import SCENES

from .outcomes import FACTS


@dataclass(frozen=True, slots=True)
class Job:
    """One process.

    Attributes
    ----------
    name : str
        As in ``--only``: ``scene/torch-cnn``, ``scene/cupy:cupti``, ``test/test_gpu.py::…``.
    limit_s : float
        After that it is killed.
    """

    name: str
    limit_s: float

    @property
    def command(self) -> list[str]:
        """What runs it; the folder for recordings is added by the runner."""
        kind, _, what = self.name.partition("/")
        if kind == "test":
            quiet = ["-q", "-rs", "--tb=short", "-p", "no:cacheprovider", "-m", "gpu"]
            return [sys.executable, "-m", "pytest", f"tests/gpu/{what}", *quiet]
        return [sys.executable, "-m", "benchmarks.gpu", "--inside", self.name]


ROUTED: Final = ("cupy", "cupy-raw", "numba", "torch-cnn", "torch-graph", "torch-copies")
"""Scenes that are recorded by every route of `cuda` too."""
_BY_ROUTE: Final = ("cupti", "kineto", "counters")

JOBS: Final = (
    Job(FACTS, 90),
    *(Job(f"scene/{scene.name}", 150) for scene in SCENES),
    *(Job(f"scene/{name}:{route}", 120) for route in _BY_ROUTE[:2] for name in ROUTED),
    Job("scene/cupy:counters", 120),
    Job("machine/counters", 60),
    Job("machine/ceilings", 120),
    Job("ncu/product", 180),
)
TEST_LIMIT_S: Final = 150.0


def scenes_only(jobs: Iterable[Job]) -> list[Job]:
    """Those that give figures for the documentation."""
    return [job for job in jobs if job.name.startswith("scene/") or job.name == "machine/counters"]


def tests(collected: Sequence[str]) -> list[Job]:
    """A job for each test of ``tests/gpu``, from pytest's names of them."""
    names = [line.partition("tests/gpu/")[2] for line in collected if "tests/gpu/" in line and "::" in line]
    return [Job(f"test/{name}", TEST_LIMIT_S) for name in names]
