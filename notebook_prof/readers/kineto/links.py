"""Links between rows: backward node → forward operator, launch → device work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ...trace.arrays import BoolArray, IntArray
from ...trace.taxonomy import BACKWARD_NODE_PREFIX
from .activity_types import rows_of
from .columns import KinetoColumns


class Links(NamedTuple):
    """Row numbers of both ends of flows, of equal length."""

    src: IntArray
    dst: IntArray


def backward_nodes(columns: KinetoColumns) -> BoolArray:
    """Return rows in which the autograd engine runs one node.

    Recordings from before the engine wrote ranges of its own have none; their rows with a forward
    thread stand in.
    """
    names = [name.startswith(BACKWARD_NODE_PREFIX) for name in columns.name.values]
    nodes = rows_of(columns.name, np.array(names, bool))
    return nodes if nodes.any() else (columns.fwd_thread > 0) & (columns.sequence >= 0)


def forward_links(columns: KinetoColumns, nodes: BoolArray, operators: BoolArray) -> Links:
    """Return the forward operator of each backward node.

    PyTorch gives a node the sequence number that its forward operator saw when it started, and so did
    every operator inside and before it that made no node: of the operators with the same number on
    the same thread, the one that started last made the node.

    Parameters
    ----------
    columns : KinetoColumns
    nodes : ndarray of bool
        From `backward_nodes`.
    operators : ndarray of bool
        Rows of category operator.

    Returns
    -------
    Links
        Forward → backward, at most one for a node; nodes without a number, or whose forward was not
        recorded, are left out.
    """
    forward = np.flatnonzero(operators & (columns.sequence >= 0) & (columns.fwd_thread == 0) & ~nodes)
    backward = np.flatnonzero(nodes & (columns.sequence >= 0))
    if not len(forward) or not len(backward):
        return Links(np.empty(0, np.int64), np.empty(0, np.int64))
    home = _forward_tid(columns, forward, backward)
    rows = np.concatenate([forward, backward])
    thread = np.concatenate([columns.tid[forward], home])
    late = np.repeat([0, 1], [len(forward), len(backward)])
    number = columns.sequence[rows]
    order = np.lexsort((late, columns.ts[rows], number, thread))
    rows, thread, late, number = rows[order], thread[order], late[order], number[order]
    last = np.maximum.accumulate(np.where(late == 0, np.arange(len(rows)), -1))
    at = np.flatnonzero((late == 1) & (last >= 0))
    source = last[at]
    same = (thread[source] == thread[at]) & (number[source] == number[at])
    return Links(rows[source[same]], rows[at[same]])


def _forward_tid(columns: KinetoColumns, forward: IntArray, backward: IntArray) -> IntArray:
    """Return the native thread that ran the forward of each backward node, -1 if unknown.

    Live recordings know torch's number of every thread. Files do not: there, a number stands for the
    thread that has the most of its sequence numbers.
    """
    tid_of = {number: tid for tid, number in columns.torch_thread.items()}
    result = np.full(len(backward), -1, np.int64)
    numbers = columns.fwd_thread[backward]
    tids = pd.unique(columns.tid[forward])
    sequences_of_tid = {
        int(tid): pd.unique(columns.sequence[forward[columns.tid[forward] == tid]]) for tid in tids
    }
    for number in pd.unique(numbers):
        of_thread = numbers == number
        tid = tid_of.get(int(number))
        if tid is None:
            sequences = columns.sequence[backward[of_thread]]
            tid = max(
                sequences_of_tid,
                key=lambda candidate: int(np.isin(sequences, sequences_of_tid[candidate]).sum()),
            )
        result[of_thread] = tid
    return result


def launch_links(columns: KinetoColumns, calls: BoolArray, work: BoolArray) -> Links:
    """Return the runtime call of each kernel, copy and fill, by correlation number.

    Parameters
    ----------
    columns : KinetoColumns
    calls, work : ndarray of bool
        Runtime calls on a thread; rows on a device.

    Returns
    -------
    Links
        Call → device row. One call can own many (a graph launch). Device rows whose call was not
        recorded are left out.
    """
    call = np.flatnonzero(calls & (columns.correlation >= 0))
    target = np.flatnonzero(work & (columns.correlation >= 0))
    if not len(call) or not len(target):
        return Links(np.empty(0, np.int64), np.empty(0, np.int64))
    call = call[np.argsort(columns.correlation[call], kind="stable")]
    keys = columns.correlation[call]
    at = np.minimum(np.searchsorted(keys, columns.correlation[target]), len(keys) - 1)
    same = keys[at] == columns.correlation[target]
    return Links(call[at[same]], target[same])
