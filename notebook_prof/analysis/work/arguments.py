"""The distinct arguments of operators, with the time of their calls, and the updates by optimizer steps."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...trace import Trace, union
from ...trace.arrays import IntArray, number_rows
from ...trace.intervals import contains
from ...trace.schema import Table
from ..scope import Texts, WindowLike, many, on_host, recorded_table
from ..time.operators import operators

ARGUMENTS: Final = Table.of(
    "operator_arguments",
    "name:str shapes:str dtypes:str strides:str concrete:str count:int64 total_ns:int64 device_ns:int64",
)


def operator_arguments(trace: Trace, *, name: Texts = None, window: WindowLike = None) -> pd.DataFrame:
    """List the distinct arguments of PyTorch's operators, with the time of their calls.

    Parameters
    ----------
    name : str or iterable of str, optional
        Keep only these operators.
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        By `total_ns` and `device_ns`, longest first; empty if no shapes were recorded.

        - ``name``, ``shapes`` str: shapes as in `operators`;
        - ``dtypes`` str: a JSON list of C++ element types, one entry per argument;
        - ``strides`` str: a JSON list, of one of these calls;
        - ``concrete`` str: a JSON list, as text, of the arguments that are not tensors. Convolutions, pooling
          and attention have a row for each such list; other operators have that of one call. These three are
          empty if not recorded;
        - ``count``, ``total_ns``, ``device_ns`` int64: as in ``operators(by=["name", "shapes"])``. Rows that
          share name and shapes divide that figure in proportion to their number of calls, so they sum to it.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=0, dur=9, name="aten::mm", shapes="[[2, 3], [3, 4]]", track=b.track("main"))
    >>> row = operator_arguments(b.seal()).iloc[0]
    >>> row["shapes"], row["dtypes"], int(row["total_ns"])
    ('[[2, 3], [3, 4]]', '', 9)
    """
    times = operators(trace, by=["name", "shapes"], name=name, window=window)
    times = times[["name", "shapes", "count", "total_ns", "device_ns"]].astype(
        {"name": str, "shapes": object}
    )
    times = times[times["shapes"].notna()]
    recorded = recorded_table(trace, "operator_arguments")
    if recorded is None:
        recorded = pd.DataFrame({"name": [], "shapes": []}, dtype=object)
    recorded = recorded[recorded["name"].isin(many(name))] if name is not None else recorded
    recorded = recorded.rename(columns={"count": "weight"}).astype({"name": str, "shapes": object})
    rows = times.merge(recorded, on=["name", "shapes"], how="left").reindex(
        columns=[*times.columns, "dtypes", "strides", "concrete", "weight"]
    )
    weight = rows["weight"].fillna(1).astype("int64")
    group, _ = number_rows(rows["name"], rows["shapes"])
    for column in ("count", "total_ns", "device_ns"):
        rows[column] = _divided(rows[column], weight, group)
    texts = ["dtypes", "strides", "concrete"]
    rows[texts] = rows[texts].astype(object).where(rows[texts].notna(), "")
    rows["longest"] = rows["total_ns"] + rows["device_ns"]
    rows = rows.sort_values("longest", ascending=False, kind="stable")
    return ARGUMENTS.frame({column: rows[column].tolist() for column in ARGUMENTS.names})


def _divided(total: pd.Series[int], weight: pd.Series[int], group: IntArray) -> pd.Series[int]:
    """Divide the total of each group among its rows by weight, in whole units that sum to it exactly."""
    by_group = weight.groupby(group)
    until = np.floor(total * (by_group.cumsum() / by_group.transform("sum"))).astype("int64")
    return until - until.groupby(group).shift(fill_value=0)


OPTIMIZER_STEP: Final = re.compile(r"Optimizer\.step#(?P<optimizer>\w+)\.step")
"""Pattern of the ranges that PyTorch records around an optimizer's step."""
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
            f"replay cannot find the parameters of {name}: there are steps of {', '.join(sorted(others))}"
        )
    host = on_host(trace)
    steps = host.only(host.among("name", (name,)))
    gradients = operator_arguments(trace, name=_GRADIENT)
    times = gradients["count"].to_numpy(np.int64)
    count = len(steps.rows)
    if not len(times) or (times % count).any() or times.min() > count:
        raise OptionError(
            f"replay cannot find the parameters of {name}: {count} steps and "
            f"{', '.join(map(str, times.tolist())) or 'no'} gradients by shape do not match, as if they are "
            "summed over several backward passes; record whole steps, with --shapes"
        )
    per_step = times // count
    shapes = [ast.literal_eval(text)[0] for text in gradients["shapes"]]
    inside = contains(union(steps.ts, steps.end), trace.slices["ts"].to_numpy(np.int64))
    ran = [str(one) for one in trace.slices["name"][inside].astype(str).unique()]
    # parameters were updated by a single fused operator, in lists, or one by one
    way = next((way for way in ("fused", "foreach") if any(f"::_{way}_" in one for one in ran)), "for-loop")
    dtypes = [json.loads(text)[0] if text else "float" for text in gradients["dtypes"]]
    return OptimizerSteps(
        match["optimizer"],
        [list(shape) for shape, often in zip(shapes, per_step.tolist(), strict=True) for _ in range(often)],
        [dtype for dtype, often in zip(dtypes, per_step.tolist(), strict=True) for _ in range(often)],
        way,
        count,
    )
