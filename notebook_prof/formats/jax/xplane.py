"""JAX's ``.xplane.pb`` files, without a library: the parts of ``xplane.proto`` that are needed.

The messages, from ``xla/tsl/profiler/protobuf/xplane.proto`` in openxla/xla, with field numbers: XSpace has
planes (1). XPlane: name (2), lines (3), event_metadata (4), stat_metadata (5), stats (6). XLine: id (1), name
(2), timestamp_ns (3), events (4), display_name (11). XEvent: metadata_id (1), offset_ps (2), duration_ps (3),
stats (4). XStat: metadata_id (1) and one of double (2), uint64 (3), int64 (4), str (5), bytes (6), ref (7).
Entries of the two tables of metadata: key (1), value (2); values: id (1), name (2), stats (5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...errors import FormatError
from ...readers.codec.columns import texts
from ...readers.codec.protobuf import PADDING, Fields, text_column
from ...trace.arrays import IntArray
from ...trace.report import ImportReport
from ...trace.strings import Coded
from .assemble import PlaneLine, Space, as_arguments, is_argument, statistics

_PS: Final = 1000
_LIMIT: Final = 1 << 62
_DOUBLE, _UINT, _INT, _TEXT, _BYTES, _REF = range(2, 8)

Names = list[dict[int, str]]
"""The names of statistics by number, for each plane."""


def decode(data: bytes, report: ImportReport) -> Space:
    """Decode a serialized XSpace: every event that is whole."""
    content = np.frombuffer(data + bytes(PADDING), np.uint8)
    whole = Fields(content, np.array([0]), np.array([len(data)]))
    if whole.broken:
        report.truncated(
            "the last field is cut",
            "the last planes are missing",
            advice="the writing process was probably killed",
        )
    planes = whole.inside(whole.occurrences(1))
    space = Space([], planes=texts(text_column(planes, 2)))
    names: Names = [{} for _ in space.planes]
    owner, keys, entries = _entries(planes, 5)
    for plane, key, name in zip(owner.tolist(), keys.tolist(), texts(text_column(entries, 2)), strict=True):
        names[plane][key] = name
    arguments = [{key: name for key, name in own.items() if is_argument(name)} for own in names]
    facts = _statistics(planes, 6, np.arange(planes.count), names, names)
    space.facts.update({name: own for name, own in zip(space.planes, facts, strict=True) if own})
    owner, keys, entries = _entries(planes, 4)
    numbers = zip(owner.tolist(), keys.tolist(), strict=True)
    titles, own = texts(text_column(entries, 2)), _statistics(entries, 5, owner, arguments, names)
    metadata = dict(zip(numbers, zip(titles, own, strict=True), strict=True))
    broken = planes.broken + entries.broken + _lines(planes, space, metadata, arguments, names, report)
    effect = "the rest of the message is left out"
    report.add("broken-message", "loss", broken, "a field that reaches beyond its message", effect)
    if not space.lines and not any(space.planes):
        raise FormatError(f"there is no plane in it: it is not an xplane.pb; it starts with {data[:24]!r}")
    return space


def _lines(
    planes: Fields,
    space: Space,
    metadata: dict[tuple[int, int], tuple[str, dict[str, Any]]],
    arguments: Names,
    names: Names,
    report: ImportReport,
) -> int:
    """Add the lines of all planes; return how many messages are broken."""
    of_line, of_event = planes.occurrences(3), (lines := planes.inside(planes.occurrences(3))).occurrences(4)
    events = lines.inside(of_event)
    key, offset, dur = (events.ints(number, 0) for number in (1, 2, 3))
    ok = np.logical_and.reduce([(part >= 0) & (part < _LIMIT) for part in (key, offset, dur)])
    report.broken_rows(~ok, lambda i: f"offset {offset[i]} ps", "these events are left out")
    own = _statistics(events, 4, of_line.owner[of_event.owner], arguments, names)
    bounds = np.searchsorted(of_event.owner, np.arange(lines.count + 1))
    titles = [texts(text_column(lines, number)) for number in (2, 11)]
    starts, ids = lines.ints(3, 0), lines.ints(1, 0).tolist()
    for i, plane in enumerate(of_line.owner.tolist()):
        rows = np.arange(bounds[i], bounds[i + 1])[ok[bounds[i] : bounds[i + 1]]]
        distinct, codes = np.unique(key[rows], return_inverse=True)
        about = [metadata.get((plane, number), (f"event {number}", {})) for number in distinct.tolist()]
        facts = [about[code][1] | own[row] for code, row in zip(codes.tolist(), rows.tolist(), strict=True)]
        start = starts[i] if 0 <= starts[i] < _LIMIT else 0
        where = (space.planes[plane], titles[1][i] or titles[0][i], ids[i])
        times = (offset[rows] // _PS + start, dur[rows] // _PS)
        name = Coded(codes, [name for name, _ in about])
        space.lines.append(PlaneLine(*where, *times, name, statistics(facts), as_arguments(facts)))
    return lines.broken + events.broken


def _entries(planes: Fields, number: int) -> tuple[IntArray, IntArray, Fields]:
    """Return plane, key and value of the entries of one of the two tables of metadata."""
    every = planes.occurrences(number)
    entries = planes.inside(every)
    return every.owner, entries.ints(1, 0), entries.inner(2)


def _statistics(
    messages: Fields, number: int, plane: IntArray, wanted: Sequence[dict[int, str]], refs: Names
) -> list[dict[str, Any]]:
    """Return the wanted statistics of each message, by name."""
    every = messages.occurrences(number)
    stats = messages.inside(every)
    value = np.full(stats.count, None, object)
    for kind in (_DOUBLE, _UINT, _INT, _TEXT, _BYTES, _REF):
        rows = np.flatnonzero(stats.has(kind))
        if kind == _DOUBLE:
            value[rows] = stats.floats(kind)[rows].tolist()
        elif kind == _TEXT:
            value[rows] = np.array([*texts(text_column(stats, kind)), ""], object)[rows]
        elif kind == _BYTES:
            raw = stats.texts(stats.occurrences(kind)).to_pylist()
            value[stats.occurrences(kind).owner] = np.array([*raw, b""], object)[:-1]
        else:
            value[rows] = stats.ints(kind)[rows].view(np.int64 if kind == _INT else np.uint64).tolist()
    result: list[dict[str, Any]] = [{} for _ in range(messages.count)]
    columns = (every.owner, plane[every.owner], stats.ints(1, 0), value, stats.has(_REF))
    for message, own, key, stat, is_ref in zip(*(column.tolist() for column in columns), strict=True):
        if stat is not None and (name := wanted[own].get(key)):
            result[message][name] = refs[own].get(stat, "") if is_ref else stat
    return result
