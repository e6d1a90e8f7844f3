"""``p.predictions()``: gains that were predicted of a run, and those that were measured later."""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, ParamSpec, Protocol, TypeVar

import numpy as np
import pandas as pd

from ..analysis.critical_path.replay.answer import WhatIf
from ..trace.schema import Column, Table
from .replay import Replayed

PREDICTIONS: Final = Table(
    "predictions",
    (
        Column("at", "datetime64[ns, UTC]", "", "when it was made"),
        Column("run", "Int64", "", "of the history, about which it was made; missing if that is not kept"),
        Column("kind", "str", "", "`what_if`, `replay` or `advice`"),
        Column("question", "str", "", "what would be otherwise"),
        Column("before_ns", "float64", "ns", "a step as it was recorded, mean"),
        Column("gain_ns", "float64", "ns", "that a step would be shorter"),
        Column("lower_ns", "float64", "ns", "least gain that was thought possible"),
        Column("upper_ns", "float64", "ns", "most"),
        Column("measured_ns", "float64", "ns", "that a step was shorter; missing until it was measured"),
        Column("low_ns", "float64", "ns", "lower end of its interval at 95 %"),
        Column("high_ns", "float64", "ns", "upper end"),
        Column("ratio", "float64", "1", "predicted of measured; missing where that is not more than noise"),
        Column("by", "str", "", "`run 12`, `%%profile_ab` or `nbp.compare`: where it was measured"),
        Column("alternatives", "int64", "", "further predictions that the same measurement is held against"),
    ),
)
MOST: Final = 200
"""Predictions that a Profile keeps; the oldest go."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Gain:
    """By how much a mean step was shorter, in ns, with its interval at 95 %, and where that was measured."""

    measured_ns: float = math.nan
    low_ns: float = math.nan
    high_ns: float = math.nan
    by: str = ""

    @classmethod
    def of_change(cls, before_ns: float, change: float, interval: tuple[float, float], by: str) -> Gain:
        """Return the gain that a relative change is; of an interval that is not known, none.

        Examples
        --------
        >>> Gain.of_change(100.0, -0.25, (-0.5, 0.125), "run 2")
        Gain(measured_ns=25.0, low_ns=-12.5, high_ns=50.0, by='run 2')
        """
        low, high = interval
        if math.isnan(low):
            return cls()
        return cls(-before_ns * change, -before_ns * high, -before_ns * low, by)


@dataclass(frozen=True)
class Prediction:
    """A gain a step that was predicted, in ns; `at_ns` is Unix time, `run` a number of the history."""

    at_ns: int
    kind: str
    question: str
    before_ns: float
    gain_ns: float
    lower_ns: float
    upper_ns: float
    gain: Gain = Gain()
    run: int | None = None


class Keeper(Protocol):
    """Where predictions outlive their Profile; the room of the history has it."""

    def keep(self, prediction: Prediction) -> None:
        """Keep a prediction about this run."""

    def measure(self, gain: Gain) -> None:
        """Hold all predictions about this run against a measurement."""

    def kept(self) -> Sequence[Prediction]:
        """Return the predictions about runs of this cell."""


class Ledger:
    """Predictions about one Profile, and what was measured; nothing of it raises.

    Attributes
    ----------
    keeper : Keeper or None
    """

    def __init__(self) -> None:
        self.keeper: Keeper | None = None
        self._own: dict[tuple[str, str], Prediction] = {}

    def add(self, prediction: Prediction) -> None:
        """Keep a prediction; an earlier one of the same question goes."""
        key = prediction.kind, prediction.question
        self._own.pop(key, None)
        self._own[key] = prediction
        while len(self._own) > MOST:
            del self._own[next(iter(self._own))]
        with suppress(Exception):  # the history is a help; a Profile is whole without
            if self.keeper is not None:
                self.keeper.keep(prediction)

    def measure(self, gain_of: Callable[[], Gain]) -> None:
        """Hold all predictions about this Profile against a measurement, which is made if there are any."""
        if not self._own:
            return
        with suppress(Exception):  # whoever compares two recordings is told what is wrong with them
            gain = gain_of()
            if gain.by:
                self._own = {key: replace(one, gain=gain) for key, one in self._own.items()}
                if self.keeper is not None:
                    self.keeper.measure(gain)

    def predictions(self) -> list[Prediction]:
        """Return all that are known about this cell, the oldest first."""
        kept: Iterable[Prediction] = ()
        with suppress(Exception):
            kept = () if self.keeper is None else self.keeper.kept()
        every = {(one.at_ns, one.kind, one.question): one for one in self._own.values()}
        every |= {(one.at_ns, one.kind, one.question): one for one in kept}
        return [every[key] for key in sorted(every)]


def predictions(profile: Any) -> pd.DataFrame:
    """List what was predicted to make steps of this cell shorter, and what was measured later.

    Returns
    -------
    DataFrame
        A row a prediction, the oldest first; no rows where nothing was asked.

        - ``at`` datetime; ``run`` Int64: the run of the history that it is about, missing without a history;
        - ``kind`` str: ``what_if``, ``replay`` or ``advice``; ``question`` str;
        - ``before_ns``, ``gain_ns``, ``lower_ns``, ``upper_ns`` float64: a mean step, and the predicted gain;
        - ``measured_ns``, ``low_ns``, ``high_ns`` float64: the measured gain of a mean step and its interval
          at 95 %, missing until it was measured;
        - ``ratio`` float64: ``gain_ns / measured_ns``, missing where the interval holds 0;
        - ``by`` str: where it was measured, as ``run 12``;
        - ``alternatives`` int64: how many other predictions about the same run are held against the same
          measurement. Above 0 it is not known which of them was followed.

    Notes
    -----
    What is asked for by name is a prediction: ``p.what_if(…)`` about steps that was not refused, each try of
    ``p.replay(…)`` and each piece of ``p.advice()`` with a gain; the sliders of the page are none. The same
    question asked again takes the place of the first.

    *A prediction is held against the first later run of the same cell that ended well and whose program
    differs*, whatever was changed: same lineage, another ``cell_hash`` in `notebook_prof.history`; the
    interval is that of the history. Two things go before it: ``nbp.compare(p, q)`` with this Profile as the
    only thing before, and ``%%profile_ab`` whose first body is the program of that run.

    Predictions are kept in the Profile, the newest 200, and in the history, if that is on: the newest 500 of
    the project, as long as the run that they are about is kept. A Profile that was opened has its own only.

    Examples
    --------
    >>> import notebook_prof as nbp
    >>> from notebook_prof.testing import draw
    >>> p = nbp.Profile(draw("main: [load  ][mm      ]"))
    >>> _ = p.what_if(scale={"load": 0.5})
    >>> p.predictions()[["kind", "question", "gain_ns", "measured_ns"]].values.tolist()
    [['what_if', 'load × 0.5', 4.0, nan]]
    """
    rows = profile._ledger.predictions()
    table = pd.DataFrame(
        [[getattr(one, name) for name in _OWN] + [getattr(one.gain, name) for name in _GAIN] for one in rows],
        columns=[*_OWN, *_GAIN],
    )
    measured, low, high = (table[name].to_numpy(np.float64) for name in _GAIN[:3])
    clear = (low > 0) | (high < 0)
    ratio = np.divide(
        table["gain_ns"].to_numpy(np.float64), measured, out=np.full(len(table), np.nan), where=clear
    )
    same = table.assign(run=table["run"].astype("Int64").fillna(-1)).groupby(["run", "by"])["kind"]
    others = np.where(table["by"] == "", 0, same.transform("size").to_numpy(np.int64) - 1)
    return PREDICTIONS.frame(
        {
            **{name: table[name] for name in (*_OWN[2:], *_GAIN)},
            "at": pd.to_datetime(table["at_ns"].astype("int64"), utc=True),
            "run": table["run"].astype("Int64"),
            "ratio": ratio,
            "alternatives": others,
        }
    )


_OWN: Final = ("at_ns", "run", "kind", "question", "before_ns", "gain_ns", "lower_ns", "upper_ns")
_GAIN: Final = ("measured_ns", "low_ns", "high_ns", "by")


def noted(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method of a Profile leave what it predicts in the ledger; it answers as it did."""

    @functools.wraps(method)
    def answer_and_note(*args: P.args, **kwargs: P.kwargs) -> R:
        answer = method(*args, **kwargs)
        profile: Any = args[0]
        with suppress(Exception):  # whatever there is to note, the answer is the user's
            for prediction in _predicted(profile, answer, kwargs):
                profile._ledger.add(prediction)
        return answer

    answer_and_note.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return answer_and_note


def _predicted(profile: Any, answer: Any, arguments: dict[str, Any]) -> list[Prediction]:
    """Return the predictions in an answer; one about a window tells nothing of a step."""
    now, steps = time.time_ns(), profile.trace.steps
    if arguments.get("window") is not None:
        return []
    if isinstance(answer, WhatIf):
        if answer.gain is None or answer.lower is None or answer.upper is None:
            return []
        gains = float(answer.gain), float(answer.lower), float(answer.upper)
        return [Prediction(now, "what_if", answer.question, float(answer.before), *gains)]
    before = float(steps["dur"].mean()) if len(steps) else float(profile.trace.span.dur)
    if isinstance(answer, Replayed):
        rows = answer.tries[answer.tries["gain_ns"].notna()].to_dict("records")
        return [
            Prediction(
                now, "replay", f"{answer.operator}: {row['try']}", before,
                float(row["gain_ns"]), float(row["lower_ns"]), float(row["upper_ns"]),
            )
            for row in rows
        ]  # fmt: skip
    count, rows = max(len(steps), 1), answer[answer["gain_ns"] > 0].to_dict("records")
    return [
        Prediction(
            now, "advice", f"{row['rule']} {row['place']}".strip(), before, row["gain_ns"] / count,
            0.0 if row["bound"] else row["gain_ns"] / count, row["gain_ns"] / count,
        )
        for row in rows
    ]  # fmt: skip
