"""Many ranks as an ordered mapping from rank to recording, read on demand."""

from __future__ import annotations

import errno
import functools
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pandas as pd

from ..errors import FormatError, SelectionError
from ..profiles.profile import Profile
from ..readers import read_trace
from ..trace import ImportReport, Trace
from .files import Paths, RankFile, arranged, inspected, listed, numbered
from .one_rank import Analyses, Reduction, joined, reduce_rank
from .reduction import Progress, find_there, processes_for, run_here, run_there, with_bar

_OPEN: Final = 2
"""Number of individually opened ranks that stay in memory."""


def find_ranks(paths: Paths, client: Any = None) -> tuple[dict[int, RankFile], ImportReport]:
    """Return the ranks in patterns, folders and files, and doubts about them; FormatError without any."""
    report = ImportReport()
    if isinstance(paths, Mapping):
        files = numbered(paths)
    elif client is not None:
        one = isinstance(paths, str) or hasattr(paths, "__fspath__")
        files = find_there([str(path) for path in (cast(Any, [paths] if one else paths))], client)
    else:
        names = listed(paths)
        if gone := [name for name in names if not os.path.lexists(name)]:
            raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", gone[0])
        files = [inspected(name) for name in names]
    return arranged(files, report), report


class RankSet(Mapping[int, Profile]):
    """The recordings of a run's ranks, read on demand (``ranks[3]``) or read, reduced and dropped (`map`)."""

    # One rank is in memory for each process or, with a Dask `client`, for each of the cluster's threads; only
    # the results of the analyses are kept.
    def __init__(
        self,
        files: Mapping[int, RankFile],
        report: ImportReport | None = None,
        *,
        client: Any = None,
        processes: int | None = None,
        progress: Progress = None,
    ) -> None:
        self._files = dict(sorted(files.items()))
        self._report = report.copy() if report is not None else ImportReport()
        self._client = client
        self._processes, self._progress = processes, progress
        self._opened: OrderedDict[int, Profile] = OrderedDict()
        self._facts: dict[int, dict[str, Any]] = {}
        self._reported: set[tuple[str, int]] = set()

    def __getitem__(self, rank: int) -> Profile:
        if rank not in self._files:
            raise KeyError(self._no_rank(rank))
        if rank not in self._opened:
            self._opened[rank] = Profile(self.trace(rank))
        self._opened.move_to_end(rank)
        while len(self._opened) > _OPEN:
            self._opened.popitem(last=False)
        return self._opened[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def trace(self, rank: int) -> Trace:
        """Read one rank now, without keeping it."""
        return read_trace(self._files[rank].path)

    @property
    def report(self) -> ImportReport:
        """Problems with the files, and with the ranks read so far."""
        with_steps = self._report.copy()
        _tell_steps(self._facts, with_steps)
        return with_steps

    @property
    def files(self) -> pd.DataFrame:
        """The files.

        Returns
        -------
        DataFrame
            ``rank file rank_from bytes world_size host`` by rank, and ``slices first_step last_step steps
            seconds`` (missing for ranks that have not been reduced yet).
        """
        rows = []
        for rank, file in self._files.items():
            facts = self._facts.get(rank, {})
            first, last, count = facts.get("steps", (None, None, None))
            host = file.facts.get("host", facts.get("host", ""))
            world = file.facts.get("world_size", facts.get("world_size"))
            row = [rank, Path(file.path).name, file.source, file.bytes, world, host]
            rows.append([*row, facts.get("slices"), first, last, count, facts.get("seconds")])
        names = ["rank", "file", "rank_from", "bytes", "world_size", "host"]
        names += ["slices", "first_step", "last_step", "steps", "seconds"]
        optional = dict.fromkeys(["world_size", "slices", "first_step", "last_step", "steps"], "Int64")
        kinds = {"rank": "int32", "bytes": "int64", "seconds": "float64", **optional}
        return pd.DataFrame(rows, columns=names).astype(kinds)

    def map(self, analysis: Callable[..., Any], /, **arguments: Any) -> pd.DataFrame:
        """Apply an analysis to every rank.

        Parameters
        ----------
        analysis : callable
            ``analysis(trace, **arguments)`` returns a DataFrame, a Series, a mapping or a value.
        **arguments
            For the analysis.

        Returns
        -------
        DataFrame
            The results concatenated by rank, with a ``rank`` int32 column in front. Ranks that could not be
            read are missing; see `report`.

        Raises
        ------
        Exception
            The analysis's own error, if it failed for every rank that was read.
        """
        return self.reduce({"map": (analysis, arguments)})["map"]

    def reduce(self, analyses: Analyses) -> dict[str, pd.DataFrame]:
        """Apply several analyses while reading each rank once; see `map`."""
        frames: dict[str, list[pd.DataFrame]] = {name: [] for name in analyses}
        failures: dict[str, dict[int, Exception]] = {name: {} for name in analyses}
        total = len(self._files)
        for done, result in enumerate(with_bar(self._run(analyses), total, self._progress), 1):
            for issue in result.report:  # losses and errors, each once
                if issue.severity == "info" or (issue.code, result.rank) in self._reported:
                    continue
                self._reported.add((issue.code, result.rank))
                example = f"rank {result.rank}: {issue.example}" if result.read else issue.example
                self._report.add(issue.code, issue.severity, issue.count, example, issue.effect, issue.advice)
            if result.read:
                self._facts[result.rank] = {**result.facts, "seconds": result.seconds}
            for name, frame in result.frames.items():
                frames[name].append(frame)
            for name, error in result.failures.items():
                failures[name][result.rank] = error
            if callable(self._progress):
                self._progress(done, total)
        if not self._facts:
            raise FormatError(f"no rank could be read: {self._report['rank-unreadable'].example}")
        for name, errors in failures.items():
            if errors and not frames[name]:
                raise next(iter(errors.values()))
            for rank, error in errors.items():
                example = f"rank {rank}: {type(error).__name__}: {error}"
                effect = "the rank is missing from this table"
                self._report.add("analysis-failed", "loss", example=example, effect=effect)
        return {name: joined(parts) for name, parts in frames.items()}

    def _run(self, analyses: Analyses) -> Iterator[Reduction]:
        files = list(self._files.values())
        if self._client is not None:
            return run_there(files, analyses, self._client, self._report)
        work = functools.partial(reduce_rank, analyses=analyses)
        return run_here(files, work, processes_for(files, self._processes), self._report)

    def _no_rank(self, rank: object) -> str:
        return f"no rank {rank!r}: there {'are' if len(self) > 1 else 'is'} {self._span()}"

    def _span(self) -> str:
        ranks = list(self._files)
        if ranks == list(range(ranks[0], ranks[-1] + 1)):
            return f"ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]} only"
        return f"{len(ranks)} ranks between {ranks[0]} and {ranks[-1]}"

    def __repr__(self) -> str:
        size = sum(file.bytes for file in self._files.values())
        where = "on a Dask cluster" if self._client is not None else "here"
        text = f"<{type(self).__name__}: {self._span()}, {size / 1e6:,.1f} MB, reduced {where}>"
        return text + (f"\n{self.report!r}" if self.report else "")

    def chosen(self, ranks: int | list[int] | range) -> RankSet:
        """Return a set of some of the ranks.

        Raises
        ------
        SelectionError
            If one of them is not there.
        """
        numbers = [ranks] if isinstance(ranks, int | np.integer) else list(ranks)
        if missing := [rank for rank in numbers if rank not in self._files]:
            raise SelectionError(self._no_rank(missing[0]))
        return type(self)(
            {int(rank): self._files[int(rank)] for rank in numbers},
            client=self._client,
            processes=self._processes,
            progress=self._progress,
        )


def _tell_steps(facts: Mapping[int, Mapping[str, Any]], report: ImportReport) -> None:
    by_steps: dict[Any, list[int]] = {}
    for rank, facts_of_rank in sorted(facts.items()):
        by_steps.setdefault(facts_of_rank.get("steps"), []).append(rank)
    if len(by_steps) < 2:
        return
    parts = []
    for steps, ranks in list(by_steps.items())[:3]:
        what = f"steps {steps[0]} to {steps[1]}" if steps else "no steps"
        parts.append(f"{what} on {len(ranks)} rank{'s' if len(ranks) > 1 else ''} (such as {ranks[0]})")
    report.add(
        "steps-differ", "info", example="; ".join(parts), effect="only what all ranks have can be compared"
    )
