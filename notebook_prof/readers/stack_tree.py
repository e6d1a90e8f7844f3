"""Turns samples that refer to nodes of a stack tree into slices, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..trace.arrays import BoolArray, IntArray
from ..trace.builder import TraceBuilder
from ..trace.report import ImportReport
from ..trace.strings import Coded
from .call_tree import MAX_DEPTH, Frame, labels


class StackTree(NamedTuple):
    """Call stacks as a tree: each node is a frame called from its parent."""

    parent: IntArray  # -1 for outermost frames, otherwise an earlier node
    frame: IntArray  # positions in `frames`
    frames: Sequence[Frame]  # all distinct
    waits: BoolArray  # whether the thread waits while this is its innermost frame
    depth: IntArray  # number of ancestors


def stack_tree(
    parent: IntArray,
    frame: IntArray,
    frames: Sequence[Frame],
    report: ImportReport,
    waits: BoolArray | None = None,
) -> tuple[StackTree, IntArray]:
    """Make a tree that contains each path of frames once, and return the node in it of each node given."""
    # Each parent comes before its children, and `frames` need not be distinct. Stacks deeper than `MAX_DEPTH`
    # keep their outermost frames.
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
    depth = np.repeat(np.arange(len(parents)) - 1, list(map(len, parents)))
    return StackTree(np.concatenate(parents), kind // 2, list(code_of), kind % 2 == 1, depth), new[node]


def depths(parent: IntArray) -> IntArray:
    """Return the number of ancestors of each node; parents come before their children.

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
    """Return each node, or its deepest ancestor within `MAX_DEPTH`."""
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
    """Turn samples into slices, shared by neighbouring samples with the same outer frames."""
    # `node` is the innermost frame of each sample. The samples of a track are consecutive and in order of
    # time.
    if not len(ts):
        return
    end, depth = ts + dur, tree.depth[node]
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
    builder.slices(
        ts=ts[begin],
        dur=end[last] - ts[begin],
        track=track[begin] if isinstance(track, np.ndarray) else track,
        name=labels(tree.frame[inner], tree.frames),
        category=Coded(tree.waits[inner].astype(np.int64), ["python", "sync"]),
        stack=_keys(builder, tree, inner),
    )


def _keys(builder: TraceBuilder, tree: StackTree, node: IntArray) -> IntArray:
    """Return the stack key of each node. `node` must include the parents of its nodes."""
    key_of = {-1: -1}
    rows, at = np.unique(node, return_inverse=True)
    for row, above, frame in zip(
        rows.tolist(), tree.parent[rows].tolist(), tree.frame[rows].tolist(), strict=True
    ):
        key_of[row] = builder.stack([tree.frames[frame]], above=key_of[above])  # noqa: PD013
    keys = np.fromiter((key_of[row] for row in rows.tolist()), np.int64, len(rows))
    return keys[at]
