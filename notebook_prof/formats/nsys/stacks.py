"""Call stacks of a report: those of calls, and samples of what threads ran."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from ...readers.call_tree import Frame, Sampled, add_samples, sample_durations
from ...readers.codec.columns import INTS
from ...readers.codec.rows import Rows, groups, marked, texts
from ...trace.arrays import BoolArray, IntArray, consecutive
from ...trace.strings import Coded
from .device import DeviceWork
from .session import Session, pid_of

_SAMPLES: Final = "COMPOSITE_EVENTS"
_CHAINS: Final = "SAMPLING_CALLCHAINS"
_MARKERS: Final = ("[Broken backtraces]", "[Max depth]")
"""Symbols where the stack could not be followed. They are not functions."""


class Chains:
    """The stacks of one table: frames one behind another, root first."""

    def __init__(self, session: Session, table: str) -> None:
        # depth 0 is the innermost frame
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
        # positions in `functions`
        self.frames = code[order]
        # in ascending order; where the frames of each stack lie in `frames`
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
        session.builder.stack(  # noqa: PD013
            [(f.function, f.file, f.line) for f in map(chains.functions.__getitem__, frames)]
        )
        for frames in np.split(chains.frames, chains.begin[1:])
    ]
    return np.asarray(np.array([*keys, -1], np.int64)[chains.find(ids)])


def add_stack_samples(session: Session) -> None:
    """Put samples of threads into the builder, beside them."""
    # How long a sample stands for is told by `sample_durations`: what is sampled is time on a processor.
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
        frames = chains.frames[consecutive(chains.begin[stack], length)]
        add_samples(
            session.builder, track, Sampled(begin, sample_durations(begin), frames, length), chains.functions
        )


# What threads called: CUDA and its libraries, the operating system, and the profiler itself.

RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_BACKTRACE: Final = 67
"""Rows of this class hold the stack of a call. They are not calls."""
_LIBRARIES: Final = (28, 29)
"""Classes of events of cuDNN and cuBLAS."""
_STARTS_WORK: Final = re.compile(r"_*(?:cuda|cu|hip)\w*(?:Launch|Memcpy|Memset)")


def add_calls(session: Session, work: DeviceWork) -> None:
    """Put calls of CUDA into the builder, and arrows to what they launched."""
    # Of several calls with one number, as a call of the runtime and that of the driver inside, the innermost
    # has the arrow. What launched nothing that was recorded, and is not named like a launch, is overhead.
    columns = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "callchainId")
    rows = session.rows(RUNTIME, dict.fromkeys(columns, INTS))
    backtrace = rows.ints("eventClass") == _BACKTRACE
    chain = _chains(rows, backtrace)[~backtrace]
    rows = rows.where(~backtrace)
    names = session.names(rows.ints("nameId"))
    pid = pid_of(rows.ints("globalTid")) if (work.pid > 0).any() else np.zeros(len(rows), np.int64)
    owner, launches = launching_calls(rows, pid, work)
    category = np.where(launches | marked(names, _STARTS_WORK.match), 1, 0)
    category[np.isin(rows.ints("eventClass"), _LIBRARIES)] = 2
    category[marked(names, lambda name: "Synchronize" in name)] = 3
    stack = chain_stacks(session, "CUDA_CALLCHAINS", chain)
    words = ["overhead", "launch", "operator", "sync"]
    handle = _add(session, rows, names, Coded(category, words), "unknown call", stack)
    linked = owner >= 0
    if len(handle):
        session.builder.flows("launch", handle[owner[linked]], work.handle[linked])
    session.builder.report.add(
        "device-work-without-launch",
        "info",
        int((~linked).sum()),
        effect="kernels and copies whose call was not recorded have no step or phase from it",
    )


def add_system_calls(session: Session) -> None:
    """Put calls of the operating system into the builder; which of them wait, their names tell."""
    columns = ("start", "end", "globalTid", "nameId", "callchainId")
    rows = session.rows("OSRT_API", dict.fromkeys(columns, INTS))
    if len(rows):
        names = session.names(rows.ints("nameId"))
        category = Coded(np.zeros(len(rows), np.int64), ["io"])
        stack = chain_stacks(session, "OSRT_CALLCHAINS", rows.ints("callchainId"))
        _add(session, rows, names, category, "system call", stack)


def add_overhead(session: Session) -> None:
    """Put what the profiler and CUPTI did into the builder."""
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        rows = session.rows(table, dict.fromkeys(("start", "end", "globalTid", "nameId"), INTS))
        if len(rows):
            _add(session, rows, session.names(rows.ints("nameId")), "overhead", "profiler overhead", None)


def _add(
    session: Session, rows: Rows, names: Coded, category: Any, default: str, stack: IntArray | None
) -> IntArray:
    ts, dur = session.times(rows)
    session.builder.report.add_where(
        "unclosed-begin",
        "loss",
        rows.ints("end", -(1 << 62)) == -(1 << 62),
        lambda i: default,
        "kept until the end of the session",
    )
    return session.builder.slices(
        ts=ts,
        dur=dur,
        track=session.threads(rows.ints("globalTid")),
        name=Coded(np.where(names.codes < 0, len(names.values), names.codes), [*names.values, default]),
        category=category,
        correlation=np.maximum(rows.ints("correlationId"), -1),
        stack=stack,
    )


def _chains(rows: Rows, backtrace: BoolArray) -> IntArray:
    """Return the number of each call's stack, where a row of its own tells it, too."""
    chain = rows.ints("callchainId")
    if not backtrace.any():
        return chain
    key, _ = groups(rows.ints("globalTid"), rows.ints("correlationId"))
    of_key = np.full(int(key.max()) + 1, -1, np.int64)
    of_key[key[backtrace]] = chain[backtrace]
    return np.where(chain >= 0, chain, of_key[key])


def launching_calls(rows: Rows, pid: IntArray, work: DeviceWork) -> tuple[IntArray, BoolArray]:
    """Return the call that launched each piece of work, -1 for none, and which calls have any."""
    n = len(rows)
    number = rows.ints("correlationId")
    key = _keys(np.concatenate([pid, work.pid]), np.concatenate([number, work.correlation]))
    of_call, of_work = key[:n], key[n:]
    usable = np.flatnonzero(number >= 0)
    latest = np.full(int(key.max(initial=-1)) + 1, -1, np.int64)
    # the innermost of several calls began last
    begin = rows.ints("start", 0)[usable]
    order = usable if (begin[1:] >= begin[:-1]).all() else usable[np.argsort(begin, kind="stable")]
    latest[of_call[order]] = order
    owner = np.where(work.correlation >= 0, latest[of_work], -1)
    has_work = np.zeros(len(latest), bool)
    has_work[of_work] = True
    return owner, has_work[of_call]


def _keys(pid: IntArray, number: IntArray) -> IntArray:
    """Return a number for each pair; where numbers lie close together, without a hash table."""
    low, high = int(number.min(initial=0)), int(number.max(initial=0))
    process, processes = pd.factorize(pid)
    width = high - low + 1
    if width * len(processes) > 8 * len(number) + 1_000:
        return groups(pid, number)[0]
    return np.asarray(process * width + (number - low))
