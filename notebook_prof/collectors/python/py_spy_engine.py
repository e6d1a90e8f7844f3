"""The engine that samples from outside the process: py-spy's samples, on the recording's clock."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ...trace.arrays import IntArray
from ...trace.clocks import Clock
from ...trace.report import ImportReport
from . import py_spy_attachment as spy
from .awaits import Awaits
from .engine import CALM_S, Recorded, Sampler, join
from .frames import PackedStacks, PythonFrame
from .py_spy_attachment import Attachment
from .py_spy_file import CallPaths, Changes, Functions, Heartbeat, Offset, align, parse, stacks_of
from .py_spy_threads import Children, ended, samples_by_thread

NET_NS: Final = round(CALM_S * 1e9)
"""Interval of the samples taken from inside, in case py-spy misses something."""

SCHEDULE: Final = ((0.1, 1), (4.0, 4), (120.0, 20))
"""(seconds, factor): when a py-spy is started, unless a warm one is there, and by what its rate is divided.
Attaching takes 60 ms of a core; a long recording needs fewer samples.
"""

SHORT_S: Final = 0.1
"""Parts of a recording this short lose nothing if py-spy has no samples or late ones."""

PATIENCE_S: Final = 10.0
"""How long a recording waits for py-spy if it was requested by name."""
COLD_S: Final = 0.3
"""How long it waits where none is kept warm, as in a script: the thread sees no call that holds the GIL."""

MOST_FRAMES: Final = 1_000
"""Deepest stack that is left to py-spy; a thread samples deeper ones. py-spy writes every frame that comes or
goes, so for these it would write megabytes per second, and above 4,096 frames it sees nothing.
"""

_FEWEST: Final = 10
"""A recording with fewer samples of py-spy does not use them, and leaves the warm py-spy to the next one."""

SHORT: Final = f"the recording ended before py-spy had taken {_FEWEST} samples"
_POLL_S: Final = 0.005


class PySpy:
    """Samples the stacks of all threads and child processes with py-spy, less often in long recordings."""

    # A thread of the process samples until py-spy has attached, and from then on a few times a second. Its
    # samples are also used if py-spy was killed, so its file is missing, or if it was starved for longer than
    # their interval. With `waits`, or where none is kept warm, recording begins when py-spy does. `report`
    # gets the quality of the samples.
    def __init__(self, report: ImportReport, waits: bool = False) -> None:
        self._report = report
        self._patience_s = PATIENCE_S if waits else 0.0 if spy.is_kept_warm() else COLD_S
        self._net = Sampler(report)
        self._segments: list[tuple[Attachment, int]] = []  # each with the begin of its part, absolute ns
        self._launched: list[Attachment] = []
        weakref.finalize(self, _kill, self._launched).atexit = False  # in case the Trace is never built
        self._next: Attachment | None = None
        self._waits, self._gave_back = waits, False
        self._clock = Clock()
        self._heartbeat = Heartbeat()
        self._children = Children(self._clock.now_ns)
        self._window_ns = (0, 0)
        self._begun_s = 0.0
        self._look_ns = self._handed_over_ns = 0
        self._quit, self._settled = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=spy.THREAD, daemon=True)

    @property
    def name(self) -> str:
        """The sampler whose stacks the recording has: a thread's if it was too short for py-spy."""
        return "py-spy" if self._segments and not self._gave_back else "thread"

    @property
    def since_ns(self) -> int | None:
        """When py-spy began; None if the recording has none of its samples."""
        return self._segments[0][1] if self._segments and not self._gave_back else None

    @property
    def awaits(self) -> Awaits | None:
        """What the thread saw of the cell's event loop."""
        return self._net.awaits

    def start(self, clock: Clock) -> None:
        self._clock, self._children = clock, Children(clock.now_ns)
        self._net.start(clock)
        self._window_ns, self._begun_s = (clock.now_ns(), 0), time.monotonic()
        for _ in range(2):  # a warm one is taken, and begins at once
            self._attach()
        self._thread.start()
        self._settled.wait(self._patience_s)

    def stop(self) -> None:
        """Stop sampling. The files are read later."""
        if not self._window_ns[1]:
            self._window_ns = (self._window_ns[0], self._clock.now_ns())
        self._quit.set()
        with self._lock:
            if self._is_unneeded() and spy.give_back(self._launched[0]):
                self._launched.clear()
                self._gave_back = True
            for attachment in self._launched:
                attachment.interrupt()
        self._net.stop()

    def _is_unneeded(self) -> bool:
        """Return whether this recording is too short for py-spy, or ended before py-spy attached."""
        if self._waits or len(self._launched) != 1:
            return False
        begin_ns, end_ns = self._window_ns
        return not self._segments or _is_short(self._launched[0], end_ns - begin_ns)

    def abandon(self) -> None:
        """End without a result."""
        self.stop()
        _kill(self._launched)

    def recorded(self) -> Recorded:
        """Return the samples of the thread and of all py-spy processes within the recording."""
        inside, look_ns, children = self._net.recorded(), self._net.looks.ts, self._children.ends()
        segments = [] if self._gave_back else self._segments
        begins = [begin_ns for _, begin_ns in segments]
        begin_ns, end_ns = self._window_ns[0], self._handed_over_ns or self._window_ns[1]
        functions = Functions()
        if begins:  # py-spy's spelling of functions
            inside = _spelt(inside, functions)
        parts = [inside.within(begin_ns, begins[0] if begins else end_ns)]
        for (attachment, begin_ns), end in zip(segments, [*begins, end_ns][1:], strict=True):
            within = replace(inside.within(begin_ns, end), interval_ns=NET_NS)
            part = self._read(attachment, (begin_ns, end), functions)
            alive = self._children.last
            parts.append(within if part is None else ended(part, inside, look_ns, children, alive, begin_ns))
        if self._handed_over_ns:
            parts.append(inside.within(self._handed_over_ns, self._window_ns[1]))
        _kill(self._launched)
        return join(parts)

    def _run(self) -> None:
        """Start a py-spy when it is time, and make beats. Failures are reported, but never printed."""
        while not self._quit.is_set():
            try:
                self._attach()
                self._look()
            except Exception as error:
                effect = "the process's children were sampled once less"
                self._report.failed("look-inside-failed", "info", error, effect)
            if self._next is None and (self._segments or self._handed_over_ns):
                self._heartbeat.wait(self._quit)
            else:
                self._quit.wait(_POLL_S)

    def _attach(self) -> None:
        number, follower = len(self._segments), self._next
        if self._handed_over_ns:
            return
        if follower is None:
            if not number and (warm := spy.take()) is not None:
                self._take_on(warm)
            if number == len(SCHEDULE) or self._next is not None:
                return
            after_s, factor = SCHEDULE[number]
            if time.monotonic() - self._begun_s >= after_s or (self._patience_s and not number):
                self._launch(self._segments[0][0].rate_hz if number else spy.first_rate_hz(), factor)
        elif follower.is_sampling():
            self._next = None
            self._heartbeat.again(follower.interval_ns)
            self._segments.append((follower, self._clock.now_ns()))
            if number:
                self._segments[number - 1][0].interrupt()
            self._settled.set()
        elif not follower.is_running():
            self._next = None
            self._hand_over()

    def _launch(self, rate_hz: int, factor: int) -> None:
        try:
            attachment = Attachment(max(rate_hz // factor, 1))
        except OSError as error:
            spy.refuse(f"py-spy could not be started: {error}")
            self._hand_over()
        else:
            self._take_on(attachment)

    def _take_on(self, attachment: Attachment) -> None:
        with self._lock:
            if not self._quit.is_set():
                self._launched.append(attachment)
                self._next = attachment
                return
        attachment.kill()

    def _look(self) -> None:
        """Look at the children, at stacks that are too deep, and whether py-spy has died."""
        now = self._clock.now_ns()
        if self._segments and not self._handed_over_ns:
            self._net.calm(not _is_short(self._segments[0][0], now - self._window_ns[0]))
        if not self._segments or now - self._look_ns < NET_NS * 3 // 4:
            return
        self._look_ns = now
        self._children.look()
        if self._net.looks.tree.deepest > MOST_FRAMES:
            self._leave_to_thread()
        elif not self._segments[-1][0].is_running():
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the thread take all samples from now on."""
        with self._lock:
            if not self._quit.is_set() and not self._handed_over_ns:
                self._handed_over_ns = self._clock.now_ns()
                self._net.calm(False)
        self._settled.set()

    def _leave_to_thread(self) -> None:
        """Let the thread take over, since stacks are deep."""
        self._hand_over()
        for attachment in self._launched:
            attachment.interrupt()
        example = f"{self._net.looks.tree.deepest:,} frames"
        effect = "stacks are deep: from then on a thread took them; child processes have none"
        self._report.add("py-spy-left-early", "info", example=example, effect=effect)

    def _read(
        self, attachment: Attachment, window_ns: tuple[int, int], functions: Functions
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
        own = self._thread.native_id or 0, self._thread.ident or 0
        ts, number = _noticed_beats(changes, paths, own)
        beats_ns = self._heartbeat.monotonic_ns
        offset = align(ts, number, beats_ns, attachment.banner_ns - first_us * 1000)
        interval_ns = attachment.interval_ns
        if offset.is_starved(interval_ns):
            if window_ns[1] - window_ns[0] >= SHORT_S * 1e9:
                self._tell_starved(offset)
            if offset.spread_ns > NET_NS:
                return None
        shift_ns = offset.ns - interval_ns // 2
        threads, inside, look_ns = [], self._net.looks.all_threads, self._net.looks.ts
        for change in changes:
            bounds = self._clock.from_monotonic(change.ts_us * 1000 + shift_ns)
            threads += samples_by_thread(change, bounds, paths, inside, look_ns)
        nothing = np.empty(0, np.int64)
        recorded = Recorded(threads, PackedStacks(nothing, nothing, []), interval_ns).within(*window_ns)
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
        return Recorded(threads, stacks_of(paths, nodes, functions, self._report), interval_ns)

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
            example = f"py-spy took no sample in {seconds:.1f} s: it got no CPU time"
        self._report.add(
            "py-spy-ended",
            "loss",
            example=example,
            effect="stacks are from the process itself instead, every 50 ms before and every 2 ms after it "
            "ended; child processes are missing",
            advice="record again, or use --engine thread, which needs no py-spy",
        )

    def _tell_starved(self, offset: Offset) -> None:
        example = f"a quarter of its samples were {offset.spread_ns / 1e6:.0f} ms late or later"
        effect = "shares of lines below the cell's statements may be off"
        advice = "leave a core free, or record longer"
        self._report.add("sampler-starved", "loss", example=example, effect=effect, advice=advice)


def _is_short(attachment: Attachment, recorded_ns: int) -> bool:
    """Return whether a recording is so short that py-spy takes too few samples of it."""
    return recorded_ns < _FEWEST * attachment.interval_ns


def _spelt(recorded: Recorded, functions: Functions) -> Recorded:
    """Return the same stacks with py-spy's spelling of functions."""

    def spelt(frames: Sequence[PythonFrame]) -> list[PythonFrame]:
        return [functions.frame(*frame[:2], frame.line) if frame.file else frame for frame in frames]

    stacks = replace(recorded.stacks, distinct=spelt(recorded.stacks.distinct))
    return replace(recorded, stacks=stacks, context=spelt(recorded.context))


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
