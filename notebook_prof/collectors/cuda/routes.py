"""Chooses the route by which CUDA kernels are recorded in this process, from facts, and gives the reason."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ...errors import OptionError, nearest
from ..base import Availability
from ..nvml import NvmlCollector
from . import cupti, driver

ROUTES: Final = ("kineto", "cupti", "counters")
"""Routes, in the order in which they are tried. CUPTI allows one client per process."""

_CUDA_BUILD: Final = re.compile(r"^cuda(?:\s*:[^=]+)?\s*=\s*(?:'([\d.]+)'|None)", re.M)
_NO_KERNELS: Final = "no kernels: CUDA events around nbp.annotate ranges, CuPy's pool and NVML only"
_NOT_ASKED: Final = Availability(False, "not asked: torch's profiler comes first")


@dataclass(frozen=True, slots=True)
class CudaFacts:
    """Facts about this process, collected without loading anything heavy."""

    # whether there is an NVIDIA driver with a GPU, or why not
    driver: Availability
    # CUDA version of the installed torch; empty for a build without CUDA, None if torch is not installed
    torch_cuda: str | None = None
    # torch's own answer, once torch is imported
    torch_sees_gpu: bool | None = None
    # whether ``cupti-python`` can record here, or why not
    cupti: Availability = _NOT_ASKED


@dataclass(frozen=True, slots=True)
class Route:
    """A route, whether it works here, and why or why not."""

    name: str
    ok: bool
    reason: str


def survey(route: str | None = None) -> CudaFacts:
    """Collect the facts from files and loaded modules. Initialises neither torch nor CUDA."""
    # ``cupti-python`` is tried in a child process if `route` asks for it or torch's profiler does not work
    facts = CudaFacts(_driver(), _torch_build(), _torch_sees_gpu())
    if not facts.driver.ok or (route != "cupti" and _kineto(facts).ok):
        return facts
    return replace(facts, cupti=cupti.availability())


def routes(facts: CudaFacts) -> list[Route]:
    """Return whether each of the three routes works, in the order of `ROUTES`."""
    # ``counters`` records no kernels, only CUDA events around annotated ranges, pool hooks and NVML
    if not facts.driver.ok:
        return [Route(name, False, facts.driver.reason) for name in ROUTES]
    counters = f"{_NO_KERNELS}; {facts.cupti.reason}, or a torch built for CUDA"
    return [
        _kineto(facts),
        Route("cupti", facts.cupti.ok, facts.cupti.reason),
        Route("counters", True, counters),
    ]


def choose(available: Sequence[Route], name: str | None = None) -> Route:
    """Return the requested route, or the first that works. Raises OptionError for an unknown name."""
    if name is not None:
        if name not in ROUTES:
            raise OptionError(f"no route {name!r} to CUDA's kernels: {nearest(name, ROUTES)}")
        return next(route for route in available if route.name == name)
    return next((route for route in available if route.ok), available[-1])


def _kineto(facts: CudaFacts) -> Route:
    if facts.torch_cuda is None:
        return Route("kineto", False, "torch is not installed")
    if not facts.torch_cuda:
        return Route("kineto", False, "the installed torch is built without CUDA")
    if facts.torch_sees_gpu is False:
        return Route(
            "kineto",
            False,
            f"torch (CUDA {facts.torch_cuda}) cannot use the GPU: the driver may be too old for that version",
        )
    return Route("kineto", True, f"Kineto, the profiler of the installed torch (CUDA {facts.torch_cuda})")


def _driver() -> Availability:
    """Ask NVML, then CUDA itself, since a container may lack NVML."""
    state = NvmlCollector.availability()
    if state.ok:
        return state
    problem = driver.ask_in_child().problem
    return Availability(not problem, problem or "CUDA starts, but NVML does not")


def _torch_sees_gpu() -> bool | None:
    """Return torch's answer; None if torch is not imported."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return None if cuda is None else bool(cuda.is_available())


def _torch_build() -> str | None:
    """Return the CUDA version of the installed torch from its ``version.py``, without importing it."""
    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = _CUDA_BUILD.search(text)
    return (match[1] or "") if match else ""
