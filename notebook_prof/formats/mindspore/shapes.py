"""Shapes of operators: one spelling for the three in which MindSpore writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from ...trace.strings import Coded

# What MindSpore's names tell: ``Gradients/Default/network-Net/conv1-Conv2d/Conv2D-op93``.

_NUMBER: Final = re.compile(r"-op\d+$")
_GRADIENT: Final = re.compile(r"(?:grad[A-Z]\w*(?:-\w+)*|Grad_\w+|grad_\w+)")
_GRAPHS: Final = ("Gradients", "Default", "recompute_Default")
_FEEDING: Final = (
    "GetNext",
    "InitData",
    "EndOfSequence",
    "DynamicGetNext",
    "PullWeight",
)
_COLLECTIVE: Final = re.compile(
    r"(?:All(?:Reduce|Gather|toAll)\w*|ReduceScatter\w*|Broadcast|NeighborExchange\w*|Send|Receive|Recv|hcom_\w+"
    r"|Alltoall\w*|allreduce_\w+)(?:[-_]|$)"
)


class Parts(NamedTuple):
    """What one full name tells."""

    name: str  # its last part: the operator with its number
    type: str  # the operator without its number
    module: str  # dotted path of attributes; empty outside of any module
    phase: str | None  # None where the name does not tell


def split(full: str) -> Parts:
    """Take a full name apart: graph, scopes (``attribute-Class``) and operator with ``/`` between them.

    >>> split("Gradients/Default/network-WithLossCell/_backbone-Net/fc1-Dense/gradMatMul-expand/MatMul-op9")
    Parts(name='MatMul-op9', type='MatMul', module='network._backbone.fc1', phase='backward')
    """
    *scopes, name = full.split("/")
    backward = scopes[:1] == ["Gradients"]
    inner = [scope for scope in scopes if scope not in _GRAPHS and not _GRADIENT.fullmatch(scope)]
    attributes = [scope.partition("-")[0] for scope in inner]
    kind = _NUMBER.sub("", name)
    return Parts(name, kind, ".".join(filter(None, attributes)), _phase(kind, attributes, backward))


def is_collective(name: str) -> bool:
    """Return whether an operator moves data between ranks, by its own name.

    >>> is_collective("AllReduce-op534_0"), is_collective("ReduceSum-op1")
    (True, False)
    """
    return _COLLECTIVE.match(name) is not None


def distinct_parts(names: Sequence[str]) -> list[Parts]:
    """Do `split` for each of some distinct names."""
    return [split(name) for name in names]


def _phase(kind: str, attributes: list[str], backward: bool) -> str | None:
    if is_collective(kind):
        return "communication"
    if kind.startswith(_FEEDING):
        return "data"
    if any(attribute.startswith(("optimizer", "_optimizer")) for attribute in attributes):
        return "optimizer"
    if backward:
        return "backward"
    return "forward" if attributes else None


_INPUT: Final = re.compile(r"input_\d+:(\[[\d, -]*\]|NoShape)")
_DIMS: Final = re.compile(r"-?\d+")


def input_shapes(info: Any) -> str:
    """Return shapes of the inputs in the ``op_info`` of a framework file or the ``args`` of a timeline row.

    >>> input_shapes({"input_0": {"shape": "32,3,224,224"}, "input_1": {"shape": [1]}, "output_0": {}})
    '[[32, 3, 224, 224], [1]]'
    """
    if not isinstance(info, dict):
        return ""
    shapes = []
    for key, value in info.items():
        if str(key).startswith("input_") and isinstance(value, dict):
            shapes.append("[" + ", ".join(_DIMS.findall(str(value.get("shape", "")))) + "]")
    return "[" + ", ".join(shapes) + "]" if shapes else ""


def executed_shapes(data: bytes, name: list[str], ts: IntArray, report: ImportReport) -> Coded:
    """Return shapes of executions on the host from ``cpu_framework_<id>.txt``; code -1 where unknown."""
    # A line is `type;name;graph;input_1:[16, 3];input_2:NoShape;`, in the order in which they ran: the n-th
    # line of a name belongs to its n-th execution. Inputs without a shape are `[]`.
    lines = pd.Series(data.decode(errors="replace").splitlines(), dtype="object")
    parts = lines.str.split(";", n=3, expand=True)
    if len(lines) == 0 or parts.shape[1] < 4:
        return Coded(np.full(len(ts), -1), [])
    codes, texts = pd.factorize(parts[3].fillna(""))
    spelled = ["[" + ", ".join(_spell(match) for match in _INPUT.findall(text)) + "]" for text in texts]
    executions = pd.DataFrame({"name": parts[1], "nth": parts.groupby(1).cumcount(), "code": codes})
    run = pd.DataFrame({"name": pd.Series(name, dtype="object"), "ts": ts}).sort_values("ts", kind="stable")
    run["nth"] = run.groupby("name").cumcount()
    merged = run.reset_index().merge(executions, on=["name", "nth"], how="left").set_index("index")
    shape_code = merged["code"].reindex(range(len(ts))).fillna(-1).to_numpy(np.int64)
    report.add("shapes-missing", "info", int((shape_code < 0).sum()), effect="these operators have no shapes")
    return Coded(shape_code, spelled)


def _spell(text: str) -> str:
    return "[]" if text == "NoShape" else "[" + ", ".join(_DIMS.findall(text)) + "]"
