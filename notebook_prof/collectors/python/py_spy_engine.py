"""The engine that samples from outside the process: py-spy's samples, on the recording's clock."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...trace.arrays import IntArray
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from .engine import Recorded, Sampler, join
from .frames import Frame
from .py_spy_attachment import Attachment
from .py_spy_file import CALM_S, CallPaths, Changes, Functions, Offset, align, parse, stacks_of
from .py_spy_threads import Children, ended, samples_by_thread

NET_NS: Final = round(CALM_S * 1e9)
"""Interval of the samples taken from inside, in case py-spy misses something."""


SHORT_S: Final = 0.1
"""Shorter recordings lose nothing if py-spy has no samples or late ones, since their statements are exact."""

MOST_FRAMES: Final = 1_000
"""Deepest stack that is left to py-spy; a thread samples deeper ones. py-spy writes every frame that comes or
goes, so for these it would write megabytes per second, and above 4,096 frames it sees nothing.
"""

CALMER: Final = ((4.0, 4), (120.0, 20))
"""(seconds, factor): after this many seconds, the rate is divided by the factor."""


@dataclass
class _Segment:
    """The time sampled by one py-spy process, until the start of the next one."""

    attachment: Attachment
    begin_ns: int


class PySpy:
    """Samples the stacks of all threads and child processes with py-spy, less often in long recordings."""

    # A few times a second, the process also samples its threads itself. These samples are used if py-spy was
    # killed, so its file is missing, or if it was starved for longer than their interval. `attachment` is
    # already sampling; `report` gets the quality of the samples.
    name = "py-spy"

    def __init__(self, report: ImportReport, attachment: Attachment) -> None:
        self._report = report
        self._segments = [_Segment(attachment, 0)]
        self._launched = [attachment]
        weakref.finalize(self, _kill, self._launched).atexit = False  # in case the Trace is never built
        self._next: Attachment | None = None
        self._rate_hz = attachment.rate_hz
        self._clock = Clock()
        self._net = Sampler(report)
        self._children = Children(Clock().now_ns)
        self._look: Callable[[], object] = lambda: None
        self._window_ns = (0, 0)
        self._look_ns = self._handed_over_ns = 0
        self._ended = False
        self._lock = threading.Lock()

    def start(self, clock: Clock) -> None:
        """Start recording. Earlier samples are dropped."""
        self._clock = clock
        self._look = self._net.by_hand(clock, NET_NS)
        self._children = Children(clock.now_ns)
        self._window_ns = (clock.now_ns(), 0)
        self._segments[0].begin_ns = self._window_ns[0]
        self._segments[0].attachment.watch(self._beat, self._note_death)

    def stop(self) -> None:
        """Stop sampling. The files are read later."""
        if not self._window_ns[1]:
            self._window_ns = (self._window_ns[0], self._clock.now_ns())
        self._ended = True
        with self._lock:  # a slower py-spy may be starting
            for attachment in self._launched:
                attachment.interrupt()
        self._net.stop()

    def abandon(self) -> None:
        """End without a result."""
        self._ended = True
        with self._lock:
            self._net.abandon()
        _kill(self._launched)

    def recorded(self) -> Recorded:
        """Return the samples of all py-spy processes within the recording."""
        inside = self._net.recorded()
        ends = [segment.begin_ns for segment in self._segments[1:]] + [
            self._handed_over_ns or self._window_ns[1]
        ]
        look_ns, children = self._net.look_ns, self._children.ends()
        parts = []
        for segment, end_ns in zip(self._segments, ends, strict=True):
            window = (segment.begin_ns, end_ns)
            part = self._read(segment.attachment, window, inside.context)
            alive = self._children.seen_pids
            within = inside.within(*window)
            parts.append(within if part is None else ended(part, inside, look_ns, children, alive, window[0]))
        if self._handed_over_ns:
            parts.append(inside.within(self._handed_over_ns, self._window_ns[1]))
        _kill(self._launched)
        return join(parts)

    def _look_inside(self) -> None:
        """Sample threads and child processes from inside. Failures are reported, but never printed."""
        try:
            self._look()
            self._children.look()
        except Exception as error:  # Python 3.11 has returned no frame for a running thread's caller
            self._report.add(
                "look-inside-failed",
                "info",
                example=f"{type(error).__name__}: {error}",
                effect="the process sampled its threads and children once less",
            )

    def _beat(self) -> None:
        """Sample from inside, and start a slower py-spy when it is time. Called in a watching thread."""
        now = self._clock.now_ns()
        if now - self._look_ns >= NET_NS * 3 // 4:  # not at every beat of the burst
            self._look_ns = now
            self._look_inside()
            if self._net.deepest > MOST_FRAMES:
                self._leave_to_thread()
                return
        due = CALMER[len(self._segments) - 1 : len(self._segments)]
        if not due or self._clock.now_ns() - self._window_ns[0] < due[0][0] * 1e9:
            return
        with self._lock:
            if self._ended:
                return
            if self._next is None:
                self._next = Attachment.launch(max(self._rate_hz // due[0][1], 1))
                self._launched.append(self._next)
            elif self._next.ready():
                follower, self._next = self._next, None
                self._segments.append(_Segment(follower, self._clock.now_ns()))
                follower.watch(self._beat, self._note_death)
                self._segments[-2].attachment.interrupt()

    def _read(
        self, attachment: Attachment, window_ns: tuple[int, int], context: Sequence[Frame]
    ) -> Recorded | None:
        """Return the samples of one py-spy process; None if they are unusable."""
        try:
            changes, paths = parse(attachment.content())
        except ValueError:
            changes, paths = [], CallPaths()
        if not changes:
            self._tell_lost(window_ns)
            return None
        first_us = min(int(change.ts_us[0]) for change in changes)
        ts, number = _noticed_beats(changes, paths, attachment.thread_ids)
        beats_ns = attachment.heartbeat.monotonic_ns
        offset = align(ts, number, beats_ns, attachment.banner_ns - first_us * 1000)
        during = self._clock.from_monotonic(ts + offset.ns) >= window_ns[0]
        offset = Offset(offset.ns, align(ts[during], number[during], beats_ns, offset.ns).spread_ns)
        interval_ns = attachment.interval_ns
        if offset.is_starved(interval_ns):
            if window_ns[1] - window_ns[0] >= SHORT_S * 1e9:
                self._tell_starved(offset)
            if offset.spread_ns > NET_NS:
                return None
        shift_ns = offset.ns - interval_ns // 2
        recorded = self._recorded_threads(changes, paths, shift_ns, window_ns, interval_ns)
        functions = Functions()
        spelt = [functions.frame(frame.function, frame.file, frame.line) for frame in context]
        return replace(recorded, context=spelt)

    def _recorded_threads(
        self,
        changes: list[Changes],
        paths: CallPaths,
        shift_ns: int,
        window_ns: tuple[int, int],
        interval_ns: int,
    ) -> Recorded:
        """Return the stacks of all the user's threads within a window."""
        threads, inside, look_ns = [], self._net.all_threads, self._net.look_ns
        for change in changes:
            bounds = self._clock.from_monotonic(change.ts_us * 1000 + shift_ns)
            threads += samples_by_thread(change, bounds, paths, inside, look_ns)
        recorded = Recorded(threads, Recorded.nothing(0).stacks, interval_ns).within(*window_ns)
        nodes = np.unique(np.concatenate([np.array([0]), *(thread.stack for thread in recorded.threads)]))
        nodes = nodes[nodes >= 0]
        threads = [
            replace(
                one,
                command="" if one.pid == os.getpid() else one.command,
                stack=np.where(one.stack >= 0, np.searchsorted(nodes, one.stack), -1),
                # py-spy's file omits samples that equal the previous one
                looks=np.maximum(np.rint(np.diff(one.bounds) / interval_ns), 1).astype(np.int64),
            )
            for one in recorded.threads
        ]
        return Recorded(threads, stacks_of(paths, nodes, Functions(), self._report), interval_ns)

    def _leave_to_thread(self) -> None:
        """Let a thread of this process take over, since stacks are deep. Called in a watching thread."""
        self._note_death()
        for attachment in self._launched:
            attachment.interrupt()
        self._report.add(
            "py-spy-left-early",
            "info",
            example=f"{self._net.deepest:,} frames",
            effect="stacks are deep: from then on a thread took them; child processes have none",
        )

    def _note_death(self) -> None:
        """Note that py-spy has ended early. Called in its watching thread."""
        with self._lock:
            if not self._ended and not self._handed_over_ns:  # after the end, nobody would stop the thread
                self._handed_over_ns = self._clock.now_ns()
                self._net.take_over()

    def _tell_lost(self, window_ns: tuple[int, int]) -> None:
        """Report that py-spy has no samples, if there was enough time for some."""
        seconds = (window_ns[1] - window_ns[0]) / 1e9
        if "py-spy-left-early" in self._report:
            return  # reported there
        if self._handed_over_ns:
            example = f"py-spy was ended from outside after {seconds:.1f} s"
        elif seconds < SHORT_S:
            return  # too short: statements and lines are exact
        else:
            example = f"py-spy took no sample in {seconds:.1f} s: the machine gave it no time"
        self._report.add(
            "py-spy-ended",
            "loss",
            example=example,
            effect="stacks are from the process itself instead, every 50 ms before and every 2 ms after it "
            "ended; child processes are missing",
            advice="record again; --engine thread does without py-spy",
        )

    def _tell_starved(self, offset: Offset) -> None:
        self._report.add(
            "sampler-starved",
            "loss",
            example=f"a quarter of its samples were {offset.spread_ns / 1e6:.0f} ms late or later",
            effect="shares of lines below the cell's statements may be off",
            advice="leave a core free, or record longer",
        )


def _kill(launched: list[Attachment]) -> None:
    for attachment in launched:
        attachment.kill()


def _noticed_beats(
    changes: list[Changes], paths: CallPaths, tids: Collection[int]
) -> tuple[IntArray, IntArray]:
    """Return when py-spy noticed each new beat, in ns on its clock, and the numbers of the beats."""
    of_thread = np.array([home.tid in tids for home in paths.home], dtype=bool)
    beat = np.where(of_thread, np.array(paths.beat, dtype=np.int64), -1)
    ts, number = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for change in changes:
        which = beat[change.node]
        rows = np.flatnonzero(which >= 0)
        new = rows[np.diff(which[rows], prepend=-1) != 0]
        ts.append(change.ts_us[new] * 1000)
        number.append(which[new])
    return np.concatenate(ts), np.concatenate(number)
