"""When a host thread waits: for data, the device, a copy or other ranks; communication that delays a run."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...labels import variants
from ...trace import Intervals, Trace, overlap, subtract, union
from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import NOTHING
from ..device.kernel_launches import launch_calls
from ..scope import Scope, bounds, matching_codes, on_device, on_host, once

LATE_NS: Final = 1_000
"""Rounding between two clocks: a call that ends before its awaited work by no more than this did wait."""
ITEM_NS: Final = 10_000
"""Minimum time of a read of a number from a tensor that waits for a device; others are shorter."""

_SYNCHRONISES: Final = re.compile(
    r"(?:cuda|cu|hip|musa)(?:Device|Stream|Event|Ctx|Context)Synchronize\w*"
    r"|aclrtSynchronize\w+|ze\w+Synchronize|ur(?:EventWait|QueueFinish)|pi(?:EventsWait|QueueFinish)"
    r"|<built-in method synchronize .*|.*torch[/.](?:cuda|xpu|npu|mps)\b.*: synchronize"
    r"|synchronize \(torch/.*"
    r"|.*(?:^|[\s.])(?:block_until_ready|try_to_block|BlockHostUntilReady)\b.*"
)
_COPIES: Final = re.compile(r"(?:cuda|cu|hip|musa)Memcpy(?!DtoD)(?!\w*Async)\w*")
_COPIES_LATER: Final = re.compile(r"(?:cuda|cu|hip|musa)Memcpy\w*Async\w*")
_READS: Final = re.compile(r"aten::(?:_local_scalar_dense|item|is_nonzero)")

# samplers write only a file's name, its folder too, or its full path
_LIBRARY: Final = (
    r"(?:\S*(?:[Pp]ython[\d.]*t?|[Ll]ib)[/\\])?"
    r"(?:(?:multiprocessing|concurrent[/\\]futures|futures|joblib)[/\\])?"
)
_WAITS: Final = re.compile(
    r"(?:^|[\s.<(])(?:lock\.acquire|acquire of _thread|method 'acquire' of '_thread|time\.sleep|sleep>"
    r"|_wait_for_tstate_lock|Thread\.join|Condition\.wait|Event\.wait|(?:Simple)?Queue\.get|select\.\w+"
    r"|epoll|waitpid|Popen\.wait|sock(?:et)?\.recv)"
    rf"|^(?:wait|join) \({_LIBRARY}threading\.py|^_wait_for_tstate_lock"
    r"|^\S+:\d+  (?:\w+ = )?(?:time\.)?sleep\("
    r"|(?:^|[\s.])(?:block_until_ready|try_to_block|BlockHostUntilReady)\b"
    r"|\b(?:read|readinto|recv|recv_into|recvfrom|do_handshake|create_connection|accept|_try_wait|"
    r"_wait|wait|select|poll|_retrieve|_poll|_recv) "
    rf"\({_LIBRARY}(?:socket|ssl|subprocess|connection|selectors|popen_\w+|parallel|threading|_base)\.py"
    r"|^(?:futex|sem_\w*wait|pthread_(?:cond_\w*wait|join|barrier_wait|\w+lock)|p?poll|epoll_p?wait|p?select"
    r"|(?:clock_)?nanosleep|u?sleep|wait[34]|waitid|sigsuspend|sigwait(?:info)?|sigtimedwait|pause)$"
)


def waits_by_name(name: str) -> bool:
    """Return whether a function or line with this name waits for something else."""
    return _WAITS.search(name) is not None


def waiting_names(trace: Trace) -> BoolArray:
    """Return a mask of the names of calls that only wait, by the rule of `operators`."""
    names = trace.slices["name"].cat.categories.astype("str")
    by_name = np.array([waits_by_name(variants(name)[0] if ".py(" in name else name) for name in names], bool)
    code, category = (trace.slices[column].cat for column in ("name", "category"))
    sync = np.append(category.categories == "sync", False)[category.codes.to_numpy()]
    every, waits = (
        np.bincount(code.codes.to_numpy()[keep].astype(np.int64) + 1, minlength=len(names) + 1)[1:]
        for keep in (slice(None), sync)
    )
    return np.asarray(by_name | _named(trace, _SYNCHRONISES)[:-1] | ((waits > 0) & (waits == every)))


def waiting(trace: Trace, scope: Scope) -> BoolArray:
    """Return a mask of the host slices that wait for a device, by the rule of `host_waits`."""

    def has_calls() -> bool:
        category = trace.slices["category"].array
        return bool(matching_codes(category.codes, category.categories.isin(["launch", "sync"])).any())

    code = scope.codes("name")
    waits = _named(trace, _SYNCHRONISES)[code] | _named(trace, _COPIES)[code]
    waits |= scope.among("category", ("sync",))
    later = _named(trace, _COPIES_LATER)[code]
    if later.any():
        done = _work_done(trace)[scope.rows]
        waits |= later & (done > scope.ts) & (scope.end + LATE_NS >= done)
    if not once(trace, "runtime calls", has_calls):
        waits |= _named(trace, _READS)[code] & (scope.end - scope.ts >= ITEM_NS)
    return np.asarray(waits, dtype=bool)


def _named(trace: Trace, pattern: re.Pattern[str]) -> BoolArray:
    """Return a mask of the names that match, and False for code -1; cached, since names may be a million."""

    def matching() -> BoolArray:
        names = trace.slices["name"].array.categories
        return np.array([*(pattern.fullmatch(str(name)) is not None for name in names), False], dtype=bool)

    return once(trace, ("named", pattern.pattern), matching)


def _work_done(trace: Trace) -> IntArray:
    """Return when the device work launched by each slice ended; -1 if it launched none."""
    call, end = launch_calls(trace)[:-1], bounds(trace.slices)[1]
    done = np.full(len(end), -1, np.int64)
    np.maximum.at(done, call[call >= 0], end[call >= 0])
    return done


STATES: Final = ("input", "sync", "memcpy", "communication")
"""The first of several that claim an instant gets it."""


def host_states(trace: Trace, track: int) -> dict[str, Intervals]:
    """Return disjoint, sorted intervals of a thread for each of `STATES`; different states may overlap."""
    # In order: a slice of phase data, a call that waits for the device, a runtime call that copies memory,
    # a collective on any thread.
    host = on_host(trace)
    on_track = host.ints("track") == track
    return {
        "input": host.open(on_track & host.among("phase", ("data",))),
        "sync": host.open(on_track & host.among("category", ("sync",))),
        "memcpy": host.open(on_track & host.among("category", ("launch",)) & copy_calls(host)),
        "communication": host.open(host.among("category", ("collective",))),
    }


def copy_calls(scope: Scope) -> BoolArray:
    """Return a mask of the slices that are runtime calls that copy memory, by name."""
    return scope.named(lambda name: "memcpy" in name.lower())


def exposed_communication(work: Scope) -> Intervals:
    """Return disjoint, ascending intervals (ns) in which a device communicates and no kernel computes."""
    # Copies and fills count neither as computation nor as communication.
    talks, computes = (work.open(work.among("category", (name,))) for name in ("collective", "kernel"))
    return subtract(talks, computes)


def blocked_by_communication(trace: Trace, stepping: int) -> Intervals:
    """Return disjoint, ascending intervals (ns) in which communicating devices delay the steps' thread."""
    # Exposed communication counts while a thread that launches work waits for a device (see `host_waits`),
    # while launched compute work of the device has not begun, or if no launches of the device are known.
    # Otherwise the host hides it: it ends before the next launch, and a faster network would change nothing.
    # Check: in one step of DLRM on eight ranks, which took 12.5 to 19.9 ms, everything else took 11.0 to
    # 12.4 ms on each rank.
    work = on_device(trace)
    if not work.among("category", ("collective",)).any():
        return NOTHING
    call = launch_calls(trace)
    waits = _waits(trace, stepping, call)
    device = work.ints("device")
    parts = [_blocked(trace, work.only(device == number), call, waits) for number in np.unique(device)]
    return union(*(np.concatenate(side) for side in zip(*parts, strict=True)))


def _blocked(trace: Trace, work: Scope, call: IntArray, waits: Intervals) -> Intervals:
    exposed = exposed_communication(work)
    has_launch = call[work.rows] >= 0
    if not has_launch.any():
        return exposed
    queued = has_launch & ~work.among("category", ("collective",))
    launched = bounds(trace.slices)[1][call[work.rows[queued]]]
    begins = work.ts[queued]
    early = launched < begins
    ready = union(launched[early], begins[early])
    return overlap(exposed, union(*(np.concatenate(side) for side in zip(ready, waits, strict=True))))


def _waits(trace: Trace, stepping: int, call: IntArray) -> Intervals:
    """Return when the steps' thread, or any other thread that launches work, waits for a device."""
    host = on_host(trace)
    launching = np.unique(trace.slices["track"].to_numpy()[call[call >= 0]])
    waiters = host.only(np.isin(host.ints("track"), np.append(launching, stepping)))
    return waiters.open(waiting(trace, waiters))
