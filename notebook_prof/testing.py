"""Traces drawn as text, for tests, ours and yours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from .errors import OptionError
from .trace import Trace, TraceBuilder

_SLICE: Final = re.compile(r"\[([^\[\]|]*)\]|\|(\w*)")
_STREAM: Final = re.compile(r"stream (\d+)")


def draw(
    picture: str,
    *,
    unit_ns: int = 1,
    categories: Mapping[str, str] | None = None,
    launches: Iterable[tuple[str, str]] = (),
) -> Trace:
    """Make a Trace from a drawing.

    Parameters
    ----------
    picture : str
        Lines ``track: drawing``. A character of the drawing is a unit of time; ``[name ]`` is a slice from
        its first to its last bracket, ``[name/forward ]`` has a phase, ``|name`` is an instant. Lines of
        the same track overlay each other. ``stream 7:`` is a stream of device 0; ``steps:`` has numbered
        steps.
    unit_ns : int
        Duration of a character.
    categories : mapping of str to str, optional
        Category by name; by default ``kernel`` on streams and ``operator`` on threads.
    launches : iterable of (str, str), optional
        Pairs of names: the n-th slice of the first name launched the n-th slice of the second.

    Returns
    -------
    Trace
        Its first column is time 0, even if nothing starts there.

    Raises
    ------
    OptionError
        For a line without a track, or an unknown phase or category.

    Examples
    --------
    >>> trace = draw('''
    ... main:     [linear    ]
    ... main:      [mm ][add]
    ... stream 7:      [gemm  ]
    ... ''', launches=[("mm", "gemm")])
    >>> trace.slices[["name", "ts", "dur", "depth"]].values.tolist()
    [['linear', 0, 12, 0], ['mm', 1, 5, 1], ['gemm', 5, 8, 0], ['add', 6, 5, 1]]
    """
    builder = TraceBuilder()
    handles: dict[str, list[int]] = {}
    lines = [line for line in picture.splitlines() if line.strip()]
    tracks = [(track, body) for track, body in map(_split, lines)]
    margin = min((len(body) - len(body.lstrip()) for _, body in tracks), default=0)
    for track, body in tracks:
        for match in _SLICE.finditer(body):
            ts, dur = (match.start() - margin) * unit_ns, (match.end() - match.start()) * unit_ns
            name, _, phase = (match[1] if match[1] is not None else match[2]).strip().partition("/")
            if track == "steps":
                builder.steps(int(name), ts, dur, "mark")
                continue
            kind = (categories or {}).get(name, "kernel" if _STREAM.fullmatch(track) else "operator")
            handle = builder.slices(
                ts=ts,
                dur=0 if match[1] is None else dur,
                track=_track(builder, track),
                name=name,
                category=kind,
                phase=phase or None,
            )
            handles.setdefault(name, []).append(int(handle[0]))
    for source, target in launches:
        pairs = list(zip(handles.get(source, []), handles.get(target, []), strict=False))
        if not pairs:
            raise OptionError(
                f"no slice {source!r} launches {target!r}: the drawing has {', '.join(handles)}"
            )
        builder.flows("launch", [a for a, _ in pairs], [b for _, b in pairs])
    return builder.seal(window=(0, max([0, *(len(body) - margin for _, body in tracks)]) * unit_ns))


def _split(line: str) -> tuple[str, str]:
    track, colon, body = line.partition(":")
    if not colon or "[" in track:
        raise OptionError(f"the line {line!r} has no track: write it as 'main: [mm ]'")
    return track.strip(), " " * (len(track) + 1) + body.rstrip()


def _track(builder: TraceBuilder, name: str) -> int:
    if match := _STREAM.fullmatch(name):
        return builder.track(name, "stream", device=0, stream=int(match[1]))
    return builder.track(name)
