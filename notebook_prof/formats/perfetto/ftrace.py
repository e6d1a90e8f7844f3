"""Events of the Linux kernel: when threads ran, and when they waited for a core."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ...readers.codec.protobuf_columns import Fields, coded_texts
from ...trace.arrays import IntArray
from ...trace.builder import TraceBuilder
from ...trace.strings import Coded
from .packets import FTRACE, Packets
from .tracks import Tracks

_CPU, _EVENT, _COMPACT = 1, 2, 4
_TIMESTAMP, _SWITCH, _WAKING, _WAKEUP = 1, 4, 20, 17
_ASLEEP: Final = 0xFF
"""Bits of a thread's state when it leaves its core. None is set if it could go on running."""
_WORDS: Final = ("running", "runnable")
_SHOWN: Final = frozenset({_SWITCH, _WAKING, _WAKEUP})
_COMMON: Final = frozenset({1, 2, 5})
"""Fields that all events have: time, thread, flags."""


class Switches(NamedTuple):
    """Cores that went from one thread to another."""

    cpu: IntArray
    ts: IntArray
    pid: IntArray  # which thread runs from then on, 0 for none
    state: IntArray  # in which state the one before left


def add_scheduling(packets: Packets, tracks: Tracks, builder: TraceBuilder) -> None:
    """Put a lane for each thread into the builder: ``running`` on a core, ``runnable`` while it waits."""
    # A thread is runnable from when it is woken, or had to leave its core, until it runs. What runs when a
    # core's recording ends has no end, and is left out.
    owner, bundles = packets.messages(FTRACE)
    if not len(owner):
        return
    cpu = bundles.ints(_CPU, 0)
    of_compact, of_event = bundles.occurrences(_COMPACT), bundles.occurrences(_EVENT)
    compact, events = bundles.inside(of_compact), bundles.inside(of_event)
    cpu_of_event = cpu[of_event.owner]
    plain, woken = _plain(events, cpu_of_event), _woken(events)
    packed, pid, ts = _compact(compact, cpu[of_compact.owner], builder)
    switches = Switches(*(np.concatenate(pair) for pair in zip(plain, packed, strict=True)))
    waking = np.concatenate([woken[0], pid]), np.concatenate([woken[1], ts])
    _add_lanes(switches, waking, _names(events, compact), tracks, builder, packets.unix_offset)
    others = sum(n for number, n in events.counts().items() if number not in _COMMON | _SHOWN)
    builder.report.add(
        "kernel-events-not-used",
        "info",
        others,
        example="interrupts and the like",
        effect="of the Linux kernel's events scheduling is shown, and nothing else",
        advice="open the trace in ui.perfetto.dev to see them",
    )


def _plain(events: Fields, cpu: IntArray) -> Switches:
    every = events.occurrences(_SWITCH)
    event, switch = every.owner, events.inside(every)
    ts = events.ints(_TIMESTAMP, 0)[event]
    return Switches(cpu[event], ts, switch.ints(6, 0), switch.ints(4, 0))


def _woken(events: Fields) -> tuple[IntArray, IntArray]:
    pid, ts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for kind in (_WAKING, _WAKEUP):
        every = events.occurrences(kind)
        pid.append(events.inside(every).ints(2, 0))
        ts.append(events.ints(_TIMESTAMP, 0)[every.owner])
    return np.concatenate(pid), np.concatenate(ts)


def _compact(fields: Fields, cpu: IntArray, builder: TraceBuilder) -> tuple[Switches, IntArray, IntArray]:
    """Return switches, and threads and times of wakings, that are columns: times as differences."""
    owner, steps = fields.repeated(1)
    _, state = fields.repeated(2)
    _, pid = fields.repeated(3)
    waking_owner, waking_steps = fields.repeated(7)
    _, waking_pid = fields.repeated(8)
    whole = len(steps) == len(state) == len(pid) and len(waking_steps) == len(waking_pid)
    builder.report.add(
        "broken-message",
        "loss",
        int(not whole),
        example="columns of scheduling that differ in length",
        effect="scheduling that is written as columns is left out",
    )
    if not whole:
        none = np.empty(0, np.int64)
        return Switches(none, none, none, none), none, none
    switches = Switches(cpu[owner], _summed(steps, owner), pid, state)
    return switches, waking_pid, _summed(waking_steps, waking_owner)


def _summed(steps: IntArray, owner: IntArray) -> IntArray:
    """Return running sums that begin anew in each message; messages follow one another."""
    if not len(steps):
        return steps
    total = np.cumsum(steps)
    first = np.append(True, owner[1:] != owner[:-1])
    before = total[first] - steps[first]
    return np.asarray(total - before[np.cumsum(first) - 1])


def _names(events: Fields, compact: Fields) -> dict[int, str]:
    """Return the names of threads that switches and wakings tell."""
    result: dict[int, str] = {}
    every = compact.occurrences(5)
    words = coded_texts(compact, every)
    begin = np.searchsorted(every.owner, np.arange(compact.count))
    for number, index in ((3, 6), (8, 11)):
        owner, pid = compact.repeated(number)
        _, code = compact.repeated(index)
        if len(pid) == len(code) and len(every):
            at = np.clip(begin[owner] + code, 0, len(every) - 1)
            result |= _by_pid(pid, Coded(words.codes[at], words.values))
    for kind, name, number in ((_SWITCH, 5, 6), (_WAKING, 1, 2), (_WAKEUP, 1, 2)):
        fields = events.inside(events.occurrences(kind))
        named = fields.occurrences(name)
        result |= _by_pid(fields.ints(number, 0)[named.owner], coded_texts(fields, named))
    return result


def _by_pid(pid: IntArray, names: Coded) -> dict[int, str]:
    numbers, first = np.unique(pid, return_index=True)
    words = [*names.values, ""]
    return {n: words[names.codes[i]] for n, i in zip(numbers.tolist(), first.tolist(), strict=True)}


def _add_lanes(
    switches: Switches,
    waking: tuple[IntArray, IntArray],
    names: dict[int, str],
    tracks: Tracks,
    builder: TraceBuilder,
    offset: int,
) -> None:
    order = np.lexsort((switches.ts, switches.cpu))
    cpu, ts, pid, state = (column[order] for column in switches)
    follows = np.flatnonzero(cpu[1:] == cpu[:-1])
    run_pid, run_ts, run_end = pid[follows], ts[follows], ts[follows + 1]
    preempted = (state[follows + 1] & _ASLEEP) == 0
    runs = np.lexsort((run_ts, run_pid))
    runs = runs[run_pid[runs] > 0]
    run_pid, run_ts, run_end, preempted = (c[runs] for c in (run_pid, run_ts, run_end, preempted))
    if not len(runs):
        return
    following = np.append(
        np.where(run_pid[1:] == run_pid[:-1], run_ts[1:], np.iinfo(np.int64).max), run_end[-1]
    )
    elsewhere = following < run_end
    builder.report.add(
        "switches-lost",
        "loss",
        int(elsewhere.sum()),
        example="a thread that runs on another core before its core has left it",
        effect="its run ends where the next one begins; when it did end is not in the file",
        advice="record with larger buffers",
    )
    run_end, preempted = np.minimum(run_end, following), preempted & ~elsewhere
    ready_pid = np.concatenate([waking[0], run_pid[preempted]])
    ready_ts = np.concatenate([waking[1], run_end[preempted]])
    order = np.lexsort((ready_ts, ready_pid))
    ready_pid, ready_ts = ready_pid[order], ready_ts[order]
    since = _first_ready(ready_pid, ready_ts, run_pid, run_ts, run_end)
    waits = np.flatnonzero(since >= 0)
    numbers, code = np.unique(run_pid, return_inverse=True)
    lanes = np.array([_lane(number, names, tracks, builder) for number in numbers.tolist()], np.int64)[code]
    builder.slices(
        ts=np.concatenate([run_ts, since[waits]]) + offset,
        dur=np.concatenate([run_end - run_ts, run_ts[waits] - since[waits]]),
        track=np.concatenate([lanes, lanes[waits]]),
        name=Coded(np.repeat([0, 1], [len(run_ts), len(waits)]), _WORDS),
        category="annotation",
    )


def _first_ready(
    ready_pid: IntArray, ready_ts: IntArray, run_pid: IntArray, run_ts: IntArray, run_end: IntArray
) -> IntArray:
    """Return since when each run was waited for: the first moment after the run before; -1 for none."""
    if not len(ready_pid):
        return np.full(len(run_pid), -1, np.int64)
    again = np.append(False, run_pid[1:] == run_pid[:-1])
    before = np.where(again, np.append(0, run_end[:-1]), np.iinfo(np.int64).min)
    # both are sorted by thread and time: a moment's rank among both tells the first one behind
    both_pid, both_ts = np.concatenate([run_pid, ready_pid]), np.concatenate([before, ready_ts])
    order = np.lexsort((np.arange(len(both_pid)), both_ts, both_pid))
    is_ready = order >= len(run_pid)
    at = np.empty(len(run_pid), np.int64)
    at[order[~is_ready]] = np.cumsum(is_ready)[~is_ready]
    at = np.minimum(at, len(ready_pid) - 1)
    fits = (ready_pid[at] == run_pid) & (ready_ts[at] >= before) & (ready_ts[at] <= run_ts)
    return np.where(fits, ready_ts[at], -1)


def _lane(tid: int, names: dict[int, str], tracks: Tracks, builder: TraceBuilder) -> int:
    name = names.get(tid) or tracks.thread_name(-1, tid)
    return builder.track(f"{name} {tid} · scheduling", "process", pid=tracks.process_of(tid), tid=tid)
