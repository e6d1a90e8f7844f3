"""The work on one rank, in any process: read, reduce, drop."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..analysis.scope import sharing
from ..errors import NotebookProfError
from ..readers import read_trace
from ..trace import ImportReport, Trace
from .files import RankFile

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


def reduce_rank(file: RankFile, analyses: Analyses) -> Reduction:
    """Read a rank, apply the analyses, and keep only their results."""
    # Errors of a file or an analysis are not raised: the other ranks are still needed.
    started = time.perf_counter()
    result = Reduction(file.rank)
    try:
        trace = read_trace(file.path)
    except (NotebookProfError, OSError, MemoryError) as error:
        result.read = False
        example = f"rank {file.rank}: {error or type(error).__name__}"
        effect = "this rank is missing from all figures"
        result.report.add("rank-unreadable", "error", example=example, effect=effect)
        return result
    result.report.extend(trace.report)
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
