"""Native copies of recordings beside their files, which open faster."""

from __future__ import annotations

import os
import pickle
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from ..analysis.scope import sharing
from ..errors import NotebookProfError
from ..readers import read_trace
from ..trace import ImportReport, Trace
from .files import RankFile

Cache: TypeAlias = str | os.PathLike[str] | bool | None
FOLDER: Final = ".notebook_prof"


def twin_path(file: RankFile, cache: Cache) -> Path | None:
    """Return the path of a file's native copy; None without a cache, and for native files."""
    # The name contains size and modification time, so that a changed file is read again.
    path = Path(file.path)
    if cache is None or cache is False or path.is_dir() or path.name.endswith(".nbprof.zip"):
        return None
    folder = path.parent / FOLDER if cache is True else Path(cache)
    status = path.stat()
    return folder / f"{path.name}-{file.rank}-{status.st_size:x}-{status.st_mtime_ns:x}.nbprof"


def open_rank(file: RankFile, cache: Cache = None) -> tuple[Trace, ImportReport]:
    """Read a rank from its native copy, or read it and write one; the report has problems of the cache."""
    report = ImportReport()
    twin = twin_path(file, cache)
    if twin is not None and twin.exists():
        try:
            return read_trace(twin), report
        except (NotebookProfError, OSError) as error:
            report.add("cache-damaged", "info", example=str(error), effect="the original was read again")
            aside = _temporary_path(twin)
            with suppress(OSError):  # another process was faster
                twin.rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
    trace = read_trace(file.path)
    if twin is not None:
        try:
            twin.parent.mkdir(parents=True, exist_ok=True)
            _keep(trace, twin)
        except (NotebookProfError, OSError) as error:
            effect = "the original will be read again next time"
            advice = "give cache= a writable folder"
            report.add("cache-not-written", "info", example=str(error), effect=effect, advice=advice)
    return trace, report


def _keep(trace: Trace, twin: Path) -> None:
    """Write a copy, unless another thread or process has done so: existing copies are never replaced."""
    own = _temporary_path(twin)
    try:
        trace.save(own, "native")
        try:
            own.rename(twin)
        except OSError:
            if not twin.exists():
                raise
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _temporary_path(twin: Path) -> Path:
    return twin.with_name(f".{secrets.token_hex(6)}.{twin.name}")


# The work on each rank, in any process: read, reduce, drop.

Analyses: TypeAlias = Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]]
"""The analysis and its further arguments, by internal name."""


@dataclass(slots=True)
class Reduction:
    """The result for one rank; small, since it is sent between processes."""

    rank: int
    # By name of the analysis, each with a `rank` column.
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    # Analyses that raised.
    failures: dict[str, Exception] = field(default_factory=dict)
    # Problems of the trace itself, and those found while reading it.
    report: ImportReport = field(default_factory=ImportReport)
    # ``slices``, ``steps`` (first, last, count), ``start_unix_ns``, ``host``, ``rank`` of the trace.
    facts: dict[str, Any] = field(default_factory=dict)
    # Whether the rank could be read.
    read: bool = True
    seconds: float = 0.0


def reduce_rank(file: RankFile, analyses: Analyses, cache: Cache = None) -> Reduction:
    """Read a rank, apply the analyses, and keep only their results."""
    # Errors of a file or an analysis are not raised: the other ranks are still needed.
    started = time.perf_counter()
    result = Reduction(file.rank)
    try:
        trace, trouble = open_rank(file, cache)
    except (NotebookProfError, OSError, MemoryError) as error:
        result.read = False
        example = f"rank {file.rank}: {error or type(error).__name__}"
        effect = "this rank is missing from all figures"
        result.report.add("rank-unreadable", "error", example=example, effect=effect)
        return result
    result.report.extend(trace.report)
    result.report.extend(trouble)
    result.facts = _facts(trace)
    _apply(trace, analyses, result)
    result.seconds = time.perf_counter() - started
    return result


@sharing
def _apply(trace: Trace, analyses: Analyses, result: Reduction) -> None:
    """Run all analyses; shared results are computed once."""
    for name, (analysis, arguments) in analyses.items():
        try:
            result.frames[name] = with_rank(analysis(trace, **arguments), result.rank)
        except Exception as error:  # the user's own function may raise anything
            result.failures[name] = _portable(error)


def with_rank(value: Any, rank: int) -> pd.DataFrame:
    """Return an analysis's result as a frame whose first column is the rank."""
    if isinstance(value, pd.DataFrame):
        frame = value.copy(deep=False)
    elif isinstance(value, pd.Series):
        frame = value.rename(value.name or "value").reset_index()
    elif isinstance(value, Mapping):
        frame = pd.DataFrame({key: [item] for key, item in value.items()})
    else:
        frame = pd.DataFrame({"value": [value]})
    numbers = np.full(len(frame), rank, np.int32)
    if "rank" in frame.columns:
        frame = frame.drop(columns="rank")
    frame.insert(0, "rank", numbers)
    return frame


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the frames concatenated by rank; categories are merged, dtypes are kept."""
    if not frames:
        return pd.DataFrame({"rank": np.empty(0, np.int32)})
    parts = [frame for frame in frames if len(frame)] or [frames[0]]
    parts.sort(key=lambda frame: int(frame["rank"].iloc[0]) if len(frame) else -1)
    if len(parts) == 1:
        return parts[0].reset_index(drop=True)
    words: dict[str, list[Any]] = {}
    for name in parts[0]:
        if all(name in part and isinstance(part[name].dtype, pd.CategoricalDtype) for part in parts):
            words[name] = list(dict.fromkeys(word for part in parts for word in part[name].cat.categories))
    return pd.concat(
        [part.assign(**{n: part[n].cat.set_categories(words[n]) for n in words}) for part in parts],
        ignore_index=True,
    )


def _facts(trace: Trace) -> dict[str, Any]:
    steps = trace.steps["step"]
    facts: dict[str, Any] = {"slices": len(trace)}
    if len(steps):
        facts["steps"] = (int(steps.min()), int(steps.max()), len(steps))
    for key in ("start_unix_ns", "host", "rank", "world_size"):
        if key in trace.metadata:
            facts[key] = trace.metadata[key]
    return facts


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return NotebookProfError(f"{type(error).__name__}: {error}")
    return error
