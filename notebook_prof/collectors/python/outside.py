"""The engine outside the process: py-spy's looks, on the recording's clock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import numpy as np

from ...trace.clocks import Clock
from ...trace.intervals import IntArray
from ...trace.report import ImportReport
from .beats import CALM_S, Offset, align
from .engine import Recorded, ThreadSamples, with_gaps
from .frames import Frame
from .functions import Functions
from .looks import is_servant
from .py_spy import Attachment
from .py_spy_file import CallPaths, Changes, Home, parse, stacks_of
from .sampler import Sampler

NET_NS: Final = round(CALM_S * 1e9)
"""About how often the threads are also looked at from inside, for what py-spy may miss."""


class PySpy:
    """Takes the stacks of all threads and child processes by py-spy.

    A few times a second the process also looks at its own threads. That serves where py-spy's file is
    missing, since it was killed, and where it was starved for longer than these looks are apart.

    Parameters
    ----------
    report : ImportReport
        Where it is told how well it went.
    attachment : Attachment
        One that looks already.
    """

    name = "py-spy"

    def __init__(self, report: ImportReport, attachment: Attachment) -> None:
        self._report = report
        self._attachment = attachment
        self._clock = Clock()
        self._net = Sampler(report)
        self._window_ns = (0, 0)
        self._died_ns = 0

    def start(self, clock: Clock) -> None:
        """Begin; what it saw before is dropped."""
        self._clock = clock
        look = self._net.by_hand(clock, NET_NS)
        self._window_ns = (clock.now_ns(), 0)
        self._attachment.watch(look, self._died)

    def stop(self) -> None:
        """End; its file is read later."""
        if not self._window_ns[1]:
            self._window_ns = (self._window_ns[0], self._clock.now_ns())
        self._attachment.interrupt()
        self._net.stop()

    def abandon(self) -> None:
        """End without a result."""
        self._net.abandon()
        self._attachment.kill()

    def recorded(self) -> Recorded:
        """What was seen within the recording, of all processes."""
        inside = self._net.recorded()
        try:
            changes, paths = parse(self._attachment.content())
        except ValueError:
            changes, paths = [], CallPaths()
        banner_ns, beats_ns = self._attachment.banner_ns, self._attachment.beats.monotonic_ns
        words = self._attachment.last_words()
        self._attachment.kill()
        if not changes:
            self._tell_lost(words)
            return inside
        offset = self._offset(changes, paths, beats_ns, banner_ns)
        interval_ns = self._attachment.interval_ns
        if offset.is_starved(interval_ns):
            self._tell_starved(offset)
            if offset.spread_ns > NET_NS:
                return inside
        if self._died_ns:
            self._tell_lost(words)
        return self._placed(changes, paths, offset.ns - interval_ns // 2, inside.context)

    def _placed(
        self, changes: list[Changes], paths: CallPaths, offset_ns: int, context: Sequence[Frame]
    ) -> Recorded:
        """Stacks of all threads that are the user's, within the recording."""
        functions = Functions()
        threads = []
        for change in changes:
            bounds = self._clock.from_monotonic(change.ts_us * 1000 + offset_ns)
            threads += [
                inside
                for thread in _threads(bounds, change.node, paths)
                if len((inside := thread.inside(*self._window_ns)).stack)
            ]
        nodes = np.unique(np.concatenate([np.array([0]), *(thread.stack for thread in threads)]))
        nodes = nodes[nodes >= 0]
        threads = [
            ThreadSamples(
                one.pid,
                one.tid,
                one.name,
                "" if one.pid == os.getpid() else one.command,
                one.bounds,
                np.where(one.stack >= 0, np.searchsorted(nodes, one.stack), -1),
            )
            for one in threads
        ]
        stacks = stacks_of(paths, nodes, functions)
        spelt = [functions.frame(frame.function, frame.file, frame.line) for frame in context]
        return Recorded(threads, stacks, self._attachment.interval_ns, spelt)

    def _offset(self, changes: list[Changes], paths: CallPaths, beats_ns: IntArray, banner_ns: int) -> Offset:
        """The offset of py-spy's clock to the monotonic one, and how prompt it was during the recording."""
        first_us = min(int(change.ts_us[0]) for change in changes)
        ts, number = _seen_beats(changes, paths)
        whole = align(ts, number, beats_ns, banner_ns - first_us * 1000)
        during = self._clock.from_monotonic(ts + whole.ns) >= self._window_ns[0]
        return Offset(whole.ns, align(ts[during], number[during], beats_ns, whole.ns).spread_ns)

    def _died(self) -> None:
        """It has ended in the middle; called in its own watching thread."""
        self._died_ns = self._clock.now_ns()
        self._net.take_over()

    def _tell_lost(self, words: str) -> None:
        when = f"after {(self._died_ns - self._window_ns[0]) / 1e9:.1f} s: " if self._died_ns else ""
        self._report.add(
            "py-spy-ended",
            "loss",
            example=f"{when}{words.splitlines()[-1][:120] if words else 'it was killed'}",
            effect="from the process itself instead: every 50 ms before, every 5 ms after it ended; "
            "child processes are missing",
            advice="record again; --engine alarm does without py-spy",
        )

    def _tell_starved(self, offset: Offset) -> None:
        self._report.add(
            "sampler-starved",
            "loss",
            example=f"a quarter of its looks came {offset.spread_ns / 1e6:.0f} ms late or later",
            effect="shares of lines below the cell's statements may be off",
            advice="leave a core free, or record longer",
        )


def _threads(bounds: IntArray, node: IntArray, paths: CallPaths) -> list[ThreadSamples]:
    """Threads that had one thread number in turn, without those of the notebook and of ours."""
    by_tid: dict[tuple[int, int], list[int]] = {}
    names: dict[tuple[int, int], Home] = {}
    for i, n in enumerate(node[:-1].tolist()):
        home = paths.home[n]
        if home.tid:
            key = (home.pid, home.tid)
            by_tid.setdefault(key, []).append(i)
            if key not in names or home.name:
                names[key] = home
    threads = []
    for key, rows in by_tid.items():
        home = names[key]
        if is_servant(home.name) and home.pid == os.getpid():
            continue
        at = np.array(rows, dtype=np.int64)
        ts, stack = with_gaps(bounds[at], bounds[at + 1], node[at])
        threads.append(ThreadSamples(home.pid, home.tid, home.name, home.command, ts, stack))
    return threads


def _seen_beats(changes: list[Changes], paths: CallPaths) -> tuple[IntArray, IntArray]:
    """When py-spy noticed a new beat, in ns on its clock, and which."""
    beat = np.array(paths.beat, dtype=np.int64)
    ts, number = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for change in changes:
        which = beat[change.node]
        rows = np.flatnonzero(which >= 0)
        new = rows[np.diff(which[rows], prepend=-1) != 0]
        ts.append(change.ts_us[new] * 1000)
        number.append(which[new])
    return np.concatenate(ts), np.concatenate(number)
