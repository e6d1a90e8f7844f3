"""The registry of collectors, which knows whether they can record here and how to make them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, Final, NamedTuple

import pandas as pd

from ..errors import OptionError, nearest
from ..optional import installed
from ..trace.schema import Table
from .base import Availability, Collector
from .marks import MarksCollector
from .options import CollectorOptions
from .system import SystemCollector

GROUP: Final = "notebook_prof.collectors"
"""Group of other packages' entry points: Collector subclasses that take only CollectorOptions."""

COLLECTORS: Final = Table.of("collectors", "name:str available:bool reason:str records:str")


class _CollectorEntry(NamedTuple):
    place: str  # module:class
    records: str

    def load(self) -> type[Any]:
        module, _, attribute = self.place.partition(":")
        loaded: type[Any] = getattr(importlib.import_module(module, __package__), attribute)
        return loaded

    def availability(self) -> Availability:
        try:
            state: Availability = self.load().availability()
        except Exception as error:
            return Availability(False, f"cannot be loaded: {type(error).__name__}: {error}")
        return state


_BUILT_IN: Final = {
    name: _CollectorEntry(place, records)
    for name, place, records in (
        ("torch", ".torch.collector:TorchCollector", "operators, kernels, memory and modules of PyTorch"),
        ("python", ".python:PythonCollector", "lines and functions of Python code"),
        ("system", ".system:SystemCollector", "memory and CPU time of process, threads and children"),
        ("nvml", ".nvml:NvmlCollector", "use, memory, power and clocks of NVIDIA GPUs"),
        ("marks", ".marks:MarksCollector", "nbp.annotate in your code"),
        ("cuda", ".cuda:CudaCollector", "kernels and copies of any CUDA library in the process"),
        ("cupy", ".cupy:CupyCollector", "allocations of CuPy's memory pool"),
        (
            "torch_memory",
            ".torch.allocator_history:TorchMemoryCollector",
            "blocks of PyTorch's CUDA allocator with stacks, on request",
        ),
        ("jax", ".jax:JaxCollector", "operations and kernels of JAX"),
        ("heap", ".heap:HeapCollector", "what allocated the heap at its peak, on request"),
    )
}


def list_collectors() -> pd.DataFrame:
    """Return every collector, and whether it can record in this process.

    Returns
    -------
    DataFrame
        ``name``, ``available``, ``reason`` and ``records`` (what it puts into a trace): the built-in
        collectors first, then those of other packages by name. Never empty. Loads no framework.

    Examples
    --------
    >>> bool(list_collectors().set_index("name").loc["marks", "available"])
    True
    """
    states = [(name, entry.availability(), entry.records) for name, entry in _entries().items()]
    return COLLECTORS.of_tuples([(name, state.ok, state.reason, records) for name, state, records in states])


def make(names: Sequence[str] | None = None, options: CollectorOptions | None = None) -> list[Collector]:
    """Make the collectors of a recording, in the order in which they start and return their results."""
    # `python` is last, since it fits its samples to slices with exact times. A named collector that cannot
    # record here is made anyway; its start fails, and the report says so.
    options = options if options is not None else CollectorOptions()
    chosen = set(names or _automatic())
    entries = _BUILT_IN if chosen <= _BUILT_IN.keys() else _entries()
    if unknown := sorted(chosen - entries.keys()):
        raise OptionError(
            f"no collector {unknown[0]!r}: {nearest(unknown[0], entries)}; see nbp.list_collectors()"
        )
    if {"torch", "cuda"} <= chosen and not _beside_torch():
        chosen.discard("cuda")  # `torch` records the same
    if {"torch", "torch_memory"} <= chosen:
        options = replace(options, memory=False)  # `torch` would record the same blocks, without stacks
    if options.python is not None:
        chosen.add("python")
    if options.heap:
        chosen.add("heap")
    if entries["nvml"].availability().ok:
        chosen.add("nvml")
    made = [entries[name].load()(options) for name in entries if name in chosen and name not in _PLACED]
    made.append(SystemCollector())
    if options.children:
        from .children import ChildrenCollector

        made.append(ChildrenCollector(options.children))
    if "nvml" in chosen:
        made.append(entries["nvml"].load()(options.pcie, options.devices))
    marks = MarksCollector()
    made.append(marks)
    if "python" in chosen:
        made.append(entries["python"].load()(options, edges=marks.edges))
    return made


_PLACED: Final = ("system", "nvml", "marks", "python")


def _automatic() -> tuple[str, ...]:
    chosen = ["torch", "python"] if "torch" in sys.modules else ["python"]
    if "cupy" in sys.modules and _BUILT_IN["cupy"].availability().ok:
        chosen.append("cupy")
    launches = "cupy" in sys.modules or "numba.cuda" in sys.modules
    if launches and (chosen[0] != "torch" or _beside_torch()) and _BUILT_IN["cuda"].availability().ok:
        chosen.append("cuda")
    return tuple(chosen)


def prepare() -> None:
    """Import the modules of the first recording, except frameworks, so its cell starts at once."""
    for name in ("torch", "python") if installed("torch") else ("python",):
        _BUILT_IN[name].load()


def _beside_torch() -> bool:
    """Return whether something other than torch's profiler must record CUDA kernels."""
    from .cuda import choose, routes, survey

    available = routes(survey())
    best = choose(available)  # with a CPU build of torch, for example
    return available[best].ok and best != "kineto"


def _entries() -> dict[str, _CollectorEntry]:
    """Return all collectors. Scanning the installed packages takes 10 ms."""
    foreign = {
        point.name: _CollectorEntry(
            f"{point.module}:{point.attr}", f"what {point.module.partition('.')[0]} records"
        )
        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)
    }
    return _BUILT_IN | foreign | _BUILT_IN  # first, and not replaced by others
