"""The user's source line that each slice ran for."""

from __future__ import annotations

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
"""Names of slices that are lines."""

SOURCE_FILES: Final = "source_files"
"""Key of the metadata: text of the user's files by path; of cells before the recorded one by ``In[3]``."""


class Nested(NamedTuple):
    """Slices by start, as needed for lines; codes and rows are -1 if missing, times are ns."""

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
    """Return the line that each slice ran for, as ``cell:12``; -1 for none."""
    # It is the line that ran on the slice's own thread when the slice began; see `running_lines`. A backward
    # thread has the line at which the process's thread with the most lines waits for the backward. Launched
    # work, and its content, has the line of its launch.
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
    # two files with the same name are written with their paths
    texts = [f"{path if path and len(paths[short]) > 1 else short}:{line}" for short, path, line in written]
    code_of = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    code[seeds] = np.array([code_of[text] for text in texts], np.int64)[number]
    line = running_lines(slices.track, slices.ts, slices.end, seeds)
    line = np.where(line >= 0, line, _waited_for(seeds, line, slices, processes))
    code = np.append(code, -1)[line]
    src, dst = launches
    there = code[src] >= 0
    code[dst[there]] = code[src[there]]
    if ((slices.parent >= 0) & (code < 0) & (np.append(code, -1)[slices.parent] >= 0)).any():
        code = inherit(slices.parent, code)  # launched slices may enclose others that were not launched
    return Coded(code, list(code_of))


def is_line(slices: pd.DataFrame) -> BoolArray:
    """Return a mask of the slices that are lines of the user's source."""
    words = slices["name"].cat.categories.astype("str")
    fits = np.array([*(LINE.fullmatch(word) is not None for word in words), False], dtype=bool)
    python = (slices["category"] == "python").to_numpy()
    return np.asarray(fits[slices["name"].cat.codes.to_numpy()] & python, dtype=bool)


def running_lines(track: IntArray, ts: IntArray, end: IntArray, seeds: IntArray) -> IntArray:
    """Return the latest line (of rows `seeds`) open on its thread when each slice began; -1 for none."""
    # A slice that outlasts the line by half of its own length ran for the line around that one: samples show
    # the start of a line only to within an interval.
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
    """Go up from each line to the first that is open at a time, and not outlasted; -1 for none."""
    line = line.copy()
    up, last = np.append(around, -1), np.append(ends, np.iinfo(np.int64).max)
    todo = np.arange(len(line))
    while len(todo):
        over = (last[line[todo]] <= ts[todo]) | (2 * (end[todo] - last[line[todo]]) > end[todo] - ts[todo])
        todo = todo[over & (line[todo] >= 0)]
        line[todo] = up[line[todo]]
    return line


def _waited_for(seeds: IntArray, line: IntArray, slices: Nested, processes: npt.NDArray[Any]) -> IntArray:
    """Return, for slices of backward threads, the line at which another thread of the process waits."""
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
        ran = running_lines(
            np.zeros(len(rows), np.int64),
            slices.ts[rows],
            np.where(lost[rows], slices.ts[rows], slices.end[rows]),
            np.flatnonzero(~lost[rows]),
        )
        out[at] = np.append(rows, -1)[ran[lost[rows]]]
    return out
