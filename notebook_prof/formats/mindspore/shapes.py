"""Shapes of operators: one spelling for the three in which MindSpore writes them."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from ...trace.strings import Coded

_INPUT: Final = re.compile(r"input_\d+:(\[[\d, -]*\]|NoShape)")
_DIMS: Final = re.compile(r"-?\d+")


def input_shapes(info: Any) -> str:
    """Return shapes of the inputs in the ``op_info`` of a framework file or the ``args`` of a timeline row.

    Examples
    --------
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
    """Return shapes of executions on the host.

    The file has one line an execution, ``type;name;graph;input_1:[16, 3];input_2:NoShape;``, in the order in
    which they ran; the n-th line of a name belongs to the n-th execution of it.

    Parameters
    ----------
    data : bytes
        ``cpu_framework_<id>.txt``.
    name : list of str, length n
        Short name of every execution.
    ts : ndarray of int64, shape (n,)
    report : ImportReport
        Told about executions without a line (``shapes-missing``).

    Returns
    -------
    Coded
        Code -1 where nothing is known; inputs without a shape are ``[]``.
    """
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
