"""What formats add to the rest of the package, by name: ours from a table, others from entry points.

The table is all that the core knows about `notebook_prof.formats`. Other packages register theirs as entry
points in the groups ``notebook_prof.readers``, ``.analyses``, ``.printers`` and ``.tabs``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, Final

from .errors import OptionError

OURS: Final[Mapping[str, Mapping[str, str]]] = {
    "readers": {
        "collapsed": "formats.python_profilers:CollapsedReader",
        "execution_trace": "formats.torch:ExecutionTraceReader",
        "gecko": "formats.gecko:GeckoReader",
        "jax": "formats.jax:JaxReader",
        "kineto": "readers.kineto:KinetoReader",
        "megengine": "formats.megengine:MegEngineReader",
        "memray": "formats.memray:MemrayReader",
        "mindspore": "formats.mindspore:MindSporeReader",
        "native": "readers.native:NativeReader",
        "nsys": "formats.nsys:NsysReader",
        "paddle": "formats.paddle:PaddleReader",
        "perfetto": "formats.perfetto:PerfettoReader",
        "pprof": "formats.python_profilers:PprofReader",
        "proton": "formats.proton:ProtonReader",
        "pstats": "formats.python_profilers:PstatsReader",
        "pyinstrument": "formats.python_profilers:PyinstrumentReader",
        "rocm": "formats.rocm:RocmReader",
        "rocm_csv": "formats.rocm:RocmCsvReader",
        "scalene": "formats.python_profilers:ScaleneReader",
        "speedscope": "formats.python_profilers:SpeedscopeReader",
        "tachyon_jsonl": "formats.python_profilers:TachyonJsonlReader",
        "torch_compile": "formats.torch:TorchCompileReader",
        "torch_memory": "formats.torch:TorchMemoryReader",
        "trace_event": "readers.trace_event:TraceEventReader",
        "viztracer": "formats.python_profilers:VizTracerReader",
    },
    "printers": {
        "torch_table": "formats.torch.table:torch_table",
        "paddle_summary": "formats.paddle.summary:paddle_summary",
        "paddle_timer": "formats.paddle.timer:paddle_timer",
        "megengine": "formats.megengine.ranking:ranked_calls",
    },
    "analyses": {
        f"mindspore.{name}": f"formats.mindspore.cluster:{name}"
        for name in ("cluster_steps", "cluster_links", "cluster_advice")
    },
    "formulas": {"paddle": "formats.paddle.work:paddle_formula"},
}
"""Module names are relative to `notebook_prof`."""


@cache
def points(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages register in a group, by name. The first call takes 10 ms."""
    return {point.name: point for point in entry_points(group=f"notebook_prof.{group}")}


def names(group: str) -> list[str]:
    """Return all names in a group, ours first. Raises OptionError if a package registers a taken name."""
    ours, others = OURS.get(group, {}), points(group)
    if twice := sorted(ours.keys() & others.keys()):
        raise OptionError(f"two {group} have the name {twice[0]}; uninstall one of the packages")
    return [*ours, *others]


def load(group: str, name: str) -> Any:
    """Import the object registered under a name."""
    if (target := OURS.get(group, {}).get(name)) is None:
        return points(group)[name].load()
    module, _, attribute = target.partition(":")
    return attrgetter(attribute)(importlib.import_module(f"{__package__}.{module}"))
