"""The source line of each slice, and the costs that lines cause elsewhere: devices, backward, memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...trace import Trace, inherit
from ...trace.arrays import BoolArray, IntArray, positions
from ...trace.source_lines import is_line, running_lines
from ..device.kernel_launches import launching_rows
from ..grouping import sums
from ..memory.blocks import FOREVER, lives
from ..memory.curve import peak_instant
from ..scope import Scope, WindowLike, ints, on_device, on_host, once, recorded_table
from ..time.host_states import waiting

_NAMES: Final = (
    re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.+)"),  # torch: file.py(12): f
    re.compile(r"(?P<function>.+) \((?P<file>.+):(?P<line>\d+)\)"),  # VizTracer: f (file.py:12)
)

_ANY_LANGUAGE: Final = ("pprof", "gecko", "perfetto", "collapsed", "speedscope", "trace_event")
"""Formats whose frames may be of Go, Julia, Rust, C++, JavaScript or the operating system's kernel."""
_SAMPLERS: Final = ("py-spy", "austin", "tachyon", "notebook_prof")
_OF_PYTHON: Final = re.compile(r"\.py\b|<module>|\bcell\b|\bIn\[\d|ipykernel|<ipython-input")
_NO_FILES: Final = ("<frozen ", "<string>")


def is_python(trace: Trace, name: str, file: str = "") -> bool:
    """Return whether a slice of category ``python`` is a frame of Python, not of another language."""
    exporter = str(trace.metadata.get("exporter", ""))
    if trace.metadata.get("source") not in _ANY_LANGUAGE or exporter.startswith(_SAMPLERS):
        return True
    return _OF_PYTHON.search(name) is not None or file.startswith(_NO_FILES)


@dataclass(frozen=True, slots=True)
class SourceFrames:
    """Distinct frames (`file` is empty and `line` -1 if unknown); `code` is the frame of every slice."""

    code: IntArray
    function: npt.NDArray[np.object_]
    file: npt.NDArray[np.object_]
    line: IntArray


def frames(trace: Trace) -> SourceFrames:
    """Find the function and source line of every slice."""
    return once(trace, "frames", lambda: _frames(trace))


def _frames(trace: Trace) -> SourceFrames:
    # It is the innermost frame of the slice's own stack; for a Python slice without a stack, its name
    # (``file.py(12): f`` or ``f (file.py:12)``); for anything else, the frame of the nearest slice around it.
    # A slice without any of these counts as a function with the slice's name.
    slices, stacks = trace.slices, trace.stacks
    words = [str(name) for name in slices["name"].cat.categories]
    parsed = [_parse(word) for word in words]
    name_code = slices["name"].cat.codes.to_numpy().astype(np.int64)
    python = (slices["category"] == "python").to_numpy()
    code = positions(stacks["stack"].to_numpy(np.int64), ints(slices["stack"]))
    own = (code < 0) & python & (name_code >= 0)
    code[own] = len(stacks) + name_code[own]
    code = inherit(ints(slices["parent"]), code)
    return SourceFrames(
        np.where(code < 0, len(stacks) + name_code, code),
        np.array([*stacks["name"], *(name for name, _, _ in parsed)], dtype=object),
        np.array([*stacks["file"], *(file for _, file, _ in parsed)], dtype=object),
        np.concatenate([ints(stacks["line"]), np.array([line for _, _, line in parsed], dtype=np.int64)]),
    )


def _parse(name: str) -> tuple[str, str, int]:
    for pattern in _NAMES:
        if match := pattern.fullmatch(name):
            return match["function"], match["file"], int(match["line"])
    return name, "", -1


COSTS: Final = (
    "device_ns", "backward_ns", "backward_device_ns", "launch_ns", "wait_ns",
    "bytes_allocated", "bytes_kept", "peak_bytes",
)  # fmt: skip


def line_costs(
    trace: Trace, row_of_line: IntArray, size: int, window: WindowLike, chosen: Mapping[str, Any]
) -> dict[str, IntArray]:
    """Sum the `COSTS` of lines; the last value of each column belongs to no row."""
    # `chosen` is given to `Scope.where`. `row_of_line` has the result row for each code of
    # ``trace.slices["line"]``, and `size` for codes without a row and as its last entry.
    slices = trace.slices
    row = row_of_line[slices["line"].cat.codes.to_numpy()]
    host, device = (scope.where(**chosen) for scope in (on_host(trace, window), on_device(trace, window)))
    forward = np.append(row_of_line[_forward_lines(trace)], size)
    backward = host.among("phase", ("backward",))
    launcher = launching_rows(trace)[device.rows]
    work_of_backward = device.among("phase", ("backward",))
    spent = device.end - device.ts

    def own(scope: Scope, chosen: BoolArray) -> IntArray:
        return sums(row[scope.rows[chosen]], scope.self_ns[chosen], size + 1)

    costs = {
        "device_ns": sums(row[device.rows], spent, size + 1),
        "backward_ns": sums(forward[host.rows[backward]], host.self_ns[backward], size + 1),
        "backward_device_ns": sums(forward[launcher[work_of_backward]], spent[work_of_backward], size + 1),
        "launch_ns": own(host, host.among("category", ("launch",))),
        "wait_ns": own(host, waiting(trace, host) & (len(on_device(trace).rows) > 0)),
    }
    limited = any(value is not None for value in (window, *chosen.values()))
    heap = None if limited else recorded_table(trace, "heap")
    costs |= _memory(trace, row, size, window, chosen)
    if heap is not None:  # what is kept, and alive at the peak, on the host is that of the traced heap
        on_devices = _memory(trace, row, size, None, {}, host=False)
        at = row_of_line[slices["line"].cat.categories.get_indexer(heap["line"])]
        for column, of_heap in (("bytes_kept", "kept_bytes"), ("peak_bytes", "bytes")):
            costs[column] = on_devices[column] + sums(at, heap[of_heap].to_numpy(), size + 1)
    return costs


def _forward_lines(trace: Trace) -> IntArray:
    """Return, for each backward slice, the line whose forward it belongs to; -1 if there is none."""
    # It is the line of the operator whose backward node is around the slice, or else a line that began inside
    # that node (checkpointing's second forward, the backward of a custom function), which comes first. The
    # engine's slices outside any such node, like ``AccumulateGrad``, have no line.
    slices, flows = trace.slices, trace.flows
    code = slices["line"].cat.codes.to_numpy().astype(np.int64)
    parent = ints(slices["parent"])
    pairs = (flows["kind"] == "fwdbwd").to_numpy()
    src, dst = flows["src"].to_numpy()[pairs], flows["dst"].to_numpy()[pairs]
    made = np.full(len(slices) + 1, -1, np.int64)
    made[dst] = code[src]
    own = np.full(len(slices), -1, np.int64)
    own[dst] = dst
    node = inherit(parent, own)
    seeds = np.flatnonzero(is_line(slices))
    ts = slices["ts"].to_numpy()
    line = running_lines(slices["track"].to_numpy(), ts, ts + slices["dur"].to_numpy(), seeds)
    # rows are sorted by start, so a line with a higher row began inside the node
    again = (node >= 0) & (line > node)
    return np.where(again, np.append(code, -1)[line], made[node])


def _memory(
    trace: Trace,
    row: IntArray,
    size: int,
    window: WindowLike,
    limits: Mapping[str, Any],
    *,
    host: bool = True,
) -> dict[str, IntArray]:
    events = trace.allocations
    blocks = lives(events)
    born = blocks.birth >= 0
    if any(value is not None for value in limits.values()):
        chosen = np.zeros(len(row) + 1, bool)
        chosen[on_host(trace, window).where(**limits).rows] = True
        born &= chosen[ints(events["slice"])[blocks.event]]
    if window is not None:
        born &= (blocks.birth >= window[0]) & (blocks.birth < window[1])
    if not host:
        born &= events["device"].to_numpy()[blocks.event] >= 0
    event, death = blocks.event[born], blocks.death[born]
    at = np.append(row, size)[ints(events["slice"])[event]]
    bytes_ = np.abs(events["bytes"].to_numpy()[event])
    device = events["device"].to_numpy()[event]
    devices, of_device = np.unique(device, return_inverse=True)
    peak = np.array([peak_instant(trace, int(one)) for one in devices], np.int64)[of_device]
    at_peak = (blocks.birth[born] <= peak) & (peak < death)

    end = FOREVER if window is None else min(window[1], FOREVER)
    return {
        "bytes_allocated": sums(at, bytes_, size + 1),
        "bytes_kept": sums(at, bytes_ * (death >= end), size + 1),
        "peak_bytes": sums(at, bytes_ * at_peak, size + 1),
    }
