"""Turns sampled call stacks into slices, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from ..trace.arrays import IntArray
from ..trace.builder import TraceBuilder
from ..trace.strings import Coded

MAX_FRAMES: Final = 50_000_000
MAX_DEPTH: Final = 10_000


class Frame(NamedTuple):
    """A function and its place; an empty file and line 0 if that is unknown."""

    function: str
    file: str
    line: int

    def label(self) -> str:
        """Return the name of its slices: the function and the last two parts of its file's path.

        Examples
        --------
        >>> Frame("step", "/home/me/project/train.py", 9).label()
        'step (project/train.py:9)'
        """
        if not self.file:
            return self.function
        short_path = "/".join(self.file.replace("\\", "/").rsplit("/", 2)[-2:])
        return (
            f"{self.function} ({short_path}:{self.line})"
            if self.line > 0
            else f"{self.function} ({short_path})"
        )


class Sampled(NamedTuple):
    """Samples of one thread.

    Attributes
    ----------
    ts, dur : ndarray of int64, shape (n,)
        In order of time.
    frames : ndarray of int64
        Concatenated stacks, root first: positions in a list of `Frame`.
    lengths : ndarray of int64, shape (n,)
        Number of frames in each sample's stack.
    """

    ts: IntArray
    dur: IntArray
    frames: IntArray
    lengths: IntArray


def add_samples(
    builder: TraceBuilder,
    track: int | IntArray,
    samples: Sampled,
    frames_seen: Sequence[Frame],
    category: str = "python",
) -> None:
    """Turn samples into slices. Neighbouring samples with the same outer frames share those slices.

    Parameters
    ----------
    builder : TraceBuilder
        Gets ``deep-stacks-cut`` if stacks are too deep in total.
    track : int or ndarray of int64, shape (n,)
        One for all samples, or one per sample; samples of a track must be consecutive.
    samples : Sampled
    frames_seen : sequence of Frame
    category : str
        Category of the slices: ``sync`` for samples of waits.

    Examples
    --------
    >>> b = TraceBuilder()
    >>> two = Sampled(np.array([0, 5]), np.array([5, 5]), np.array([0, 1, 0]), np.array([2, 1]))
    >>> add_samples(b, b.track("main"), two, [Frame("f", "", 0), Frame("g", "", 0)])
    >>> b.seal().slices[["ts", "dur", "name"]].values.tolist()
    [[0, 10, 'f'], [0, 5, 'g']]
    """
    n = len(samples.ts)
    tracks = track if isinstance(track, np.ndarray) else None
    offset = np.cumsum(samples.lengths) - samples.lengths
    end, width = samples.ts + samples.dur, len(frames_seen)
    parts: list[tuple[IntArray, ...]] = []
    node, alive = np.zeros(n, np.int64), np.arange(n)
    keys: IntArray = np.array([-1], np.int64)
    for depth in range(depth_limit(samples.lengths, builder)):
        alive = alive[samples.lengths[alive] > depth]
        code, paths = pd.factorize(node[alive] * width + samples.frames[offset[alive] + depth])
        above, frame = np.divmod(np.asarray(paths, np.int64), width)
        keys = np.fromiter(
            (
                builder.stack([frames_seen[f]], above=k)  # noqa: PD013
                for k, f in zip(keys[above].tolist(), frame.tolist(), strict=True)
            ),
            np.int64,
            len(paths),
        )
        node[alive] = code
        first = np.ones(len(alive), bool)
        first[1:] = (code[1:] != code[:-1]) | (alive[1:] != alive[:-1] + 1)
        first[1:] |= samples.ts[alive[1:]] > end[alive[:-1]]
        if tracks is not None:
            first[1:] |= tracks[alive[1:]] != tracks[alive[:-1]]
        starts = np.flatnonzero(first)
        lasts = np.append(starts[1:], len(alive)) - 1
        code = code[starts]
        parts.append((alive[starts], end[alive[lasts]], frame[code], keys[code]))
    if not parts:
        return
    begin, stop, frame, stack = (np.concatenate(part) for part in zip(*parts, strict=True))
    builder.slices(
        ts=samples.ts[begin],
        dur=stop - samples.ts[begin],
        track=track if tracks is None else tracks[begin],
        name=labels(frame, frames_seen),
        category=category,
        stack=stack,
    )


def labels(frame: IntArray, frames_seen: Sequence[Frame]) -> Coded:
    """Return the names of slices of these frames, making those of the used frames only.

    >>> labels(np.array([1, 1]), [Frame("f", "", 0), Frame("g", "", 0)])
    Coded(codes=array([0, 0]), values=['g'])
    """
    codes, used = pd.factorize(frame)
    return Coded(codes, [frames_seen[i].label() for i in used.tolist()])


def sample_durations(ts: IntArray) -> IntArray:
    """Return how much time each sample of a thread represents, if samples are taken only while it runs.

    A sample represents the time until the next one, but at most twice the median of these times, since a
    sleeping thread has no samples. The last sample represents the median.

    Examples
    --------
    >>> sample_durations(np.array([0, 10, 20, 1_000])).tolist()
    [10, 10, 20, 10]
    """
    gaps = np.diff(ts)
    usual = int(np.median(gaps)) if len(gaps) else 0
    return np.append(np.minimum(gaps, 2 * usual), usual).astype(np.int64)


def depth_limit(lengths: IntArray, builder: TraceBuilder) -> int:
    """Return how many outer frames to keep of each stack, so that the total stays within `MAX_FRAMES`."""
    limit = deepest = int(lengths.max(initial=0))
    limit = min(limit, MAX_DEPTH)
    while int(np.minimum(lengths, limit).sum()) > MAX_FRAMES:
        limit //= 2
    if limit < deepest:
        builder.report.add(
            "deep-stacks-cut",
            "loss",
            int((lengths > limit).sum()),
            example=f"{deepest:,} frames",
            effect=f"only the outer {limit:,} frames are slices",
        )
    return limit
