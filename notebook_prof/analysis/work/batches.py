"""Tokens and samples of a step: given, or derived from the shapes of its first operator."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import FloatArray
from ..scope import ints, of_kind, recorded_table

_EMBEDDING: Final = "aten::embedding"
_CONVOLUTIONS: Final = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_LINEAR: Final = "aten::linear"
_FIRST: Final = (_EMBEDDING, *_CONVOLUTIONS, _LINEAR)
"""Operators that models run first; their inputs show the batch."""


class Counts(NamedTuple):
    """Tokens or samples of steps (NaN if unknown), their source, or the reason why they are unknown."""

    values: FloatArray
    source: str
    reason: str


def step_counts(trace: Trace, steps: pd.DataFrame, what: str) -> Counts:
    """Count the ``tokens`` or the ``samples`` of each step."""
    # ``nbp.step(tokens=…, samples=…)`` comes first. Otherwise use the shapes of the first operator of the
    # forward pass. The indices of an embedding have the shape ``(samples, length)``, with a token each; the
    # input of a convolution is ``(samples, channels, …)``; that of a linear layer is ``(samples, …)`` with at
    # most three dimensions, the middle one being the length. Because of gradient accumulation, all calls in
    # the step with weights of the same shape count; of a linear layer, only the first.
    begin = steps["ts"].to_numpy(np.int64)
    until = begin + steps["dur_ns"].to_numpy(np.int64)
    marked = recorded_table(trace, "step_counts")
    if marked is not None and marked[what].notna().any():
        at = np.searchsorted(begin, marked["ts"].to_numpy(np.int64), side="left") - 1
        inside = (at >= 0) & (marked["ts"].to_numpy(np.int64) <= until[np.maximum(at, 0)])
        values = np.full(len(steps), np.nan)
        values[at[inside]] = marked[what].to_numpy(np.float64)[inside]
        return Counts(values, f"nbp.step({what}=…)", "")
    return _by_shapes(trace, begin, until, what)


def _by_shapes(trace: Trace, begin: FloatArray, until: FloatArray, what: str) -> Counts:
    unknown = np.full(len(begin), np.nan)
    advice = f"give them, as in nbp.step({what}=…) or p.training({what}=…)"
    slices = trace.slices
    fits = slices["name"].isin(_FIRST) & (slices["phase"] == "forward") & slices["shapes"].notna()
    rows = np.flatnonzero(fits.to_numpy() & of_kind(trace, ("thread",)))
    at = np.searchsorted(begin, slices["ts"].to_numpy()[rows], side="right") - 1
    inside = (at >= 0) & (slices["ts"].to_numpy()[rows] < until[np.maximum(at, 0)])
    rows, at = rows[inside], at[inside]
    if not len(rows):
        what_lacks = "no embedding, convolution or linear layer with shapes was recorded"
        return Counts(unknown, "", f"{what_lacks}: {advice}")
    name, shape = (ints(slices[column].cat.codes)[rows] for column in ("name", "shapes"))
    words, texts = slices["name"].cat.categories, slices["shapes"].cat.categories
    kinds, code = np.unique(np.stack([name, shape], axis=1), axis=0, return_inverse=True)
    facts = [_facts(str(words[n]), str(texts[s])) for n, s in kinds.tolist()]
    number = np.array([fact[what] for fact in facts])[code.ravel()]
    weight = pd.factorize(pd.Series([fact["weight"] for fact in facts]))[0][code.ravel()]
    first = np.unique(at, return_index=True)[1]
    of_first = np.full(len(begin), -1)
    of_first[at[first]] = weight[first]
    counted = weight == of_first[at]
    if (linear := words[name[first]] == _LINEAR).any():
        only_first = np.zeros(len(rows), bool)
        only_first[first] = True
        counted &= only_first | ~np.isin(at, at[first][linear])
    values = np.bincount(at[counted], number[counted], minlength=len(begin)).astype(np.float64)
    values[of_first < 0] = np.nan
    if not np.isfinite(values).any():
        operator = str(words[name[first[0]]])
        return Counts(unknown, "", f"the shapes of {operator} do not give the {what}: {advice}")
    return Counts(values, f"shapes of {words[name[first[0]]]}", "")


def _facts(name: str, text: str) -> dict[str, Any]:
    """Return the counts that the shapes of one call show (NaN if unknown), and its weight's shape."""
    try:
        shapes = json.loads(text)
    except ValueError:
        shapes = []
    sizes = [
        size if isinstance(size, list) and all(isinstance(one, int) for one in size) else []
        for size in (*(shapes if isinstance(shapes, list) else []), [], [])[:2]
    ]
    weight, data = sizes if name == _EMBEDDING else sizes[::-1]
    samples = tokens = float("nan")
    if name == _EMBEDDING and len(data) == 2:
        samples, tokens = float(data[0]), float(data[0] * data[1])
    elif name == _EMBEDDING and len(data) == 1:
        tokens = float(data[0])
    elif name in _CONVOLUTIONS and len(data) == int(name[-2]) + 2:
        samples = float(data[0])
    elif name == _LINEAR and len(data) in (2, 3):
        samples = float(data[0])
        tokens = float(data[0] * data[1]) if len(data) == 3 else tokens
    return {"samples": samples, "tokens": tokens, "weight": f"{name} {weight}"}
