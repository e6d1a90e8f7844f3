"""What threads called: CUDA and its libraries, the operating system, and the profiler itself."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from ...readers.codec.columns import INTS
from ...readers.codec.rows import Rows, groups, marked
from ...trace.arrays import BoolArray, IntArray
from ...trace.strings import Coded
from .device import DeviceWork
from .session import Session, pid_of
from .stacks import chain_stacks

RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_BACKTRACE: Final = 67
"""Rows of this class tell which stack a call had; they are no calls."""
_LIBRARIES: Final = (28, 29)
"""cuDNN and cuBLAS."""
_STARTS_WORK: Final = re.compile(r"_*(?:cuda|cu|hip)\w*(?:Launch|Memcpy|Memset)")


def add_calls(session: Session, work: DeviceWork) -> None:
    """Put calls of CUDA into the builder, and arrows to what they launched.

    Of several calls with one number, as a call of the runtime and that of the driver inside, the innermost
    has the arrow. What launched nothing that was recorded, and is not named like a launch, is overhead.
    """
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
