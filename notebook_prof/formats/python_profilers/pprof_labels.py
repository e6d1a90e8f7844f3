"""Labels of pprof's samples: the thread that one is of, and what a program or its profiler says of it."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ...readers.codec.protobuf_columns import Fields
from ...trace.arrays import BoolArray, IntArray, number_rows
from ...trace.builder import TraceBuilder

_LABEL: Final = 3
_KEY, _TEXT, _NUMBER = 1, 2, 3
_IDS: Final = ("thread native id", "native_tid", "tid", "thread_id", "thread id", "threadid", "threadID")
_NAMES: Final = ("thread_name", "thread name", "thread", "comm")
_PROCESSES: Final = ("pid", "process_id", "process id")
_MOST_KINDS: Final = 200
"""Values of a key that has more are ids or addresses: they are counted, not listed."""


class _Labels(NamedTuple):
    owner: IntArray
    key: list[str]
    code: IntArray
    text: IntArray
    number: IntArray


def _labels(samples: Fields, strings: list[str]) -> _Labels:
    """Return all labels, sample by sample: whose each is, its key, and its text or number."""
    rows = samples.occurrences(_LABEL)
    fields = samples.inside(rows)
    code, keys = pd.factorize(fields.ints(_KEY, 0))
    names = [strings[i] if 0 <= i < len(strings) else "" for i in keys.tolist()]
    return _Labels(
        rows.owner, names, np.asarray(code, np.int64), fields.ints(_TEXT, 0), fields.ints(_NUMBER, 0)
    )


def thread_tracks(samples: Fields, strings: list[str], used: BoolArray, builder: TraceBuilder) -> IntArray:
    """Return the track of each sample that is used: of its thread, where a label names one.

    Parameters
    ----------
    samples : Fields
    strings : list of str
    used : ndarray of bool
        Which samples count.
    builder : TraceBuilder
    """
    labels = _labels(samples, strings)
    pid, tid, name = (_values(labels, keys, samples.count) for keys in (_PROCESSES, _IDS, _NAMES))
    columns = pd.DataFrame({"pid": pid, "tid": tid, "name": name})[used]
    code, _ = number_rows(*(columns[name].astype("int64") for name in columns))
    first = columns.iloc[np.unique(code, return_index=True)[1]]
    tracks = []
    for process, thread, label in first.to_numpy().tolist():
        # names are negative, numbers are not
        text = _shown(label, strings) or (f"thread {_shown(thread, strings)}" if thread else "samples")
        tracks.append(builder.track(text, pid=_whole(process, strings), tid=_whole(thread, strings)))
    return np.asarray(np.array(tracks, np.int64)[code])


def _values(labels: _Labels, keys: tuple[str, ...], count: int) -> IntArray:
    """Return what the first of these keys says of each sample: a number + 1, minus a string, or 0."""
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


def add_label_table(samples: Fields, strings: list[str], dur: IntArray, builder: TraceBuilder) -> None:
    """Put what samples take by label into `builder`; labels of other kinds are counted.

    Parameters
    ----------
    samples : Fields
    strings : list of str
    dur : ndarray of int64, shape (samples,)
        In ns.
    builder : TraceBuilder
        Gets the table ``sample_labels``: ``label value samples dur_ns``, the longest first.
    """
    labels = _labels(samples, strings)
    known_threads = np.isin(
        labels.code, [i for i, name in enumerate(labels.key) if name in (*_IDS, *_NAMES, *_PROCESSES)]
    )
    texts = (labels.text > 0) & ~known_threads
    table = pd.DataFrame(
        {"label": labels.code[texts], "value": labels.text[texts], "dur_ns": dur[labels.owner[texts]]}
    )
    sums = table.groupby(["label", "value"])["dur_ns"].agg(["size", "sum"]).reset_index()
    few = sums.groupby("label")["value"].transform("size") <= _MOST_KINDS
    sums, many = sums[few], sums[~few]
    if len(sums):
        ready = pd.DataFrame(
            {
                "label": [labels.key[i] for i in sums["label"].tolist()],
                "value": [_shown(-i, strings) for i in sums["value"].tolist()],
                "samples": sums["size"].to_numpy(),
                "dur_ns": sums["sum"].to_numpy(),
            }
        )
        order = np.argsort(-ready["dur_ns"].to_numpy(), kind="stable")
        builder.table("sample_labels", ready.iloc[order], times=())
    numbers = (labels.text <= 0) & ~known_threads
    lost = sorted({labels.key[i] for i in (*labels.code[numbers].tolist(), *many["label"].tolist())})
    builder.report.add(
        "labels-not-used",
        "loss",
        int(numbers.sum()) + int(many["size"].sum()),
        example=", ".join(lost)[:120],
        effect="numbers beside samples are left out; times of samples are complete",
        advice="look at them with: go tool pprof -tags FILE",
    )
