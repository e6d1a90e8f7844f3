"""Where the user's libcupti is: loaded already, in a wheel, or in a CUDA toolkit."""

from __future__ import annotations

import ctypes.util
import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_NAME: Final = "libcupti.so*"
_MAPPED: Final = re.compile(r"\s(/\S*/lib(cupti|cudart)(?:[-.]\w+)*\.so(?:\.[\d.]+)?)$", re.M)
_MAJOR: Final = re.compile(r"\.so\.(\d+)")
_WHEELS: Final = ("cuda_cupti/lib", "cu13/lib", "cu14/lib")
_TRITONS: Final = "backends/nvidia/lib/cupti"
_TOOLKIT: Final = ("lib64", "extras/CUPTI/lib64", "lib", "targets/*/lib")


def find_library() -> str | None:
    """Return the path or name of the libcupti to use; None where there is none.

    One that the process has loaded already wins, as two of them cannot record together. Then those of
    the ``nvidia-cuda-cupti`` wheels, the one that Triton brings, those of the toolkits in ``CUDA_HOME`` and
    ``CUDA_PATH``, of ``/usr/local/cuda``, and what the loader finds; among these, one of the CUDA runtime's
    major version first. Nothing is loaded here.
    """
    loaded = mapped()
    if "cupti" in loaded:
        return loaded["cupti"]
    candidates = list(_candidates())
    major = _major(loaded.get("cudart", ""))
    candidates.sort(key=lambda path: major is not None and _major(path) != major)
    return candidates[0] if candidates else ctypes.util.find_library("cupti")


def mapped(maps: Path = Path("/proc/self/maps")) -> dict[str, str]:
    """Return paths of ``libcupti`` and ``libcudart`` in this process, by ``cupti`` and ``cudart``."""
    try:
        text = maps.read_text(errors="replace")
    except OSError:
        return {}
    return {match[2]: match[1] for match in _MAPPED.finditer(text)}


def _candidates() -> Iterator[str]:
    for folder in _folders():
        # the name with its major version first: the bare one belongs to compilers and may be missing
        yield from sorted((str(path) for path in folder.glob(_NAME)), key=lambda name: _major(name) is None)


def _folders() -> Iterator[Path]:
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for home in (spec.submodule_search_locations or ()) if spec is not None else ():
        for part in _WHEELS:
            yield Path(home) / part
    try:
        triton = find_spec("triton")
    except (ImportError, ValueError):
        triton = None
    for home in (triton.submodule_search_locations or ()) if triton is not None else ():
        yield Path(home) / _TRITONS
    toolkits = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", sys.prefix)
    for home in filter(None, toolkits):
        for part in _TOOLKIT:
            yield from sorted(Path(home).glob(part))


def _major(path: str) -> int | None:
    match = _MAJOR.search(path)
    return int(match[1]) if match else None
