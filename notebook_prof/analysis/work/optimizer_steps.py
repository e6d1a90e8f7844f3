"""Updates by optimizer steps: the parameters with gradients, and how PyTorch updated them."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...errors import OptionError
from ...trace import Trace
from ..scope import on_host
from .arguments import operator_arguments

OPTIMIZER_STEP: Final = re.compile(r"Optimizer\.step#(?P<optimizer>\w+)\.step")
"""Pattern of the ranges that PyTorch draws around an optimizer's step."""
_GRADIENT: Final = "torch::autograd::AccumulateGrad"


@dataclass(frozen=True)
class OptimizerSteps:
    """Steps of one optimizer: its class in ``torch.optim``, the shapes and C++ types of its parameters."""

    optimizer: str
    shapes: list[list[int]]
    dtypes: list[str]
    way: str
    count: int


def optimizer_steps(trace: Trace, name: str) -> OptimizerSteps:
    """Return the steps of ranges called `name`, say ``Optimizer.step#Adam.step``; OptionError if unclear."""
    # Parameters are counted by their gradients: autograd accumulates one per parameter and step. This does
    # not work with several optimizers, or with gradients summed over several backward passes.
    match = OPTIMIZER_STEP.fullmatch(name)
    others = [str(one) for one in trace.slices["name"].cat.categories if OPTIMIZER_STEP.fullmatch(str(one))]
    if match is None or len(others) > 1:
        raise OptionError(
            f"replay cannot tell which parameters {name} has: there are steps of {', '.join(sorted(others))}"
        )
    host = on_host(trace)
    steps = host.only(host.among("name", (name,)))
    gradients = operator_arguments(trace, name=_GRADIENT)
    times = gradients["count"].to_numpy(np.int64)
    count = len(steps.rows)
    if not len(times) or (times % count).any() or times.min() > count:
        raise OptionError(
            f"replay cannot tell which parameters {name} has: {count} steps and "
            f"{', '.join(map(str, times.tolist())) or 'no'} gradients by shape do not fit, as where they are "
            "added up over several backward passes; record whole steps, with --shapes"
        )
    per_step = times // count
    shapes = [ast.literal_eval(text)[0] for text in gradients["shapes"]]
    dtypes = [json.loads(text)[0] if text else "float" for text in gradients["dtypes"]]
    return OptimizerSteps(
        match["optimizer"],
        [list(shape) for shape, often in zip(shapes, per_step.tolist(), strict=True) for _ in range(often)],
        [dtype for dtype, often in zip(dtypes, per_step.tolist(), strict=True) for _ in range(often)],
        _way(trace, steps.ts, steps.end),
        count,
    )


def _way(trace: Trace, begins: np.ndarray, ends: np.ndarray) -> str:
    """Return how parameters were updated: one by one, in lists, or by a single fused operator."""
    slices = trace.slices
    words = [str(one) for one in slices["name"].cat.categories]
    ts, code = slices["ts"].to_numpy(np.int64), slices["name"].cat.codes.to_numpy()
    order = np.argsort(begins)
    at = np.searchsorted(begins[order], ts, side="right") - 1
    inside = (at >= 0) & (ts < np.append(ends[order], 0)[at])
    names = [words[one] for one in np.unique(code[inside]) if one >= 0]
    for way in ("fused", "foreach"):
        if any(f"::_{way}_" in one for one in names):
            return way
    return "for-loop"
