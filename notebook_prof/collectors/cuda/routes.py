"""Which way leads to CUDA's kernels in this process: facts first, then a decision with reasons."""

from __future__ import annotations

import ctypes.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ...errors import OptionError, nearest
from ...optional import installed
from ..base import Availability
from ..cupti import find_library, possible
from ..nvml.collector import NvmlCollector

ROUTES: Final = ("kineto", "proton", "cupti", "counters")
"""In the order in which they are tried: CUPTI has one client a process."""

_CUDA_BUILD: Final = re.compile(r"^cuda(?:\s*:[^=]+)?\s*=\s*(?:'([\d.]+)'|None)", re.M)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about this process, without loading anything heavy.

    Attributes
    ----------
    driver : Availability
        Whether an NVIDIA driver with a GPU is there, and in words why not.
    torch_cuda : str or None
        CUDA version of the installed torch; empty for one without CUDA, None where there is no torch.
    torch_sees_gpu : bool or None
        torch's own answer, once torch is imported.
    triton, cupti : bool
        Whether Triton and a libcupti could be loaded.
    """

    driver: Availability
    torch_cuda: str | None = None
    torch_sees_gpu: bool | None = None
    triton: bool = False
    cupti: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One way, whether it can be gone here, and why or why not."""

    name: str
    ok: bool
    reason: str


def survey() -> Facts:
    """Look around: files and loaded modules only; torch and CUDA are not initialised."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return Facts(
        driver=_driver(),
        torch_cuda=_torch_build(),
        torch_sees_gpu=None if cuda is None else bool(cuda.is_available()),
        triton=installed("triton"),
        cupti=possible() and find_library() is not None,
    )


def routes(facts: Facts) -> list[Route]:
    """Judge every route, in the order of `ROUTES`.

    Parameters
    ----------
    facts : Facts

    Returns
    -------
    list of Route
        Always all four. ``counters`` records no kernels: CUDA events around annotated
        ranges, pool hooks and NVML.

    Examples
    --------
    >>> facts = Facts(Availability(True), torch_cuda="12.8", torch_sees_gpu=True)
    >>> [(route.name, route.ok) for route in routes(facts)]
    [('kineto', True), ('proton', False), ('cupti', False), ('counters', True)]
    """
    if not facts.driver.ok:
        return [Route(name, False, facts.driver.reason) for name in ROUTES]
    return [_kineto(facts), _proton(facts), _cupti(facts), Route("counters", True, _NO_KERNELS)]


def choose(available: Sequence[Route], name: str | None = None) -> Route:
    """Take the first route that can be gone, or the one that was asked for.

    Raises
    ------
    OptionError
        If the asked one does not exist.

    Examples
    --------
    >>> choose(routes(Facts(Availability(False, "no NVIDIA driver")))).reason
    'no NVIDIA driver'
    """
    if name is not None:
        if name not in ROUTES:
            raise OptionError(f"no route {name!r} to CUDA's kernels: {nearest(name, ROUTES)}")
        return next(route for route in available if route.name == name)
    return next((route for route in available if route.ok), available[-1])


_NO_KERNELS: Final = (
    "no kernels: CUDA events around nbp.annotate ranges, CuPy's pool and NVML only; install "
    "nvidia-cuda-cupti or a torch built for CUDA"
)


def _kineto(facts: Facts) -> Route:
    if facts.torch_cuda is None:
        return Route("kineto", False, "torch is not installed")
    if not facts.torch_cuda:
        return Route("kineto", False, "the installed torch is built without CUDA")
    if facts.torch_sees_gpu is False:
        return Route(
            "kineto",
            False,
            f"torch (CUDA {facts.torch_cuda}) cannot use the GPU: its driver may be too old for that version",
        )
    return Route("kineto", True, f"Kineto, the profiler of the installed torch (CUDA {facts.torch_cuda})")


def _proton(facts: Facts) -> Route:
    where = "Triton is installed" if facts.triton else "Triton is not installed"
    return Route("proton", False, f"{where}; the libcupti that it brings is read directly instead")


def _cupti(facts: Facts) -> Route:
    if not facts.cupti:
        return Route(
            "cupti",
            False,
            "there is no libcupti for Linux on x86-64: it comes with the wheel nvidia-cuda-cupti-cu12 and "
            "with the CUDA toolkit",
        )
    return Route("cupti", True, "libcupti of this machine, read directly")


def _driver() -> Availability:
    state = NvmlCollector.availability()
    if state.ok or "not installed" not in state.reason:
        return state
    if ctypes.util.find_library("cuda") is None:
        return Availability(False, "no NVIDIA driver: libcuda is not there")
    return Availability(True, "libcuda is there; without nvidia-ml-py nothing more is known")


def _torch_build() -> str | None:
    """Return the CUDA version of the installed torch, from its ``version.py``; not imported for that."""
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
