"""The parts of a recording's steps, which sum exactly to the steps, without a loop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..analysis.critical_path.resources import segments
from ..analysis.scope import Scope, ints, on_device, on_host, sharing
from ..analysis.source.samples import sampled_slices
from ..analysis.time.phases import stepping_track
from ..trace import Trace, source_lines
from ..trace.arrays import IntArray
from ..trace.nesting import order_by_start
from ..trace.taxonomy import STEP_PREFIX

KEYS: Final = ("phase", "module", "name", "shapes", "line", "statement", "category")
"""Columns by which time can be divided. A statement is a line of the outermost frame, with all that it
calls."""
VIEWS: Final = ("host", "device")
IDLE: Final = {"host": "outside of what was recorded", "device": "idle"}
"""Names for the time in which nothing runs."""
MISSING: Final = {"phase": "other", **dict.fromkeys(("line", "statement"), "what ran for no line")}
"""Texts for missing values, by column."""
MOST_KEYS: Final = 100
"""Maximum number of totals of each kind that the history keeps for a run."""
SMALLER: Final = "smaller ones"
"""Stands for all keys whose totals were not kept."""
_MISSING: Final = -1
_NOBODY: Final = -2
_CHANGES: Final = re.compile(r" (?:object )?at 0x[0-9a-f]+|#\d+$|^(?:cell|In\[\d+\]):\d+ +")
"""Parts of a name that change from run to run: addresses, counts, and the place of a statement."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """Time of a side's steps, by key."""

    # One value for each requested column, in order of first appearance.
    keys: list[tuple[str, ...]]
    # ns, shape (blocks, keys); each row sums to the time of the steps in its block.
    sums: IntArray
    # Slices that began in the steps, shape (keys,); sampled slices do not count, since samples do not see
    # calls begin.
    calls: IntArray
    # The number of steps in each block.
    block_steps: IntArray

    @property
    def total(self) -> IntArray:
        """Time by key over all steps, ns."""
        return np.asarray(self.sums.sum(axis=0))

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.block_steps.sum())


@dataclass(frozen=True, slots=True)
class OwnedTime:
    """Work in the steps of one run, before it is divided by keys."""

    trace: Trace
    view: str
    # Slices that own an instant or begin in a step, each once; -1 is for no owner.
    rows: IntArray
    # Indices into `rows`, both ordered by time: the owner of each piece of time, and the slices that begin.
    pieces: IntArray
    begun: IntArray
    # For each piece: its block of steps, and its ns.
    block: IntArray
    length: IntArray
    block_steps: IntArray

    def parts(self, by: Sequence[str], lines: Mapping[str, str] | None = None) -> StepParts:
        """Divide the time by columns out of `KEYS`; `lines` renames lines."""
        code, keys = _keys(self.trace, self.rows, by, self.view, lines or {})
        sums = np.zeros((len(self.block_steps), len(keys)), np.int64)
        np.add.at(sums, (self.block, code[self.pieces]), self.length)
        begun = code[self.begun]
        if "statement" in by:  # count the statements, not what begins inside them
            begun = begun[statement_lines(self.trace, self.rows)[1][self.begun]]
        calls = np.bincount(begun, minlength=len(keys)).astype(np.int64)
        appearing = code[np.concatenate([self.pieces, self.begun])]
        first = np.full(len(keys), len(appearing))
        np.minimum.at(first, appearing, np.arange(len(appearing)))
        order = np.argsort(first, kind="stable")
        return StepParts([keys[i] for i in order], sums[:, order], calls[order], self.block_steps)


@sharing
def owned_time(trace: Trace, spans: pd.DataFrame, blocks: IntArray, view: str) -> OwnedTime:
    """Find the owner of each instant of steps (ascending, disjoint) in blocks; `view` is host or device."""
    # An instant belongs to the latest-started open slice, as for self time. If the thread of the steps has no
    # operator open and an autograd thread has, the instant belongs to the latter. On devices all streams are
    # treated as one track.
    start = spans["ts"].to_numpy(np.int64)
    end = start + spans["dur"].to_numpy(np.int64)
    at, row = _owners(trace, view, np.concatenate([start, end]))
    until = np.append(at[1:], at[-1:])
    step = np.searchsorted(start, at, side="right") - 1
    inside = (step >= 0) & (at < end[np.maximum(step, 0)])
    step, row, length = step[inside], row[inside], (until - at)[inside]
    rows, inverse = np.unique(np.concatenate([row, _begun(trace, view, start, end)]), return_inverse=True)
    block = np.searchsorted(blocks, step, side="right") - 1
    sizes = np.diff(np.append(blocks, len(start)))
    return OwnedTime(trace, view, rows, inverse[: len(row)], inverse[len(row) :], block, length, sizes)


def joined(runs: Sequence[StepParts]) -> StepParts:
    """Join the parts of several runs, each run as a block."""
    keys = list(dict.fromkeys(key for run in runs for key in run.keys))
    number = {key: i for i, key in enumerate(keys)}
    sums, calls = np.zeros((len(runs), len(keys)), np.int64), np.zeros(len(keys), np.int64)
    for i, run in enumerate(runs):
        own = [number[key] for key in run.keys]
        sums[i, own] = run.total
        calls[own] += run.calls
    return StepParts(keys, sums, calls, np.array([run.steps for run in runs], np.int64))


def limited(whole: StepParts, most: int = MOST_KEYS) -> StepParts:
    """Keep the largest totals; the rest becomes a single key, `SMALLER`."""
    if len(whole.keys) <= most:
        return whole
    idle = [i for i, key in enumerate(whole.keys) if IDLE["host"] in key or IDLE["device"] in key]
    size = whole.total
    size[idle] = np.iinfo(np.int64).max
    keep = set(np.argsort(-size, kind="stable")[: most - 1].tolist())
    smaller = (SMALLER,) * len(whole.keys[0])
    return _regrouped(whole, [key if i in keep else smaller for i, key in enumerate(whole.keys)])


def undivided(whole: StepParts, by: Sequence[str], view: str) -> StepParts:
    """Return the same time under a single key, since it was not divided; for devices, the key is idle
    time."""
    word = SMALLER if view == "host" else IDLE[view]
    return _regrouped(whole, [(word,) * len(by)] * len(whole.keys))


def renamed(whole: StepParts, names: Mapping[str, str]) -> StepParts:
    """Rename parts of keys; keys that become equal are joined."""
    return _regrouped(whole, [tuple(names.get(part, part) for part in key) for key in whole.keys])


def folded(a: StepParts, b: StepParts) -> tuple[StepParts, StepParts]:
    """Merge one-sided keys into the smaller ones of both, if a side has only its largest totals."""
    # Otherwise a total too small to be kept would look new or gone.
    both = set(a.keys) & set(b.keys)
    smaller = next((key for key in (*a.keys, *b.keys) if set(key) == {SMALLER}), None)
    if smaller is None:
        return a, b
    sides = [_regrouped(side, [key if key in both else smaller for key in side.keys]) for side in (a, b)]
    return sides[0], sides[1]


def _regrouped(whole: StepParts, keys: Sequence[tuple[str, ...]]) -> StepParts:
    """Give each total a new key, and sum equal ones."""
    unique = list(dict.fromkeys(keys))
    if unique == whole.keys:
        return whole
    number = {key: i for i, key in enumerate(unique)}
    code = np.array([number[key] for key in keys], np.int64)
    sums, calls = np.zeros((len(whole.sums), len(unique)), np.int64), np.zeros(len(unique), np.int64)
    np.add.at(sums.T, code, whole.sums.T)
    np.add.at(calls, code, whole.calls)
    return StepParts(unique, sums, calls, whole.block_steps)


def _owners(trace: Trace, view: str, cuts: IntArray) -> tuple[IntArray, IntArray]:
    """Return instants, ascending, and the owner of the time after each; -1 for none."""
    if view == "device":
        return _of_track(on_device(trace), cuts)
    host = on_host(trace)
    stepping = host.ints("track") == stepping_track(trace)
    at, row = _of_track(host.only(stepping & ~_around_steps(host)), cuts)
    elsewhere = host.only(~stepping & host.among("phase", ("backward",)))
    if not len(elsewhere.rows):
        return at, row
    other_at, other = _of_track(elsewhere, cuts)
    both = _distinct(np.concatenate([at, other_at]))
    row = row[np.searchsorted(at, both, side="right") - 1]
    other = other[np.searchsorted(other_at, both, side="right") - 1]
    waits = np.append(trace.slices["category"].isin(("python", "annotation")).to_numpy(), True)[row]
    return both, np.where(waits & (other >= 0), other, row)


def _of_track(scope: Scope, cuts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the owners of a scope's instants, as if all its slices were on one track."""
    lasting = np.flatnonzero(scope.end > scope.ts)
    lasting = lasting[order_by_start(scope.ts[lasting], (scope.end - scope.ts)[lasting])]
    cut = segments(scope.rows[lasting], scope.ts[lasting], scope.end[lasting])
    at = _distinct(np.concatenate([cut.at, cuts]))
    return at, cut.owner[np.searchsorted(cut.at, at, side="right") - 1]


def _distinct(instants: IntArray) -> IntArray:
    """Return distinct instants, sorted. np.unique hashes them first, which takes ten times as long."""
    ordered = np.sort(instants)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])


def _around_steps(host: Scope) -> npt.NDArray[np.bool_]:
    """Return a mask of the slices that enclose a whole step and are not part of it."""
    words = host.slices["name"].cat.categories.astype("str")
    return np.append(np.asarray(words.str.startswith(STEP_PREFIX)), False)[host.codes("name")]


def _begun(trace: Trace, view: str, start: IntArray, end: IntArray) -> IntArray:
    """Return the slices that begin in a step, by start. Samples do not see a slice begin, so these are left
    out."""
    scope = on_device(trace) if view == "device" else on_host(trace)
    if view == "host":
        own = scope.ints("track") == stepping_track(trace)
        scope = scope.only((own | scope.among("phase", ("backward",))) & ~_around_steps(scope))
        scope = scope.only(~sampled_slices(trace, scope))
    step = np.searchsorted(start, scope.ts, side="right") - 1
    return scope.rows[(step >= 0) & (scope.ts < end[np.maximum(step, 0)])]


def statement_lines(trace: Trace, rows: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return the statement that slices ran for (-1 for none), and a mask of slices that are the statement.

    The statement is the innermost line of the outermost frame.
    """
    # A loop's line encloses the lines of its body. They belong to the same frame if no function is in
    # between.
    slices = trace.slices
    line = np.append(slices["line"].cat.codes.to_numpy().astype(np.int64), _MISSING)
    parent = np.append(ints(slices["parent"]), -1)
    is_line = np.append(source_lines.is_line(slices), False)
    is_function = np.append((slices["category"] == "python").to_numpy(), False) & ~is_line
    code, around = line[rows], parent[rows]
    itself, called = is_line[rows], ~is_line[rows]  # called: whether the next line around it called it
    climbing = np.flatnonzero(around >= 0)
    while len(climbing):
        above = around[climbing]
        called[climbing] |= is_function[above]
        calling = climbing[called[climbing] & is_line[above]]
        code[calling] = line[around[calling]]
        itself[calling], called[calling] = False, False
        around[climbing] = parent[above]
        climbing = climbing[around[climbing] >= 0]
    return code, itself


def _keys(
    trace: Trace, rows: IntArray, by: Sequence[str], view: str, lines: Mapping[str, str]
) -> tuple[IntArray, list[tuple[str, ...]]]:
    """Return the number of each row's key, and the keys; row -1 stands for no owner."""
    number, texts = np.zeros(len(rows), np.int64), []
    for name in by:
        column = trace.slices["line" if name == "statement" else name]
        code = np.append(column.cat.codes.to_numpy(), _MISSING)[rows]
        if name == "statement":
            code = statement_lines(trace, rows)[0]
        if name == "name" or len(by) == 1:
            code = np.where(rows < 0, _NOBODY, code)
        which, present = pd.factorize(code)  # a file has far more words than the rows of its steps
        words = np.full(len(present), MISSING.get(name, ""), object)
        words[present == _NOBODY] = IDLE[view]
        there = present >= 0
        words[there] = [_word(name, str(word), lines) for word in column.cat.categories[present[there]]]
        same, unique = pd.factorize(words)
        code = same[which]
        texts.append((unique, code))
        number = pd.factorize(number * len(unique) + code)[0]
    _, first = np.unique(number, return_index=True)
    return number, list(zip(*(words[code[first]] for words, code in texts), strict=True))


def name_key(name: str) -> str:
    """Return a name without the parts that change from run to run, to match names of both sides."""
    return _CHANGES.sub("", name)


def _word(column: str, word: str, lines: Mapping[str, str]) -> str:
    if column == "name":
        return name_key(word)
    return lines.get(word, word) if column in ("line", "statement") else word
