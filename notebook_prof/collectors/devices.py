"""Finds the GPUs on which this process has a CUDA context."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..trace.report import ImportReport

_NOT_INITIALIZED: Final = 3
_IDLE: Final = (0, _NOT_INITIALIZED, 201)
"""Return codes after which there is nothing to wait for: success, CUDA not initialised in this process, no
context in this thread. Source: ``cuda.h``."""


def gpu_extra() -> str:
    """Return the extra whose libraries are for the CUDA of torch, if torch is loaded."""
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return "gpu-cuda12" if str(cuda).startswith("12.") else "gpu-cuda13"


def driver(load: Callable[[str], Any] = ctypes.CDLL) -> Any:
    """Return the CUDA driver; None if there is none. `load` loads a library by name."""
    try:
        return load("libcuda.so.1")
    except OSError:
        return None


def in_use(load: Callable[[str], Any] = ctypes.CDLL) -> set[int] | None:
    """Return the numbers of the GPUs with an active primary context; None if the driver does not say."""
    # A context takes hundreds of megabytes of its GPU, and since CUDA 12 selecting a GPU creates one. Nothing
    # is initialised here: while CUDA is not initialised, no GPU is in use.
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None:
        return None
    if code := int(cuda.cuDeviceGetCount(ctypes.byref(count))):
        return set() if code == _NOT_INITIALIZED else None
    return {number for number in range(count.value) if _primary_context(cuda, number)[2]}


def _primary_context(cuda: Any, number: int) -> tuple[int, ctypes.c_int, bool]:
    """Return the driver's return code, a GPU's handle, and whether its primary context is active."""
    # CUDA's runtime uses this context, and so does every library. It is not activated here.
    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    code = int(cuda.cuDeviceGet(ctypes.byref(device), number)) or int(
        cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    )
    return code, device, not code and bool(active.value)


def settle(devices: Sequence[int] | None = None, load: Callable[[str], Any] = ctypes.CDLL) -> str:
    """Wait until the GPUs have finished this process's work, as torch's profiler does when it stops."""
    # CUPTI writes a kernel's record when the kernel has ended, and flushing does not wait for that. GPUs that
    # this process does not use are left alone, and CUDA is not initialised. Returns the driver's message for
    # each wait that failed, for example because a device was lost.
    cuda, count = driver(load), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ""
    codes = {} if devices is not None else {"this thread's context": int(cuda.cuCtxSynchronize())}
    for number in range(count.value):
        if devices is None or number in devices:
            codes[f"GPU {number}"] = _settle_card(cuda, *_primary_context(cuda, number))
    return "; ".join(f"{what}: {_words(cuda, code)}" for what, code in codes.items() if code not in _IDLE)


def _settle_card(cuda: Any, code: int, device: ctypes.c_int, active: bool) -> int:
    """Wait for a GPU's primary context, if it is active."""
    context, before = ctypes.c_void_p(), ctypes.c_void_p()
    if not active:
        return code
    if code := int(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)):
        return code
    code = int(cuda.cuCtxPushCurrent_v2(context))
    if not code:
        code = int(cuda.cuCtxSynchronize())
        cuda.cuCtxPopCurrent_v2(ctypes.byref(before))
    cuda.cuDevicePrimaryCtxRelease_v2(device)
    return code


def _words(cuda: Any, code: int) -> str:
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    return f"{(name.value or b'error').decode(errors='replace')} ({code})"


def tell_left_out(report: ImportReport, devices: Sequence[int], what: str, count: int) -> None:
    """Report how much data of other devices was left out."""
    example = f"{what} on other GPUs than {', '.join(map(str, devices))}"
    effect = "left out as requested, with the calls that launched it"
    report.add("other-devices", "info", count, example, effect)
