"""Published figures of training: tokens and samples per second, MFU, HFU, joules per step and token."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...errors import OptionError
from ...statistics import counted_steps, dependence, quantile_interval
from ...trace import Trace, inherit
from ...trace.arrays import FloatArray
from ...trace.schema import Table
from ...units import format_items
from ..device.roofline import ceilings_of
from ..grouping import with_ancestors
from ..scope import ints, matching_codes, of_kind, recorded_table
from .slices import SliceWork, slice_work

_EMBEDDING: Final = "aten::embedding"
_CONVOLUTIONS: Final = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_LINEAR: Final = "aten::linear"
_FIRST: Final = (_EMBEDDING, *_CONVOLUTIONS, _LINEAR)
"""Operators that models run first; their inputs show the batch."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of steps (NaN if unknown), its source, or the reason why it is unknown."""

    values: FloatArray
    source: str
    reason: str = ""

    def per(self, other: Quantity) -> Quantity:
        """Return this quantity divided by another, step by step."""
        reason = self.reason or other.reason
        source = "" if reason else f"{self.source}; {other.source}"
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = self.values / other.values
        return Quantity(np.where(np.isfinite(quotient), quotient, np.nan), source, reason)


def step_counts(trace: Trace, steps: pd.DataFrame, what: str) -> Quantity:
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
        return Quantity(values, f"nbp.step({what}=…)")
    return _by_shapes(trace, begin, until, what)


def _by_shapes(trace: Trace, begin: FloatArray, until: FloatArray, what: str) -> Quantity:
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
        return Quantity(unknown, "", f"{what_lacks}: {advice}")
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
        return Quantity(unknown, "", f"the shapes of {operator} do not give the {what}: {advice}")
    return Quantity(values, f"shapes of {words[name[first[0]]]}")


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


TRAINING: Final = Table.of(
    "training", "quantity:str value:float64 lower:float64 upper:float64 unit:str source:str reason:str"
)
_FORWARD_ONLY: Final = (
    "aten::linear", "aten::matmul", "aten::conv1d", "aten::conv2d", "aten::conv3d",
    "aten::scaled_dot_product_attention",
)  # fmt: skip
"""Operators that autograd decomposes, so that the backward pass runs them only in recomputation."""


def training(
    trace: Trace,
    *,
    tokens: float | Sequence[float] | None = None,
    samples: float | Sequence[float] | None = None,
    flops_per_s: float | None = None,
) -> pd.DataFrame:
    """Compute the published figures of training, with intervals, or the reason why one is unknown.

    Parameters
    ----------
    tokens, samples : number or sequence of them, optional
        Number per step; a sequence has a number for each counted step (without warm-up and partial steps).
        Default: the arguments of ``nbp.step(tokens=…, samples=…)``, or else the shapes of the model's first
        operator.
    flops_per_s : float, optional
        The device's limit. Default: the result of `measure_device`.

    Returns
    -------
    DataFrame
        ``quantity value lower upper unit source reason``, always the same rows in this order:

        - ``step_time`` s; ``samples_per_s``, ``tokens_per_s``;
        - ``model_flops``, ``hardware_flops`` per step: of forward and backward pass and optimizer, without
          and with recomputation in the backward pass (activation checkpointing);
        - ``mfu``, ``hfu``: these divided by the step's time and the limit of all devices that worked;
        - ``device_joules_per_step``, ``joules_per_sample``, ``joules_per_token``: of the devices, by NVML.

        `value` is the median of the steps that count (without warm-up and steps that were cut), `lower` and
        `upper` its 95 % interval by order statistics. Energy is a mean, without an interval.

    Raises
    ------
    OptionError
        If `tokens`, `samples` or `flops_per_s` is not positive, or a sequence does not have one number for
        each step.

    Notes
    -----
    FLOPs are counted from shapes, as in `operator_work`: matrix products, convolutions, attention, and
    elementwise work. Papers count 6 FLOPs per parameter and token, without elementwise work. MFU and HFU:
    Chowdhery et al., *PaLM*, 2022, appendix B.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> b.steps(range(4), [0, 100, 200, 300], [100] * 4, "mark")
    >>> _ = b.slices(ts=0, dur=400, name="train", track=b.track("main"))
    >>> table = training(b.seal(), samples=8).set_index("quantity")
    >>> float(table.loc["samples_per_s", "value"])
    80000000.0
    >>> table.loc["mfu", "reason"]
    'no operator whose work is known was recorded with shapes: record with shapes=True'
    """
    steps = counted_steps(trace)
    steps = steps[steps["used"]].reset_index(drop=True)
    seconds = Quantity(steps["dur_ns"].to_numpy(np.float64) / 1e9, "steps")
    one_each = {
        "samples": _counts(trace, steps, "samples", samples),
        "tokens": _counts(trace, steps, "tokens", tokens),
    }
    model, hardware = _flops(trace, steps)
    peak = _peak(trace, steps, flops_per_s)
    joules = _joules(trace, steps)
    rows = [
        ("step_time", seconds, "s"),
        *((f"{what}_per_s", each.per(seconds), f"{what}/s") for what, each in one_each.items()),
        ("model_flops", model, "FLOP/step"),
        ("hardware_flops", hardware, "FLOP/step"),
        ("mfu", model.per(seconds).per(peak), "1"),
        ("hfu", hardware.per(seconds).per(peak), "1"),
        ("device_joules_per_step", joules, "J/step"),
        *((f"joules_per_{what[:-1]}", joules.per(each), f"J/{what[:-1]}") for what, each in one_each.items()),
    ]
    return TRAINING.of_tuples([_row(*row) for row in rows])


def _row(name: str, quantity: Quantity, unit: str) -> tuple[Any, ...]:
    nothing = float("nan")
    values = quantity.values[np.isfinite(quantity.values)]
    if quantity.reason or not len(values):
        return (name, nothing, nothing, nothing, unit, "", quantity.reason or "no step has it")
    lower, upper = nothing, nothing
    if "joules" not in name:  # energy is a mean over the steps, without an interval
        lower, upper = quantile_interval(values, 0.5, dependence(values))
    ends = (end if math.isfinite(end) else nothing for end in (lower, upper))
    return (name, float(np.median(values)), *ends, unit, quantity.source, "")


def _counts(trace: Trace, steps: pd.DataFrame, what: str, count: Any) -> Quantity:
    if count is None:
        return step_counts(trace, steps, what)
    values = np.asarray(count, dtype=np.float64) if _are_numbers(count) else np.array([np.nan])
    if values.ndim > 1 or not (np.isfinite(values) & (values > 0)).all():
        raise OptionError(f"{what}={count!r} must be a positive number of {what}, or one for each step")
    if values.ndim and len(values) != len(steps):
        raise OptionError(
            f"{what}= has {len(values)} numbers, but {len(steps)} steps count: {steps['step'].tolist()}"
        )
    return Quantity(np.broadcast_to(values, len(steps)), f"{what}=")


def _are_numbers(value: Any) -> bool:
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str | bool)


def _flops(trace: Trace, steps: pd.DataFrame) -> tuple[Quantity, Quantity]:
    """Return the FLOPs of each step, without and with recomputation in the backward pass."""
    work = slice_work(trace)
    rows = np.flatnonzero(work.outermost)
    reason = _heavy_work_unknown(trace, work)
    if not len(rows):
        reason = "no operator whose work is known was recorded with shapes: record with shapes=True"
    if reason:
        nothing = Quantity(np.full(len(steps), np.nan), "", reason)
        return nothing, nothing
    begin = steps["ts"].to_numpy(np.int64)
    number = ints(trace.slices["step"])[rows]
    if len(trace.steps):
        at = np.minimum(np.searchsorted(steps["step"], number), len(steps) - 1)
        inside = steps["step"].to_numpy()[at] == number
    else:
        at, inside = np.zeros(len(rows), np.int64), np.ones(len(rows), bool)
    anew = _computed_anew(trace)[rows]

    def total(keep: Any) -> FloatArray:
        flops = np.bincount(at[inside & keep], work.flops[rows][inside & keep], minlength=len(begin))
        return np.asarray(flops, dtype=np.float64)

    source = "shapes of operators"
    return Quantity(total(~anew), source), Quantity(total(np.ones(len(rows), bool)), source)


_HEAVY: Final = re.compile(
    r"aten::(?:\w*conv(?:olution|_|[123]d)\w*|\w*mm|\w*matmul\w*|(?:mkldnn_)?linear(?:_backward)?|\w*attention\w*)"
)
"""Operators with most of a model's FLOPs: if one of them cannot be counted, every sum is wrong."""


def _heavy_work_unknown(trace: Trace, work: SliceWork) -> str:
    """Name the matrix products, convolutions or attentions that cannot be counted; empty if all can."""
    slices = trace.slices
    words = [_HEAVY.fullmatch(str(word)) is not None for word in slices["name"].cat.categories]
    heavy = matching_codes(slices["name"].array.codes, words) & (work.kind < 0)
    parent = ints(slices["parent"])
    inside = inherit(parent, np.where(work.kind >= 0, 0, -1)) >= 0  # at or inside known work
    above = np.zeros(len(heavy), bool)
    around = parent[work.outermost]
    above[with_ancestors(parent, around[around >= 0])] = True
    rows = np.flatnonzero(heavy & ~above & ~inside)
    rows = rows[~heavy[parent[rows]] | (parent[rows] < 0)]
    if not len(rows):
        return ""
    return (
        f"the work of {format_items(len(rows), 'call')}, such as {slices['name'].iloc[rows[0]]}, is unknown: "
        "shapes, or arguments such as strides, were not recorded"
    )


def _computed_anew(trace: Trace) -> Any:
    """Return a mask of slices that are, or are in, operators that the backward pass alone would not run."""
    slices = trace.slices
    anew = (slices["name"].isin(_FORWARD_ONLY) & (slices["phase"] == "backward")).to_numpy()
    return inherit(ints(slices["parent"]), np.where(anew, 0, -1)) >= 0


def _peak(trace: Trace, steps: pd.DataFrame, flops_per_s: float | None) -> Quantity:
    """Return the FLOPs per second that all devices with work could reach."""
    on_device = trace.slices.loc[(trace.slices["category"] == "kernel").to_numpy(), "device"]
    count = max(int(on_device.dropna().nunique()), 1)
    if flops_per_s is not None:
        if not (_are_numbers(flops_per_s) and flops_per_s > 0 and math.isfinite(flops_per_s)):
            raise OptionError(
                f"flops_per_s={flops_per_s!r} must be a positive number: 989e12 for an H100's bfloat16, say"
            )
        return Quantity(np.full(len(steps), flops_per_s * count), "flops_per_s=")
    if (ceilings := ceilings_of(trace)) is None:
        reason = (
            "the device's limit is unknown: call nbp.measure_device() on its machine, or give flops_per_s="
        )
        return Quantity(np.full(len(steps), np.nan), "", reason)
    source = f"measured: {ceilings.dtype}, {ceilings.how}"
    return Quantity(np.full(len(steps), ceilings.flops_per_s * count), source)


_ENERGY: Final = r"GPU \d+ (energy|power)"


def _joules(trace: Trace, steps: pd.DataFrame) -> Quantity:
    """Return the energy of a step: the mean power while steps ran, times their mean length."""
    # With fewer than two readings during the steps, use the mean power of the whole recording.
    tracks = trace.tracks[(trace.tracks["kind"] == "counter").to_numpy()]
    tracks = tracks[tracks["name"].astype(str).str.fullmatch(_ENERGY)]
    watts: dict[str, float] = {}
    begin, until = int(steps["ts"].min()), int((steps["ts"] + steps["dur_ns"]).max())
    inside = (trace.counters["ts"] >= begin) & (trace.counters["ts"] <= until)
    for name, key in sorted(zip(tracks["name"].astype(str), tracks["track"], strict=True)):
        own = trace.counters[trace.counters["track"] == key]
        own = own[inside[own.index]] if inside[own.index].sum() > 1 else own
        if len(own) < 2:
            continue
        ts, value = own["ts"].to_numpy(np.int64), own["value"].to_numpy(np.float64)
        if name.endswith("energy"):
            mean = float((value[-1] - value[0]) / ((ts[-1] - ts[0]) / 1e9))
        else:
            mean = float(np.sum((value[1:] + value[:-1]) / 2 * np.diff(ts)) / (ts[-1] - ts[0]))
        if math.isfinite(mean):
            watts.setdefault(name.rpartition(" ")[0], mean)  # names are sorted: energy wins over power
    count = len(steps)
    if not watts:
        reason = "no counter of a GPU's energy or power was recorded"
        if len(tracks):
            reason = "fewer than two readings of energy are in the steps: record more"
        return Quantity(np.full(count, np.nan), "", reason)
    mean_seconds = float(steps["dur_ns"].mean()) / 1e9
    return Quantity(np.full(count, sum(watts.values()) * mean_seconds), f"readings of {', '.join(watts)}")
