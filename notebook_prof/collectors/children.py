"""Traces that child processes write while they are recorded here, such as those of an inference engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from ..errors import NotebookProfError
from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock
from ..trace.intervals import as_ints
from ..trace.trace import Trace
from .base import Availability, Collector

_ADVICE: Final = "have the engine write its profile there before the cell ends, as its stop_profile() does"
_MOST_FILES: Final = 64


class ChildrenCollector(Collector):
    """Imports the files of ``torch.profiler`` that appear in a folder, as tracks on the same clock."""

    name: ClassVar[str] = "children"

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder).expanduser()
        self._before: dict[Path, tuple[int, int]] = {}
        self._from_ns = self._until_ns = 0

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    def start(self, clock: Clock) -> None:
        self._clock = clock
        self._before = dict(self._files())
        self._from_ns = clock.now_ns()

    def stop(self) -> None:
        self._until_ns = self._clock.now_ns()

    def result(self, builder: TraceBuilder) -> None:
        from ..readers.registry import read_trace  # all readers

        new = [path for path, state in self._files() if self._before.get(path) != state][:_MOST_FILES]
        for path in new:
            try:
                trace = read_trace(path)
            except (NotebookProfError, OSError) as error:
                self.report.add("child-trace-unread", "loss", example=f"{path.name}: {error}")
                continue
            begin = int(trace.metadata["start_unix_ns"])
            if begin + trace.span.dur < self._from_ns or begin > self._until_ns:
                self.report.add(
                    "child-trace-elsewhere", "loss", example=path.name,
                    effect="it was recorded at another time or on another clock, so it is left out",
                )  # fmt: skip
                continue
            put_process(trace, builder)
        if not new:
            self.report.add(
                "child-traces-missing", "loss", example=f"no file appeared in {str(self._folder)!r}",
                effect="the operators and kernels of child processes are not recorded", advice=_ADVICE,
            )  # fmt: skip

    def _files(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        for path in sorted(self._folder.rglob("*.json*")):
            try:
                found = os.stat(path)
            except OSError:
                continue
            yield path, (found.st_mtime_ns, found.st_size)


def put_process(trace: Trace, builder: TraceBuilder) -> None:
    """Add the slices of another process's trace to the tracks of its threads, and of its streams."""
    # Neither its steps nor its memory: a recording has the steps and memory of one process.
    origin = int(trace.metadata["start_unix_ns"])
    slices, tracks = trace.slices, trace.tracks
    pids = tracks["pid"].dropna()
    pid = int(pids.mode().iloc[0]) if len(pids) else None
    keys = np.full(int(tracks["track"].max(skipna=True)) + 1 if len(tracks) else 0, -1, np.int64)
    for row in tracks[tracks["track"].isin(slices["track"].unique())].to_dict("records"):
        tid, device, stream, own = (_number(row[name]) for name in ("tid", "device", "stream", "pid"))
        keys[row["track"]] = builder.track(
            f"{row['name']} of process {pid}" if pid is not None else str(row["name"]),
            str(row["kind"]), pid=pid if own is None else own, tid=tid, device=device, stream=stream,
        )  # fmt: skip
    texts = {name: slices[name] for name in ("name", "category", "phase", "shapes", "module")}
    numbers = {
        name: slices[name].fillna(-1).to_numpy(np.int64) for name in ("correlation", "device", "stream")
    }
    handles = builder.slices(
        ts=as_ints(slices["ts"].to_numpy()) + origin,
        dur=as_ints(slices["dur"].to_numpy()),
        track=keys[slices["track"].to_numpy()],
        **texts,
        **numbers,
    )
    for kind, rows in trace.flows.groupby("kind", observed=True):
        builder.flows(str(kind), handles[rows["src"].to_numpy()], handles[rows["dst"].to_numpy()])


def _number(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)
