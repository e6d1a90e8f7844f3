"""Call stacks of a report: those of calls, and samples of what threads ran."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...readers.call_tree import Frame, Sampled, add_samples, sample_durations
from ...readers.codec.columns import INTS
from ...readers.codec.rows import groups, texts
from ...trace.arrays import IntArray
from .session import Session

_SAMPLES: Final = "COMPOSITE_EVENTS"
_CHAINS: Final = "SAMPLING_CALLCHAINS"
_MARKERS: Final = ("[Broken backtraces]", "[Max depth]")
"""Symbols that tell where a stack could not be followed; they are no functions."""


class Chains:
    """The stacks of one table: frames one behind another, root first.

    Parameters
    ----------
    session : Session
    table : str
        With columns ``id symbol module stackDepth``, where depth 0 is the innermost frame.

    Attributes
    ----------
    ids : ndarray of int64
        Of the stacks, in ascending order.
    begin, length : ndarray of int64
        Where the frames of each stack lie in `frames`.
    frames : ndarray of int64
        Positions in `functions`.
    functions : list of Frame
    """

    def __init__(self, session: Session, table: str) -> None:
        rows = session.rows(table, dict.fromkeys(("id", "symbol", "module", "stackDepth"), INTS))
        code, first = groups(rows.ints("symbol"), rows.ints("module"))
        symbols = texts(session.names(rows.ints("symbol")[first]))
        modules = texts(session.names(rows.ints("module")[first]))
        self.functions = [
            Frame(symbol or "[unknown]", module, 0) for symbol, module in zip(symbols, modules, strict=True)
        ]
        real = np.array([*(symbol not in _MARKERS for symbol in symbols), False])[code]
        code, number = code[real], rows.ints("id")[real]
        order = np.lexsort((-rows.ints("stackDepth")[real], number))
        self.frames = code[order]
        self.ids, self.begin, self.length = np.unique(number[order], return_index=True, return_counts=True)

    def find(self, ids: IntArray) -> IntArray:
        """Return the positions of stacks, -1 for those that are not there."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.asarray(np.where(self.ids[at] == ids, at, -1))


def chain_stacks(session: Session, table: str, ids: IntArray) -> IntArray | None:
    """Return the key of the stack of each call; None where the report has none of these stacks."""
    if table not in session.source.tables or not (ids > 0).any():
        return None
    chains = Chains(session, table)
    keys = [
        session.builder.stack(
            [(f.function, f.file, f.line) for f in map(chains.functions.__getitem__, frames)]
        )
        for frames in np.split(chains.frames, chains.begin[1:])
    ]
    return np.asarray(np.array([*keys, -1], np.int64)[chains.find(ids)])


def add_stack_samples(session: Session) -> None:
    """Put samples of threads into the builder, beside them.

    How long a sample stands for is told by `sample_durations`: what is sampled is time on a processor.
    """
    rows = session.rows(_SAMPLES, dict.fromkeys(("id", "start", "globalTid"), INTS))
    if not len(rows):
        return
    chains = Chains(session, _CHAINS)
    at = chains.find(rows.ints("id"))
    session.builder.report.add(
        "sample-without-stack",
        "info",
        int((at < 0).sum()),
        effect="these samples tell that a thread ran, and not what: they are left out",
        advice="record with --sample and a --backtrace that this machine supports",
    )
    thread, ts = rows.ints("globalTid")[at >= 0], rows.ints("start", 0)[at >= 0] + session.base
    at = at[at >= 0]
    code, tracks = session.beside_threads(thread, "samples")
    for number, track in enumerate(tracks):
        own = np.flatnonzero(code == number)
        own = own[np.argsort(ts[own], kind="stable")]
        begin, stack = ts[own], at[own]
        length = chains.length[stack]
        within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        frames = chains.frames[np.repeat(chains.begin[stack], length) + within]
        add_samples(
            session.builder, track, Sampled(begin, sample_durations(begin), frames, length), chains.functions
        )
