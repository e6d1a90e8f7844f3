"""The layout of CUPTI's activity records, by version: what the C headers of each release say.

Between CUDA 11.7 and 13.5 the records only grew at their ends: every field that is read here has one place
in all of them, and the sizes tell the generations apart. Both were printed by a C program that was compiled
against the headers of each release (``tests/unit/test_cupti_layouts.py`` holds it, and runs it where a
compiler and headers are found). Source of names and meanings: ``cupti_activity.h``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from ...errors import RecordingError

MEMCPY, MEMSET, DRIVER, RUNTIME, CONCURRENT_KERNEL = 1, 2, 4, 5, 10
MARKER, OVERHEAD, MEMCPY_P2P, SYNCHRONIZATION, EXTERNAL_CORRELATION, MEMORY2 = 12, 17, 22, 38, 39, 49

STRUCTS: Final = {
    MEMCPY: "Memcpy",
    MEMSET: "Memset",
    DRIVER: "API",
    RUNTIME: "API",
    CONCURRENT_KERNEL: "Kernel",
    MARKER: "Marker",
    OVERHEAD: "Overhead",
    MEMCPY_P2P: "MemcpyPtoP",
    SYNCHRONIZATION: "Synchronization",
    EXTERNAL_CORRELATION: "ExternalCorrelation",
    MEMORY2: "Memory",
}
"""Kind of activity → C structure, ``CUpti_Activity<name><generation>``."""

FIELDS: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "Kernel": {
        "registersPerThread": (6, "u2"),
        "start": (16, "u8"),
        "end": (24, "u8"),
        "deviceId": (40, "u4"),
        "contextId": (44, "u4"),
        "streamId": (48, "u4"),
        "gridX": (52, "i4"),
        "gridY": (56, "i4"),
        "gridZ": (60, "i4"),
        "blockX": (64, "i4"),
        "blockY": (68, "i4"),
        "blockZ": (72, "i4"),
        "staticSharedMemory": (76, "i4"),
        "dynamicSharedMemory": (80, "i4"),
        "correlationId": (92, "u4"),
        "name": (104, "u8"),
        "graphNodeId": (144, "u8"),
        "graphId": (156, "u4"),
    },
    "Memcpy": {
        "copyKind": (4, "u1"),
        "srcKind": (5, "u1"),
        "dstKind": (6, "u1"),
        "flags": (7, "u1"),
        "bytes": (8, "u8"),
        "start": (16, "u8"),
        "end": (24, "u8"),
        "deviceId": (32, "u4"),
        "contextId": (36, "u4"),
        "streamId": (40, "u4"),
        "correlationId": (44, "u4"),
        "graphNodeId": (64, "u8"),
        "graphId": (72, "u4"),
    },
    "MemcpyPtoP": {
        "copyKind": (4, "u1"),
        "srcKind": (5, "u1"),
        "dstKind": (6, "u1"),
        "flags": (7, "u1"),
        "bytes": (8, "u8"),
        "start": (16, "u8"),
        "end": (24, "u8"),
        "deviceId": (32, "u4"),
        "contextId": (36, "u4"),
        "streamId": (40, "u4"),
        "srcDeviceId": (44, "u4"),
        "dstDeviceId": (52, "u4"),
        "correlationId": (60, "u4"),
        "graphNodeId": (72, "u8"),
        "graphId": (80, "u4"),
    },
    "Memset": {
        "bytes": (8, "u8"),
        "start": (16, "u8"),
        "end": (24, "u8"),
        "deviceId": (32, "u4"),
        "contextId": (36, "u4"),
        "streamId": (40, "u4"),
        "correlationId": (44, "u4"),
        "memoryKind": (50, "u2"),
        "graphNodeId": (64, "u8"),
        "graphId": (72, "u4"),
    },
    "API": {
        "cbid": (4, "u4"),
        "start": (8, "u8"),
        "end": (16, "u8"),
        "processId": (24, "u4"),
        "threadId": (28, "u4"),
        "correlationId": (32, "u4"),
        "returnValue": (36, "u4"),
    },
    "Memory": {
        "memoryOperationType": (4, "u4"),
        "memoryKind": (8, "u4"),
        "correlationId": (12, "u4"),
        "address": (16, "u8"),
        "bytes": (24, "u8"),
        "timestamp": (32, "u8"),
        "processId": (48, "u4"),
        "deviceId": (52, "u4"),
        "contextId": (56, "u4"),
        "streamId": (60, "u4"),
        "isAsync": (72, "u4"),
    },
    "Marker": {
        "flags": (4, "u4"),
        "timestamp": (8, "u8"),
        "id": (16, "u4"),
        "objectKind": (20, "u4"),
        "objectId.pt.processId": (24, "u4"),
        "objectId.pt.threadId": (28, "u4"),
        "name": (40, "u8"),
        "domain": (48, "u8"),
    },
    "ExternalCorrelation": {
        "externalKind": (4, "u4"),
        "externalId": (8, "u8"),
        "correlationId": (16, "u4"),
    },
    "Overhead": {
        "overheadKind": (4, "u4"),
        "objectKind": (8, "u4"),
        "objectId.pt.processId": (12, "u4"),
        "objectId.pt.threadId": (16, "u4"),
        "start": (24, "u8"),
        "end": (32, "u8"),
    },
    "Synchronization": {
        "type": (4, "u4"),
        "start": (8, "u8"),
        "end": (16, "u8"),
        "correlationId": (24, "u4"),
        "contextId": (28, "u4"),
        "streamId": (32, "u4"),
        "cudaEventId": (36, "u4"),
    },
}
"""Fields that are read: place in the record and type. Every record begins with its kind, ``u4``."""

LATER: Final[dict[str, dict[str, tuple[int, str]]]] = {"Kernel": {"priority": (216, "i4")}}
"""Fields that only records have which are long enough for them: priorities from CUDA 13.1 on."""

_FIRST: Final = {
    "API": 40,
    "ExternalCorrelation": 24,
    "Kernel": 176,
    "Marker": 56,
    "Memcpy": 88,
    "MemcpyPtoP": 96,
    "Memory": 120,
    "Memset": 88,
    "Overhead": 40,
    "Synchronization": 40,
}
_GREW: Final[tuple[tuple[int, dict[str, int]], ...]] = (
    (17, {}),
    (18, {"Kernel": 200}),
    (20, {"Kernel": 208}),
    (21, {"Overhead": 48}),
    (22, {"Overhead": 56}),
    (23, {}),
    (24, {"Memory": 128}),
    (26, {"Memcpy": 96, "Synchronization": 56}),
    (28, {}),
    (1300, {"Kernel": 216}),
    (1301, {"Kernel": 224}),
    (1302, {}),
    (1303, {"Kernel": 232}),
    (1304, {"Kernel": 248, "Memcpy": 112, "Memset": 104}),
    (1305, {}),
)
VERSIONS: Final = tuple(version for version, _ in _GREW)
"""Known versions: CUPTI's own number until 28 (CUDA 12.9), then major and minor of CUDA, as in 1300."""
EITHER: Final = {18: {"Kernel": 208}}
"""CUDA 11.8, 12.0 and 12.1 all call themselves 18, and the kernel's record grew in 12.0."""


def release(version: int) -> int:
    """Return what of ``CUPTI_API_VERSION`` decides the layout.

    Examples
    --------
    >>> release(28), release(130085)
    (28, 1300)
    """
    return version if version < 10_000 else version // 100


def sizes(version: int) -> dict[str, int]:
    """Return bytes of every structure.

    Parameters
    ----------
    version : int
        ``CUPTI_API_VERSION``, as ``cuptiGetVersion`` tells.

    Raises
    ------
    RecordingError
        If it is not one of `VERSIONS`.

    Examples
    --------
    >>> sizes(28)["Kernel"], sizes(130001)["Kernel"]
    (208, 216)
    """
    own_release = release(version)
    if own_release not in VERSIONS:
        raise RecordingError(
            f"this libcupti calls itself version {version}, and the layout of its records is not known here: "
            f"known are {VERSIONS[0]} (CUDA 11.7) to {VERSIONS[-1]} (CUDA 13.5). Reading them unverified "
            "would give wrong numbers: install an nvidia-cuda-cupti wheel of a known version, or a torch "
            "built for CUDA"
        )
    sizes_of = dict(_FIRST)
    for number, grown in _GREW:
        if number <= own_release:
            sizes_of.update(grown)
    return sizes_of


@cache
def record(struct: str, size: int) -> np.dtype[Any]:
    """Return the record as numpy sees it; of `LATER` fields, those that it is long enough for.

    Parameters
    ----------
    struct : str
        One of `FIELDS`.
    size : int
        Bytes from one record to the next.

    Examples
    --------
    >>> "priority" in record("Kernel", 216).names, "priority" in record("Kernel", 224).names
    (False, True)
    """
    later = {name: at for name, at in LATER.get(struct, {}).items() if at[0] < size}
    fields = {"kind": (0, "u4"), **FIELDS[struct], **later}
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for _, kind in fields.values()],
            "offsets": [offset for offset, _ in fields.values()],
            "itemsize": size,
        }
    )
