"""What determines the duration of steps across ranks, and would if a rank were faster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args

import numpy as np
import pandas as pd

from ...analysis.critical_path.path import End, PathSpan, path_sums
from ...analysis.critical_path.replay.question import WhatIfQuestion
from ...analysis.scope import Numbers, many
from ...errors import OptionError, SelectionError, checked_columns, nearest
from .clocks import with_margins
from .critical_path import BY, hops_between, path_table, spans_of_ranks
from .joint import Joint, joint
from .tables import RankTables
from .what_if import RanksWhatIf, what_if_of_ranks

_MOST_SLICES: Final = 20_000_000
"""Limit for ranks that are in memory together."""


class RankPaths(RankTables):
    """Ranks and the critical path across them."""

    _together: tuple[tuple[int, ...], Joint] | None = None

    def forget(self) -> None:
        """Read the ranks again at the next question."""
        super().forget()
        self._together = None

    def critical_path(
        self,
        *,
        by: str | Sequence[str] | None = None,
        step: Numbers = None,
        rank: int | None = None,
        end: End = "host",
    ) -> pd.DataFrame:
        """List what determined the duration of steps across ranks, in order of time or summed.

        Parameters
        ----------
        by : str or sequence of str, optional
            Sum by any of ``rank class name category resource track line phase module step`` instead.
        step : int or iterable of int, optional
            The paths of these steps. Default: all steps, or the whole recordings without steps.
        rank : int, optional
            The paths of this rank's steps. Default: a step lasts from its first start on any rank to its last
            end on any rank.
        end : {"host", "device", "last"}
            Where a step of a rank ends, as in `notebook_prof.analysis.critical_path`.

        Returns
        -------
        DataFrame
            Without `by`, one row per piece, by step, then time: the columns of
            `notebook_prof.analysis.critical_path`, and ``rank`` int32. Times are on the common clock, as in
            `steps`; ``slice`` and ``track`` are those of the rank's own recording. The pieces of a step have
            neither gaps nor overlaps, so ``dur_ns`` sums exactly to its length. Time on a rank before its
            recording began is ``idle``.

            With `by`, its columns and ``path_ns`` int64, ``share`` float64, ``pieces`` int64: by `path_ns`,
            largest first.

        Raises
        ------
        OptionError
            For an unknown `by` or `end`.
        SelectionError
            If there is no such step or rank, if that rank's clock cannot be compared, or if the ranks have
            too many slices to be in memory together.

        Notes
        -----
        On each rank the path is that of its own recording. In a collective in which this rank waited for the
        last one, the time from the last arrival is transfer, and the path continues on the last rank. Ranks
        that never arrive last are not on the path, and are not read again. The others stay in memory until
        `forget`. `critical_path_hops` shows how certain the last rank is.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from notebook_prof import read_ranks
        >>> from notebook_prof.testing import draw
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kinds = {"all_reduce": "collective"}
        >>> early, late = "main: [mm][all_reduce    ]", "main: [sleep ][all_reduce]"
        >>> for rank, lane in enumerate((early, late)):
        ...     draw(lane, categories=kinds).save(folder / f"rank{rank}.nbprof.zip")
        >>> path = read_ranks(folder).critical_path()
        >>> path[["rank", "name", "dur_ns"]].values.tolist()
        [[1, 'sleep', 8], [0, 'all_reduce', 12]]
        """
        columns = None if by is None else checked_columns("the path across ranks cannot be summed by", by, BY)
        one, spans = self._paths(step, rank, end)
        table = path_table(one, spans)
        return table if columns is None else path_sums(table, columns)

    def critical_path_hops(
        self, *, step: Numbers = None, rank: int | None = None, end: End = "host"
    ) -> pd.DataFrame:
        """List where the critical path changes rank, and by what margin.

        Parameters
        ----------
        step, rank, end
            As `critical_path`.

        Returns
        -------
        DataFrame
            One row for each collective on the path in which a rank waited, by step, then time: ``step at_ns
            rank slice name cause_rank cause_slice margin_ns near_tie``. ``cause_rank`` arrived last, at
            ``at_ns`` on the common clock, ``margin_ns`` later than the rank before it; ``near_tie`` bool:
            that margin is less than twice the largest residual of the clocks, or twice the noise of starts,
            so another rank may have been the last.

        Raises
        ------
        OptionError, SelectionError
            As `critical_path`.
        """
        one, spans = self._paths(step, rank, end)
        return hops_between(one, spans, self._doubt_ns())

    def what_if(
        self,
        *,
        rank: int | None = None,
        scale: float | Mapping[str, float] | None = None,
        line: Mapping[int | str, float] | None = None,
        phase: Mapping[str, float] | None = None,
        data: float = 1.0,
        launch: float = 1.0,
        remove: str | Sequence[str] = (),
        overlap_communication: bool = False,
        step: Numbers = None,
        end: End = "host",
    ) -> RanksWhatIf:
        """Predict how long steps would take across ranks with changed durations, or refuse to answer.

        Parameters
        ----------
        rank : int, optional
            Change this rank only. Default: all.
        scale : float or mapping of str to float, optional
            One factor for all operators, functions and kernels except communication, or factors by name as in
            `notebook_prof.analysis.what_if`; ``*`` alone does not change communication. Unrecorded time does
            not change.
        line, phase, data, launch, remove
            As in `notebook_prof.analysis.what_if`.
        overlap_communication : bool
            On this rank, or on all, let only further communication wait for a device's communication. The
            result no longer depends on it, so the gain is an upper bound and `lower` is 0.
        step : int or iterable of int, optional
            Average over these steps. Default: all steps, or the whole recordings without steps.
        end : {"host", "device", "last"}
            Where a step of a rank ends.

        Returns
        -------
        RanksWhatIf
            With ``before after gain lower upper replay_error refused reason steps classes critical_path``.

        Raises
        ------
        OptionError
            If nothing changes, or an argument is malformed.
        SelectionError
            If there is no such rank or step, nothing on the rank is changed, there is no communication to
            overlap, or the ranks have too many slices to be in memory together.

        Notes
        -----
        All ranks are replayed together: a collective ends when the last rank has arrived and its transfer is
        done, which takes as long as it did after the last arrival. There is no answer if a rank is missing
        or its clock cannot be compared, since it might arrive last; if ranks share no collective; or if the
        replay of the unchanged recordings is off by more than 5 %.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from notebook_prof import read_ranks
        >>> from notebook_prof.testing import draw
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kinds = {"all_reduce": "collective"}
        >>> early, late = "main: [mm][all_reduce    ]", "main: [sleep ][all_reduce]"
        >>> for rank, lane in enumerate((early, late)):
        ...     draw(lane, categories=kinds).save(folder / f"rank{rank}.nbprof.zip")
        >>> answer = read_ranks(folder).what_if(rank=1, scale={"sleep": 0.75})
        >>> answer.before, answer.after
        (20, 18)
        >>> answer.critical_path[["rank", "name", "dur_ns"]].values.tolist()
        [[1, 'sleep', 6], [0, 'all_reduce', 12]]
        """
        factors = scale if isinstance(scale, Mapping) or scale is None else {"*": scale}
        removed = (remove,) if isinstance(remove, str) else tuple(remove)
        question = WhatIfQuestion(
            factors or {},
            line or {},
            phase or {},
            removed,
            data,
            launch,
            overlap_communication=overlap_communication,
        )
        if not str(question):
            raise OptionError("what_if needs a change, such as scale=0.5 or scale={'aten::mm': 0.5}")
        if end not in get_args(End):
            raise OptionError(f"end={end!r} is not known: {nearest(str(end), get_args(End))}")
        if rank is not None:
            self.chosen(rank)  # raises if the rank does not exist
        aligned = self._comparable()
        if reason := self._not_all_here(aligned):
            return RanksWhatIf(str(question), 0, rank=rank, reason=reason)
        one = self._joined_ranks(aligned)
        steps = _steps_asked(one, step)
        if reason := _nothing_between(one):
            return RanksWhatIf(str(question), 0, rank=rank, reason=reason)
        return what_if_of_ranks(one, question, rank, steps, end, self._doubt_ns())

    def _not_all_here(self, aligned: Sequence[int]) -> str:
        """Return why nothing can be predicted with missing ranks; empty if all are present."""
        world = max(int(self.files["world_size"].fillna(0).max()), len(self))
        if len(aligned) < world:
            missing = sorted({*range(world)} - {*aligned})
            return (
                f"{len(missing)} of {world} ranks, as rank {missing[0]}, are missing or have no clock that "
                "can be compared, and any of them may arrive last"
            )
        return ""

    def _paths(self, step: Numbers, rank: int | None, end: End) -> tuple[Joint, list[PathSpan]]:
        if end not in get_args(End):
            raise OptionError(f"end={end!r} is not known: {nearest(str(end), get_args(End))}")
        one = self._joined_ranks(self._on_the_path(rank, end))
        return one, spans_of_ranks(one, _steps_asked(one, step), rank, end)

    def _comparable(self) -> list[int]:
        """Return the ranks on the common clock."""
        clocks = self.clocks()
        return [int(one) for one in clocks.loc[clocks["aligned"], "rank"]]

    def _on_the_path(self, rank: int | None, end: End) -> list[int]:
        """Return the ranks that the path can visit: those that arrive last at a collective or end last."""
        clocks, aligned = self.clocks(), self._comparable()
        if not aligned and rank is None:
            raise SelectionError(
                "the clocks of the ranks cannot be compared, since they share no collective: "
                f"use a single rank, as in ranks[{next(iter(self))}].critical_path()"
            )
        if rank is not None and rank not in aligned:
            self.chosen(rank)  # raises if the rank does not exist
            reason = clocks.loc[clocks["rank"] == rank, "reason"].tolist() or ["it could not be read"]
            raise SelectionError(f"rank {rank} is not on the common clock: {reason[0]}")
        arrived, steps = self._shared("arrivals"), self.steps()
        if end != "host" or not len(steps):
            return aligned
        latest = arrived["start_ns"] == arrived.groupby("match")["start_ns"].transform("max")
        last = steps.loc[steps["end_ns"] == steps.groupby("step")["end_ns"].transform("max"), "rank"]
        first = steps.loc[steps["start_ns"] == steps.groupby("step")["start_ns"].transform("min"), "rank"]
        chosen = {*arrived.loc[latest, "rank"], *last, *first} | ({rank} if rank is not None else set())
        return sorted(int(one) for one in chosen & set(aligned))

    def _joined_ranks(self, ranks: Iterable[int]) -> Joint:
        key = tuple(ranks)
        if self._together is not None and self._together[0] == key:
            return self._together[1]
        slices = sum(int(self._facts[one]["slices"]) for one in key)
        if slices > _MOST_SLICES:
            raise SelectionError(
                f"{len(key)} ranks with {slices:,} slices are too many for the memory; the limit is "
                f"{_MOST_SLICES:,}: choose ranks, as in ranks.chosen([0, 7]), or record fewer steps"
            )
        base = self._base()
        self._together = None
        arrived = with_margins(self._shared("arrivals"))
        one = joint([(rank, self._retimed(rank)) for rank in key], arrived, start_unix_ns=base)
        self._together = key, one
        return one

    def _doubt_ns(self) -> float:
        """Return the difference below which the clocks cannot show which rank arrived last."""
        residual: Any = self.clocks()["residual_ns"].max()
        return 2 * float(residual) if np.isfinite(residual) else 0.0


def _nothing_between(one: Joint) -> str:
    """Return why nothing can be replayed: no threads, or no waits between ranks; else empty."""
    if missing := [rank for rank, main in one.graph.mains.items() if main < 0]:
        return f"no slice of a thread was recorded on rank {missing[0]}, and steps run on one"
    between = one.graph.between
    if between is None or not len(between.transfer) + len(between.call):
        return "the ranks share no collective, so none waits for another: use ranks[0].what_if()"
    return ""


def _steps_asked(one: Joint, step: Numbers) -> list[int]:
    """Return these steps, or all; SelectionError for an unknown step."""
    have: list[int] = np.unique(one.steps["step"]).tolist()
    steps = have if step is None else [int(number) for number in many(step)]
    if missing := [number for number in steps if number not in have]:
        raise SelectionError(f"there is no step {missing[0]}: {nearest(str(missing[0]), map(str, have))}")
    return steps
