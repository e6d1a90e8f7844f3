"""Random programs of several ranks that meet in collectives, with their true critical path."""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from typing import Any, Final

from notebook_prof.trace import Trace
from tests.programs import Costs, Instruction, Run, program
from tests.true_paths import Stretch, followed_back

_COLLECTIVES: Final = ("all-reduce", "host-all-reduce")


def rank_programs(
    seed: int, *, ranks: int = 3, collectives: int = 4, length: int = 10, streams: int = 2, host: bool = False
) -> list[list[Instruction]]:
    """Draw the instructions of each rank: its own, and the same collectives in between."""
    # `length` is the number of instructions between collectives, `streams` that of a rank, without the one
    # for collectives. With `host`, collectives run on the main thread, as gloo's, not on a device.
    rng = random.Random(seed)
    moved = [(rng.randrange(5_000, 200_000), rng.random() < 0.5) for _ in range(collectives)]
    out: list[list[Instruction]] = []
    for _ in range(ranks):
        own: list[Instruction] = []
        for number, (transfer, waited) in enumerate(moved):
            part_seed = rng.randrange(10**9)
            part = program(part_seed, streams=streams, length=length, threads=False)
            own += [_renumbered(one, 1000 * (number + 1)) for one in part]
            name = "host-all-reduce" if host else "all-reduce"
            own.append((name, number, streams, transfer, rng.randrange(500, 9000)))
            if waited and not host:
                own.append(("sync", 10**6 + number, streams))
        out.append([*own, ("device", 10**7, 0, 0)])
    return out


def _renumbered(instruction: Instruction, by: int) -> Instruction:
    kind, number, *arguments = instruction
    return (kind, number + by, *arguments)


class Job:
    """Programs of several ranks, executed together; ranks in `overlaps` wait for no communication."""

    def __init__(
        self,
        programs: Sequence[Sequence[Instruction]],
        costs: Costs | Sequence[Costs] | None = None,
        overlaps: Set[int] = frozenset(),
    ) -> None:
        each = costs if isinstance(costs, Sequence) else [costs or Costs()] * len(programs)
        self.runs = [_RankRun([], own, rank) for rank, own in enumerate(each)]
        for rank in overlaps:
            self.runs[rank].overlaps = True
        left = [list(own) for own in programs]
        while any(left):
            for run, own in zip(self.runs, left, strict=True):
                run.until_collective(own)
            meet([run.arrived for run in self.runs if run.arrived is not None])
            for run in self.runs:
                run.leave()

    @property
    def end(self) -> int:
        """The instant at which the last rank has finished."""
        return max(run.end for run in self.runs)

    @property
    def device_end(self) -> int:
        """When the last rank, and the last work of its device, has finished."""
        return max(own[-1].end for run in self.runs for own in run.stretches.values())

    def path(self) -> list[tuple[int, int, int, str, str]]:
        """Return the true critical path: begin, end, rank, thread or stream, and the charged name."""
        last = max(self.runs, key=lambda run: run.end)
        return sorted(
            followed_back(last.stretches["main"][-1], last.end, [run.stretches for run in self.runs])
        )

    def traces(self) -> list[Trace]:
        """Return the recording of each rank."""
        return [run.trace() for run in self.runs]


class _RankRun(Run):
    """A rank, which stops at each collective until all have arrived."""

    arrived: tuple[Stretch, int] | None = None
    overlaps: bool = False

    def _ignores(self, work: Stretch) -> bool:
        return self.overlaps and work.category == "collective"

    def until_collective(self, instructions: list[Instruction]) -> None:
        """Execute, and remove, instructions up to and including the next collective."""
        while instructions:
            kind, number, *arguments = instructions.pop(0)
            if kind not in _COLLECTIVES:
                self._execute("main", (kind, number, *arguments))
                continue
            stream, transfer, before = arguments
            self._host("main", f"aten{kind}{number}", before)
            self.arrived = self._arrive(kind, number, stream), transfer
            return

    def _arrive(self, kind: str, number: int, stream: int) -> Stretch:
        if kind == "host-all-reduce":
            return self._host("main", f"gloo:all_reduce{number}", 0, "collective")
        call = self._host("main", f"cudaLaunchKernel#c{number}", self._costs.call, "launch")
        self._queue(stream, call)
        return self._device(stream, f"ncclAllReduce{number}", 0, call, "collective")

    def leave(self) -> None:
        """Continue after a collective, for which the calling thread has waited."""
        if self.arrived is not None and self.arrived[0].resource == "main":
            self._clock["main"] = self.arrived[0].end
        self.arrived = None


def meet(arrived: Sequence[tuple[Stretch, Any]]) -> None:
    """End a collective on all ranks: its transfer begins with the arrival of the last."""
    if not arrived:
        return
    last = max((one for one, _ in arrived), key=lambda one: one.start)
    for one, transfer in arrived:
        one.end = last.start + transfer
        if one.start < last.start:
            one.met = last.start, last
