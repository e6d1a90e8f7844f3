"""Finds which operators and lines Inductor fused into which kernel, from its code and TorchDynamo's graphs.

This is read after the recording, so it costs nothing during it and covers functions that earlier cells
compiled. Inductor's modules name the graph nodes of most kernels in a comment. The compiled functions lead to
the graphs, whose nodes contain their lines.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

import pandas as pd

from ...background import checkpoint
from ...trace.builder import TraceBuilder
from ..python.assemble import OTHER_CELLS
from ..python.frames import CELL, USER, owner_of

FUSED_KERNELS: Final = "fused_kernels"
"""Name of the table in ``metadata["tables"]``."""

COLUMNS: Final = ("kernel", "operators", "backward", "file", "line", "text", "exact")

_MOST_MODULES: Final = 500
_LARGEST_BYTES: Final = 20_000_000
_COMPILED: Final = "__compiled_fn_"
_AOT_ID: Final = re.compile(r"^# AOT ID: \['(?P<number>\d+)_(?P<kind>\w+)'\]", re.MULTILINE)
_KERNEL: Final = re.compile(r"^(?P<kernel>\w+_fused_\w+) = async_compile\.", re.MULTILINE)
_SOURCE: Final = re.compile(
    r"# (?:Topologically Sorted|Unsorted) Source Nodes: \[(?P<nodes>[^\]\n]*)\], "
    r"Original ATen: \[(?P<aten>[^\]\n]*)\]\n(?:\s*#.*\n)*(?P<next>.*)"
)
_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in .*\n\s*(?P<text>.*)')
_CPP: Final = re.compile(r"cpp_fused_(?P<words>\w+?)_\d+")
_OPERATOR_OF: Final = {"iadd": "add", "isub": "sub", "imul": "mul", "truediv": "div", "itruediv": "div"}


class _GraphNode(NamedTuple):
    """A node of a TorchDynamo graph, with the user's line that made it."""

    operator: str
    file: str
    line: int
    text: str


_Graph = Mapping[str, _GraphNode]


class _Kernel(NamedTuple):
    """A fused kernel in Inductor's module; `nodes` is None if only its operators are known."""

    name: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...] | None


def put_fused_kernels(builder: TraceBuilder) -> None:
    """Add the table of fused kernels from all loaded Inductor modules."""
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    modules = [one for one in list(getattr(cache, "modules", ()))[-_MOST_MODULES:] if _is_readable(one)]
    if not modules:
        return
    cells = builder.metadata.get(OTHER_CELLS, {})
    graphs = {number: _graph(graph, cells) for number, graph in _graphs(list(sys.modules.values()))}
    operators, rows = operator_names(), []
    for one in modules:
        checkpoint()
        text = Path(str(one.__file__)).read_text(encoding="utf-8", errors="replace")
        rows += fused_rows(text, graphs, operators)
    if rows:
        builder.table(FUSED_KERNELS, pd.DataFrame(rows, columns=list(COLUMNS)).drop_duplicates(), times=())


def _is_readable(module: Any) -> bool:
    file = Path(str(getattr(module, "__file__", "")))
    return file.is_file() and file.stat().st_size <= _LARGEST_BYTES


def operator_names() -> frozenset[str]:
    """Return the names of PyTorch's operators, such as ``threshold_backward``."""
    torch: Any = sys.modules.get("torch")
    names = torch._C._dispatch_get_all_op_names() if torch is not None else ()
    return frozenset(name.partition("::")[2].partition(".")[0] for name in names if name.startswith("aten::"))


def fused_rows(text: str, graphs: Mapping[int, _Graph], operators: frozenset[str]) -> list[tuple[Any, ...]]:
    """Return the table's rows for the source of an Inductor module: one per kernel and line."""
    # A C++ kernel has no comment, but its name contains its operators. Graph nodes of these operators that
    # belong to no other call are its own if no other kernel has the operator; otherwise it is one of several
    # candidates (not `exact`). Nodes of a backward graph have other names, so their lines are unknown.
    aot = _AOT_ID.search(text)
    backward = aot is not None and aot["kind"] == "backward"
    kernels, elsewhere = _kernels(text, operators)
    named = {node for kernel in kernels for node in kernel.nodes or ()} | elsewhere
    graph = {} if backward else _graph_of(graphs, named, int(aot["number"]) if aot else -1)
    rows: list[tuple[Any, ...]] = []
    made_by = [{word.strip("_") for word in kernel.operators} for kernel in kernels]
    makers = Counter(
        word for kernel, made in zip(kernels, made_by, strict=True) if kernel.nodes is None for word in made
    )
    for kernel, made in zip(kernels, made_by, strict=True):
        lines: dict[tuple[str, int, str], bool] = {}
        for name, node in graph.items():
            by_comment = kernel.nodes is not None and name in kernel.nodes
            by_operator = kernel.nodes is None and name not in named and node.operator in made
            if node.line and (by_comment or by_operator):
                key = (node.file, node.line, node.text)
                lines[key] = lines.get(key, False) or by_comment or makers[node.operator] == 1
        whole = ", ".join(kernel.operators)
        places = sorted(lines.items()) or [(("", 0, ""), kernel.nodes is not None)]
        rows += [(kernel.name, whole, backward, *where, exact) for where, exact in places]
    return rows


def _kernels(text: str, operators: frozenset[str]) -> tuple[list[_Kernel], set[str]]:
    """Return the kernels of a module, and the nodes that belong to calls of other kernels."""
    commented: dict[str, _Kernel] = {}
    elsewhere: set[str] = set()
    for match in _SOURCE.finditer(text):
        nodes = tuple(filter(None, match["nodes"].split(", ")))
        made = tuple(filter(None, (name.removeprefix("aten.") for name in match["aten"].split(", "))))
        if kernel := _KERNEL.match(match["next"]):
            commented[kernel["kernel"]] = _Kernel(kernel["kernel"], made, nodes)
        elif "_fused_" not in match["next"] and "stream" not in match["next"]:
            elsewhere.update(nodes)
    names = dict.fromkeys(match["kernel"] for match in _KERNEL.finditer(text))
    return [commented.get(name) or _Kernel(name, _words(name, operators), None) for name in names], elsewhere


def _words(kernel: str, operators: frozenset[str]) -> tuple[str, ...]:
    """Split the name of a C++ kernel into operators, longest match first.

    >>> _words("cpp_fused_add_threshold_backward_0", frozenset({"add", "threshold", "threshold_backward"}))
    ('add', 'threshold_backward')
    """
    if not (match := _CPP.fullmatch(kernel)):
        return ()
    words, result = match["words"].split("_"), []
    while words:
        size = next((n for n in range(len(words), 0, -1) if "_".join(words[:n]) in operators), 1)
        result.append("_".join(words[:size]))
        words = words[size:]
    return tuple(filter(None, result))


def _graph_of(graphs: Mapping[int, _Graph], nodes: Iterable[str], number: int) -> _Graph:
    """Return the graph with all of the nodes, if it is unique or has the same number; otherwise none."""
    names = set(nodes)
    fitting = [key for key, graph in graphs.items() if names <= graph.keys()]
    if len(fitting) != 1:  # TorchDynamo counts from 1, AOTAutograd from 0
        fitting = [key for key in fitting if key == number + 1]
    return graphs[fitting[0]] if fitting else {}


def _graphs(modules: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield TorchDynamo's graphs with their numbers, found through methods of compiled functions."""
    for module in modules:
        checkpoint()
        if not isinstance(module, ModuleType):
            continue
        for name, function in list(vars(module).items()):
            if type(name) is not str or not name.startswith(_COMPILED) or type(function) is not FunctionType:
                continue
            number = name.removeprefix(_COMPILED).partition("_")[0]
            for method in vars(function).values():
                owner = method.__self__ if type(method) is MethodType else None
                graph = getattr(owner, "__dict__", {}).get("_graph")
                if graph is not None and number.isdigit():
                    yield int(number), graph
                    break


def _graph(graph: Any, cells: Mapping[str, str]) -> dict[str, _GraphNode]:
    """Return the calls of a graph, each with its innermost line of user code."""
    nodes = {}
    for node in graph.nodes:
        if node.op not in ("call_function", "call_method", "call_module"):
            continue
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        operator = _OPERATOR_OF.get(target, target.rstrip("_") if not target.endswith("__") else target)
        frames = _FRAME.finditer(node.stack_trace or "")
        own = [match for match in frames if owner_of(match["file"]) in (CELL, USER)]
        file = own[-1]["file"] if own else ""
        short = cells.get(file, "cell") if file and owner_of(file) == CELL else file
        line, text = (int(own[-1]["line"]), own[-1]["text"].strip()) if own else (0, "")
        nodes[node.name] = _GraphNode(operator, short, line, text)
    return nodes
