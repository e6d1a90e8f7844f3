"""What our files for other programs have beside their events: tracks, steps, call stacks, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ...trace.builder import TraceBuilder
from ...trace.taxonomy import STEP_SOURCES, TRACK_KINDS
from .chrome_rows import FrameRow, Head, Tables

MOST_NS: Final = 1 << 61
MOST_NUMBER: Final = {"step": (1 << 31) - 1, "device": (1 << 15) - 1}
_MOST_LOOPS: Final = 1 << 31
_TRACK_IDS: Final = {"pid": 1 << 63, "tid": 1 << 63, "device": 1 << 15, "stream": 1 << 63, "rank": 1 << 31}
_DIGITS: Final = 18


def put_head(head: Head, builder: TraceBuilder) -> tuple[list[int], dict[int, int]]:
    """Put metadata, tracks, steps, frames and the window into `builder`.

    Returns
    -------
    tracks : list of int
        The builder's tracks, in the order of the file.
    frames : dict of int to int
        Keys of call stacks by their number in the file.
    """
    metadata = {key: value for key, value in head.metadata.items() if key not in ("file", "tables")}
    builder.metadata.update(metadata)
    tracks, frames = _named_tracks(head.tables, builder), _stacks(head.frames, builder)
    _put_steps(head, builder)
    window = head.tables.window
    if window is not None and window[0] < window[1] and max(map(abs, window)) < MOST_NS:
        builder.window = head.base + window[0], head.base + window[1]
    return tracks, frames


def _put_steps(head: Head, builder: TraceBuilder) -> None:
    tables = head.tables
    loops = tables.loops if len(tables.loops) == len(tables.steps) else [0] * len(tables.steps)
    steps = [(*step, loop) for step, loop in zip(tables.steps, loops, strict=True)]
    steps = [step for step in steps if max(map(abs, step[:3])) < MOST_NS and 0 <= step[4] < _MOST_LOOPS]
    for source in STEP_SOURCES:
        if of_source := [(*step[:3], step[4]) for step in steps if step[3] == source]:
            number, ts, dur, loop = np.array(of_source, np.int64).T
            builder.steps(number, ts + head.base, dur, source, loop=loop)


def _named_tracks(tables: Tables, builder: TraceBuilder) -> list[int]:
    tracks = []
    for row in tables.tracks:
        ids = {key: getattr(row, key) for key in _TRACK_IDS}
        sound = {k: v for k, v in ids.items() if v is not None and -_TRACK_IDS[k] <= v < _TRACK_IDS[k]}
        kind = row.kind if row.kind in TRACK_KINDS else "thread"
        tracks.append(builder.track(row.name, kind, unit=row.unit, **sound))
    return tracks


def _stacks(frames: Mapping[str, FrameRow], builder: TraceBuilder) -> dict[int, int]:
    """Return keys of call stacks by their number in the file; a frame comes behind the one that called it."""
    keys: dict[int, int] = {}
    for number, frame in frames.items():
        if number.isdecimal() and len(number) < _DIGITS:
            above = int(frame.parent) if frame.parent.isdecimal() and len(frame.parent) < _DIGITS else -1
            line = frame.line if 0 <= frame.line < 1 << 31 else -1
            keys[int(number)] = builder.stack([(frame.name, frame.category, line)], above=keys.get(above, -1))
    return keys
