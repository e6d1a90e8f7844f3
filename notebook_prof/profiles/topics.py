"""The analyses of a Profile by topic: ``p.memory.peak()``, ``p.steps.breakdown()`` and their like."""

from __future__ import annotations

import inspect
from typing import ClassVar, Final

from .. import analysis
from ..analysis.verdict.claims import METHODS
from .methods import method
from .namespace import Namespace


class Operators(Namespace):
    """Operators: ``p.operators()`` sums them up."""

    path: ClassVar[str] = "operators"
    __call__ = method(analysis.operators)
    calls = method(analysis.calls)
    arguments = method(analysis.operator_arguments)
    work = method(analysis.operator_work)


class Kernels(Namespace):
    """Device work: ``p.kernels()`` sums it up."""

    path: ClassVar[str] = "kernels"
    __call__ = method(analysis.kernels)
    origins = method(analysis.kernel_origins)


class Steps(Namespace):
    """Steps: ``p.steps()`` lists them."""

    path: ClassVar[str] = "steps"
    __call__ = method(analysis.steps)
    breakdown = method(analysis.step_breakdown)
    trace = method(analysis.step_trace)
    one_time = method(analysis.one_time)
    overhead = method(analysis.overhead)


class Memory(Namespace):
    """Memory: ``p.memory()`` is the curve."""

    path: ClassVar[str] = "memory"
    __call__ = method(analysis.memory)
    peak = method(analysis.memory_peak)
    live = method(analysis.memory_live)
    by = method(analysis.memory_by)
    growth = method(analysis.memory_growth)
    heap = method(analysis.memory_heap)
    level_growth = method(analysis.level_growth)
    blocks = method(analysis.memory_blocks)
    operators = method(analysis.memory_operators)
    names = method(analysis.memory_names)
    left_behind = method(analysis.memory_left_behind)


class Input(Namespace):
    """How steps got their data."""

    path: ClassVar[str] = "input"
    pipeline = method(analysis.input_pipeline)
    queues = method(analysis.input_queues)
    operators = method(analysis.input_operators)
    loaders = method(analysis.loaders)
    workers = method(analysis.loader_workers)
    transforms = method(analysis.loader_transforms)
    batches = method(analysis.loader_batches)
    bounds = method(analysis.loader_bounds)
    throughput = method(analysis.loader_throughput)


class Device(Namespace):
    """Devices: ``p.device()`` tells how busy each was."""

    path: ClassVar[str] = "device"
    __call__ = method(analysis.device)
    idle = method(analysis.device_idle)
    idle_causes = method(analysis.idle_causes)
    launches = method(analysis.kernel_launches)
    copies = method(analysis.copies)
    graph_nodes = method(analysis.graph_nodes)
    roofline = method(analysis.roofline)
    sequences = method(analysis.kernel_sequences)


class CriticalPath(Namespace):
    """What decided how long steps took: ``p.critical_path()`` lists it in order of time."""

    path: ClassVar[str] = "critical_path"
    __call__ = method(analysis.critical_path)
    hops = method(analysis.critical_path_hops)
    spans = method(analysis.critical_path_spans)
    doubts = method(analysis.critical_path_doubts)
    next = method(analysis.critical_path_next)


class Lines(Namespace):
    """Lines of source: ``p.lines()`` has the time of each."""

    path: ClassVar[str] = "lines"
    __call__ = method(analysis.lines)
    calls = method(analysis.line_calls)
    imports = method(analysis.imports)
    source = method(analysis.annotated_source)
    steps = method(analysis.line_steps)


class Compilations(Namespace):
    """What ``torch.compile`` compiled: ``p.compilations()`` lists it."""

    path: ClassVar[str] = "compilations"
    __call__ = method(analysis.compilations)
    graph_breaks = method(analysis.graph_breaks)
    kernels = method(analysis.fused_kernels)


class Cpu(Namespace):
    """The host: ``p.cpu()`` is the CPU time of threads and child processes."""

    path: ClassVar[str] = "cpu"
    __call__ = method(analysis.cpu)
    use = method(analysis.cpu_use)
    states = method(analysis.thread_time)
    waits = method(analysis.host_waits)


class Distributed(Namespace):
    """Communication: ``p.distributed()`` divides steps into communication and computation."""

    path: ClassVar[str] = "distributed"
    __call__ = method(analysis.distributed)
    breakdown = method(analysis.breakdown)
    collectives = method(analysis.collectives)
    exposed = method(analysis.exposed_collectives)


class MindSpore(Namespace):
    """Folders of a MindSpore cluster, as MindInsight shows them."""

    path: ClassVar[str] = "mindspore"
    cluster_steps = method(analysis.cluster_steps)
    cluster_links = method(analysis.cluster_links)
    cluster_advice = method(analysis.cluster_advice)


TOPICS: Final = (
    Operators,
    Kernels,
    Steps,
    Memory,
    Input,
    Device,
    CriticalPath,
    Lines,
    Compilations,
    Cpu,
    Distributed,
    MindSpore,
)
"""Namespaces whose methods are functions of `notebook_prof.analysis`."""

METHODS.update(
    {
        inspect.unwrap(member).__name__: f"{topic.path}.{name}"
        for topic in TOPICS
        for name, member in topic.members().items()
    }
)
