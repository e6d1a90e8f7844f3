"""Torch's schedule for a DataLoader with another number of workers."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ENOUGH: Final = 1.05
"""Workers suffice if a batch takes at most this many times as long as it would without waits."""
_MOST_WORKERS: Final = 32


@dataclass(frozen=True, slots=True)
class Schedule:
    """One loader's steady-state batches, from which torch's schedule is simulated."""

    # ns that the worker spent on each batch, including sending.
    times: list[float]
    # Mean of these times, without sending.
    fetch_ns: float
    # Time that the loop itself spends on a batch.
    loop_ns: float
    # Time to receive a batch from a worker; 0 if unknown.
    receive_ns: float
    # CPU time that a batch takes its worker.
    cpu_ns: float
    workers: int
    prefetch: int
    cores: int
    in_order: bool

    @property
    def target_ns(self) -> float:
        """Least time per batch, with any number of workers."""
        return self.loop_ns + self.receive_ns

    def batch_ns(self, workers: int, *, in_order: bool | None = None) -> float:
        """Return the time per batch with this many workers, which all share the cores."""
        if not workers:
            return self.loop_ns + self.fetch_ns
        ordered = self.in_order if in_order is None else in_order
        time = simulate(self.times, self.target_ns, workers, self.prefetch, in_order=ordered)
        return max(time, (self.cpu_ns + self.target_ns) / self.cores if self.cores else 0.0)

    def best(self) -> int:
        """Return the smallest number of workers that suffices or, if none does, that is as good as any."""
        times: list[float] = []
        for workers in range(1, _MOST_WORKERS + 1):
            times.append(self.batch_ns(workers))
            if times[-1] <= ENOUGH * self.target_ns:
                return workers
        return 1 + next(i for i, time in enumerate(times) if time <= ENOUGH * min(times))


def simulate(
    times: Sequence[float], target_ns: float, workers: int, prefetch: int = 2, *, in_order: bool = True
) -> float:
    """Return the mean time per batch of torch's own schedule in steady state.

    >>> [round(simulate([100.0] * 60, 20.0, workers)) for workers in (1, 2, 8)]
    [100, 49, 20]
    """
    # Workers get tasks in turn and do one after another. ``prefetch`` tasks per worker are sent ahead; after
    # that, each batch that is taken sends a new task.
    simulated = _in_order if in_order else _any_order
    returned = simulated(times, target_ns, workers, prefetch)
    skip = min(len(returned) // 3, workers * prefetch)
    return (returned[-1] - returned[skip]) / max(1, len(returned) - 1 - skip)


def batch_ns_together(schedules: Sequence[Schedule], loop_ns: float) -> float:
    """Return the steady time per batch of several processes: a step begins once all have their batches."""
    free = [[0.0] * one.workers for one in schedules]
    received: list[list[float]] = [[] for _ in schedules]
    returned: list[float] = []
    now = 0.0
    for number in range(min(len(one.times) for one in schedules)):
        ready = []
        for one, ends, own in zip(schedules, free, received, strict=True):
            if not ends:
                share = one.fetch_ns * len(one.times) / max(sum(one.times), 1.0)
                ready.append(now + one.times[number] * share)
                continue
            ahead, worker = len(ends) * one.prefetch, number % len(ends)
            sent = own[number - ahead] if number >= ahead else 0.0
            ends[worker] = max(ends[worker], sent) + one.times[number]
            own.append(max(now, ends[worker]))
            ready.append(own[-1] + one.receive_ns)
        returned.append(max(ready))
        now = returned[-1] + loop_ns
    skip = min(len(returned) // 3, max(one.workers * one.prefetch for one in schedules))
    return (returned[-1] - returned[skip]) / max(1, len(returned) - 1 - skip)


def _in_order(times: Sequence[float], target_ns: float, workers: int, prefetch: int) -> list[float]:
    returned: list[float] = []
    free, now = [0.0] * workers, 0.0
    ahead = workers * prefetch
    for number, time in enumerate(times):
        sent = returned[number - ahead] if number >= ahead else 0.0
        worker = number % workers
        free[worker] = max(free[worker], sent) + time
        now = max(now, free[worker])
        returned.append(now)
        now += target_ns
    return returned


def _any_order(times: Sequence[float], target_ns: float, workers: int, prefetch: int) -> list[float]:
    returned: list[float] = []
    free, tasks, now = [0.0] * workers, [0] * workers, 0.0
    ready: list[tuple[float, int]] = []
    turn = 0

    def send(time: float) -> None:
        nonlocal turn
        while tasks[turn % workers] >= prefetch:
            turn += 1
        worker, turn = turn % workers, turn + 1
        free[worker] = max(free[worker], now) + time
        tasks[worker] += 1
        heapq.heappush(ready, (free[worker], worker))

    waiting = iter(times)
    for time in itertools.islice(waiting, workers * prefetch):
        send(time)
    while ready:
        at, worker = heapq.heappop(ready)
        now, tasks[worker] = max(now, at), tasks[worker] - 1
        returned.append(now)
        for time in itertools.islice(waiting, 1):  # torch sends the next task before it returns the batch
            send(time)
        now += target_ns
    return returned
