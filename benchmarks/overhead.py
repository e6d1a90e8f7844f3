"""What recording costs: ratios to bare code and to PyTorch's own profiler, measured side by side.

All variants of a case run in one process, in turn, in an order that rotates from round to round; the
figure is the median over rounds of the ratio within a round. CPU is the process's CPU time with one
compute thread, wall the elapsed time.
"""

from __future__ import annotations

import gc
import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import notebook_prof as nbp
from notebook_prof.collectors.heap import HeapCollector

TITLE = "Overhead of recording"

Around = Callable[[], AbstractContextManager[object]]


@dataclass
class Case:
    """One piece of code and the ways to run it; the first is what the others are compared with."""

    name: str
    body: Callable[[], object]
    variants: dict[str, Around]
    rounds: int
    baseline: str = "bare"
    also_whole: bool = False
    times: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)

    def measure(self) -> list[dict[str, Any]]:
        """Rows: one a variant."""
        names = list(self.variants)
        for name in names:
            self._once(name)
        for turn in range(self.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                self.times.setdefault(name, []).append(self._once(name))
        return [self._row(name) for name in names if name != self.baseline]

    def _once(self, name: str) -> tuple[float, float, float]:
        gc.collect()
        begun = time.process_time()
        with self.variants[name]():
            cpu, wall = time.process_time(), time.perf_counter()
            self.body()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return cpu, wall, time.process_time() - begun

    def _row(self, name: str) -> dict[str, Any]:
        pairs = list(zip(self.times[name], self.times[self.baseline], strict=True))
        cpu, wall, whole = (
            sorted(one[i] / other[i] for one, other in pairs if other[i] > 0) for i in range(3)
        )
        spread = statistics.quantiles(cpu, n=4)
        return {
            "code": self.name,
            "recorded by": name,
            "compared with": self.baseline,
            "CPU ×": round(statistics.median(cpu), 3),
            "quartiles": f"{spread[0]:.3f}–{spread[2]:.3f}",
            "wall ×": round(statistics.median(wall), 3),
            "with start and stop ×": round(statistics.median(whole), 3) if self.also_whole else "",
            "rounds": self.rounds,
        }


def training(steps: int = 25) -> Callable[[], object]:
    """A small convolutional network on generated images; about 10 ms a step."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 8 * 8, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, labels = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    loss_of = nn.CrossEntropyLoss()

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()

    return train


@contextmanager
def counters() -> Iterator[None]:
    """Only the thread that reads memory and CPU share."""
    from notebook_prof.collectors.system import SystemCollector
    from notebook_prof.trace import Clock

    collector = SystemCollector()
    collector.start(Clock())
    try:
        yield
    finally:
        collector.stop()


@contextmanager
def heap() -> Iterator[None]:
    """Only the tracer of the heap."""
    from notebook_prof.trace import Clock

    tracing = HeapCollector()
    tracing.start(Clock())
    try:
        yield
    finally:
        tracing.abandon()


def plain() -> Iterator[tuple[str, Callable[[], object]]]:
    """Code without a framework, 100–300 ms each."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    small, other, square = rng.random(64), rng.random(64), rng.random((400, 400))
    frame = pd.DataFrame({"k": rng.integers(0, 50, 20_000), "v": rng.random(20_000)})

    def numpy_small() -> float:
        total = 0.0
        for _ in range(25_000):
            total += float(np.sqrt(np.add(small, other)).sum())
        return total

    def numpy_large() -> Any:
        result = square
        for _ in range(60):
            result = result @ square
            result = result / np.linalg.norm(result)
        return result

    def pandas_code() -> Any:
        result = None
        for _ in range(20):
            means = frame.groupby("k").agg({"v": "mean"})
            joined = frame.merge(means, on="k", suffixes=("", "_mean"))
            result = joined[joined["v"] > joined["v_mean"]].sort_values("v").head()
        return result

    def python_calls() -> int:
        def fibonacci(n: int) -> int:
            return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

        return fibonacci(25)

    yield "NumPy, arrays of 64", numpy_small
    yield "NumPy, 400 × 400 matrices", numpy_large
    yield "pandas groupby, merge, sort", pandas_code
    yield "Python calls (recursion)", python_calls
    yield "200,000 dicts", lambda: [{"number": number} for number in range(200_000)]


@contextmanager
def torch_profiler() -> Iterator[None]:
    """PyTorch's profiler with the options that nbp.profile uses by default."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True):
        yield


def cases(quick: bool = False) -> Iterator[Case]:
    """Everything that is compared."""
    rounds = 7 if quick else 21
    train = training()
    yield Case(
        "CNN, 25 training steps",
        train,
        {
            "bare": nullcontext,
            "torch.profiler.profile": torch_profiler,
            "nbp.profile, same options": lambda: nbp.profile("torch", modules=False),
            "nbp.profile, modules too": lambda: nbp.profile("torch"),
        },
        rounds,
        also_whole=True,
    )
    yield Case(
        "CNN, 25 training steps",
        train,
        {
            "torch.profiler.profile": torch_profiler,
            "nbp.profile, same options": lambda: nbp.profile("torch", modules=False),
            "nbp.profile, modules too": lambda: nbp.profile("torch"),
        },
        rounds,
        baseline="torch.profiler.profile",
        also_whole=True,
    )
    yield Case(
        "CNN, 5 steps, window never reached",
        training(5),
        {
            "bare": nullcontext,
            "nbp.profile(steps=…), outside": lambda: nbp.profile("torch", steps=(10**6, 10**6 + 1)),
        },
        rounds * 6,  # a difference of 1 % needs many pairs
    )
    for name, body in plain():
        variants: dict[str, Around] = {
            "bare": nullcontext,
            "1 ms sampler": lambda: nbp.profile("python"),
            "memory and CPU counters": counters,
            "heap by memray": heap,
        }
        yield Case(name, body, variants, rounds)


def calls() -> list[dict[str, Any]]:
    """What a mark costs when nothing records, less an empty function's call, in ns."""

    def nothing() -> None:
        pass

    def marked() -> None:
        with nbp.annotate("piece"):
            pass

    decorated = nbp.annotate("piece")(nothing)
    ready = nbp.annotate("piece")

    def reused() -> None:
        with ready:
            pass

    def ns(function: Callable[[], object], number: int = 200_000) -> float:
        return 1e9 * min(timeit.repeat(function, number=number, repeat=7)) / number

    empty = ns(nothing)
    rows = {
        "nbp.step()": nbp.step,
        "with nbp.annotate(…)": marked,
        "with a kept annotation": reused,
        "decorated function": decorated,
    }
    return [
        {
            "code": name,
            "recorded by": "nothing",
            "compared with": "empty call",
            "ns more": round(ns(function) - empty),
        }
        for name, function in rows.items()
    ]


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Rows: code, how it was recorded, what it is compared with, ratios of CPU and wall time."""
    rows = [row for case in cases(quick) for row in case.measure()]
    return rows + calls()
