"""The interface of collectors, and the Recording that runs several of them without harming the cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Final, TypeVar

from ..background import checkpoint
from ..trace.builder import TraceBuilder
from ..trace.clocks import Clock
from ..trace.report import ImportReport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a collector can record here, and why or why not."""

    ok: bool
    reason: str = ""


class Collector(ABC):
    """Watches running code between `start` and `stop`, and puts the results into a TraceBuilder.

    A collector is used once: ``open? prepare warm? start stop result`` or, from any point, ``abandon``. It
    reports what it could not record in `report`. The `Recording` catches exceptions from all methods and
    turns them into issues.

    Attributes
    ----------
    name : str
        The name used in ``%%profile --with NAME``.
    holds : frozenset of str
        Process-wide resources that only one collector can hold at a time.
    """

    name: ClassVar[str]
    holds: ClassVar[frozenset[str]] = frozenset()

    @cached_property
    def report(self) -> ImportReport:
        """Issues so far; they become part of the trace's report."""
        return ImportReport()

    @classmethod
    @abstractmethod
    def availability(cls) -> Availability:
        """Return whether this collector can record in this process. Loads nothing heavy."""

    def claims(self) -> frozenset[str]:
        """Return what this instance needs of `holds`; it differs if there are several ways to record."""
        return self.holds

    def open(self) -> None:  # noqa: B027 (optional)
        """Watch, when the code starts, for objects that are made before the window and used in it."""

    def prepare(self) -> None:  # noqa: B027 (optional)
        """Do slow work before any collector records, such as starting a process."""

    def warm(self, clock: Clock) -> None:  # noqa: B027 (optional)
        """Run as if recording, to pay one-time costs in advance. The result is dropped."""

    @abstractmethod
    def start(self, clock: Clock) -> None:
        """Start recording. Works with or without an earlier `warm`."""

    @abstractmethod
    def stop(self) -> None:
        """Stop recording, quickly, since the user's cell waits."""

    def halt(self) -> int:
        """Stop if memory grows with every event. Returns how many events are kept, 0 if it goes on."""
        return 0

    @abstractmethod
    def result(self, builder: TraceBuilder) -> None:
        """Put the recorded data into `builder`. Called once, after `stop`.

        Usually called in a thread other than the recording's, during the user's next cell. So read the state
        of the process (names of threads, clocks) in `stop`, and call `background.checkpoint` every
        millisecond or so in slow work.
        """

    def abandon(self) -> None:  # noqa: B027 (optional)
        """Release everything that `warm` and `start` acquired, without a result. Safe in every state."""


LARGE: Final = 150_000
"""Number of events below which a recording cannot be the reason for a grown process."""
_LEAST_JUMP_NS: Final = 10_000_000
_STEERED: Final = 0.002


class Recording:
    """Runs collectors together and isolates their failures."""

    # No method raises because of a collector. A collector that fails is abandoned, and an issue
    # ``collector-failed`` says which one, where and why. A `KeyboardInterrupt` during `stop` is raised again
    # after every collector has stopped, so that nothing recorded is lost. During `result`, it skips the
    # remaining collectors and becomes an issue.
    def __init__(self, collectors: Iterable[Collector], clock: Clock | None = None) -> None:
        self.clock = clock if clock is not None else Clock()
        self.report = ImportReport()
        self._jump_ns = 0
        self._alive: list[Collector] = []
        self._fallen: list[Collector] = []
        self._started = False
        self._stopped = False
        claimed_by: dict[str, str] = {}
        for collector in collectors:
            if clash := sorted(collector.claims() & claimed_by.keys()):
                holder, effect = claimed_by[clash[0]], f"the profile has nothing from {collector.name!r}"
                example = f"{collector.name!r} and {holder!r} both need the process-wide {clash[0]}"
                self.report.add("collector-conflict", "error", 1, example, effect, "record them in two runs")
                continue
            claimed_by.update(dict.fromkeys(collector.claims(), collector.name))
            self._alive.append(collector)

    @property
    def names(self) -> list[str]:
        """Names of the collectors that have not failed, in order."""
        return [collector.name for collector in self._alive]

    def open(self) -> None:
        """Tell every collector that the code is about to run."""
        self._let_all("open")

    def warm(self) -> None:
        self._let_all("prepare")
        self._let_all("warm", self.clock)

    def start(self) -> None:
        """Prepare all collectors, mark the clock, and start the collectors in order."""
        self._let_all("prepare")
        self.clock.mark()
        self._started = True
        self._let_all("start", self.clock)

    def join(self, collector: Collector) -> None:
        """Add a collector, and start it if the others have started. Its result is read first."""

        def start() -> None:
            collector.open()
            if self._started:
                collector.prepare()
                collector.start(self.clock)

        self._alive.insert(0, collector)
        self._try(collector, "start", start)

    def stop(self) -> None:
        """Stop every collector, the last started first. A second call does nothing."""
        if self._stopped or not self._started:
            return
        self._stopped = True
        interrupted: KeyboardInterrupt | None = None
        for collector in reversed(tuple(self._alive)):
            try:
                self._try(collector, "stop", collector.stop)
            except KeyboardInterrupt as interrupt:
                interrupted = interrupt
                self._try(collector, "stop", collector.stop)
        self.clock.mark()
        self._tell_jump()
        if interrupted is not None:
            raise interrupted

    def halt(self) -> int:
        """Stop the collectors whose memory grows with every event. Returns how many events are kept."""
        return sum(self._try(collector, "halt", collector.halt) or 0 for collector in tuple(self._alive))

    def _tell_jump(self) -> None:
        """Report that the system clock jumped."""
        # NTP slewing moves the clock by up to 0.05 %, which does not count as a jump
        drift_ns, span_ns = self.clock.drift_ns, self.clock.span_ns
        if abs(drift_ns) <= max(_LEAST_JUMP_NS, _STEERED * span_ns):
            return
        self._jump_ns = drift_ns
        self.report.add(
            "clock-jumped",
            "loss",
            example=f"by {drift_ns / 1e9:+.3f} s in {span_ns / 1e9:.3f} s",
            effect="the system's clock was set during the recording, or the machine slept: later times are "
            "off by this much, and slices open at that moment are longer or shorter",
            advice="record again",
        )

    def result(self, builder: TraceBuilder) -> None:
        """Put every collector's result and every issue into `builder`."""
        waiting = list(self._alive)
        try:
            while waiting:
                collector = waiting[0]
                checkpoint()
                self._try(collector, "result", partial(collector.result, builder))
                waiting.pop(0)
        except KeyboardInterrupt:
            example = f"while making the table of {', '.join(c.name for c in waiting)}"
            effect = "what these collectors recorded is missing"
            self.report.add("interrupted", "loss", example=example, effect=effect)
            for collector in waiting:
                self._give_back(collector)
        for collector in (*self._alive, *self._fallen):
            self.report.extend(collector.report)
        builder.report.extend(self.report)
        if self._jump_ns:
            builder.metadata["clock_jump_ns"] = self._jump_ns

    def abandon(self) -> None:
        """Release everything, without a result."""
        for collector in self._alive:
            self._give_back(collector)
        self._alive.clear()
        self._stopped = True

    def _let_all(self, doing: str, *arguments: Clock) -> None:
        for collector in tuple(self._alive):
            self._try(collector, doing, partial(getattr(collector, doing), *arguments))

    def _try(self, collector: Collector, doing: str, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except Exception as error:
            example = f"{collector.name} could not {doing}: {type(error).__name__}: {error}"
            effect = f"the profile has nothing from {collector.name!r}"
            advice = "the cell itself was not affected"
            self.report.add("collector-failed", "error", example=example, effect=effect, advice=advice)
            self._alive.remove(collector)
            self._fallen.append(collector)
            self._give_back(collector)
            return None

    @staticmethod
    def _give_back(collector: Collector) -> None:
        try:
            collector.abandon()
        except Exception as error:
            collector.report.add("collector-leftover", "info", example=f"{collector.name}: {error!r}")
