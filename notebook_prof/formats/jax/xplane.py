"""JAX's ``.xplane.pb`` files, without a library: just what is needed of ``xplane.proto``.

The messages, from ``xla/tsl/profiler/protobuf/xplane.proto`` in openxla/xla, with field numbers: XSpace has
planes (1). XPlane: name (2), lines (3), event_metadata (4), stat_metadata (5), stats (6). XLine: id (1), name
(2), timestamp_ns (3), events (4), display_name (11). XEvent: metadata_id (1), offset_ps (2), duration_ps (3),
stats (4). XStat: metadata_id (1) and one of double (2), uint64 (3), int64 (4), str (5), bytes (6), ref (7).
Entries of the two tables of metadata: key (1), value (2); values: id (1), name (2), stats (5).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...errors import ExtraNotInstalledError, FormatError
from ...optional import installed, require
from ...readers.codec.protobuf import Span, WireError, fields, float64, signed, text
from ...trace.report import ImportReport
from ...trace.strings import Coded
from .assemble import STATISTICS, Line, Space, as_arguments, coded, is_argument

_PS: Final = 1000
_LIMIT: Final = 1 << 62


def planes(data: bytes) -> list[Span]:
    """Return where the planes of a file begin and end; a `WireError` if the file is cut off."""
    return [
        value for number, value in fields(data, (0, len(data))) if number == 1 and isinstance(value, tuple)
    ]


def walk(data: bytes, report: ImportReport) -> Space:
    """Decode a serialized XSpace: every event that is whole."""
    space = Space([])
    try:
        for number, value in fields(data, (0, len(data))):
            if number == 1 and isinstance(value, tuple):
                _plane(data, value, space, report)
    except WireError as error:
        report.add(
            "truncated-file",
            "loss",
            example=str(error),
            effect="the last planes are missing",
            advice="the writing process was probably killed",
        )
    return space


def _plane(data: bytes, span: Span, space: Space, report: ImportReport) -> None:
    name = ""
    lines: list[Span] = []
    events: list[Span] = []
    stats: list[Span] = []
    stat_names: dict[int, str] = {}
    try:
        for number, value in fields(data, span):
            if isinstance(value, int):
                continue
            if number == 2:
                name = text(data, value)
            elif number == 3:
                lines.append(value)
            elif number == 4:
                events.append(value)
            elif number == 5:
                key, stat_name, _ = _entry(data, value, {})
                stat_names[key] = stat_name
            elif number == 6:
                stats.append(value)
    except WireError as error:
        _broken(report, f"plane {name!r}: {error}")
    space.planes.append(name)
    argument_names = {key: stat_name for key, stat_name in stat_names.items() if is_argument(stat_name)}
    metadata: dict[int, tuple[str, dict[str, Any]]] = {}
    for event in events:
        try:
            key, event_name, own = _entry(data, event, argument_names, stat_names)
        except WireError as error:
            _broken(report, f"plane {name!r}: {error}")
            continue
        metadata[key] = (event_name, own)
    plane_stats: dict[str, Any] = {}
    for stat in stats:
        _stat(data, stat, stat_names, stat_names, plane_stats)
    if plane_stats:
        space.facts[name] = plane_stats
    for line in lines:
        space.lines.append(_line(data, line, name, metadata, argument_names, stat_names, report))


def _broken(report: ImportReport, example: str) -> None:
    report.add("broken-message", "loss", example=example, effect="what follows in it is left out")


def _entry(
    data: bytes, span: Span, argument_names: dict[int, str], refs: dict[int, str] | None = None
) -> tuple[int, str, dict[str, Any]]:
    """Return key, name and wanted statistics of an entry of one of the two tables of metadata."""
    key, name, stats = 0, "", dict[str, Any]()
    for number, value in fields(data, span):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 2 and isinstance(value, tuple):
            for inner, part in fields(data, value):
                if inner == 2 and isinstance(part, tuple):
                    name = text(data, part)
                elif inner == 5 and isinstance(part, tuple) and argument_names:
                    _stat(data, part, argument_names, refs or {}, stats)
    return key, name, stats


def _stat(
    data: bytes, span: Span, argument_names: dict[int, str], refs: dict[int, str], into: dict[str, Any]
) -> None:
    name = ""
    stat: Any = None
    try:
        for number, value in fields(data, span):
            if isinstance(value, int):
                if number == 1:
                    if value not in argument_names:
                        return
                    name = argument_names[value]
                elif number == 2:
                    stat = float64(value)
                elif number == 7:
                    stat = refs.get(value, "")
                else:
                    stat = signed(value) if number == 4 else value
            elif number == 5:
                stat = text(data, value)
            elif number == 6:
                stat = data[slice(*value)]
    except WireError:
        return
    if name and stat is not None:
        into[name] = stat


def _line(
    data: bytes,
    span: Span,
    plane: str,
    metadata: dict[int, tuple[str, dict[str, Any]]],
    argument_names: dict[int, str],
    refs: dict[int, str],
    report: ImportReport,
) -> Line:
    name, display, line_id, start = "", "", 0, 0
    events: list[Span] = []
    try:
        for number, value in fields(data, span):
            if isinstance(value, tuple):
                if number == 4:
                    events.append(value)
                elif number == 2:
                    name = text(data, value)
                elif number == 11:
                    display = text(data, value)
            elif number == 1:
                line_id = signed(value)
            elif number == 3:
                start = value
    except WireError as error:
        _broken(report, f"line {name!r}: {error}")
    rows, event_stats = _events(data, events, metadata, argument_names, refs, report)
    ids, offset, dur = (
        np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ((),) * 3)
    )
    distinct, codes = np.unique(ids, return_inverse=True)
    names = [metadata.get(int(key), (f"event {key}", {}))[0] for key in distinct]
    start = start if start < _LIMIT else 0
    stats = {key: [own.get(key) for own in event_stats] for key in STATISTICS}
    stats = {key: values for key, values in stats.items() if any(value is not None for value in values)}
    return Line(
        plane,
        display or name,
        line_id,
        offset // _PS + start,
        dur // _PS,
        Coded(codes, names),
        stats,
        as_arguments(event_stats),
    )


def _events(
    data: bytes,
    spans: list[Span],
    metadata: dict[int, tuple[str, dict[str, Any]]],
    argument_names: dict[int, str],
    refs: dict[int, str],
    report: ImportReport,
) -> tuple[list[tuple[int, int, int]], list[dict[str, Any]]]:
    """Return metadata, offset and duration of whole events, and their statistics."""
    rows: list[tuple[int, int, int]] = []
    event_stats: list[dict[str, Any]] = []
    for span in spans:
        key = offset = dur = 0
        own: dict[str, Any] = {}
        try:
            for number, value in fields(data, span):
                if isinstance(value, int):
                    if number == 1:
                        key = value
                    elif number == 2:
                        offset = value
                    elif number == 3:
                        dur = value
                elif number == 4 and argument_names:
                    _stat(data, value, argument_names, refs, own)
        except WireError as error:
            _broken(report, str(error))
            continue
        if max(offset, dur, key) >= _LIMIT:
            report.add(
                "broken-row", "loss", example=f"offset {offset} ps", effect="these events are left out"
            )
            continue
        event_stats.append({**metadata[key][1], **own} if key in metadata else own)
        rows.append((key, offset, dur))
    return rows, event_stats


_EXACT: Final = 1 << 53
"""JAX writes times as doubles in ns. They are whole numbers only below this."""


def decode(data: bytes, report: ImportReport) -> Space:
    """Decode a file, with `jax.profiler.ProfileData` or else with our own walker."""
    # The walker is used where JAX is not installed or too old for `ProfileData`, where the file is cut off
    # (JAX does not tell), and where its times, doubles of nanoseconds, are too large to be exact.
    try:
        whole = bool(planes(data))
    except WireError:
        whole = False
    space = through_jax(data) if whole and installed("jax") else None
    if space is None:
        space = walk(data, report)
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
            if (read := _decoded_line(plane.name, line)) is None:
                return None
            space.lines.append(read)
    return space


def _decoded_line(plane: str, line: Any) -> Line | None:
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
