"""``.xplane.pb`` through JAX's own decoder, where JAX is installed."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...errors import ExtraNotInstalledError, FormatError
from ...optional import installed, require
from ...readers.codec.protobuf import WireError
from ...trace.report import ImportReport
from . import xplane
from .columns import STATISTICS, Line, Space, as_arguments, coded

_EXACT: Final = 1 << 53
"""JAX writes times as doubles in ns. They are whole numbers only below this."""


def decode(data: bytes, report: ImportReport) -> Space:
    """Decode a file, with `jax.profiler.ProfileData` or else with our own walker."""
    # The walker is used where JAX is not installed or too old for `ProfileData`, where the file is cut off
    # (JAX does not tell), and where its times, doubles of nanoseconds, are too large to be exact.
    try:
        whole = bool(xplane.planes(data))
    except WireError:
        whole = False
    space = through_jax(data) if whole and installed("jax") else None
    if space is None:
        space = xplane.walk(data, report)
    if not space.lines and not any(space.planes):
        raise FormatError(f"there is no plane in it: it is no xplane.pb; it starts with {data[:24]!r}")
    return space


def through_jax(data: bytes) -> Space | None:
    """Decode a file with JAX alone; None where it cannot, or not exactly."""
    try:
        profiler: Any = require("jax.profiler", extra="jax", purpose="reading xplane files")
        profile = profiler.ProfileData.from_serialized_xspace(data)
    except (ExtraNotInstalledError, AttributeError, RuntimeError, ValueError):
        return None
    space = Space([])
    for plane in profile.planes:
        space.planes.append(plane.name)
        if facts := dict(plane.stats):
            space.facts[plane.name] = facts
        for line in plane.lines:
            if (read := _line(plane.name, line)) is None:
                return None
            space.lines.append(read)
    return space


def _line(plane: str, line: Any) -> Line | None:
    events = [(event.name, event.start_ns, event.duration_ns, dict(event.stats)) for event in line.events]
    names, starts, durations, stats = zip(*events, strict=True) if events else ((),) * 4
    ts, dur = np.array(starts, np.float64), np.array(durations, np.float64)
    if len(ts) and max(np.abs(ts).max(), np.abs(dur).max()) >= _EXACT:
        return None
    kept = {name: [own.get(name) for own in stats] for name in STATISTICS}
    kept = {name: values for name, values in kept.items() if any(value is not None for value in values)}
    # lines have no id here; the number at the end of a stream's name tells streams apart
    return Line(
        plane,
        line.name,
        -1,
        np.floor(ts).astype(np.int64),
        np.floor(dur).astype(np.int64),
        coded(list(names)),
        kept,
        as_arguments(list(stats)),
    )
