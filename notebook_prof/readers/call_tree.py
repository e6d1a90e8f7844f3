"""Turns sampled call stacks into slices, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from ..trace.arrays import BoolArray, IntArray, consecutive, distinct_paths, numbered
from ..trace.builder import TraceBuilder
from ..trace.nesting import depths
from ..trace.report import ImportReport
from ..trace.source_lines import SAMPLE_COUNTS
from ..trace.strings import Coded

MAX_FRAMES: Final = 50_000_000
MAX_DEPTH: Final = 10_000


class CallFrame(NamedTuple):
    """A function and its place; an empty file and line 0 if that is unknown."""

    function: str
    file: str
    line: int

    def label(self) -> str:
        """Return the name of its slices: the function and the last two parts of its file's path.

        >>> CallFrame("step", "/home/me/project/train.py", 9).label()
        'step (project/train.py:9)'
        """
        if not self.file:
            return self.function
        short_path = "/".join(self.file.replace("\\", "/").rsplit("/", 2)[-2:])
        line = f":{self.line}" if self.line > 0 else ""
        return f"{self.function} ({short_path}{line})"


def loose_frame(function: Any, file: Any, line: Any) -> CallFrame:
    """Return a frame of values of any type; built-in functions have no file."""
    number = line if isinstance(line, int) and 0 < line < 2**31 else 0
    path = str(file or "")
    return CallFrame(str(function), "" if path.startswith("<built-in") else path, number)


class Sampled(NamedTuple):
    """Samples of one thread."""

    ts: IntArray  # in order of time
    dur: IntArray
    frames: IntArray  # concatenated stacks, root first: positions in a list of `CallFrame`
    lengths: IntArray  # number of frames in each sample's stack


def add_samples(
    builder: TraceBuilder,
    track: int | IntArray,
    samples: Sampled,
    frames: Sequence[CallFrame],
    waits: bool = False,  # whether samples are of waits: slices are then of category ``sync``
) -> None:
    """Turn samples into slices. Neighbouring samples with the same outer frames share those slices.

    >>> b = TraceBuilder()
    >>> two = Sampled(np.array([0, 5]), np.array([5, 5]), np.array([0, 1, 0]), np.array([2, 1]))
    >>> add_samples(b, b.track("main"), two, [CallFrame("f", "", 0), CallFrame("g", "", 0)])
    >>> b.seal().slices[["ts", "dur", "name"]].values.tolist()
    [[0, 10, 'f'], [0, 5, 'g']]
    """
    # `track` is one for all samples, or one per sample; samples of a track must be consecutive
    limit = depth_limit(samples.lengths, builder)
    depth = consecutive(np.zeros_like(samples.lengths), samples.lengths)
    frame, depth = samples.frames[depth < limit], depth[depth < limit]
    above = np.where(depth > 0, np.arange(len(depth)) - 1, -1)
    node, parent, first = distinct_paths(frame, above, depth)
    tree = StackTree(parent, frame[first], frames, np.full(len(parent), waits), depth[first])
    lengths = np.minimum(samples.lengths, limit)
    used = lengths > 0
    leaf = node[np.cumsum(lengths)[used] - 1]
    track = track[used] if isinstance(track, np.ndarray) else track
    add_tree_samples(builder, track, samples.ts[used], samples.dur[used], leaf, tree)


def labels(frame: IntArray, frames_seen: Sequence[CallFrame]) -> Coded:
    """Return the slice names of these frames; build only the names that occur."""
    codes, used = pd.factorize(frame)
    return Coded(codes, [frames_seen[i].label() for i in used.tolist()])


def sample_durations(ts: IntArray) -> IntArray:
    """Return how much time each sample of a thread represents, if samples are taken only while it runs.

    >>> sample_durations(np.array([0, 10, 20, 1_000])).tolist()
    [10, 10, 20, 10]
    """
    # A sample represents the time until the next one, but at most twice the median of these times, since a
    # sleeping thread has no samples. The last sample represents the median.
    gaps = np.diff(ts)
    usual = int(np.median(gaps)) if len(gaps) else 0
    return np.append(np.minimum(gaps, 2 * usual), usual).astype(np.int64)


def count_samples(builder: TraceBuilder, track: int, count: int) -> None:
    """Record the number of samples of a track. The verdict rounds shares of few samples."""
    counts = builder.metadata.setdefault(SAMPLE_COUNTS, {})
    counts[str(track)] = counts.get(str(track), 0) + count


def depth_limit(lengths: IntArray, builder: TraceBuilder) -> int:
    """Return how many outer frames to keep of each stack, so that the total stays within `MAX_FRAMES`."""
    limit = deepest = int(lengths.max(initial=0))
    limit = min(limit, MAX_DEPTH)
    while int(np.minimum(lengths, limit).sum()) > MAX_FRAMES:
        limit //= 2
    if limit < deepest:
        example = f"{deepest:,} frames"
        effect = f"only the outer {limit:,} frames are slices"
        builder.report.add("deep-stacks-cut", "loss", int((lengths > limit).sum()), example, effect)
    return limit


# Samples that refer to nodes of a stack tree.


class StackTree(NamedTuple):
    """Call stacks as a tree: each node is a frame called from its parent."""

    parent: IntArray  # -1 for outermost frames, otherwise an earlier node
    frame: IntArray  # positions in `frames`
    frames: Sequence[CallFrame]  # all distinct
    waits: BoolArray  # whether the thread waits while this is its innermost frame
    depth: IntArray  # number of ancestors


def stack_tree(
    parent: IntArray, frame: IntArray, frames: Sequence[CallFrame], report: ImportReport, waits: BoolArray
) -> tuple[StackTree, IntArray]:
    """Make a tree that contains each path of frames once, and return the node in it of each node given."""
    # Each parent comes before its children, and `frames` need not be distinct. Stacks deeper than `MAX_DEPTH`
    # keep their outermost frames.
    codes, distinct = numbered(frames)
    frame = codes[frame] if len(frame) else frame
    depth = depths(parent).astype(np.int64)
    kept = depth < MAX_DEPTH
    example = f"{int(depth.max(initial=0)) + 1:,} frames"
    effect = f"only the outer {MAX_DEPTH:,} frames are slices"
    report.add("deep-stacks-cut", "loss", int((~kept).sum()), example, effect)
    number = np.cumsum(kept) - 1
    kind, depth_kept = (frame * 2 + waits)[kept], depth[kept]
    above = np.where(parent >= 0, number[parent], -1)[kept] if len(parent) else parent
    path, up, first = distinct_paths(kind, above, depth_kept)
    tree = StackTree(up, kind[first] // 2, distinct, kind[first] % 2 == 1, depth_kept[first])
    return tree, path[number[_raised(parent, depth)]]


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
    parent, frame = tree.parent.tolist(), tree.frame.tolist()
    keys = [-1] * (len(parent) + 1)  # the last is that of no parent
    for row in np.unique(node).tolist():
        keys[row] = builder.stack([tree.frames[frame[row]]], above=keys[parent[row]])  # noqa: PD013
    return np.array(keys, np.int64)[node]
