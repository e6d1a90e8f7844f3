"""Asks the CUDA driver whether it works, how many GPUs it has and which CUDA version it supports.

A child process asks, with this file as its script, which imports none of our modules. This is because forked
children of a process that has called ``cuInit`` cannot use CUDA, and because some versions of libcupti end
the process if the driver is broken.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any, Final, NamedTuple

_SECONDS: Final = 20.0
_CONCURRENT_KERNEL: Final = 10
_ADVICE: Final = {
    3: "this process was forked from one that uses CUDA; start it by spawn",
    34: "this libcuda is the CUDA toolkit's stub; install a driver, or remove the stub from LD_LIBRARY_PATH",
    100: "no GPU is visible to this process; check CUDA_VISIBLE_DEVICES and the container's --gpus",
    803: "the driver's library and its kernel module differ; reboot after an update of the driver",
    804: "this GPU does not support forward compatibility; remove the compat folder from LD_LIBRARY_PATH",
}
"""Advice by error number in ``cuda.h``."""


class DriverState(NamedTuple):
    """The driver's answer."""

    code: int  # return code of ``cuInit``: 0 for success; -1 if there is no driver or it could not be asked
    cards: int = 0
    version: int = 0  # newest CUDA version that the driver supports: 12040 for 12.4; 0 if unknown
    words: str = ""  # the driver's name of the code, or why it could not be asked
    refused: str = ""  # error from trying ``cupti-python``; empty if it worked or is not installed

    @property
    def problem(self) -> str:
        """Why CUDA cannot be used, in a sentence; empty if it can."""
        if self.code < 0:
            return self.words
        if self.code:
            advice = _ADVICE.get(self.code, "see what nvidia-smi says")
            return f"CUDA does not start: {self.words} ({self.code}); {advice}"
        return "" if self.cards else f"CUDA finds no GPU: {_ADVICE[100]}"


def ask(load: Callable[[str], Any] = ctypes.CDLL, *, version_only: bool = False) -> DriverState:
    """Initialise CUDA in this process and ask it. `load` loads a library by name."""
    # with `version_only`, nothing is initialised, and the rest is assumed to work
    try:
        cuda = load("libcuda.so.1")
    except OSError as error:
        return DriverState(-1, words=f"no NVIDIA driver: {error}")
    count, version, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_char_p()
    if version_only:
        cuda.cuDriverGetVersion(ctypes.byref(version))
        return DriverState(0, 1, version.value)
    code = int(cuda.cuInit(0)) or int(cuda.cuDeviceGetCount(ctypes.byref(count)))
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    return DriverState(code, count.value, version.value, (name.value or b"error").decode(errors="replace"))


def package_version() -> str:
    """Return the version of the installed ``cupti-python``; empty if it is not installed."""
    try:
        return metadata.version("cupti-python")
    except metadata.PackageNotFoundError:
        return ""


_usable: dict[tuple[str, str | None], DriverState] = {}
"""Cache of the answers without problems, by package and visible GPUs. Other answers may change."""


def ask_in_child(load: Callable[[str], Any] = ctypes.CDLL) -> DriverState:
    """Let a child process ask the driver and try ``cupti-python``, so that neither is loaded here."""
    try:
        load("libcuda.so.1")
    except OSError as error:
        return DriverState(-1, words=f"no NVIDIA driver: {error}")
    key = package_version(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if key not in _usable:
        state = _run_child()
        if state.problem or state.refused:
            return state
        _usable[key] = state
    return _usable[key]


def _run_child() -> DriverState:
    from ... import own_processes  # the script below imports none of our modules

    command = [sys.executable, "-I", __file__, json.dumps(sys.path)]
    try:
        printed = own_processes.run(command, _SECONDS)
    except OSError as error:
        return DriverState(-1, words=f"CUDA could not be asked: {error}")
    if printed is None:
        return DriverState(
            -1, words=f"CUDA does not start: it took over {_SECONDS:.0f} s; see what nvidia-smi says"
        )
    lines = printed[0].splitlines()
    if not lines:
        return DriverState(-1, words="CUDA does not start: cuInit ended its process")
    code, cards, version, words = json.loads(lines[0])
    refused = json.loads(lines[1]) if len(lines) > 1 else "libcupti ended its process"
    return DriverState(code, cards, version, words, refused)


def _try_cupti() -> str:
    """Subscribe to CUPTI and unsubscribe. Returns the error; empty if there is none."""
    if not package_version():
        return ""
    try:
        cupti: Any = import_module("cupti.cupti")
        subscriber = cupti.subscribe(lambda *_: None, None)
        cupti.activity_enable(_CONCURRENT_KERNEL)
        cupti.activity_disable(_CONCURRENT_KERNEL)
        cupti.unsubscribe(subscriber)
    except Exception as error:  # the package's error types
        return str(error)
    return ""


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])  # without this folder, whose cupti.py would hide the package
    answer = ask()
    sys.stdout.write(json.dumps(answer[:4]) + "\n")
    sys.stdout.flush()  # since the next call may end this process
    sys.stdout.write(json.dumps("" if answer.problem else _try_cupti()) + "\n")
