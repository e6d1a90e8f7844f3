"""pprof: sampled stacks of Go, Julia, JAX and many servers, without time stamps."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...errors import FormatError
from ...readers.call_tree import CallFrame, Sampled, add_samples
from ...readers.codec.columns import per_group
from ...readers.codec.protobuf import PADDING, Fields
from ...trace.arrays import BoolArray, IntArray, consecutive, positions
from ...trace.builder import TraceBuilder

_LABEL: Final = 3
_KEY, _TEXT, _NUMBER = 1, 2, 3
_IDS: Final = ("thread native id", "native_tid", "tid", "thread_id", "thread id", "threadid", "threadID")
_NAMES: Final = ("thread_name", "thread name", "thread", "comm")
_PROCESSES: Final = ("pid", "process_id", "process id")
_MOST_KINDS: Final = 200
"""The values of a key with more than this many are ids or addresses, so they are counted, not listed."""


class _SampleLabels(NamedTuple):
    owner: IntArray
    key: list[str]
    code: IntArray
    text: IntArray
    number: IntArray


def _labels(samples: Fields, strings: list[str]) -> _SampleLabels:
    """Return all labels, sample by sample: the sample of each, its key, and its text or number."""
    rows = samples.occurrences(_LABEL)
    fields = samples.inside(rows)
    code, keys = pd.factorize(fields.ints(_KEY, 0))
    names = [strings[i] if 0 <= i < len(strings) else "" for i in keys.tolist()]
    return _SampleLabels(
        rows.owner, names, np.asarray(code, np.int64), fields.ints(_TEXT, 0), fields.ints(_NUMBER, 0)
    )


def _thread_tracks(
    labels: _SampleLabels, strings: list[str], used: BoolArray, builder: TraceBuilder
) -> IntArray:
    """Return the track of each sample in the mask `used`: that of its thread, if a label names one."""

    def track(process: int, thread: int, label: int) -> int:
        # names are negative, numbers are not
        text = _shown(label, strings) or (f"thread {_shown(thread, strings)}" if thread else "samples")
        return builder.track(text, pid=_whole(process, strings), tid=_whole(thread, strings))

    columns = (_values(labels, keys, len(used))[used] for keys in (_PROCESSES, _IDS, _NAMES))
    return per_group(track, *columns)


def _values(labels: _SampleLabels, keys: tuple[str, ...], count: int) -> IntArray:
    """Return each sample's value of the first of these keys, as one number."""
    # a number is stored as itself + 1, a string as minus its index, and no value as 0
    value = np.zeros(count, np.int64)
    for key in reversed(keys):
        rows = np.flatnonzero(np.isin(labels.code, [i for i, name in enumerate(labels.key) if name == key]))
        number = np.clip(labels.number[rows], 0, 2**61) + 1
        value[labels.owner[rows]] = np.where(labels.text[rows] > 0, -labels.text[rows], number)
    return value


def _shown(value: int, strings: list[str]) -> str:
    if value < 0:
        return strings[-value] if -value < len(strings) else ""
    return str(value - 1) if value else ""


def _whole(value: int, strings: list[str]) -> int | None:
    text = _shown(value, strings)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def _add_label_table(labels: _SampleLabels, strings: list[str], dur: IntArray, builder: TraceBuilder) -> None:
    """Put the samples' time by label into `builder`, as the table ``sample_labels``, longest first."""
    # `dur` is in ns, one per sample. Labels of other kinds are only counted.
    of_threads = [i for i, name in enumerate(labels.key) if name in (*_IDS, *_NAMES, *_PROCESSES)]
    known_threads = np.isin(labels.code, of_threads)
    texts = (labels.text > 0) & ~known_threads
    table = pd.DataFrame({"label": labels.code, "value": labels.text, "dur_ns": dur[labels.owner]})[texts]
    groups = table.groupby(["label", "value"])["dur_ns"]
    sums = groups.agg(samples="size", dur_ns="sum").reset_index()
    few = sums.groupby("label")["value"].transform("size") <= _MOST_KINDS
    sums, many = sums[few], sums[~few]
    if len(sums):
        names = [labels.key[i] for i in sums["label"].tolist()]
        values = [_shown(-i, strings) for i in sums["value"].tolist()]
        ready = sums.assign(label=names, value=values)
        builder.table("sample_labels", ready.sort_values("dur_ns", ascending=False, kind="stable"), times=())
    numbers = (labels.text <= 0) & ~known_threads
    lost = sorted({labels.key[i] for i in (*labels.code[numbers].tolist(), *many["label"].tolist())})
    builder.report.add(
        "labels-not-used",
        "loss",
        int(numbers.sum()) + int(many["samples"].sum()),
        example=", ".join(lost)[:120],
        effect="numbers beside samples are left out; times of samples are complete",
        advice="show them with: go tool pprof -tags FILE",
    )


_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_TIME, _PERIOD_TYPE, _PERIOD = 9, 11, 12
_DEFAULT_TYPE: Final = 14
_SCALE: Final = {
    **dict.fromkeys(("nanoseconds", "ns"), 1),
    **dict.fromkeys(("microseconds", "us", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s"), 1_000),
    **dict.fromkeys(("milliseconds", "ms"), 1_000_000),
    **dict.fromkeys(("seconds", "s"), 1_000_000_000),
}
_DELAY: Final = "delay"
"""Go's name for the time in its contention profiles."""
_COUNTS: Final = ("samples", "events", "cpu")


def read_pprof(data: bytes, builder: TraceBuilder) -> None:
    content = np.frombuffer(data + bytes(PADDING), np.uint8)
    profile = Fields(content, np.array([0]), np.array([len(data)]))
    if profile.broken:
        builder.report.truncated("the last field is cut")
    words = profile.texts(profile.occurrences(_STRING)).to_pylist()
    strings = [word.decode(errors="replace") if word else "" for word in words]
    samples = profile.inside(profile.occurrences(_SAMPLE))
    weight, kind = _weights(profile, samples, strings, builder)
    frames, flat, lengths = _stacks(profile, samples, strings)
    used = (lengths > 0) & (weight > 0)
    example = "negative: a difference of two profiles" if (weight < 0).any() else "no stack"
    effect = "samples with a negative time or without a stack are left out"
    advice = "show them with: go tool pprof -http=: FILE"
    builder.report.add("sample-not-used", "loss", int(((weight != 0) & ~used).sum()), example, effect, advice)
    if not used.any():
        raise FormatError("the pprof profile has no samples with a stack and a time")
    effect = "totals are estimates from samples; when a function ran is unknown"
    builder.report.add("no-time-line", "info", example="samples by call path", effect=effect)
    labels = _labels(samples, strings)
    tracks = _thread_tracks(labels, strings, used, builder)
    order = np.argsort(tracks, kind="stable")
    rows = np.flatnonzero(used)[order]
    dur, track = weight[rows], tracks[order]
    end = np.cumsum(dur)
    first = np.flatnonzero(np.diff(track, prepend=-1))
    before = np.repeat((end - dur)[first], np.diff(np.append(first, len(track))))
    start = int(profile.ints(_TIME, 0)[0])
    ts = max(start, 0) + end - dur - before
    offset, length = (np.cumsum(lengths) - lengths)[rows], lengths[rows]
    stacks = flat[consecutive(offset, length)]
    add_samples(builder, track, Sampled(ts, dur, stacks, length), frames, waits=kind == _DELAY)
    _add_label_table(labels, strings, np.where(used, weight, 0), builder)


def _word(strings: list[str], index: int) -> str:
    return strings[index] if 0 <= index < len(strings) else ""


def _weights(
    profile: Fields, samples: Fields, strings: list[str], builder: TraceBuilder
) -> tuple[IntArray, str]:
    """Return the time that each sample represents, in ns, and the kind of time."""
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
        effect = f"durations are {kinds[chosen]} in {units[chosen]}; other values of samples are left out"
        builder.report.add("values-not-used", "info", len(others), ", ".join(others), effect)
        return column(chosen) * _SCALE[units[chosen]], kinds[chosen]
    counted = [i for i, (kind, unit) in enumerate(pairs) if unit == "count" and kind in _COUNTS]
    if not counted:
        if profile.broken:
            raise FormatError("the pprof profile breaks off before its texts: copy or record it again")
        what = ", ".join(f"{kind} in {unit}" if unit else f"{kind} without a unit" for kind, unit in pairs)
        raise FormatError(
            f"the pprof profile records no time, only {what or 'nothing'}. "
            "Open it with: go tool pprof -http=: FILE"
        )
    period_type = profile.inside(profile.occurrences(_PERIOD_TYPE))
    unit = _word(strings, int(period_type.ints(2, 0)[0])) if period_type.count else ""
    period = int(profile.ints(_PERIOD, 0)[0]) * _SCALE.get(unit, 0)
    if period <= 0:
        builder.metadata["time_unit"] = False
        example = f"{kinds[counted[0]]} in count, without a period"
        effect = "weights count samples, and one sample is shown as 1 ns: shares are right, times are not"
        builder.report.add("unit-assumed", "info", example=example, effect=effect)
    return column(counted[0]) * max(period, 1), kinds[counted[0]]


def _stacks(
    profile: Fields, samples: Fields, strings: list[str]
) -> tuple[list[CallFrame], IntArray, IntArray]:
    """Return the functions, the samples' stacks as positions in them, root first, and the stacks' lengths."""
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
        frames.append(
            CallFrame(name or "[unknown]", _word(strings, files[i]) if i >= 0 else "", max(line, 0))
        )
    # a location without lines is an address whose function is unknown
    begin = np.searchsorted(lines.owner, np.arange(locations.count))
    count = np.bincount(lines.owner, minlength=locations.count)
    bare = count == 0
    begin = np.where(bare, len(frames) + np.cumsum(bare) - 1, begin)
    frames += [
        CallFrame(f"0x{address:x}", "", 0) for address in np.maximum(locations.ints(3, 0)[bare], 0).tolist()
    ]
    count = np.where(bare, 1, count)
    owner, value = samples.repeated(1)
    at = positions(locations.ints(1, 0), value)
    # stacks are leaf first, and a location's lines innermost first: reverse both
    owner, location = owner[at >= 0][::-1], at[at >= 0][::-1]
    length = count[location]
    within = consecutive(np.zeros_like(length), length)
    flat = np.repeat(begin[location] + length - 1, length) - within
    stack_of = np.repeat(owner, length)
    order = np.argsort(stack_of, kind="stable")
    return frames, flat[order], np.bincount(stack_of, minlength=samples.count)
