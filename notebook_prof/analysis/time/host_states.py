"""When a host thread waits: for data, for the device, for a copy, or for other ranks."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...labels import variants
from ...trace import Intervals, Trace, union
from ...trace.arrays import BoolArray, IntArray
from ..device.kernel_launches import launch_calls
from ..scope import Scope, WindowLike, matching_codes, on_host, once

LATE_NS: Final = 1_000
"""Rounding between two clocks: a call that ends before its awaited work by no more than this did wait."""
ITEM_NS: Final = 10_000
"""Least time of a read of a number from a tensor that waits for a device; others are shorter."""

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

# samplers write a file alone, with its folder, or with its whole path
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
    r"|\b(?:readinto|recv_into|accept|_try_wait|_wait|wait|select|poll|_retrieve|_poll|_recv) "
    rf"\({_LIBRARY}(?:socket|ssl|subprocess|connection|selectors|popen_\w+|parallel|threading|_base)\.py"
    r"|^(?:futex|sem_\w*wait|pthread_(?:cond_\w*wait|join|barrier_wait|\w+lock)|p?poll|epoll_p?wait|p?select"
    r"|(?:clock_)?nanosleep|u?sleep|wait[34]|waitid|sigsuspend|sigwait(?:info)?|sigtimedwait|pause)$"
)


def waits_by_name(name: str) -> bool:
    """Return whether a function or line with this name waits for something else."""
    return _WAITS.search(name) is not None


def waiting_names(trace: Trace) -> BoolArray:
    """Return a mask of the names of calls that only wait."""
    # A name waits if all its slices are of category ``sync``; if it synchronises a device, stream, event or
    # context (``cudaDeviceSynchronize``); or if Python or a library uses it to wait for a lock, a thread, a
    # socket, a process, the clock or a runtime (``lock.acquire``, ``select``, ``block_until_ready``).
    # Blocking copies count as work.
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
    code = scope.codes("name")
    waits = _named(trace, _SYNCHRONISES)[code] | _named(trace, _COPIES)[code]
    waits |= scope.among("category", ("sync",))
    later = _named(trace, _COPIES_LATER)[code]
    if later.any():
        done = _work_done(trace)[scope.rows]
        waits |= later & (done > scope.ts) & (scope.end + LATE_NS >= done)
    if not once(trace, "runtime calls", lambda: _has_calls(trace)):
        waits |= _named(trace, _READS)[code] & (scope.end - scope.ts >= ITEM_NS)
    return np.asarray(waits, dtype=bool)


def _named(trace: Trace, pattern: re.Pattern[str]) -> BoolArray:
    """Return a mask of the names that match, and False for code -1; cached, since names may be a million."""

    def matching() -> BoolArray:
        names = trace.slices["name"].array.categories
        return np.array([*(pattern.fullmatch(str(name)) is not None for name in names), False], dtype=bool)

    return once(trace, ("named", pattern.pattern), matching)


def _has_calls(trace: Trace) -> bool:
    category = trace.slices["category"].array
    return bool(matching_codes(category.codes, category.categories.isin(["launch", "sync"])).any())


def _work_done(trace: Trace) -> IntArray:
    """Return when the device work launched by each slice ended; -1 if it launched none."""
    call = launch_calls(trace)[:-1]
    slices = trace.slices
    end = (slices["ts"] + slices["dur"]).to_numpy()
    done = np.full(len(slices), -1, np.int64)
    has_call = call >= 0
    np.maximum.at(done, call[has_call], end[has_call])
    return done


STATES: Final = ("input", "sync", "memcpy", "communication")
"""The first of several that claim an instant gets it."""


def host_states(trace: Trace, track: int, window: WindowLike = None) -> dict[str, Intervals]:
    """Return disjoint, sorted intervals of a thread for each of `STATES`; different states may overlap."""
    # In order: a slice of phase data, a call that waits for the device, a runtime call that copies memory,
    # a collective on any thread.
    host = on_host(trace, window)
    on_track = host.ints("track") == track
    calls = host.among("category", ("launch",)) & copy_calls(host)
    return {
        "input": _open(host, on_track & host.among("phase", ("data",))),
        "sync": _open(host, on_track & host.among("category", ("sync",))),
        "memcpy": _open(host, on_track & calls),
        "communication": _open(host, host.among("category", ("collective",))),
    }


def copy_calls(scope: Scope) -> BoolArray:
    """Return a mask of the slices that are runtime calls that copy memory, by name."""
    copies = ["memcpy" in str(name).lower() for name in scope.slices["name"].cat.categories]
    return np.asarray(np.append(copies, False)[scope.codes("name")], dtype=bool)


def _open(host: Scope, keep: BoolArray) -> Intervals:
    return union(host.ts[keep], host.end[keep])
