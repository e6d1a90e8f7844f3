"""Finds out why torch's profiler recorded no kernels, by asking the driver and CUPTI once per process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...trace.report import ImportReport

_CONCURRENT_KERNEL: Final = 10
MEANING: Final = {
    15: ("CUPTI could not start", "see what nvidia-smi says, and restart the kernel"),
    27: ("this CUPTI does not support this card or driver", "install a torch for a newer CUDA"),
    33: ("this is a virtual GPU, which CUPTI does not support", "ask for profiling in the hypervisor"),
    35: (
        "the driver restricts profiling to administrators (ERR_NVGPUCTRPERM)",
        "set NVreg_RestrictProfilingToAdminUsers=0, or give the container --cap-add=SYS_ADMIN",
    ),
    39: (
        "another profiler holds CUPTI in this process (Nsight Systems or Compute, jax.profiler)",
        "end it, or restart the kernel without it",
    ),
    40: ("this is a virtual GPU whose administrator forbids profiling", "allow it in the hypervisor"),
    41: ("this card is in confidential mode, in which CUPTI records nothing", "record elsewhere"),
    43: ("CUPTI does not support this MIG slice", "record on a whole card, or with a newer driver"),
    45: ("CUPTI does not support this card under WSL", "update the driver of Windows"),
}
"""Meaning of CUPTI's return codes, with advice. Source: ``cupti_result.h``."""
_OTHER: Final = ("CUPTI refuses to record kernels", "install a torch whose CUDA fits the driver")


class Reason(NamedTuple):
    """The reason for missing kernels, and advice."""

    example: str
    advice: str


class Cupti(NamedTuple):
    """The answer of this process's libcupti."""

    version: int = 0  # such as 130000 for 13.0, or a small number for older ones; 0 if unknown
    refusal: Reason | None = None  # why it records no kernels


def why_no_gpu(torch: Any, load: Callable[[str], Any] = ctypes.CDLL) -> Reason | None:
    """Return why a CUDA build of torch cannot use a GPU; None if it can, or for another build."""
    # torch has already called ``cuInit``, so asking again changes nothing
    built = getattr(torch.version, "cuda", None)
    if not built or torch.cuda.is_available() or "PYTORCH_NVML_BASED_CUDA_CHECK" in os.environ:
        return None
    from ..cuda import driver  # imports this package

    said = driver.ask(load)
    if said.problem:
        return Reason(said.problem, "kernels are recorded where torch.cuda.is_available()")
    if said.version and said.version // 1000 < int(built.partition(".")[0]):
        supported = f"{said.version // 1000}.{said.version % 1000 // 10}"
        return Reason(
            f"this torch is built for CUDA {built}, and the driver supports CUDA {supported}",
            "update the driver, or install a torch for an older CUDA",
        )
    return Reason("torch.cuda.is_available() is False", "see what torch.cuda.init() says")


def ask_cupti(load: Callable[[str], Any] = ctypes.CDLL, maps: Path = Path("/proc/self/maps")) -> Cupti:
    """Ask the libcupti that this process has loaded whether it can record kernels. Nothing else is loaded."""
    # Kernel recording is switched on and off for a moment, so call this only while nothing is recording. Call
    # it only if CUDA works, since CUPTI 13.2 ends the process otherwise.
    library, version = loaded_cupti(load, maps)
    if library is None:
        return Cupti()
    code = int(library.cuptiActivityEnable(_CONCURRENT_KERNEL))
    if not code:
        library.cuptiActivityDisable(_CONCURRENT_KERNEL)
        return Cupti(version)
    what, advice = MEANING.get(code, _OTHER)
    return Cupti(version, Reason(f"{what} (CUPTI's error {code})", advice))


asked_once = lru_cache(maxsize=1)(ask_cupti)


def tell(report: ImportReport, no_gpu: Reason | None, cupti: Cupti) -> None:
    """Report why a recording contains no device work."""
    if cupti.refusal is not None:
        effect = "the profile has no kernels; calls and operators of the host are there"
        advice = cupti.refusal.advice
        report.add("kernels-refused", "loss", example=cupti.refusal.example, effect=effect, advice=advice)
    if no_gpu is not None:
        effect = "torch runs on the CPU"
        report.add("no-gpu-for-torch", "info", example=no_gpu.example, effect=effect, advice=no_gpu.advice)


def loaded_cupti(
    load: Callable[[str], Any] = ctypes.CDLL, maps: Path = Path("/proc/self/maps")
) -> tuple[Any, int]:
    """Return this process's libcupti and its version; None and 0 if it is not loaded."""
    version = ctypes.c_uint32()
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
        path = next(line.split(maxsplit=5)[5] for line in lines if "/libcupti.so" in line)
        library = load(path)
        library.cuptiGetVersion(ctypes.byref(version))
    except (OSError, AttributeError, StopIteration):
        return None, 0
    return library, version.value
