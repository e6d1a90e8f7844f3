"""One selection across both sides of a comparison.

The comparison's rows define counterparts: names without the parts that change from run to run, lines as
matched by the difference of the sources, phases and categories by name, and time from the start of the
aligned steps.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from .. import analysis
from ..errors import SelectionError
from ..profiles.profile import Profile
from ..selection import Selection
from ..selection.frames import filtered
from ..trace.schema import Table
from .changes import labels_of_b
from .parts import name_key
from .run import TraceRun

LINKED: Final = ("window", "name", "category", "phase", "line")
"""Dimensions that both sides share; all others belong to one recording."""
SIDES: Final = ("a", "b")

Words = Mapping[str, tuple[str, ...]]

_SELECTED: Final = Table.of(
    "selected", "name:str on:str a_count:int64 b_count:int64 a_ns:int64 b_ns:int64 delta_ns:int64"
)


class Counterparts:
    """Names and lines of the comparison in each recording."""

    # `words`: by dimension (``name`` or ``line``) and side, the counterpart of each word that is spelt
    # differently.

    def __init__(self, source: pd.DataFrame, runs: Sequence[Any]) -> None:
        names = [
            _grouped({raw: name_key(raw) for raw in map(str, run.trace.slices["name"].cat.categories)})
            if isinstance(run, TraceRun)
            else {}
            for run in runs
        ]
        of_b = labels_of_b(source, runs[1].line_labels())
        lines: dict[str, tuple[str, ...]] = {
            raw: (f"{raw} of a",) for raw, key in of_b.items() if raw != key and raw not in of_b.values()
        }
        self.words: dict[str, tuple[Words, Words]] = {
            "name": (names[0], names[1]),
            "line": ({}, lines | _grouped(of_b)),
        }

    def of_side(self, side: int, dimension: str, values: Iterable[Any]) -> tuple[Any, ...]:
        """Return a side's counterparts of these values of the comparison."""
        if dimension not in self.words:
            return tuple(values)
        words = self.words[dimension][side]
        return tuple(one for value in values for one in words.get(value, (value,)))


def _grouped(keys: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the words of each key, except for keys whose only word is the key itself."""
    groups: dict[str, list[str]] = {}
    for raw, key in keys.items():
        groups.setdefault(key, []).append(raw)
    return {key: tuple(raws) for key, raws in groups.items() if raws != [key]}


class LinkedSelection(Selection):
    """The selection of both sides, in words of the comparison; `a` and `b` are its counterparts.

    Its clauses are ``window name category phase line``. A ``window`` counts from the start of the aligned
    step. A ``line`` is a line of a, or of b if only b has it (``cell:7 of b``). Everything else is as in
    `Selection`.
    """

    _counterparts: Counterparts
    _starts: tuple[int, int]
    _runs: tuple[int, int]
    _sides: tuple[Selection, Selection]

    def __init__(
        self, counterparts: Counterparts, starts: tuple[int, int], runs: tuple[int, int] = (0, 0)
    ) -> None:
        self._counterparts, self._starts, self._runs = counterparts, starts, runs
        self._sides = Selection(), Selection()
        super().__init__()

    @property
    def a(self) -> Selection:
        """The selection in the recording of a."""
        return self._sides[0]

    @property
    def b(self) -> Selection:
        """The selection in the recording of b."""
        return self._sides[1]

    @property
    def counterparts(self) -> Counterparts:
        """What names and lines of the comparison are called in each recording."""
        return self._counterparts

    def to_state(self) -> dict[str, Any]:
        """Return the clauses of the comparison, those of its sides (``a``, ``b``), ``starts``, ``runs``."""
        with self._lock:
            sides = {name: side.to_state() for name, side in zip(SIDES, self._sides, strict=True)}
            aligned = {"starts": list(self._starts), "runs": list(self._runs)}
            return {**super().to_state(), **sides, **aligned}

    def _align(self, counterparts: Counterparts, starts: tuple[int, int], runs: tuple[int, int]) -> None:
        """Measure windows from the starts of other steps; drop clauses that belong to another run only."""
        with self._lock:
            for side, before, run in zip(self._sides, self._runs, runs, strict=True):
                if run != before:
                    side.clear()
                    side.pinned = None
            self._counterparts, self._starts, self._runs = counterparts, starts, runs
            self._revision += 1
            self._queue.append(({}, "align", tuple(self._watchers)))
        self._tell()

    def _change(self, source: Hashable, change: Mapping[str, Any]) -> bool:
        for key, value in change.items():
            if key not in LINKED and value is not None:
                raise SelectionError(
                    f"{key} belongs to one recording; both sides share {', '.join(LINKED)}: "
                    "select it in c.selection.a or c.selection.b"
                )
        return super()._change(source, change)

    def _tell(self) -> None:
        self._follow()
        super()._tell()

    def _follow(self) -> None:
        with self._lock:
            for number, side in enumerate(self._sides):
                values: dict[str, Any] = {}
                for dimension in LINKED:
                    clause = self._clauses.get(dimension)
                    value: Any = None if clause is None else clause.value
                    if value is not None and dimension == "window":
                        value = tuple(at + self._starts[number] for at in value)
                    elif value is not None:
                        value = self._counterparts.of_side(number, dimension, value)
                    values[dimension] = value
                side.update("comparison", **values)


@dataclass(frozen=True, slots=True)
class Selected:
    """The selected slices of both sides: in the selected window or, without one, in the aligned steps.

    Attributes
    ----------
    a, b : DataFrame
        ``name on count time_ns``, the longest first: ``on`` is ``host`` (its time is self time, as in
        `p.operators`) or ``device`` (summed durations, as in `p.kernels`).
    """

    a: pd.DataFrame
    b: pd.DataFrame

    @property
    def delta(self) -> pd.DataFrame:
        """Both sides by name, and their difference.

        Returns
        -------
        DataFrame
            ``name on a_count b_count a_ns b_ns delta_ns``, by size of ``delta_ns``; names as the comparison
            writes them. ``delta_ns`` sums to the difference of the sums of `b` and `a`.
        """
        sides = []
        for table in (self.a, self.b):
            keys = table.assign(name=[name_key(name) for name in table["name"]])
            sides.append(keys.groupby(["name", "on"], observed=True)[["count", "time_ns"]].sum())
        both = pd.concat(sides, axis=1, keys=SIDES).fillna(0).astype("int64")
        both.columns = pd.Index([f"{side}_{what}" for side, what in both.columns])
        both = both.rename(columns={f"{side}_time_ns": f"{side}_ns" for side in SIDES}).reset_index()
        both["delta_ns"] = both["b_ns"] - both["a_ns"]
        order = np.argsort(-both["delta_ns"].abs().to_numpy(), kind="stable")
        return _SELECTED.frame(
            {name: both[name].iloc[order].reset_index(drop=True) for name in _SELECTED.names}
        )

    @property
    def delta_ns(self) -> int:
        """How much longer b is busy with the selected slices; negative if shorter."""
        return int(self.b["time_ns"].sum()) - int(self.a["time_ns"].sum())

    def __repr__(self) -> str:
        return repr(self.delta)


def selected_table(profile: Profile, selection: Selection, step: int) -> pd.DataFrame:
    """Return ``name on count time_ns`` of a recording's selected slices; see `Selected`.

    Without a selected window or step, `step` applies; -1 is the whole recording.
    """
    state = selection.to_state()
    if state["window"] is None and state["step"] is None and step >= 0:
        state["step"] = [step]
    trace = profile.trace
    host = filtered(analysis.operators, trace, state).rename(columns={"self_ns": "time_ns"})
    device = filtered(analysis.kernels, trace, state).rename(columns={"total_ns": "time_ns"})
    columns = ["name", "on", "count", "time_ns"]
    both = [part.reindex(columns=columns) for part in (host.assign(on="host"), device.assign(on="device"))]
    table = pd.concat(both, ignore_index=True).astype(
        {"name": "str", "on": "str", "count": "int64", "time_ns": "int64"}
    )
    return table.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)
