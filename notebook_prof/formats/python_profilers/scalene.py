"""Scalene: shares of time by line, and the call paths that it sampled."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd
from msgspec import Struct

from ...errors import FormatError
from ...readers.call_tree import CallFrame, Sampled, add_samples
from ...readers.codec.tolerant_json import decode_object
from ...trace.builder import TraceBuilder

_LOCATION: Final = re.compile(r"(.*) (\S+):(\d{1,9});?", re.DOTALL)
_SHARES: Final = ("n_cpu_percent_python", "n_cpu_percent_c", "n_sys_percent")
_MIB: Final = 2**20
_LONGEST_S: Final = 4e9


class _ScaleneFile(Struct):
    files: dict[str, Any]
    elapsed_time_sec: float = 0.0
    start_time_absolute: float = 0.0
    stacks: Any = None
    samples: Any = None
    program: Any = None
    max_footprint_mb: Any = None
    gpu_device: Any = None


def read_scalene(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's call paths, lines and footprint into `builder`."""
    file = decode_object(data, _ScaleneFile, "Scalene's")
    tables = {kind: _table(file.files, kind) for kind in ("lines", "functions")}
    builder.metadata.setdefault("tables", {}).update(tables)
    for key in ("program", "max_footprint_mb", "gpu_device", "elapsed_time_sec"):
        if isinstance(value := getattr(file, key), str | int | float) and value:
            builder.metadata[key] = value
    start = _ns(file.start_time_absolute)
    frames, flat, lengths, share = _stacks(file.stacks, builder)
    if not len(share):
        frames, flat, lengths, share = _from_lines(tables["lines"])
    whole = float(share.sum())
    dur = np.rint(share / whole * _ns(file.elapsed_time_sec)) if whole > 0 else np.zeros(len(share))
    ns = dur.astype(np.int64)
    effect = "totals are Scalene's estimates; when a line ran is unknown"
    builder.report.add("no-time-line", "info", example="shares of time by call path", effect=effect)
    track = builder.track("main")
    add_samples(builder, track, Sampled(start + np.cumsum(ns) - ns, ns, flat, lengths), frames)
    _footprint(file.samples, start, builder)


def _table(files: dict[str, Any], kind: str) -> pd.DataFrame:
    """Return all rows of one kind, with the file in front."""
    rows: list[dict[str, Any]] = []
    for path, entry in files.items():
        listed = entry.get(kind) if isinstance(entry, dict) else None
        for row in listed if isinstance(listed, list) else ():
            if isinstance(row, dict):
                plain = {str(key): value for key, value in row.items() if not isinstance(value, list | dict)}
                rows.append({"file": path, **plain})
    if len({key for row in rows for key in row}) > 200:
        raise FormatError(f"its {kind} have too many different columns for Scalene's")
    return pd.DataFrame(rows)


_Paths = tuple[list[CallFrame], Any, Any, Any]


def _stacks(stacks: Any, builder: TraceBuilder) -> _Paths:
    """Call paths as Scalene sampled them, deepest last, and their shares."""
    numbers: dict[CallFrame, int] = {}
    flat, lengths, shares, broken = [], [], [], 0
    for entry in stacks if isinstance(stacks, list) else []:
        try:
            path, facts = entry
            frames = [_frame(text) for text in path]
            share = float(facts["cpu_samples"])
            if not 0 <= share < 1e12:
                raise ValueError(share)
        except (TypeError, ValueError, KeyError, OverflowError):
            broken += 1
            continue
        flat += [numbers.setdefault(frame, len(numbers)) for frame in frames]
        lengths.append(len(frames))
        shares.append(share)
    example = f"{len(shares):,} others are sound"
    builder.report.broken_rows(broken, example, "these call paths are left out")
    return list(numbers), np.array(flat, np.int64), np.array(lengths, np.int64), np.array(shares)


def _frame(text: str) -> CallFrame:
    """Read ``file function:line;`` as a frame."""
    if (match := _LOCATION.fullmatch(text)) is None:
        return CallFrame(str(text).rstrip(";"), "", 0)
    return CallFrame(match[2], match[1], int(match[3]))


def _from_lines(lines: pd.DataFrame) -> _Paths:
    empty = np.empty(0, np.int64)
    if not {"file", "lineno", *_SHARES} <= set(lines.columns):
        return [], empty, empty, np.empty(0)
    numbers = lines[list(_SHARES)].apply(pd.to_numeric, errors="coerce").fillna(0.0)
    share = numbers.sum(axis=1).clip(lower=0).to_numpy(np.float64)
    number = pd.to_numeric(lines["lineno"], errors="coerce").fillna(0).clip(0, 2**31 - 1)
    text = lines.get("line", pd.Series("", index=lines.index)).astype(str).str.strip()
    used = np.flatnonzero((share > 0) & np.isfinite(share))
    columns = (text.iloc[used], lines["file"].iloc[used], number.to_numpy(np.int64)[used].tolist())
    frames = [CallFrame(*row) for row in zip(*columns, strict=True)]
    return frames, np.arange(len(used)), np.ones(len(used), np.int64), share[used]


def _footprint(samples: Any, start: int, builder: TraceBuilder) -> None:
    """Read ``[[ns, MB], …]`` as a counter."""
    pairs = [
        pair
        for pair in (samples if isinstance(samples, list) else [])
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(v, int | float) for v in pair)
    ]
    if not pairs:
        return
    ns, megabytes = np.array([[float(v) for v in pair] for pair in pairs]).T
    ok = (ns >= 0) & (ns < _LONGEST_S * 1e9)
    track = builder.track("memory footprint", "counter", unit="bytes")
    builder.counter(track, start + np.rint(ns[ok]).astype(np.int64), np.rint(megabytes[ok] * _MIB))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9) if 0 <= seconds < _LONGEST_S else 0
