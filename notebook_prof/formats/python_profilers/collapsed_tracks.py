"""Samples of several threads, each on its own track."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...readers.call_tree import Frame, Sampled, add_samples
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from .collapsed_tools import ThreadLabel


class Stacks(NamedTuple):
    """Stacks of all threads, one after another.

    Attributes
    ----------
    frames : ndarray of int64
        Root first: positions in `distinct`.
    lengths : ndarray of int64, shape (n,)
        Frames of each stack.
    distinct : list of Frame
    thread : ndarray of int64, shape (n,)
        Position in `heads`.
    heads : list of bytes
        What tells the threads, in order of their first appearance.
    """

    frames: IntArray
    lengths: IntArray
    distinct: list[Frame]
    thread: IntArray
    heads: list[bytes]


def add_tracks(
    builder: TraceBuilder,
    stacks: Stacks,
    weight: npt.NDArray[np.float64],
    labels: Sequence[ThreadLabel],
    in_order: bool,
) -> None:
    """Lay the stacks of each thread one behind another.

    Parameters
    ----------
    builder : TraceBuilder
        Gets ``metadata["processes"]``, commands by process id, where they are told.
    stacks : Stacks
    weight : ndarray of float64, shape (n,)
        Nanoseconds.
    labels : sequence of ThreadLabel
        Of each head.
    in_order : bool
        Whether stacks are samples in the order in which they were taken. Then a thread begins where its first
        sample was taken; otherwise all begin at 0.

    Examples
    --------
    >>> b = TraceBuilder()
    >>> heads, distinct = [b"tid:1;", b"tid:2;"], [Frame("f", "", 0)]
    >>> two = Stacks(np.array([0, 0]), np.array([1, 1]), distinct, np.array([0, 1]), heads)
    >>> labels = [ThreadLabel("a", None, 1), ThreadLabel("b", None, 2)]
    >>> add_tracks(b, two, np.array([5.0, 3.0]), labels, False)
    >>> b.seal().slices[["track", "dur"]].values.tolist()
    [[0, 5], [1, 3]]
    """
    if commands := {str(label.pid): label.command for label in labels if label.command}:
        builder.metadata["processes"] = commands
    tracks = np.array([builder.track(label.name, pid=label.pid, tid=label.tid) for label in labels], np.int64)
    process = np.array([-1 if label.pid is None else label.pid for label in labels], np.int64)[stacks.thread]
    # two heads of one thread are one track
    track = tracks[stacks.thread]
    order = np.argsort(track, kind="stable")
    bounds = np.flatnonzero(np.diff(track[order], prepend=-1, append=-1))
    begin, end = np.zeros((2, len(track)), np.int64)
    for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[lo:hi]
        stop = np.rint(np.cumsum(weight[rows])).astype(np.int64)
        before, first, start = int(rows[0]) - 1, int(rows[0]), 0
        if in_order and first:
            # the sample before is of the same moment if it covers the same time of the same process
            same = weight[before] == weight[first] and process[before] == process[first]
            start = int(begin[before] if same else end[before])
        end[rows] = start + stop
        begin[rows] = start + np.concatenate([[0], stop[:-1]])
    lengths = stacks.lengths[order]
    inside = np.arange(len(stacks.frames)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    offset = np.cumsum(stacks.lengths) - stacks.lengths
    frames = stacks.frames[np.repeat(offset[order], lengths) + inside]
    samples = Sampled(begin[order], end[order] - begin[order], frames, lengths)
    add_samples(builder, track[order], samples, stacks.distinct)
