"""The analyses of a Profile by topic: ``p.memory.peak()``, ``p.steps.breakdown()`` and so on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .. import analysis, extensions
from ..analysis.verdict.claims import METHODS
from ..trace import Trace
from .namespace import Method, Namespace, method
from .text import PlainText

# Additions of formats to a Profile: printers (``p.compat.NAME``) and analyses (``p.TOPIC.NAME``).


class Compat(Namespace, path="compat"):
    """The texts and tables of other profilers, for recordings in any format."""

    def __init__(self, profile: Any) -> None:
        super().__init__(profile)
        for name in extensions.points("printers").keys() - vars(Compat).keys():
            _attach(name)  # of another package

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def _attach(name: str) -> None:
    made: Any = method(functools.partial(_printer, name))
    made.__set_name__(Compat, name)
    setattr(Compat, name, made)


def _printer(name: str) -> Callable[..., Any]:
    printer = extensions.load("printers", name)

    @functools.wraps(printer)
    def shown(trace: Trace, *args: Any, **options: Any) -> Any:
        result = printer(trace, *args, **options)
        return PlainText(result) if isinstance(result, str) else result

    return shown


for _name in extensions.OURS["printers"]:
    _attach(_name)


def registered() -> set[str]:
    """Return the topics of analyses that other packages have registered as ``TOPIC.NAME``."""
    return {name.partition(".")[0] for name in extensions.points("analyses")}


@functools.cache
def registered_topic(path: str) -> type[Namespace]:
    """Return the namespace with this name, which is one of `registered`."""
    members = {
        name.partition(".")[2]: method(functools.partial(extensions.load, "analyses", name))
        for name in extensions.points("analyses")
        if name.partition(".")[0] == path
    }
    return type(path.title(), (Namespace,), {"__slots__": (), **members}, path=path)


class Operators(Namespace, path="operators"):
    """Operators: ``p.operators()`` sums them by name."""

    __call__ = method(lambda: analysis.operators)
    calls = method(lambda: analysis.calls)
    arguments = method(lambda: analysis.operator_arguments)
    work = method(lambda: analysis.operator_work)


class Steps(Namespace, path="steps"):
    """Steps: ``p.steps()`` lists them."""

    __call__ = method(lambda: analysis.steps)
    breakdown = method(lambda: analysis.step_breakdown)
    trace = method(lambda: analysis.step_trace)
    one_time = method(lambda: analysis.one_time)


class Memory(Namespace, path="memory"):
    """Memory: ``p.memory()`` is the curve."""

    __call__ = method(lambda: analysis.memory)
    peak = method(lambda: analysis.memory_peak)
    processes = method(lambda: analysis.memory_processes)
    live = method(lambda: analysis.memory_live)
    by = method(lambda: analysis.memory_by)
    growth = method(lambda: analysis.memory_growth)
    heap = method(lambda: analysis.memory_heap)
    level_growth = method(lambda: analysis.level_growth)
    blocks = method(lambda: analysis.memory_blocks)
    operators = method(lambda: analysis.memory_operators)
    names = method(lambda: analysis.memory_names)
    left_behind = method(lambda: analysis.memory_left_behind)


class Input(Namespace, path="input"):
    """The input of steps."""

    pipeline = method(lambda: analysis.input_pipeline)
    queues = method(lambda: analysis.input_queues)
    operators = method(lambda: analysis.input_operators)
    loaders = method(lambda: analysis.loaders)
    workers = method(lambda: analysis.loader_workers)
    transforms = method(lambda: analysis.loader_transforms)
    batches = method(lambda: analysis.loader_batches)
    bounds = method(lambda: analysis.loader_bounds)
    throughput = method(lambda: analysis.loader_throughput)


class Device(Namespace, path="device"):
    """Devices: ``p.device()`` returns how busy each was."""

    __call__ = method(lambda: analysis.device)
    idle = method(lambda: analysis.device_idle)
    idle_causes = method(lambda: analysis.idle_causes)
    launches = method(lambda: analysis.kernel_launches)
    copies = method(lambda: analysis.copies)
    graph_nodes = method(lambda: analysis.graph_nodes)
    roofline = method(lambda: analysis.roofline)


class CriticalPath(Namespace, path="critical_path"):
    """What determined the duration of steps: ``p.critical_path()`` lists it in order of time."""

    __call__ = method(lambda: analysis.critical_path)
    hops = method(lambda: analysis.critical_path_hops)
    doubts = method(lambda: analysis.critical_path_doubts)
    next = method(lambda: analysis.critical_path_next)


class Lines(Namespace, path="lines"):
    """Lines of source: ``p.lines()`` has the time of each."""

    __call__ = method(lambda: analysis.lines)
    calls = method(lambda: analysis.line_calls)
    imports = method(lambda: analysis.imports)
    source = method(lambda: analysis.annotated_source)
    steps = method(lambda: analysis.line_steps)


class Compilations(Namespace, path="compilations"):
    """Compilations of ``torch.compile``: ``p.compilations()`` lists them."""

    __call__ = method(lambda: analysis.compilations)
    graph_breaks = method(lambda: analysis.graph_breaks)
    kernels = method(lambda: analysis.fused_kernels)


class Cpu(Namespace, path="cpu"):
    """The host: ``p.cpu()`` is the CPU time of threads and child processes."""

    __call__ = method(lambda: analysis.cpu)
    use = method(lambda: analysis.cpu_use)
    states = method(lambda: analysis.thread_time)
    waits = method(lambda: analysis.host_waits)


class Distributed(Namespace, path="distributed"):
    """Communication: ``p.distributed()`` divides steps into communication and computation."""

    __call__ = method(lambda: analysis.distributed)
    breakdown = method(lambda: analysis.breakdown)
    collectives = method(lambda: analysis.collectives)
    exposed = method(lambda: analysis.exposed_collectives)


class MindSpore(Namespace, path="mindspore"):
    """Folders of a MindSpore cluster, as MindInsight shows them."""

    cluster_steps = method(lambda: analysis.cluster_steps)
    cluster_links = method(lambda: analysis.cluster_links)
    cluster_advice = method(lambda: analysis.cluster_advice)


TOPICS: Final = (
    Operators,
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
        member.analysis: f"{topic.path}.{name}"
        for topic in TOPICS
        for name, member in vars(topic).items()
        if isinstance(member, Method) and name != "__call__"
    }
)
