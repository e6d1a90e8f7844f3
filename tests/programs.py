"""Random programs of threads, streams, events and waits, run to a Trace with its true critical path.

A program is data. `Run` executes it instruction by instruction on a simulated clock. For every stretch of a
thread or a stream it records the one that had to end before it could begin; its `path` follows these records.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from notebook_prof.trace import Trace, TraceBuilder
from tests.true_paths import Stretch, followed_back

Instruction = tuple[Any, ...]
Piece = tuple[int, int, str, str]
"""Begin, end, thread or stream, and the charged name: empty for none."""

_KINDS: Final = ("op", "launch", "graph", "sync", "device", "copy", "event", "event-sync", "hand-over")
_WAITS: Final = {
    "sync": ("cudaStreamSynchronize", "Stream Sync"),
    "device": ("cudaDeviceSynchronize", "Context Sync"),
    "event-sync": ("cudaEventSynchronize", "Event Sync"),
}


@dataclass(frozen=True)
class Costs:
    """Latencies in ns that no recorder sees: launch, stream, wait, hand-over; and a call's length."""

    # `queue` is how much work a stream holds before launch calls block; 0 for no limit. With `noise`, each
    # launch, spacing, wake-up and hand-over takes up to that much longer, drawn from `seed`.
    launch: int = 5_000
    spacing: int = 1_000
    wake: int = 4_000
    hand_over: int = 3_000
    call: int = 6_000
    queue: int = 0
    noise: int = 0
    seed: int = 0


def program(
    seed: int, *, streams: int = 3, length: int = 40, events: bool = True, threads: bool = True
) -> list[Instruction]:
    """Draw the instructions of a main thread; an autograd thread may take over in between."""
    return _draw(random.Random(seed), length, list(range(streams)), events, threads, iter(range(10**9)))


def changed(
    instructions: Sequence[Instruction], factor: Callable[[str, int], float], *, waits: bool = True
) -> list[Instruction]:
    """Multiply durations by `factor(kind, number)`; `waits` keeps waits for the device."""
    # kinds are ``op``, an operator; ``aten``, the operator that launches; ``kernel``; ``copy``
    out: list[Instruction] = []
    for kind, i, *arguments in instructions:
        if kind == "op":
            out.append((kind, i, int(arguments[0] * factor("op", i))))
        elif kind in ("launch", "graph"):
            stream, durations, before = arguments
            durations = [int(dur * factor("kernel", i)) for dur in durations]
            out.append((kind, i, stream, durations, int(before * factor("aten", i))))
        elif kind == "copy":
            out.append((kind, i, arguments[0], int(arguments[1] * factor("copy", i))))
        elif kind == "hand-over":
            out.append((kind, i, changed(arguments[0], factor, waits=waits)))
        elif waits or kind not in _WAITS:
            out.append((kind, i, *arguments))
    return out


def elsewhere(instructions: Sequence[Instruction], by: int = 1_000) -> list[Instruction]:
    """Return a program with other streams and numbers, for a helper thread, without waits for the device."""
    out: list[Instruction] = []
    for kind, i, *arguments in instructions:
        if kind == "op":
            out.append((kind, i + by, *arguments))
        elif kind == "event":
            out.append((kind, i + by, arguments[0] + by, arguments[1] + by))
        elif kind not in ("device", "hand-over"):
            out.append((kind, i + by, arguments[0] + by, *arguments[1:]))
    return out


def _draw(
    rng: random.Random, count: int, streams: list[int], events: bool, threads: bool, number: Any
) -> list[Instruction]:
    weights = [8, 14, 1, 1.2, 0.6, 0.8, 3 * events, 0.6 * events, 0.8 * threads]
    out: list[Instruction] = []
    for kind in rng.choices(_KINDS, weights, k=count):
        i, stream, long = (
            next(number),
            rng.choice(streams),
            int(10 ** rng.uniform(3.5, 5.5)) + rng.randrange(997),
        )
        if kind == "op":
            out.append((kind, i, long // 3))
        elif kind in ("launch", "graph"):
            size = rng.randrange(2, 6) if kind == "graph" else 1
            out.append((kind, i, stream, [long + k for k in range(size)], rng.randrange(500, 9000)))
        elif kind == "event":
            if len(streams) > 1:
                out.append((kind, i, stream, rng.choice([one for one in streams if one != stream])))
        elif kind == "hand-over":
            out.append((kind, i, _draw(rng, rng.randrange(2, 9), streams, events, False, number)))
        else:
            out.append((kind, i, stream, long // 4))
    return [*out, ("device", next(number), 0, 0)] if threads else out


class Run:
    """An executed program."""

    # `helper` is the program of a second thread, with its own streams. Calls that wait for the device wait
    # for these too, as far as they had been launched.
    def __init__(
        self,
        instructions: Sequence[Instruction],
        costs: Costs = Costs(),
        rank: int = 0,
        helper: Sequence[Instruction] = (),
    ) -> None:
        self._costs, self.rank = costs, rank
        self._rng = random.Random(costs.seed)
        self.stretches: dict[str, list[Stretch]] = {}
        self._events: dict[int, list[Stretch]] = {}
        self._clock = {"main": 0, "autograd": 0, "helper": 0}
        for one in helper:
            self._execute("helper", one)
        for one in instructions:
            self._execute("main", one)

    @property
    def end(self) -> int:
        """The instant at which the main thread has finished."""
        return self._clock["main"]

    def _late(self, least: int) -> int:
        """Return a latency: the minimum plus noise."""
        return least + (self._rng.randrange(self._costs.noise) if self._costs.noise else 0)

    def _last(self, stream: int) -> Stretch | None:
        own = self.stretches.get(f"s{stream}")
        return own[-1] if own else None

    def _host(self, thread: str, name: str, dur: int, category: str = "operator") -> Stretch:
        begin = self._clock[thread]
        made = Stretch(thread, name, begin, begin + dur, category, rank=self.rank)
        self.stretches.setdefault(thread, []).append(made)
        self._clock[thread] = made.end
        return made

    def _device(self, stream: int, name: str, dur: int, call: Stretch, category: str = "kernel") -> Stretch:
        costs, before = self._costs, self._last(stream)
        causes = [(call.end + self._late(costs.launch), call.end, call)]
        bound = [*([before] if before else []), *self._events.pop(stream, [])]
        causes += [(one.end + self._late(costs.spacing), one.end, one) for one in bound]
        start, at, cause = max(causes, key=lambda one: one[0])
        made = Stretch(f"s{stream}", name, start, start + dur, category, (at, cause), call, rank=self.rank)
        self.stretches.setdefault(made.resource, []).append(made)
        return made

    def _queue(self, stream: int, call: Stretch) -> None:
        """Extend a launch call until the queue of its stream has room."""
        size, own = self._costs.queue, self.stretches.get(f"s{stream}", [])
        if size and len(own) >= size and own[-size].start > call.end:
            call.end, call.cause = own[-size].start, (own[-size].start, own[-size])
            self._clock[call.resource] = call.end

    def _block(self, call: Stretch, cause: Stretch | None) -> None:
        """Extend a call until its cause has ended, if that is later."""
        wake = self._late(self._costs.wake)
        if cause is None or cause.end <= call.start or cause.end + wake <= call.end:
            return
        call.end, call.cause = cause.end + wake, (cause.end, cause)
        self._clock[call.resource] = call.end

    def _execute(self, thread: str, instruction: Instruction) -> None:
        kind, i, *arguments = instruction
        if kind == "op":
            self._host(thread, f"op{i}", arguments[0])
        elif kind in ("launch", "graph"):
            self._host(thread, f"aten{i}", arguments[2])
            name = "cudaLaunchKernel" if kind == "launch" else "cudaGraphLaunch"
            call = self._host(thread, f"{name}#{i}", self._costs.call, "launch")
            for k, dur in enumerate(arguments[1]):
                self._queue(arguments[0], call)
                self._device(arguments[0], f"kernel{i}.{k}", dur, call)
        elif kind == "event":
            record = self._host(thread, f"cudaEventRecord#{i}", 900, "launch")
            wait = self._host(thread, f"cudaStreamWaitEvent#{i}", 1100, "launch")
            wait.wait = {
                "stream": arguments[1],
                "on": arguments[0],
                "record": record,
                "kind": "Stream Wait Event",
            }
            if (source := self._last(arguments[0])) is not None:
                self._events.setdefault(arguments[1], []).append(source)
        elif kind in _WAITS:
            self._wait(thread, kind, i, arguments[0])
        elif kind == "copy":
            call = self._host(thread, f"cudaMemcpyAsync#{i}", self._costs.call, "launch")
            self._block(call, self._device(arguments[0], f"copy{i}", arguments[1], call, "memcpy"))
        elif kind == "hand-over":
            self._hand_over(thread, arguments[0])

    def _ignores(self, work: Stretch) -> bool:
        """Return whether calls that wait for a device ignore this work."""
        return False

    def _wait(self, thread: str, kind: str, i: int, stream: int) -> None:
        record = self._host(thread, f"cudaEventRecord#{i}", 900, "launch") if kind == "event-sync" else None
        cause = self._last(stream)
        if cause is not None and self._ignores(cause):
            cause = None
        if kind == "device":
            begun = self._clock[thread]
            work = [one for name, own in self.stretches.items() if name[0] == "s" for one in own]
            work = [one for one in work if not self._ignores(one)]
            launched = [one for one in work if one.launcher is None or one.launcher.start < begun]
            cause = max(launched, key=lambda one: one.end, default=None)
        name, sync_kind = _WAITS[kind]
        call = self._host(thread, f"{name}#{i}", 2_000, "sync")
        call.wait = {"stream": stream, "on": stream, "record": record, "kind": sync_kind}
        self._block(call, cause)

    def _hand_over(self, thread: str, instructions: Sequence[Instruction]) -> None:
        begin, costs = self._clock[thread], self._costs
        before = self.stretches.get(thread, [None])[-1]
        self._clock["autograd"] = begin + self._late(costs.hand_over)
        first = len(self.stretches.get("autograd", []))
        for one in instructions:
            self._execute("autograd", one)
        done = self.stretches.get("autograd", [])[first:]
        if not done:
            return
        done[0].begun_by = begin, before
        back = done[-1].end + self._late(costs.hand_over)
        self._clock[thread] = back
        cause = done[-1].end, done[-1]
        resume = Stretch(thread, "", back, back, "resume", cause, rank=self.rank)
        self.stretches.setdefault(thread, []).append(resume)

    def path(self) -> list[Piece]:
        """Return the true critical path: pieces that partition the run, in order."""
        pieces = followed_back(self.stretches["main"][-1], self.end, [self.stretches])
        return sorted((start, end, where, name) for start, end, _, where, name in pieces)

    def trace(self, *, waits_told: bool = True) -> Trace:
        """Return the recording of this run; with `waits_told`, events and waits have their streams."""
        builder = TraceBuilder()
        builder.steps(0, 0, self.end, "mark")
        track = {"main": builder.track("main")}
        for name in sorted(self.stretches):
            if name not in track:
                track[name] = (
                    builder.track(name, "stream", device=0, stream=int(name[1:]))
                    if name[0] == "s"
                    else builder.track(name)
                )
        every = [one for own in self.stretches.values() for one in own if one.category != "resume"]
        number = {id(one): correlation for correlation, one in enumerate(every, 1)}
        handles = builder.slices(
            ts=[one.start for one in every],
            dur=[one.end - one.start for one in every],
            name=[one.name for one in every],
            category=[one.category for one in every],
            track=[track[one.resource] for one in every],
            correlation=list(number.values()),
        )
        launched = [one for one in every if one.launcher is not None]
        calls, work = (
            handles[[number[id(one)] - 1 for one in side]]
            for side in ([one.launcher for one in launched], launched)
        )
        builder.flows("launch", calls, work)
        rows = []
        for one in every:
            if one.wait:
                record = one.wait["record"]
                row = {"device": 0, "stream": one.wait["stream"], "sync_kind": one.wait["kind"]}
                row |= {"correlation": number[id(one)], "wait_on_stream": one.wait["on"]}
                rows.append({**row, "wait_on_correlation": number[id(record)] if record else -1})
        if waits_told and rows:
            builder.metadata["tables"] = {"device_events": pd.DataFrame(rows)}
        return builder.seal()


def joined(path: Sequence[Piece]) -> list[Piece]:
    """Merge neighbours of the same resource and name."""
    out: list[Piece] = []
    for piece in path:
        if out and out[-1][2:] == piece[2:] and out[-1][1] == piece[0]:
            out[-1] = (out[-1][0], *piece[1:])
        else:
            out.append(piece)
    return out
