"""pprof: sampled stacks of Go, Julia, JAX and many servers, without the times of the samples."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...errors import FormatError
from ...readers.call_tree import Frame, Sampled, add_samples
from ...readers.codec.protobuf_columns import PADDING, Fields
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from .pprof_labels import add_label_table, thread_tracks

_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_TIME, _PERIOD_TYPE, _PERIOD = 9, 11, 12
_DEFAULT_TYPE: Final = 14
_SCALE: Final = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
_DELAY: Final = "delay"
"""What Go calls the time that its profiles of contention tell."""
_COUNTS: Final = ("samples", "events", "cpu")


def read_pprof(data: bytes, builder: TraceBuilder) -> None:
    """Put a profile into `builder`."""
    content = np.frombuffer(data + bytes(PADDING), np.uint8)
    profile = Fields(content, np.array([0]), np.array([len(data)]))
    if profile.broken:
        builder.report.add(
            "truncated-file", "loss", example="the last field is cut", effect="what follows is missing"
        )
    strings = _strings(profile)
    samples = profile.inside(profile.occurrences(_SAMPLE))
    weight, kind = _weights(profile, samples, strings, builder)
    frames, flat, lengths = _stacks(profile, samples, strings)
    used = (lengths > 0) & (weight > 0)
    if not used.any():
        raise FormatError("the profile of pprof holds no samples with a stack and a time")
    builder.report.add(
        "no-time-line",
        "info",
        example="samples by call path",
        effect="totals are estimates from samples; when a function ran is not known",
    )
    tracks = thread_tracks(samples, strings, used, builder)
    order = np.argsort(tracks, kind="stable")
    rows = np.flatnonzero(used)[order]
    dur, track = weight[rows], tracks[order]
    end = np.cumsum(dur)
    first = np.flatnonzero(np.diff(track, prepend=-1))
    before = np.repeat((end - dur)[first], np.diff(np.append(first, len(track))))
    start = int(profile.ints(_TIME, 0)[0])
    ts = max(start, 0) + end - dur - before
    offset, length = (np.cumsum(lengths) - lengths)[rows], lengths[rows]
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    stacks = flat[np.repeat(offset, length) + within]
    category = "sync" if kind == _DELAY else "python"
    add_samples(builder, track, Sampled(ts, dur, stacks, length), frames, category)
    add_label_table(samples, strings, np.where(used, weight, 0), builder)


def _strings(profile: Fields) -> list[str]:
    texts = profile.texts(profile.occurrences(_STRING)).to_pylist()
    return [text.decode(errors="replace") if text else "" for text in texts]


def _word(strings: list[str], index: int) -> str:
    return strings[index] if 0 <= index < len(strings) else ""


def _weights(
    profile: Fields, samples: Fields, strings: list[str], builder: TraceBuilder
) -> tuple[IntArray, str]:
    """Return how long each sample stands for, in ns, and what that is the time of."""
    types = profile.inside(profile.occurrences(_SAMPLE_TYPE))
    kinds = [_word(strings, i) for i in types.ints(1, 0).tolist()]
    units = [_word(strings, i) for i in types.ints(2, 0).tolist()]
    owner, value = samples.repeated(2)
    position = np.arange(len(owner)) - np.searchsorted(owner, owner)

    def column(index: int) -> IntArray:
        result = np.zeros(samples.count, np.int64)
        result[owner[position == index]] = value[position == index]
        return result

    pairs = list(zip(kinds, units, strict=True))
    timed = [i for i, unit in enumerate(units) if unit in _SCALE]
    if timed:
        preferred = _word(strings, int(profile.ints(_DEFAULT_TYPE, 0)[0]))
        chosen = next((i for i in timed if kinds[i] == preferred), timed[-1])
        others = [f"{kind} in {unit}" for i, (kind, unit) in enumerate(pairs) if i != chosen]
        builder.report.add(
            "values-not-used",
            "info",
            len(others),
            example=", ".join(others),
            effect=f"durations are {kinds[chosen]} in {units[chosen]}; other values of samples are left out",
        )
        return column(chosen) * _SCALE[units[chosen]], kinds[chosen]
    counted = [i for i, (kind, unit) in enumerate(pairs) if unit == "count" and kind in _COUNTS]
    if not counted:
        what = ", ".join(f"{kind} in {unit}" for kind, unit in pairs)
        raise FormatError(
            f"the profile of pprof tells no time, but {what or 'nothing'}. "
            "Open it with: go tool pprof -http=: FILE"
        )
    period_type = profile.inside(profile.occurrences(_PERIOD_TYPE))
    unit = _word(strings, int(period_type.ints(2, 0)[0])) if period_type.count else ""
    period = int(profile.ints(_PERIOD, 0)[0]) * _SCALE.get(unit, 0)
    if period <= 0:
        builder.report.add(
            "unit-assumed",
            "info",
            example=f"{kinds[counted[0]]} in count, without a period",
            effect="weights count samples, and one sample is shown as 1 ns: shares are right, times are not",
            advice="nothing needs to be done",
        )
    return column(counted[0]) * max(period, 1), kinds[counted[0]]


def _stacks(profile: Fields, samples: Fields, strings: list[str]) -> tuple[list[Frame], IntArray, IntArray]:
    """Return functions, the stacks of samples as their positions, root first, and the lengths of stacks."""
    functions = profile.inside(profile.occurrences(_FUNCTION))
    locations = profile.inside(profile.occurrences(_LOCATION))
    lines = locations.occurrences(4)
    of_line = locations.inside(lines)
    names, files = functions.ints(2, 0).tolist(), functions.ints(4, 0).tolist()
    function_at = {number: i for i, number in enumerate(functions.ints(1, 0).tolist())}
    frames = []
    for number, line in zip(of_line.ints(1, 0).tolist(), of_line.ints(2, 0).tolist(), strict=True):
        i = function_at.get(number, -1)
        name = _word(strings, names[i]) if i >= 0 else ""
        frames.append(Frame(name or "[unknown]", _word(strings, files[i]) if i >= 0 else "", max(line, 0)))
    # a location without lines is an address whose function is not known
    begin = np.searchsorted(lines.owner, np.arange(locations.count))
    count = np.bincount(lines.owner, minlength=locations.count)
    bare = count == 0
    begin = np.where(bare, len(frames) + np.cumsum(bare) - 1, begin)
    frames += [
        Frame(f"0x{address:x}", "", 0) for address in np.maximum(locations.ints(3, 0)[bare], 0).tolist()
    ]
    count = np.where(bare, 1, count)
    number = locations.ints(1, 0)
    order = np.argsort(number, kind="stable")
    owner, value = samples.repeated(1)
    at = np.minimum(np.searchsorted(number[order], value), max(len(order) - 1, 0))
    exists = number[order][at] == value if len(order) else np.zeros(len(value), bool)
    owner, location = owner[exists], order[at[exists]] if len(order) else value[exists]
    # leaf first, and of a location the innermost line first: both the other way round
    owner, location = owner[::-1], location[::-1]
    length = count[location]
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    flat = np.repeat(begin[location] + length - 1, length) - within
    stack_of = np.repeat(owner, length)
    order = np.argsort(stack_of, kind="stable")
    return frames, flat[order], np.bincount(stack_of, minlength=samples.count)
