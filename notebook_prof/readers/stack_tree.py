"""From samples that name a node of a tree of stacks to slices, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..trace.arrays import BoolArray, IntArray
from ..trace.builder import TraceBuilder
from ..trace.report import ImportReport
from ..trace.strings import Coded
from .call_tree import MAX_DEPTH, Frame


class StackTree(NamedTuple):
    """Call stacks as nodes: each is a frame that is called from another node.

    Attributes
    ----------
    parent : ndarray of int64, shape (n,)
        -1 for outermost frames, else a node that comes before.
    frame : ndarray of int64, shape (n,)
        Positions in `frames`.
    frames : sequence of Frame
        No two alike.
    waits : ndarray of bool, shape (n,)
        Whether the thread waits while this is its innermost frame.
    """

    parent: IntArray
    frame: IntArray
    frames: Sequence[Frame]
    waits: BoolArray


def stack_tree(
    parent: IntArray,
    frame: IntArray,
    frames: Sequence[Frame],
    report: ImportReport,
    waits: BoolArray | None = None,
) -> tuple[StackTree, IntArray]:
    """Make a tree in which a path of frames is there once, and none is deeper than `MAX_DEPTH`.

    Parameters
    ----------
    parent, frame : ndarray of int64, shape (n,)
        Each parent comes before its children.
    frames : sequence of Frame
        Some may be alike.
    report : ImportReport
        Told ``deep-stacks-cut`` where stacks are deeper.
    waits : ndarray of bool, shape (n,), optional
        None of them where not given.

    Returns
    -------
    tree : StackTree
    node : ndarray of int64, shape (n,)
        What became of each node that was given. Deeper ones are their outermost `MAX_DEPTH` frames.

    Examples
    --------
    >>> two = [Frame("f", "", 0), Frame("g", "", 0)]
    >>> tree, node = stack_tree(np.array([-1, 0, 0]), np.array([0, 1, 1]), two, ImportReport())
    >>> tree.parent.tolist(), node.tolist()
    ([-1, 0], [0, 1, 1])
    """
    code_of: dict[Frame, int] = {}
    codes = np.array([code_of.setdefault(each, len(code_of)) for each in frames], np.int64)
    frame = codes[frame] if len(frame) else frame
    waits = np.zeros(len(parent), bool) if waits is None else waits
    depth = depths(parent)
    report.add_where(
        "deep-stacks-cut",
        "loss",
        depth >= MAX_DEPTH,
        lambda i: f"{int(depth.max()) + 1:,} frames",
        f"only the outer {MAX_DEPTH:,} frames are slices",
    )
    node = _raised(parent, depth)
    level = np.minimum(depth, MAX_DEPTH - 1)
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(int(level.max(initial=-1)) + 2))
    new = np.full(len(parent), -1, np.int64)
    parents, kinds, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    width = max(len(code_of), 1)
    for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[lo:hi]
        rows = rows[node[rows] == rows]
        above = np.where(parent[rows] >= 0, new[parent[rows]], -1)
        code, paths = pd.factorize(((above + 1) * width + frame[rows]) * 2 + waits[rows])
        new[rows] = count + code
        path = np.asarray(paths, np.int64)
        parents.append(path // 2 // width - 1)
        kinds.append(path % (2 * width))
        count += len(path)
    kind = np.concatenate(kinds)
    return StackTree(np.concatenate(parents), kind // 2, list(code_of), kind % 2 == 1), new[node]


def depths(parent: IntArray) -> IntArray:
    """Return how many nodes are above each, where each parent comes before its children.

    Examples
    --------
    >>> depths(np.array([-1, 0, 1, 0])).tolist()
    [0, 1, 2, 1]
    """
    up = parent.copy()
    depth = (up >= 0).astype(np.int64)
    rows = np.flatnonzero(up >= 0)
    while len(rows):
        above = up[rows]
        depth[rows] += depth[above]
        up[rows] = up[above]
        rows = rows[up[rows] >= 0]
    return depth


def _raised(parent: IntArray, depth: IntArray) -> IntArray:
    """Return the ancestor of each node that is not too deep."""
    node = np.arange(len(parent))
    by = np.maximum(depth - (MAX_DEPTH - 1), 0)
    up = parent
    while by.any():
        odd = by % 2 == 1
        node[odd] = up[node[odd]]
        by //= 2
        up = np.where(up >= 0, up[up], -1)
    return node


def add_tree_samples(
    builder: TraceBuilder, track: int | IntArray, ts: IntArray, dur: IntArray, node: IntArray, tree: StackTree
) -> None:
    """Make slices of samples: neighbours that agree in the outer frames share their slices.

    Parameters
    ----------
    builder : TraceBuilder
    track : int or ndarray of int64, shape (n,)
        One for all or one a sample; those of a track stand one behind another, in order of time.
    ts, dur : ndarray of int64, shape (n,)
    node : ndarray of int64, shape (n,)
        The innermost frame of each sample.
    tree : StackTree

    Examples
    --------
    >>> b = TraceBuilder()
    >>> two = [Frame("f", "", 0), Frame("g", "", 0)]
    >>> tree, _ = stack_tree(np.array([-1, 0]), np.array([0, 1]), two, b.report)
    >>> add_tree_samples(b, b.track("main"), np.array([0, 5]), np.array([5, 5]), np.array([1, 0]), tree)
    >>> b.seal().slices[["ts", "dur", "name"]].values.tolist()
    [[0, 10, 'f'], [0, 5, 'g']]
    """
    if not len(ts):
        return
    end, depth = ts + dur, depths(tree.parent)[node]
    apart = ts[1:] > end[:-1]
    if isinstance(track, np.ndarray):
        apart = apart | (track[1:] != track[:-1])
    group = np.concatenate([[0], np.cumsum(apart)])
    at, levels = node.copy(), []
    for level in range(int(depth.max()), -1, -1):
        rows = np.flatnonzero(depth >= level)
        here = at[rows]
        same = (here[1:] == here[:-1]) & (group[rows[1:]] == group[rows[:-1]])
        same &= np.diff(rows) == 1
        first = np.flatnonzero(np.concatenate([[True], ~same]))
        levels.append((rows[first], rows[np.append(first[1:], len(rows)) - 1], here[first]))
        at[rows] = tree.parent[here]
    begin, last, inner = (np.concatenate(part[::-1]) for part in zip(*levels, strict=True))
    keys = _keys(builder, tree, inner)
    builder.slices(
        ts=ts[begin],
        dur=end[last] - ts[begin],
        track=track[begin] if isinstance(track, np.ndarray) else track,
        name=Coded(tree.frame[inner], [frame.label() for frame in tree.frames]),
        category=Coded(tree.waits[inner].astype(np.int64), ["python", "sync"]),
        stack=keys[inner],
    )


def _keys(builder: TraceBuilder, tree: StackTree, used: IntArray) -> IntArray:
    """Return the key of the stack of each node; -1 of those that no slice has."""
    keys = [-1] * len(tree.parent)
    rows = np.unique(used)
    frames = tree.frames
    for row, above, frame in zip(
        rows.tolist(), tree.parent[rows].tolist(), tree.frame[rows].tolist(), strict=True
    ):
        keys[row] = builder.stack([frames[frame]], above=keys[above] if above >= 0 else -1)  # noqa: PD013
    return np.array(keys, np.int64)
