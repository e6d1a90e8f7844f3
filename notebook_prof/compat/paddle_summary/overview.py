"""Device, overview and distribution tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...analysis.device.device import device_of
from ...analysis.scope import Mask, on_device
from ...trace import Intervals, length, overlap, union
from ...trace.intervals import IntArray
from ...trace.taxonomy import is_collective_kernel
from .events import DEVICE, PHASES, STEP, Events
from .model import model_table

_COLLECTIVE_WORDS = ("allreduce", "broadcast", "rpc")


def device_table(events: Events) -> pd.DataFrame:
    """Utilisation of the CPU, where the file tells it, and of each device.

    Returns
    -------
    DataFrame
        ``device`` str, ``utilization`` float64: shares; kernels' union over the time of the steps.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> device_table(Events(TraceBuilder().seal())).empty
    True
    """
    known = events.trace.metadata
    rows: list[tuple[str, float]] = []
    for name, key in (("CPU(Process)", "process_cpu_utilization"), ("CPU(System)", "system_cpu_utilization")):
        if isinstance(value := known.get(key), int | float):
            rows.append((name, float(value)))
    work = on_device(events.trace)
    where = device_of(events.trace, work)
    kernels = events.of("Kernel")[work.rows]
    for number in np.unique(where).tolist():
        mine = kernels & (where == number)
        busy = length(union(work.ts[mine], work.end[mine]))
        rows.append((f"GPU{number}", busy / events.total_ns if events.total_ns else 0.0))
    return pd.DataFrame(rows, columns=["device", "utilization"]).astype({"utilization": "float64"})


def overview_table(events: Events) -> pd.DataFrame:
    """Time by type of event, overlaps counted once.

    Returns
    -------
    DataFrame
        ``type`` str, ``on`` (``cpu``, ``gpu``), ``calls`` int64, ``time_ns`` int64, ``ratio`` float64, of the
        time of all steps: steps first, then types of the host by time, then those of the devices.
        The four phases have the calls and the summed time of their outermost events.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 2], dur=[9, 3], name=["linear", "mm"], track=b.track("main"))
    >>> overview_table(Events(b.seal()))[["type", "calls", "time_ns"]].values.tolist()
    [['ProfileStep', 0, 9], ['Operator', 2, 9]]
    """
    types = events.type
    host = events.host | events.of("CudaRuntime", "MluRuntime")
    host_types = [word for word in pd.unique(types[np.flatnonzero(host)]) if word not in ("", STEP, *PHASES)]
    rows = [
        (word, int((host & events.of(word)).sum()), _busy(events, host & events.of(word)))
        for word in host_types
    ]
    rows = [row for row in rows if row[0] != "Communication"]
    called, collective = _communication(events)
    if called.any():
        rows.append(("Communication", int(events.of("Communication")[host].sum()), _busy(events, called)))
    phases = model_table(events)
    for phase in phases[phases["name"].isin(PHASES)].to_dict("records"):
        if phase["calls"]:
            rows.append((phase["name"], int(phase["calls"]), int(phase["cpu_total_ns"])))
    rows.sort(key=lambda row: -row[2])
    table = [(STEP, "cpu", len(events.trace.steps), events.total_ns), *((r[0], "cpu", *r[1:]) for r in rows)]
    for word in _device_order(events):
        mine = events.of(word) & ~host
        table.append((word, "gpu", int(mine.sum()), _busy(events, mine)))
    if collective.any():
        table.append(("Communication", "gpu", int(collective.sum()), _busy(events, collective)))
    found = pd.DataFrame(table, columns=["type", "on", "calls", "time_ns"])
    found["ratio"] = found["time_ns"] / events.total_ns if events.total_ns else 0.0
    return found


def distribution_table(events: Events) -> pd.DataFrame:
    """Communication, computation and their overlap.

    Returns
    -------
    DataFrame
        ``name`` (``ProfileStep Communication Computation Overlap``), ``time_ns`` int64, ``ratio`` float64; no
        rows without communication. Communication is that of the host (communication events, operators
        named all-reduce, broadcast or rpc) and of the devices (their kernels, and kernels of collective
        libraries); computation is all other kernels.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> distribution_table(Events(TraceBuilder().seal())).empty
    True
    """
    called, collective = _communication(events)
    both = _intervals(events, called | collective)
    computation = _intervals(events, events.of("Kernel") & ~collective)
    if not length(both):
        return pd.DataFrame({"name": [], "time_ns": [], "ratio": []})
    times = [events.total_ns, length(both), length(computation), length(overlap(both, computation))]
    table = pd.DataFrame({"name": [STEP, "Communication", "Computation", "Overlap"], "time_ns": times})
    table["ratio"] = table["time_ns"] / events.total_ns if events.total_ns else 0.0
    return table


def _communication(events: Events) -> tuple[Mask, Mask]:
    """Communication on the host, and the device work that belongs to it."""
    names = events.trace.slices["name"].cat
    words = [str(name) for name in names.categories]
    codes = names.codes.to_numpy()
    named = np.array(
        [any(w in word.lower() for w in _COLLECTIVE_WORDS) for word in words] + [False], dtype=bool
    )
    libraries = np.array([is_collective_kernel(word) or "xccl" in word.lower() for word in words] + [False])
    called = events.host & (events.of("Communication") | (events.of("Operator") & named[codes]))
    kernels = events.of("Kernel")
    return called, kernels & (libraries[codes] | _under(events, called))


def _under(events: Events, called: Mask) -> Mask:
    """Which device work was launched inside these host events."""
    found = np.zeros(len(called), dtype=bool)
    rows = np.flatnonzero(events.owner >= 0)
    up = events.owner[rows]
    while len(rows):
        found[rows[called[up]]] = True
        up = events.parent[up]
        rows, up = rows[up >= 0], up[up >= 0]
    return found


def _device_order(events: Events) -> list[str]:
    """Types of device work in the order in which Paddle meets them."""
    work = np.flatnonzero(events.of(*DEVICE))
    work = work[np.argsort(events.place[events.owner[work]], kind="stable")]
    return [str(word) for word in pd.unique(events.type[work])]


def _intervals(events: Events, rows: Mask) -> Intervals:
    return union(events.ts[rows], (events.ts + events.dur)[rows])


def _busy(events: Events, rows: Mask | IntArray) -> int:
    return length(_intervals(events, np.asarray(rows)))
