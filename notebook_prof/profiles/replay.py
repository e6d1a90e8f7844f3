"""``p.replay``: run an operator on its own, as recorded and in other ways, and estimate how much a step would
gain."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from .. import analysis
from ..analysis.work.arguments import ARGUMENTS, OPTIMIZER_STEP, optimizer_steps
from ..errors import NotRecordedError, OptionError, nearest
from ..statistics import FloatArray, shift_of_runs
from ..trace import Trace
from ..trace.schema import Column, Table
from ..units import format_items, format_ns, format_share

TRIES: Final = Table(
    "replay",
    (
        Column("try", "str", "", ""),
        Column("before_ns", "Int64", "ns", "geometric mean of a call as recorded; missing if not tried"),
        Column("after_ns", "Int64", "ns", "geometric mean of a call with this try"),
        Column("change", "float64", "1", "relative change of the call's time: -0.2 is 20 % less"),
        Column("low", "float64", "1", "lower end of its 95 % interval"),
        Column("high", "float64", "1", "upper end"),
        Column("significant", "bool", "", "whether the interval excludes 0"),
        Column("difference", "float64", "", "largest difference between the results' elements"),
        Column("relative", "float64", "1", "the same, relative to the largest element as recorded"),
        Column("ready_ns", "int64", "ns", "one-time conversion of inputs or compilation; not in the times"),
        Column("gain_ns", "Int64", "ns", "time that a step would gain, by `what_if`; missing if unknown"),
        Column("lower_ns", "Int64", "ns", "the gain at the less favourable end of the interval"),
        Column("upper_ns", "Int64", "ns", "the gain at the other end"),
        Column("reason", "str", "", "why it was not tried, or its gain is unknown; otherwise empty"),
    ),
)
MEMORY: Final = 2 << 30
_CALLS: Final = 4
_OTHER: Final = 0.05
"""Relative difference above which results of the same type are wrong or random."""
_DTYPES: Final = ("bf16", "fp16", "fp32", "fp64")
_FACTOR: Final = 3.0
"""Calls whose time alone differs from the recorded time by more do not represent the recording."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """Durations of an operator run on its own, as recorded and in other ways.

    Attributes
    ----------
    operator : str
    tries : DataFrame
        One row per try, in the given order. The columns are those of `profiles.replay.TRIES`.
    calls : DataFrame
        Rows of ``p.operators.arguments(name=operator)``, with ``replayed`` bool.
    alone_ns, recorded_ns : int
        Mean duration of a replayed call: on its own, and in the recording.
    covered : float
        Share of the operator's recorded time that belongs to the replayed calls.
    rounds : int
    device : str
        ``cpu`` or ``cuda``.
    """

    operator: str
    tries: pd.DataFrame
    calls: pd.DataFrame
    alone_ns: int
    recorded_ns: int
    covered: float
    rounds: int
    device: str
    steps: bool = field(default=True, repr=False)

    def __str__(self) -> str:
        return "\n".join([self._head, *map(self._sentence, self.tries.to_dict("records"))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in str(self).splitlines())

    @property
    def _head(self) -> str:
        share = f"{format_share(self.covered)} of its time"
        text = (
            f"{self.operator}: {format_items(int(self.calls['replayed'].sum()), 'kind')} of calls replayed "
            f"({share}), {format_items(self.rounds, 'round')} in turns. A call takes "
            f"{format_ns(self.alone_ns)} alone, and took {format_ns(self.recorded_ns)} in the recording"
        )
        if self.device != "cpu":
            return f"{text} on its thread and the device."
        if not _alike(self.alone_ns, self.recorded_ns):
            text += ": the machine, or other load on it, was different"
        return f"{text}."

    def _sentence(self, row: dict[str, Any]) -> str:
        name = str(row["try"])
        if pd.isna(row["after_ns"]):
            return f"{name}: not tried: {row['reason']}."
        interval = f"{_percent(row['low'])} … {_percent(row['high'])}"
        times = f"{format_ns(row['before_ns'])} → {format_ns(row['after_ns'])}"
        text = f"{name}: {times} a call, {_percent(row['change'])} ({interval})"
        if not row["significant"]:
            text = f"{name}: ≈ {times} a call, no change is shown ({interval})"
        text += f"; results differ by {row['relative']:.2g} of the largest"
        if not pd.isna(row["gain_ns"]):
            where = "a step" if self.steps else "in all"
            verb = "worth" if row["gain_ns"] >= 0 else "it costs"
            ends = sorted(abs(row[end]) for end in ("lower_ns", "upper_ns"))
            low, high = map(format_ns, ends)
            text += f"; {verb} {format_ns(abs(row['gain_ns']))} {where} ({low} … {high})"
        elif row["reason"]:
            text += f"; {row['reason']}"
        return f"{text}."


def replay(
    trace: Trace,
    operator: str,
    tries: str | Sequence[str],
    *,
    calls: int = _CALLS,
    seconds: float = 5.0,
    memory: int = MEMORY,
) -> Replayed:
    """Run a PyTorch operator on its own, as recorded and with each try, in this process.

    Parameters
    ----------
    trace : Trace
    operator : str
        For example ``aten::convolution_backward``, or ``Optimizer.step#Adam.step`` for a step of an
        optimizer.
    tries : str or sequence of str
        ``channels_last``, ``contiguous``: layout of the inputs; ``bf16 fp16 fp32 fp64``: their element type;
        ``threads=1,2``: numbers of host threads, each a try of its own; ``compile``: with ``torch.compile``;
        for an optimizer, its arguments ``fused`` and ``foreach``. ``channels_last+bf16`` applies both at
        once.
    calls : int
        Number of distinct calls to replay, the longest first, each weighted by how often it was recorded.
    seconds : float
        Roughly how long the runs may take, without conversions and compilation. Compilation takes up to a
        minute, and cannot be interrupted.
    memory : int
        Limit in bytes on the inputs of all tries together, without results and workspaces.

    Returns
    -------
    Replayed
        Its text is one sentence per try.

    Raises
    ------
    OptionError
        For an unknown try or operator, or if none of its calls can be made here.
    NotRecordedError
        If its shapes were not recorded.
    ExtraNotInstalledError
        Without PyTorch.

    Notes
    -----
    Tensors have the recorded shapes, strides (since PyTorch 2.4) and element types, but random values. An
    optimizer gets parameters of the shapes that had gradients, and default arguments. Calls run without
    autograd and autocast, with warm caches, and all variants take turns, A B C C B A. The interval is a
    paired Student's t over the rounds. Times do not include the conversion of inputs.

    The gain of a step is that of ``p.what_if(scale={operator: factor})``, for the change and for both ends of
    its interval; calls that were not replayed count as unchanged. It is missing if no change was shown, if
    `what_if` refuses, if results of the same type differ by more than 5 %, or if calls on the host take more
    than three times or less than a third of their recorded time.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> replay(draw("main: [aten::mm ]"), "aten::mm", "bf16")
    Traceback (most recent call last):
        ...
    notebook_prof.errors.NotRecordedError: replay needs the shapes of the inputs of aten::mm, which were not \
    recorded: record again with %%profile --shapes, or record_shapes=True
    """
    from ..collectors.torch.replay.isolation import tries_of
    from ..collectors.torch.replay.turns import replay as run_in_turns

    names = tries_of(tries)
    if OPTIMIZER_STEP.fullmatch(operator):
        table, recorded = _recorded_steps(trace, operator)
    else:
        table, recorded = _recorded_calls(trace, operator, calls)
    device = recorded[0].device
    measured, replayed = run_in_turns(recorded, names, seconds, memory)
    made = np.zeros(len(table), bool)
    made[[i for i, call in enumerate(recorded) if call in replayed]] = True
    table = table.assign(replayed=made)
    took = table["total_ns"] + table["device_ns"]
    covered = float(took[made].sum() / max(took.sum(), 1))
    count = int(table.loc[made, "count"].sum())
    base = measured[0].times / count
    alone, before = _mean(base), round(took[made].sum() / max(count, 1))
    alike = device != "cpu" or _alike(alone, before)
    rows = [_row(base, one, count) for one in measured[1:]]
    rows = [row | _worth(trace, operator, covered, row, alike) for row in rows]
    return Replayed(
        operator,
        TRIES.of_rows(rows),
        table,
        alone,
        before,
        covered,
        len(base),
        device,
        bool(len(trace.steps)),
    )


def _recorded_calls(trace: Trace, operator: str, most: int) -> tuple[pd.DataFrame, list[Any]]:
    """Return a table of the operator's calls, and the longest ones. Errors say what is missing."""
    from ..collectors.torch.replay.calls import RecordedCall

    _check_name(trace, operator)
    table = analysis.operator_arguments(trace, name=operator)
    if len(table):
        device = "cuda" if table["device_ns"].sum() > 0 else "cpu"
        texts = ["shapes", "dtypes", "strides", "concrete", "count"]
        rows: list[dict[Any, Any]] = table.head(most)[texts].to_dict("records")
        return table, [RecordedCall(name=operator, device=device, **row) for row in rows]
    raise NotRecordedError(
        f"replay needs the shapes of the inputs of {operator}, which were not recorded: record again with "
        "%%profile --shapes, or record_shapes=True"
    )


def _recorded_steps(trace: Trace, name: str) -> tuple[pd.DataFrame, list[Any]]:
    """Return a table with one row for the steps of an optimizer, and these as a list."""
    from ..collectors.torch.replay.turns import RecordedStep

    _check_name(trace, name)
    steps = optimizer_steps(trace, name)
    times = analysis.operators(trace, name=name)
    texts = {"shapes": [str(steps.shapes)], "dtypes": [json.dumps(steps.dtypes)]}
    sums = {column: times[column] for column in ("count", "total_ns", "device_ns")}
    table = ARGUMENTS.frame({"name": [name], **texts, "strides": [""], "concrete": [""], **sums})
    device = "cuda" if table["device_ns"].sum() > 0 else "cpu"
    shapes = tuple(tuple(shape) for shape in steps.shapes)
    return table, [
        RecordedStep(name, steps.optimizer, shapes, tuple(steps.dtypes), steps.way, steps.count, device)
    ]


def _check_name(trace: Trace, name: str) -> None:
    names = [str(one) for one in trace.slices["name"].cat.categories]
    if name not in names:
        raise OptionError(f"replay finds no operator {name!r} in the recording: {nearest(name, names)}")


def _alike(alone: int, recorded: int) -> bool:
    return recorded <= _FACTOR * alone and alone <= _FACTOR * recorded


def _mean(times: FloatArray) -> int:
    """Return the geometric mean of the rounds' medians, like `shift_of_runs`."""
    return round(math.exp(float(np.log(np.median(times, axis=1)).mean())))


def _row(base: FloatArray, one: Any, count: int) -> dict[str, Any]:
    """Return a row of the table of tries, without the gain of a step."""
    row: dict[str, Any] = dict.fromkeys(TRIES.names, pd.NA)
    row |= {"try": one.name, "reason": one.reason, "significant": False, "ready_ns": int(one.ready_ns)}
    row |= dict.fromkeys(("change", "low", "high", "difference", "relative"), math.nan)
    if one.reason:
        return row
    times = one.times / count
    shift = shift_of_runs(list(base), list(times), paired=True)
    change, low, high = (math.expm1(value) for value in (shift.value, shift.low, shift.high))
    row |= {"before_ns": _mean(base), "after_ns": _mean(times)}
    row |= {"change": change, "low": low, "high": high, "significant": shift.significant}
    return row | {"difference": one.difference, "relative": one.relative}


def _worth(trace: Trace, operator: str, covered: float, row: dict[str, Any], alike: bool) -> dict[str, Any]:
    """Return how much shorter a step would be, or why that is unknown; empty if nothing changes."""
    if not row["significant"]:
        return {}
    if row["relative"] > _OTHER and not any(dtype in row["try"].split("+") for dtype in _DTYPES):
        return {"reason": "its results are different, or random: no gain is given for a step"}
    if not alike:
        return {"reason": "no gain is given for a step, since the calls take a different time alone"}
    factors = [max(1 + covered * row[name], 0.0) for name in ("change", "high", "low")]
    answers = [analysis.what_if(trace, scale={operator: factor}) for factor in factors]
    refusal = next((answer.reason for answer in answers if answer.refused), "")
    if refusal:
        return {"reason": f"the gain for a step is unknown: {refusal}"}
    gains = [answer.gain for answer in answers]
    return dict(zip(("gain_ns", "lower_ns", "upper_ns"), gains, strict=True))


def _percent(change: float) -> str:
    """Format a relative change with its sign: −12.3 % for -0.123."""
    return f"{'−' if change < 0 else '+'}{100 * abs(change):.1f} %"
