"""Stacks that many profilers export: collapsed, a path and its weight per line, and speedscope's format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Raw, Struct, field

from ...errors import FormatError, bounded_repr
from ...readers.call_tree import CallFrame, Sampled, add_samples, count_samples, labels, loose_frame
from ...readers.codec.tolerant_json import UNDECODABLE, decode_object
from ...readers.events import match, report_unpaired
from ...trace.arrays import BoolArray, IntArray, consecutive, numbered
from ...trace.builder import TraceBuilder
from .collapsed_tools import (
    AUSTIN,
    PLAIN,
    Kind,
    ThreadLabel,
    check_times,
    facts,
    has_header,
    in_order,
    is_path,
    kind_of,
    times,
)


class CollapsedStacks(NamedTuple):
    """Stacks of all threads, one after another."""

    frames: IntArray  # positions in `distinct`, root first
    lengths: IntArray  # number of frames of each stack
    distinct: list[CallFrame]
    thread: IntArray  # position in `heads`, of each stack
    heads: list[bytes]  # the texts that identify the threads, in order of first appearance


def add_tracks(
    builder: TraceBuilder,
    stacks: CollapsedStacks,  # of n stacks
    weight: npt.NDArray[np.float64],  # in ns, shape (n,)
    labels: Sequence[ThreadLabel],  # of each head
    # whether stacks are in the order in which they were sampled: then a thread begins where its first sample
    # was taken; otherwise all begin at 0
    in_order: bool,
) -> None:
    """Place the stacks of each thread one after another."""
    if commands := {str(label.pid): label.command for label in labels if label.command}:
        builder.metadata["processes"] = commands
    tracks = np.array([builder.track(label.name, pid=label.pid, tid=label.tid) for label in labels], np.int64)
    process = np.array([-1 if label.pid is None else label.pid for label in labels], np.int64)[stacks.thread]
    # two heads of one thread are one track
    track = tracks[stacks.thread]
    order = np.argsort(track, kind="stable")
    bounds = np.flatnonzero(np.diff(track[order], prepend=-1, append=-1))
    begin, end = np.zeros((2, len(track)), np.int64)
    for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[lo:hi]
        stop = np.rint(np.cumsum(weight[rows])).astype(np.int64)
        before, first, start = int(rows[0]) - 1, int(rows[0]), 0
        if in_order and first:
            # the sample before is of the same moment if it covers the same time of the same process
            same = weight[before] == weight[first] and process[before] == process[first]
            start = int(begin[before] if same else end[before])
        end[rows] = start + stop
        begin[rows] = start + np.concatenate([[0], stop[:-1]])
    lengths = stacks.lengths[order]
    offset = np.cumsum(stacks.lengths) - stacks.lengths
    frames = stacks.frames[consecutive(offset[order], lengths)]
    samples = Sampled(begin[order], end[order] - begin[order], frames, lengths)
    add_samples(builder, track[order], samples, stacks.distinct)


_SKIPPED: Final = (b"#", b"\x00")
_LINE_APART: Final = re.compile(rb";L(\d+)(?=;|$)")
"""The line of a frame in Austin's alternative format, ``file:function;L12``."""
_LONGEST_NS: Final = 2.0**61


def is_collapsed(head: bytes) -> bool:
    """Return whether it has Austin's header, or only paths with weights, at least one with two frames."""
    lines = _lines(head)
    if has_header(head):
        return True
    if len(lines) > 1 and not head.rstrip(b"\x00").endswith(b"\n") and not is_path(lines[-1]):
        lines = lines[:-1]  # the head, or the file, ends within this line
    # py-spy writes a bare weight for samples without a stack
    return any(b";" in line for line in lines) and all(
        is_path(line) or line.strip().isdigit() for line in lines
    )


def read_collapsed(data: bytes, sample_ns: float | None, builder: TraceBuilder) -> None:
    """Put paths into `builder`. A weight of 1 stands for `sample_ns`."""
    lines = _lines(data)
    kind = kind_of(lines, has_header(data))
    header: dict[str, str] = {}
    if kind.tool:
        builder.metadata["exporter"] = kind.tool
    if kind is AUSTIN:
        builder.metadata["austin"] = header = facts(data)
        check_times(header, lines, sample_ns is not None, builder)
    good = [line for line in lines if kind.line.fullmatch(line)]
    if not good:
        short = "; Austin writes one at the end of each interval: record for longer"
        raise FormatError(f"no line of it is a call path with a weight{short if kind is AUSTIN else ''}")
    parts = [line.rsplit(None, 1) for line in good]
    numbers = [number for _, number in parts]
    if kind is AUSTIN:
        numbers = times(numbers, builder)
    weight = np.array([float(number) for number in numbers]) * (sample_ns or kind.weight_ns)
    if kind is not AUSTIN and sample_ns is None and kind.weight_ns == 1:
        builder.metadata["time_unit"] = False
    usable = np.cumsum(np.where(weight < _LONGEST_NS, weight, 0)) < _LONGEST_NS
    usable &= weight < _LONGEST_NS
    lost = [line for line in lines if not kind.line.fullmatch(line)]
    lost += [line for line, ok in zip(good, usable.tolist(), strict=True) if not ok]
    example = b"".join(lost[:1])[:80].decode(errors="replace")
    effect = "lines that are not a path with a weight are left out"
    builder.report.broken_rows(len(lost), example, effect)
    paths = [path for (path, _), ok in zip(parts, usable.tolist(), strict=True) if ok]
    ordered = kind is AUSTIN and in_order(header, paths)
    if not ordered:
        sampled = "totals are those of the file" if kind is PLAIN else "totals are estimates from samples"
        example = "time on the CPU" if header.get("mode") == "cpu" else "totals by call path"
        effect = f"{sampled}; when and how often a function ran is unknown"
        advice = kind.advice if sample_ns in (None, 1) else ""
        builder.report.add("no-time-line", "info", example=example, effect=effect, advice=advice)
    stacks = _stacks(kind, paths)
    idle = weight[usable][stacks.lengths == 0]
    if not ordered:
        _report_idle(len(idle), f"a weight of {idle.sum():,g} in all", builder)
    add_tracks(builder, stacks, weight[usable], kind.labels(stacks.heads), ordered)


def _report_idle(count: int, example: str, builder: TraceBuilder) -> None:
    effect = "no function ran in that time: a gap"
    builder.report.add("sample-without-stack", "info", count, example, effect)


def _lines(data: bytes) -> list[bytes]:
    """Return the lines with content, without comments and padding."""
    return [
        line for line in data.strip(b"\x00").splitlines() if line.strip() and not line.startswith(_SKIPPED)
    ]


def _stacks(kind: Kind, paths: list[bytes]) -> CollapsedStacks:
    """Return paths as frame numbers, without the part that names the thread."""
    heads = [kind.head.match(path) for path in paths]
    ends = [0 if head is None else head.end() for head in heads]
    thread, distinct = numbered(path[:end] for path, end in zip(paths, ends, strict=True))
    rests = [path[end:] for path, end in zip(paths, ends, strict=True)]
    if kind is AUSTIN:
        rests = [_LINE_APART.sub(rb":\1", rest) if b";L" in rest else rest for rest in rests]
    split = [rest.split(b";") if rest else [] for rest in rests]
    frames, texts = numbered(chain.from_iterable(split))
    lengths = np.fromiter(map(len, split), np.int64, len(split))
    names = [kind.frame(text.decode(errors="replace")) for text in texts]
    return CollapsedStacks(frames, lengths, names, thread, distinct)


_NANOSECONDS: Final = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_PAGE: Final = "open it at speedscope.app"


class _SpeedscopeFrame(Struct):
    name: Any = ""
    file: Any = None
    line: Any = None


class _SpeedscopeShared(Struct):
    frames: list[_SpeedscopeFrame] = []


class _Event(Struct, gc=False):
    type: str
    at: int | float
    frame: int


class _SpeedscopeProfile(Struct):
    type: str = ""
    name: Any = ""
    unit: str = "none"
    start: int | float | None = field(name="startValue", default=0)
    end: int | float = field(name="endValue", default=0)
    events: list[_Event] = []
    samples: list[list[int]] = []
    weights: list[int | float] = []


class _SpeedscopeFile(Struct):
    profiles: list[Raw]
    shared: _SpeedscopeShared = field(default_factory=_SpeedscopeShared)
    name: Any = None
    exporter: Any = None


def read_speedscope(data: bytes, builder: TraceBuilder) -> None:
    """Put the file's profiles into `builder`."""
    file = decode_object(data, _SpeedscopeFile, "speedscope's")
    frames = [loose_frame(each.name, each.file, each.line) for each in file.shared.frames]
    if isinstance(file.exporter, str):
        builder.metadata["exporter"] = file.exporter
    in_bytes = []
    for number, text in enumerate(file.profiles):
        try:
            profile = msgspec.json.decode(text, type=_SpeedscopeProfile)
        except UNDECODABLE as error:
            builder.report.add("broken-profile", "loss", 1, f"profile {number}: {error}", "left out")
            continue
        if profile.unit == "bytes":
            in_bytes.append(str(profile.name))
        else:
            _add(profile, number, frames, builder)
    if in_bytes and len(in_bytes) == len(file.profiles):
        raise FormatError(f"the speedscope file records bytes, not time ({in_bytes[0]}); {_PAGE}")
    effect = "left out, because they record bytes, not time"
    builder.report.add("profile-without-time", "loss", len(in_bytes), ", ".join(in_bytes)[:80], effect, _PAGE)


def _add(profile: _SpeedscopeProfile, number: int, frames: list[CallFrame], builder: TraceBuilder) -> None:
    scale = _NANOSECONDS.get(profile.unit)
    if scale is None:
        scale, builder.metadata["time_unit"] = 1, False
        example = f"{profile.name!r} is measured in {profile.unit!r}"
        builder.report.add("unit-not-time", "info", example=example, effect="shown as nanoseconds")
    # profiles of one name are several threads: number them
    track = builder.track(str(profile.name) or f"profile {number + 1}", tid=number)
    if profile.type == "evented":
        _add_events(profile, scale, track, frames, builder)
    elif profile.type == "sampled":
        _add_sampled(profile, scale, track, frames, builder)
    else:
        builder.report.add("unknown-profile", "loss", example=bounded_repr(profile.type), effect="left out")


def _add_events(
    profile: _SpeedscopeProfile, scale: int, track: int, frames: list[CallFrame], builder: TraceBuilder
) -> None:
    ts, ok = _times([event.at for event in profile.events], scale)
    frame = _positions([event.frame for event in profile.events])
    opens = np.array([event.type == "O" for event in profile.events], bool)
    ok &= (frame >= 0) & (frame < len(frames))
    ok &= opens | np.array([event.type == "C" for event in profile.events], bool)
    builder.report.broken_rows(~ok, lambda i: profile.events[i], "these events are left out")
    ts, frame, opens = ts[ok], frame[ok], opens[ok]
    pairs = match(np.zeros(len(ts), np.int64), frame, ts, opens)
    stop, _ = _times([profile.end], scale)
    last = max(int(stop[0]), int(ts.max(initial=0)))
    until = "kept until the end"
    report_unpaired(builder.report, pairs.unclosed, pairs.unopened, lambda i: frames[frame[i]][0], until)
    begin, dur = pairs.spans(ts, last)
    order = np.argsort(begin, kind="stable")
    begin, dur = begin[order], dur[order]
    code, used = pd.factorize(frame[begin])
    keys = np.array([builder.stack([frames[i]]) for i in used.tolist()], np.int64)  # noqa: PD013
    builder.slices(
        ts=ts[begin],
        dur=dur,
        track=track,
        name=labels(frame[begin], frames),
        category="python",
        stack=keys[code],
    )


def _add_sampled(
    profile: _SpeedscopeProfile, scale: int, track: int, frames: list[CallFrame], builder: TraceBuilder
) -> None:
    count = min(len(profile.samples), len(profile.weights))
    example = f"{len(profile.samples):,} samples, {len(profile.weights):,} weights"
    lost = max(len(profile.samples), len(profile.weights)) - count
    effect = "these samples are left out"
    builder.report.add("sample-without-weight", "loss", lost, example, effect)
    dur, ok = _times(profile.weights[:count], scale)
    ok &= dur >= 0
    lengths = np.fromiter(map(len, profile.samples[:count]), np.int64, count)
    flat = _positions([frame for sample in profile.samples[:count] for frame in sample])
    wrong = (flat < 0) | (flat >= len(frames))
    owner = np.repeat(np.arange(count), lengths)
    ok[owner[wrong]] = False
    builder.report.broken_rows(~ok, lambda i: f"sample {i}: {profile.samples[i]}", effect)
    keep = ok & (dur > 0)
    _report_idle(int((keep & (lengths == 0)).sum()), f"of {count:,} samples", builder)
    if len(set(dur[keep].tolist())) == 1:  # otherwise weights may be sums of samples
        count_samples(builder, track, int(keep.sum()))
    dur = np.where(keep, dur, 0)
    ts = _times([profile.start or 0], scale)[0] + np.cumsum(dur) - dur
    samples = Sampled(ts[keep], dur[keep], flat[keep[owner]], lengths[keep])
    add_samples(builder, track, samples, frames)


def _times(values: list[int | float], scale: int) -> tuple[IntArray, BoolArray]:
    """Convert times to the nearest nanosecond; not ok where they do not fit."""
    ok = [abs(value * scale) < _LONGEST_NS for value in values]
    ns = [round(value * scale) if good else 0 for value, good in zip(values, ok, strict=True)]
    return np.array(ns, np.int64), np.array(ok, bool)


def _positions(values: list[int]) -> IntArray:
    return np.array([value if 0 <= value < 2**62 else -1 for value in values], np.int64)
