"""The Trace: what ran when, as seven tables. Independent of files, collectors and pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from .. import extensions
from ..errors import OptionError, SelectionError, nearest
from ..units import format_count, format_ns
from .arrays import optional
from .intervals import Window
from .nesting import inherit, nest
from .report import ImportReport
from .schema import TABLES

_SUFFIXES: Final = {".nbprof": "native", ".zip": "native", ".json": "chrome", ".json.gz": "chrome"}
"""Format by suffix. A name without a suffix means a native folder."""


def writer(format: str) -> Any:
    """Return the writer of this name, a function of a Trace and a path; OptionError if there is none."""
    writers = extensions.points("writers")
    if not writers:
        raise OptionError("no writers are registered: notebook_prof is not installed; pip install it again")
    if format not in writers:
        raise OptionError(f"no writer {format!r}: {nearest(format, writers)}")
    return writers[format].load()


def format_of(path: str | os.PathLike[str], *also: str) -> str:
    """Return the writer's name for a file's suffix. Others raise OptionError, which also lists `also`."""
    name = os.path.basename(os.fspath(path).rstrip("/\\"))
    for suffix, written in _SUFFIXES.items():
        if name.endswith(suffix):
            return written
    if name and not os.path.splitext(name)[1]:
        return "native"
    endings = ", ".join([".nbprof", ".nbprof.zip", ".json", ".json.gz (for Perfetto, too)", *also])
    raise OptionError(f"{name!r} has no suffix of a known format: end it with {endings}")


def trace_repr(trace: Trace) -> str:
    """Describe a Trace in a few lines: size, span, non-empty tables, source of steps, and report."""
    slices = trace.slices
    head = f"<Trace: {format_count(len(slices))} slices over {format_ns(trace.span.dur)}"
    kinds = trace.tracks["kind"].astype("str").value_counts(sort=False)
    if len(kinds):
        plural = {"process": "processes", "memory": "memories"}
        head += " on " + ", ".join(
            f"{count} {kind if count == 1 else plural.get(kind, f'{kind}s')}" for kind, count in kinds.items()
        )
    lines = [head + ">"]
    names = ("counters", "flows", "stacks", "allocations")
    if parts := [f"{format_count(len(t))} {name}" for name in names if len(t := getattr(trace, name))]:
        lines.append("  " + ", ".join(parts))
    if len(trace.steps):
        first, last = trace.steps["step"].iloc[0], trace.steps["step"].iloc[-1]
        source = trace.metadata.get("steps_source") or trace.steps["source"].iloc[0]
        which = f"step {first}" if len(trace.steps) == 1 else f"steps {first} … {last}"
        lines.append(f"  {which}, found by {source}")
    if len(slices):
        shares = slices.groupby("category", observed=True)["self_ns"].sum().sort_values(ascending=False)
        total = max(int(shares.sum()), 1)
        lines.append(
            "  self time: " + ", ".join(f"{c} {100 * v / total:.0f} %" for c, v in shares.head(5).items())
        )
    if trace.report:
        lines.append("  report:")
        lines.extend(f"    {issue}" for issue in trace.report)
    return "\n".join(lines)


class Trace:
    """An immutable recording. Made by `TraceBuilder.seal` and by readers, never by hand.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        One frame for each table of `notebook_prof.trace.schema.TABLES`.
    metadata : mapping
        Facts about the recording as a whole: ``start_unix_ns``, ``source``, ``steps_source`` …
    report : ImportReport
    span : Window
        The whole trace, ``[0, end)``, in nanoseconds.

    Notes
    -----
    Row numbers are keys: ``slices.parent``, ``flows.src``, ``flows.dst`` and ``allocations.slice``
    are rows of `slices`. Times are int64 nanoseconds from the start of the trace.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[100, 110], dur=[50, 20], name=["step", "mm"], track=b.track("main"))
    >>> b.seal().slices[["ts", "dur", "depth", "self_ns"]].values.tolist()
    [[0, 50, 0, 30], [10, 20, 1, 20]]
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        *,
        metadata: Mapping[str, Any] | None = None,
        report: ImportReport | None = None,
        span: Window | None = None,
    ) -> None:
        for table in TABLES:
            table.validate(tables[table.name])
        self._tables = dict(tables)
        self._metadata = MappingProxyType(dict(metadata or {}))
        self._report = report if report is not None else ImportReport()
        self._span = span if span is not None else _span(tables)

    @property
    def slices(self) -> pd.DataFrame:
        """Named pieces of time on tracks, sorted by start, longest first."""
        return self._table("slices")

    @property
    def tracks(self) -> pd.DataFrame:
        """Threads, streams and counters. Slices and values refer to them by key."""
        return self._table("tracks")

    @property
    def counters(self) -> pd.DataFrame:
        """Values of counters, sorted by track and time."""
        return self._table("counters")

    @property
    def flows(self) -> pd.DataFrame:
        """Links between slices: launch → kernel, forward → backward."""
        return self._table("flows")

    @property
    def stacks(self) -> pd.DataFrame:
        """Interned call stacks, one frame per row."""
        return self._table("stacks")

    @property
    def steps(self) -> pd.DataFrame:
        """Training steps, sorted by number."""
        return self._table("steps")

    @property
    def allocations(self) -> pd.DataFrame:
        """Memory allocations and releases, sorted by time."""
        return self._table("allocations")

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Facts about the recording as a whole; read-only."""
        return self._metadata

    @property
    def report(self) -> ImportReport:
        """Problems of the recording or import."""
        return self._report

    @property
    def span(self) -> Window:
        """The time from the first to the last instant, ``[0, end)``."""
        return self._span

    def sel(
        self,
        *,
        window: tuple[int, int] | None = None,
        name: str | Iterable[str] | None = None,
        track: int | Iterable[int] | None = None,
        step: int | Iterable[int] | None = None,
        phase: str | Iterable[str] | None = None,
        category: str | Iterable[str] | None = None,
    ) -> Trace:
        """Return the part of the trace that satisfies all conditions.

        Parameters
        ----------
        window : (int, int), optional
            Half-open, in ns. Slices that overlap it are kept uncut, and so are counters and allocations
            inside it.
        name, track, step, phase, category : value or iterable of values, optional
            Keep the slices with one of these values. For `step`, the table `steps` also keeps only these
            steps.

        Returns
        -------
        Trace
            With the same order and times. `depth` and `self_ns` do not change; `parent` becomes the nearest
            remaining enclosing slice. Flows are kept if both ends are. `tracks`, `stacks` and `metadata` do
            not change. An empty result is a Trace without slices.

        Raises
        ------
        SelectionError
            If a phase or category does not exist.
        """
        slices = self._tables["slices"]
        keep = np.ones(len(slices), bool)
        where = Window.of(window) if window is not None else None
        if where is not None:
            ts = slices["ts"].to_numpy()
            end = np.maximum(ts + slices["dur"].to_numpy(), ts + 1)
            keep &= (ts < where.end) & (end > where.start)
        numbers = None if step is None else _several(step)
        conditions = {"name": name, "track": track, "step": numbers, "phase": phase, "category": category}
        for column, value in conditions.items():
            if value is not None:
                values = _several(value)
                words = slices[column].cat.categories if column in ("phase", "category") else values
                if unknown := [word for word in values if word not in words]:
                    near = nearest(str(unknown[0]), words)
                    raise SelectionError(f"no {column} {unknown[0]!r} in this trace: {near}")
                keep &= slices[column].isin(values).to_numpy()
        part = self._subset(keep, where)
        if numbers is None:
            return part
        steps = part._tables["steps"]
        tables = dict(part._tables, steps=steps[steps["step"].isin(numbers)].reset_index(drop=True))
        return Trace(tables, metadata=self._metadata, report=self._report, span=self._span)

    def only(self, keep: npt.NDArray[np.bool_]) -> Trace:
        """Return the trace with only some of its slices, nested again. Everything else is unchanged.

        Parameters
        ----------
        keep : ndarray of bool, shape (slices,)

        Returns
        -------
        Trace
            Depth, parent and self time are recomputed among the kept slices. The time of a dropped slice
            becomes self time of the enclosing slice.
        """
        part = self._subset(keep, None)
        slices = part._tables["slices"]
        frame, annotation = ((slices["category"] == name).to_numpy() for name in ("python", "annotation"))
        track, ts, dur = (slices[column].to_numpy() for column in ("track", "ts", "dur"))
        nested = nest(track, ts, dur, frame, annotation)
        slices = slices.assign(depth=nested.depth, parent=optional(nested.parent), self_ns=nested.self_ns)
        tables = dict(part._tables, slices=slices)
        return Trace(tables, metadata=self._metadata, report=self._report, span=self._span)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the trace to a file or folder.

        Parameters
        ----------
        path : path
            ``.nbprof``, or no suffix: a folder in the native format, which is lossless and opens at once.
            ``.nbprof.zip``: the same as a single file. ``.json`` or ``.json.gz``: as `to_chrome`.
        format : str, optional
            Name of a writer (entry points ``notebook_prof.writers``: ``native``, ``chrome`` …), regardless
            of the suffix.

        Raises
        ------
        OptionError
            For an unknown suffix or format, or if the path exists and is not a recording.
        """
        writer(format_of(path) if format is None else format)(self, path)

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write Chrome trace JSON, which Perfetto, TensorBoard and `notebook_prof.read_trace` open.

        Parameters
        ----------
        path : path
            Compressed with gzip if it ends in ``.gz``; an existing file is replaced.
        """
        writer("chrome")(self, path)

    def _subset(self, keep: npt.NDArray[np.bool_], window: Window | None) -> Trace:
        slices = self._tables["slices"]
        new_row = np.where(keep, np.cumsum(keep) - 1, -1)
        parent = slices["parent"].to_numpy(dtype=np.int64, na_value=-1)
        kept = slices[keep].reset_index(drop=True)
        # the parent is the nearest enclosing slice that is kept
        above = np.append(inherit(parent, new_row), -1)[parent]
        kept["parent"] = optional(above[keep])
        flows = self._tables["flows"]
        src, dst = flows["src"].to_numpy(), flows["dst"].to_numpy()
        both = keep[src] & keep[dst]
        flows = flows[both].assign(src=new_row[src[both]], dst=new_row[dst[both]]).reset_index(drop=True)
        allocations, counters, steps = (self._tables[name] for name in ("allocations", "counters", "steps"))
        if window is not None:
            allocations = _rows_inside(allocations, window)
            counters = _rows_inside(counters, window)
            ends = steps["ts"] + steps["dur"]
            steps = steps[(steps["ts"] < window.end) & (ends > window.start)].reset_index(drop=True)
        home = allocations["slice"].to_numpy(dtype=np.int64, na_value=-1)
        allocations = allocations.assign(slice=optional(np.append(new_row, -1)[home]))
        tables = dict(
            self._tables, slices=kept, flows=flows, allocations=allocations, counters=counters, steps=steps
        )
        return Trace(tables, metadata=self._metadata, report=self._report, span=self._span)

    def _table(self, name: str) -> pd.DataFrame:
        # a shallow copy: adding a column to it does not change the trace
        return self._tables[name].copy(deep=False)

    def __len__(self) -> int:
        return len(self._tables["slices"])

    def __repr__(self) -> str:
        return trace_repr(self)


def _rows_inside(frame: pd.DataFrame, window: Window) -> pd.DataFrame:
    ts = frame["ts"].to_numpy()
    return frame[(ts >= window.start) & (ts < window.end)].reset_index(drop=True)


def _several(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | int | np.integer) else list(value)


def _span(tables: Mapping[str, pd.DataFrame]) -> Window:
    timed = (tables[name] for name in ("slices", "steps", "counters", "allocations"))
    ends = [int((table["ts"] + table.get("dur", 0)).max()) for table in timed if len(table)]
    return Window(0, max([0, *ends]))
