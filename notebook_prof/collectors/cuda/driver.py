"""What CUDA's driver says before anything else is loaded: whether it works, how many cards, for which CUDA.

Runs as a script too, for a process in which CUDA has to stay as it is: one that has called ``cuInit`` cannot use
CUDA in its forked children any more. So it imports nothing of this package.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_SECONDS: Final = 20.0
_NOT_INITIALIZED: Final = 3
_ADVICE: Final = {
    34: "this libcuda is the CUDA toolkit's stub; install a driver, or take the stub off LD_LIBRARY_PATH",
    100: "no GPU is visible to this process; look at CUDA_VISIBLE_DEVICES and at the container's --gpus",
    803: "the driver's library and its kernel module differ; reboot after an update of the driver",
    804: "this GPU does not support forward compatibility; take the compat folder off LD_LIBRARY_PATH",
}
"""By number in ``cuda.h``."""


class Said(NamedTuple):
    """The driver's answer.

    Attributes
    ----------
    code : int
        Of ``cuInit``: 0 for success; -1 where there is no driver, or asking it failed.
    cards : int
    version : int
        The newest CUDA that the driver supports: 12040 for 12.4; 0 where it does not tell.
    words : str
        The driver's name for the code, or why it could not be asked.
    """

    code: int
    cards: int = 0
    version: int = 0
    words: str = ""

    @property
    def problem(self) -> str:
        """Why CUDA cannot be used, in a sentence; empty if it can be."""
        if self.code < 0:
            return self.words
        if self.code:
            advice = _ADVICE.get(self.code, "see what nvidia-smi says")
            return f"CUDA does not start: {self.words} ({self.code}); {advice}"
        return "" if self.cards else f"CUDA finds no GPU: {_ADVICE[100]}"


def ask(load: Callable[[str], Any] = ctypes.CDLL) -> Said:
    """Initialise CUDA in this process, and ask it. `load` makes a loaded library of a name."""
    try:
        cuda = load("libcuda.so.1")
    except OSError as error:
        return Said(-1, words=f"no NVIDIA driver: {error}")
    count, version, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_char_p()
    code = int(cuda.cuInit(0)) or int(cuda.cuDeviceGetCount(ctypes.byref(count)))
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    return Said(code, count.value, version.value, (name.value or b"error").decode(errors="replace"))


def version_only(load: Callable[[str], Any] = ctypes.CDLL) -> Said:
    """Return what the driver tells without being initialised: for which CUDA it is; taken to work."""
    try:
        cuda = load("libcuda.so.1")
    except OSError as error:
        return Said(-1, words=f"no NVIDIA driver: {error}")
    version = ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    return Said(0, 1, version.value)


_usable: dict[str | None, Said] = {}
"""Good answers by the cards that were visible; a bad one may be mended meanwhile."""


def ask_elsewhere(load: Callable[[str], Any] = ctypes.CDLL) -> Said:
    """Ask without initialising CUDA here: in this process if it has done so already, else in a child."""
    try:
        cuda = load("libcuda.so.1")
    except OSError as error:
        return Said(-1, words=f"no NVIDIA driver: {error}")
    if int(cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))) != _NOT_INITIALIZED:
        return ask(load)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible not in _usable:
        said = _of_child()
        if said.problem:
            return said
        _usable[visible] = said
    return _usable[visible]


def _of_child() -> Said:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__], capture_output=True, text=True, timeout=_SECONDS
        )
        code, cards, version, words = done.stdout.split(maxsplit=3)
    except subprocess.TimeoutExpired:
        return Said(-1, words=f"CUDA does not start: cuInit took over {_SECONDS:.0f} s; see nvidia-smi")
    except OSError as error:
        return Said(-1, words=f"CUDA could not be asked: {error}")
    except ValueError:
        return Said(-1, words=f"CUDA does not start: cuInit ended its process (status {done.returncode})")
    return Said(int(code), int(cards), int(version), words)


if __name__ == "__main__":
    sys.stdout.write(" ".join(map(str, ask())))
