"""Finds the line of the user's source for which each slice ran."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from .arrays import BoolArray, IntArray
from .nesting import inherit, nest
from .strings import Coded

LINE: Final = re.compile(r"(?P<file>.+):(?P<line>\d+)  (?P<text>.*)")
"""Pattern of the names of slices that are lines."""

SAMPLE_COUNTS: Final = "sample_counts"
"""Metadata key: the number of samples of each track in a file, by track number as text."""
SOURCE_FILES: Final = "source_files"
"""Metadata key: texts of the user's files by path, and of cells before the recorded one by ``In[3]``."""


def text_lines(text: str) -> list[str]:
    r"""Return the lines of Python source as the interpreter counts them.

    >>> text_lines("a = '\u2028'\r\nb\x0c\n"), len("a = '\u2028'\r\nb\x0c\n".splitlines())
    (["a = '\u2028'", 'b\x0c'], 4)
    """
    # str.splitlines also ends lines at form feeds, separators and U+0085, U+2028, U+2029
    return [line.removesuffix("\n") for line in io.StringIO(text, newline=None)]


class Nested(NamedTuple):
    """Slices sorted by start, with the columns needed for lines. -1 is missing, times are in ns."""

    name: IntArray
    stack: IntArray
    track: IntArray
    parent: IntArray
    ts: IntArray
    end: IntArray
    python: BoolArray
    backward: BoolArray


def source_lines(
    slices: Nested,
    names: Sequence[str],
    files: Sequence[str],
    processes: npt.NDArray[Any],
    launches: tuple[IntArray, IntArray],
) -> Coded:
    """Return the line for which each slice ran, such as ``cell:12``; code -1 for none."""
    # This is the line that ran on the slice's thread when the slice began; see `running_lines`. Slices of a
    # backward thread have the line at which the process's thread with the most lines waits for the backward.
    # Launched work, and slices inside it, have the line of the launch.
    matches = [LINE.fullmatch(name) for name in names]
    is_line = np.array([*(match is not None for match in matches), False], dtype=bool)
    seeds = np.flatnonzero(slices.python & is_line[slices.name])
    code = np.full(len(slices.name), -1, np.int64)
    if not len(seeds):
        return Coded(code, [])
    pair = slices.name[seeds] * (len(files) + 1) + slices.stack[seeds] + 1
    pairs, number = np.unique(pair, return_inverse=True)
    written = [
        (match["file"], files[stack - 1] if stack else "", match["line"])
        for name, stack in zip(
            (pairs // (len(files) + 1)).tolist(), (pairs % (len(files) + 1)).tolist(), strict=True
        )
        if (match := matches[name])
    ]
    paths: dict[str, set[str]] = {}
    for short, path, _ in written:
        paths.setdefault(short, set()).add(path)
    # two files with the same name are written with their paths; the recorded cell may consist of several
    texts = [
        f"{path if path and len(paths[short]) > 1 and short != 'cell' else short}:{line}"
        for short, path, line in written
    ]
    code_of = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    code[seeds] = np.array([code_of[text] for text in texts], np.int64)[number]
    line = running_lines(slices.track, slices.ts, slices.end, seeds)
    line = np.where(line >= 0, line, _waited_for(seeds, line, slices, processes))
    code = np.append(code, -1)[line]
    src, dst = launches
    there = code[src] >= 0
    code[dst[there]] = code[src[there]]
    if ((slices.parent >= 0) & (code < 0) & (np.append(code, -1)[slices.parent] >= 0)).any():
        code = inherit(slices.parent, code)  # launched slices may enclose slices without a launch
    return Coded(code, list(code_of))


def is_line(slices: pd.DataFrame) -> BoolArray:
    """Return a mask of the slices that are lines of the user's source."""
    words = slices["name"].cat.categories.astype("str")
    fits = np.array([*(LINE.fullmatch(word) is not None for word in words), False], dtype=bool)
    python = (slices["category"] == "python").to_numpy()
    return np.asarray(fits[slices["name"].cat.codes.to_numpy()] & python, dtype=bool)


def running_lines(track: IntArray, ts: IntArray, end: IntArray, seeds: IntArray) -> IntArray:
    """Return the latest line (of rows `seeds`) open on the thread when each slice began; -1 for none."""
    # If a slice outlasts the line by more than half of its duration, it ran for the line around that one,
    # since samples show the start of a line only to within an interval.
    out = np.full(len(ts), -1, np.int64)
    around = nest(track[seeds], ts[seeds], end[seeds] - ts[seeds]).parent
    for one in np.unique(track[seeds]).tolist():
        at = np.flatnonzero(track[seeds] == one)
        rows = np.flatnonzero(track == one)
        before = np.searchsorted(seeds[at], rows, side="right") - 1
        latest = np.where(before >= 0, at[before], -1)
        out[rows] = np.append(seeds, -1)[_still_open(latest, ts[rows], end[rows], end[seeds], around)]
    out[seeds] = seeds
    return out


def _still_open(line: IntArray, ts: IntArray, end: IntArray, ends: IntArray, around: IntArray) -> IntArray:
    """Go up from each line to the first one that is open at `ts` and is not outlasted; -1 for none."""
    line = line.copy()
    up, last = np.append(around, -1), np.append(ends, np.iinfo(np.int64).max)
    todo = np.arange(len(line))
    while len(todo):
        over = (last[line[todo]] <= ts[todo]) | (2 * (end[todo] - last[line[todo]]) > end[todo] - ts[todo])
        todo = todo[over & (line[todo] >= 0)]
        line[todo] = up[line[todo]]
    return line


def _waited_for(seeds: IntArray, line: IntArray, slices: Nested, processes: npt.NDArray[Any]) -> IntArray:
    """Return the line at which another thread waits, for slices of backward threads; -1 for others."""
    out = np.full(len(line), -1, np.int64)
    has_lines = np.bincount(slices.track[seeds], minlength=len(processes))
    lost = (line < 0) & slices.backward & (has_lines[slices.track] == 0)
    if not lost.any():
        return out
    process = processes[slices.track]
    for pid in np.unique(process[lost]).tolist():
        lines = np.where(processes == pid, has_lines, 0)
        caller = int(np.argmax(lines))
        if not lines[caller]:
            continue
        at = np.flatnonzero(lost & (process == pid))
        rows = np.sort(np.concatenate([at, seeds[slices.track[seeds] == caller]]))
        ts, track = slices.ts[rows], np.zeros(len(rows), np.int64)
        end = np.where(lost[rows], ts, slices.end[rows])
        ran = running_lines(track, ts, end, np.flatnonzero(~lost[rows]))
        out[at] = np.append(rows, -1)[ran[lost[rows]]]
    return out
