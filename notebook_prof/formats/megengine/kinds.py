"""What the ranges of MegEngine's timeline are."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt

from ...trace.arrays import IntArray
from ...trace.nesting import nest
from ...trace.taxonomy import is_collective_kernel
from .rows import Ranges

DISPATCH: Final = "OpDispatch"
_TENSOR: Final = re.compile(r"(?:Input|Output|Put|Del|Drop|ReGen|RecFree) -?\d+")
_WAITS: Final = frozenset({"TensorWaitProp", "GetValue"})
_OVERHEAD: Final = frozenset({"TensorGetProp", "StartProfile", "StopProfile", "AutoEvict", "StopStep"})
_PHASE_OF_SCOPE: Final = {"backward": "backward", "step": "optimizer", "clear_grad": "optimizer"}
_DEVICE: Final = re.compile(r"(?:cpu|gpu|xpu|rocm|cuda|cambricon|atlas|multithread|npu)(?:\d+|x)?(?::\d+)*")


def is_device(name: str) -> bool:
    """Return whether a thread's name is a computing node.

    Examples
    --------
    >>> is_device("xpux:0"), is_device("gpu0"), is_device("worker")
    (True, True, False)
    """
    return _DEVICE.fullmatch(name) is not None


def categories(ranges: Ranges, on_device: npt.NDArray[np.bool_]) -> npt.NDArray[np.object_]:
    """Return the category of every range.

    On a device: kernels, copies, fills, collectives. On a thread: what carries an operator's id is an
    operator, bookkeeping of tensors is overhead, waiting for the device is sync, and the rest are scopes
    (module; see `scopes`).
    """
    words = [
        _on_device(name, cat) if device else _on_host(name, "__id__" in args)
        for name, cat, args, device in zip(
            ranges.name, ranges.cat, ranges.args, on_device.tolist(), strict=True
        )
    ]
    result = np.empty(len(words), object)
    result[:] = words
    return result


def scopes(
    ranges: Ranges, category: npt.NDArray[np.object_]
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Return the module and phase of the scopes; what is inside inherits them.

    ``backward`` and ``XBackward`` prove the backward phase, ``step`` and ``clear_grad`` the optimizer's.
    A scope around any of these (a whole iteration) is an annotation. The others are modules, called in
    the forward unless a phase is around them; `module` is the path of their names. Rewrites `category`
    of scopes that are no modules.

    Returns
    -------
    module, phase : ndarray of object
        None where not known.
    """
    n = len(ranges.name)
    module, phase = np.full(n, None, object), np.full(n, None, object)
    rows = np.flatnonzero(category == "module")
    if not len(rows):
        return module, phase
    depth, parent, _ = nest(ranges.thread[rows], ranges.ts[rows], ranges.dur[rows])
    own = [_scope_phase(ranges.name[i]) for i in rows]
    around = _has_inside(parent, np.array([word is not None for word in own]))
    paths: list[str | None] = [None] * len(rows)
    phases: list[str | None] = list(own)
    for i in np.argsort(depth, kind="stable").tolist():
        above = int(parent[i])
        path = paths[above] if above >= 0 else None
        if own[i] is None and not around[i]:
            phases[i] = (phases[above] if above >= 0 else None) or "forward"
            name = ranges.name[rows[i]]
            paths[i] = f"{path}.{name}" if path else name
        else:
            paths[i] = path
            phases[i] = own[i] or (phases[above] if above >= 0 else None)
            category[rows[i]] = "annotation"
    module[rows], phase[rows] = paths, phases
    return module, phase


def _has_inside(parent: IntArray, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows have a marked one anywhere inside."""
    result = np.zeros(len(parent), bool)
    up = parent[marked]
    while len(up := np.unique(up[up >= 0])):
        result[up] = True
        up = parent[up]
    return result


def _scope_phase(name: str) -> str | None:
    return "backward" if name.endswith("Backward") else _PHASE_OF_SCOPE.get(name)


def _on_device(name: str, cat: str) -> str:
    lowered = name.lower()
    if cat != "Kernel" or lowered.startswith("mem"):
        if "memset" in lowered:
            return "memset"
        if "memcpy" in lowered or "todevice" in lowered or "tohost" in lowered:
            return "memcpy"
    return "collective" if is_collective_kernel(name) else "kernel"


def _on_host(name: str, has_id: bool) -> str:
    if name == DISPATCH:
        return "launch"
    if has_id:
        return "operator"
    if name in _WAITS:
        return "sync"
    return "overhead" if name in _OVERHEAD or _TENSOR.fullmatch(name) else "module"
