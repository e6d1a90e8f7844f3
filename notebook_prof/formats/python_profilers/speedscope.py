"""speedscope's own format, which many profilers export."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw, Struct, field

from ...errors import bounded_repr
from ...readers.call_tree import Frame, Sampled, add_samples, labels
from ...readers.codec.tolerant_json import decode_object
from ...readers.events import match
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder

_NANOSECONDS: Final = {
    "nanoseconds": 1,
    "microseconds": 1_000,
    "milliseconds": 1_000_000,
    "seconds": 1_000_000_000,
}
_LARGEST: Final = 2.0**61
_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class _Frame(Struct):
    name: Any = ""
    file: Any = None
    line: Any = None


class _Shared(Struct):
    frames: list[_Frame] = []


class _Event(Struct, gc=False):
    type: str
    at: int | float
    frame: int


class _Profile(Struct):
    type: str = ""
    name: Any = ""
    unit: str = "none"
    end: int | float = field(name="endValue", default=0)
    events: list[_Event] = []
    samples: list[list[int]] = []
    weights: list[int | float] = []


class _File(Struct):
    profiles: list[Raw]
    shared: _Shared = field(default_factory=_Shared)
    name: Any = None
    exporter: Any = None


def read_speedscope(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's profiles into `builder`."""
    file = decode_object(data, _File, "speedscope's")
    frames = [_frame(each) for each in file.shared.frames]
    if isinstance(file.exporter, str):
        builder.metadata["exporter"] = file.exporter
    for number, text in enumerate(file.profiles):
        try:
            profile = msgspec.json.decode(text, type=_Profile)
        except _BROKEN as error:
            builder.report.add(
                "broken-profile", "loss", example=f"profile {number}: {error}", effect="left out"
            )
            continue
        _add(profile, number, frames, builder)


def _frame(frame: _Frame) -> Frame:
    line = frame.line if isinstance(frame.line, int) and 0 < frame.line < 2**31 else 0
    file = str(frame.file or "")
    return Frame(str(frame.name), "" if file.startswith("<built-in") else file, line)


def _add(profile: _Profile, number: int, frames: list[Frame], builder: TraceBuilder) -> None:
    scale = _NANOSECONDS.get(profile.unit)
    if scale is None:
        scale = 1
        builder.report.add(
            "unit-not-time",
            "info",
            example=f"{profile.name!r} is measured in {profile.unit!r}",
            effect="shown as nanoseconds",
        )
    # profiles of one name are several threads: number them
    track = builder.track(str(profile.name) or f"profile {number + 1}", tid=number)
    if profile.type == "evented":
        _add_events(profile, scale, track, frames, builder)
    elif profile.type == "sampled":
        _add_sampled(profile, scale, track, frames, builder)
    else:
        builder.report.add("unknown-profile", "loss", example=bounded_repr(profile.type), effect="left out")


def _add_events(
    profile: _Profile, scale: int, track: int, frames: list[Frame], builder: TraceBuilder
) -> None:
    ts, ok = _times([event.at for event in profile.events], scale)
    frame = _positions([event.frame for event in profile.events])
    opens = np.array([event.type == "O" for event in profile.events], bool)
    ok &= (frame >= 0) & (frame < len(frames))
    ok &= opens | np.array([event.type == "C" for event in profile.events], bool)
    builder.report.add_where(
        "broken-row", "loss", ~ok, lambda i: profile.events[i], "these events are left out"
    )
    ts, frame, opens = ts[ok], frame[ok], opens[ok]
    pairs = match(np.zeros(len(ts), np.int64), frame, ts, opens)
    stop, _ = _times([profile.end], scale)
    last = max(int(stop[0]), int(ts.max(initial=0)))
    for code, lost, effect in (
        ("unclosed-begin", pairs.unclosed, "kept until the end"),
        ("end-without-begin", pairs.unopened, "ignored"),
    ):
        builder.report.add_where(code, "loss", lost, lambda i: frames[frame[i]][0], effect)
    begin = np.concatenate([pairs.begin, pairs.unclosed])
    end = np.concatenate([ts[pairs.end], np.full(len(pairs.unclosed), last)])
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    code, used = pd.factorize(frame[begin])
    keys = np.array([builder.stack([frames[i]]) for i in used.tolist()], np.int64)  # noqa: PD013
    builder.slices(
        ts=ts[begin],
        dur=end - ts[begin],
        track=track,
        name=labels(frame[begin], frames),
        category="python",
        stack=keys[code],
    )


def _add_sampled(
    profile: _Profile, scale: int, track: int, frames: list[Frame], builder: TraceBuilder
) -> None:
    count = min(len(profile.samples), len(profile.weights))
    builder.report.add(
        "sample-without-weight",
        "loss",
        max(len(profile.samples), len(profile.weights)) - count,
        example=f"{len(profile.samples):,} samples, {len(profile.weights):,} weights",
        effect="these samples are left out",
    )
    dur, ok = _times(profile.weights[:count], scale)
    ok &= dur >= 0
    lengths = np.fromiter(map(len, profile.samples[:count]), np.int64, count)
    flat = _positions([frame for sample in profile.samples[:count] for frame in sample])
    wrong = (flat < 0) | (flat >= len(frames))
    owner = np.repeat(np.arange(count), lengths)
    ok[owner[wrong]] = False
    builder.report.add_where(
        "broken-row", "loss", ~ok, lambda i: f"sample {i}: {profile.samples[i]}", "these samples are left out"
    )
    keep = ok & (dur > 0)
    dur = np.where(keep, dur, 0)
    ts = np.cumsum(dur) - dur
    samples = Sampled(ts[keep], dur[keep], flat[keep[owner]], lengths[keep])
    add_samples(builder, track, samples, frames)


def _times(values: list[int | float], scale: int) -> tuple[IntArray, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Convert times to the nearest nanosecond; not ok where they do not fit."""
    number = np.array([float(value) for value in values]) * scale
    ok = np.isfinite(number) & (np.abs(number) < _LARGEST)
    ns = np.rint(np.where(ok, number, 0)).astype(np.int64)
    whole = [i for i, value in enumerate(values) if isinstance(value, int) and ok[i]]
    # whole numbers beyond 2**53 stay exact
    ns[whole] = np.array([int(values[i]) * scale for i in whole], np.int64)
    return ns, ok


def _positions(values: list[int]) -> IntArray:
    return np.array([value if 0 <= value < 2**62 else -1 for value in values], np.int64)
