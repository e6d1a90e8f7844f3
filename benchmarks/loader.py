"""DataLoaders: planted bounds, predicted against measured throughput, and what watching workers costs.

Each planted loop runs in this process with so many workers (fork), recorded by ``nbp.profile("torch")``. The
kind of bound that `p.input.bounds()` names must be the planted one. The rate that `p.input.throughput()`
predicts for another number of workers is compared with the rate of the same loop with that number, not
recorded: medians of three rounds, in turn. Sleeps stand for storage, so that predictions depend less on how
busy the machine is. The cost is CPU time (``thread_time``) for batches of 32 items of the same work, with the
hook and without it, in turn: of the worker, a whole loader at a time, and of the fetch alone, a batch at a
time, so that what else the machine does falls on both.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

TITLE = "Workers of a DataLoader"
ROUNDS: Final = 25
PAIRS: Final = 600
PREDICTIONS: Final = 3
LIMIT: Final = 0.15


@dataclass(frozen=True)
class Planted:
    """A loader with a bound that was put into it."""

    bound: str
    what: str
    dataset: Callable[[], Any]
    loop_s: float
    workers: int = 2
    predicted_for: tuple[int, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


class Items:
    """Items that take a time: asleep (storage), or busy (transforms), or slow once in `every`."""

    def __init__(
        self,
        count: int,
        asleep_s: float = 0.0,
        busy_s: float = 0.0,
        make: Callable[[], Any] = int,
        every: int = 0,
    ) -> None:
        self.count, self.asleep_s, self.busy_s, self.make, self.every = count, asleep_s, busy_s, make, every

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if self.asleep_s and not (self.every and index % self.every):
            time.sleep(self.asleep_s)
        end = time.thread_time() + self.busy_s
        while self.busy_s and time.thread_time() < end:
            pass
        return self.make()


def _slow_collate(items: list[Any]) -> Any:
    time.sleep(0.02)
    return items


def _as_it_is(items: list[Any]) -> Any:
    return items


def _arrays() -> Any:
    import numpy as np

    return np.zeros(600_000, np.float32)


PLANTED: Final = (
    Planted("storage", "sleep 4 ms × 8, loop 12 ms", lambda: Items(560, 0.004), 0.012, 0, (1, 2, 4)),
    Planted("storage", "sleep 4 ms × 8, loop 12 ms", lambda: Items(560, 0.004), 0.012, 1, (0, 2, 4)),
    Planted("storage", "sleep 4 ms × 8, loop 12 ms", lambda: Items(560, 0.004), 0.012, 2, (0, 1, 4)),
    Planted("not the loader", "sleep 1 ms × 8, loop 30 ms", lambda: Items(400, 0.001), 0.03),
    Planted(
        "order", "each 9th batch 80 ms, loop 6 ms", lambda: Items(1440, 0.08, 0, int, 72), 0.006, 2, (1, 4)
    ),
    Planted("transform", "busy 1 ms × 8, loop 1 ms", lambda: Items(400, 0, 0.001), 0.001, 1),
    Planted(
        "collate", "collate of 20 ms, loop 2 ms", lambda: Items(400, 0.0002), 0.002,
        options=(("collate_fn", _slow_collate),),
    ),
    Planted(
        "transport", "19 MB of NumPy a batch, loop 1 ms", lambda: Items(320, 0, 0, _arrays), 0.001,
        options=(("collate_fn", _as_it_is),),
    ),
)  # fmt: skip


def run() -> list[dict[str, Any]]:
    """Rows: planted and named bound; predicted and measured rates; the cost of watching."""
    recorded = [(planted, _record(planted)) for planted in PLANTED]
    rows: list[dict[str, Any]] = []
    for planted, profile in recorded:
        row = profile.input.bounds().iloc[0]
        rows.append(
            {
                "planted": planted.bound,
                "loop": planted.what,
                "workers": planted.workers,
                "named": row["bound"],
                "right": "yes" if row["bound"] == planted.bound else "**no**",
                "waits": f"{row['wait_share']:.0%}",
                "enough": str(row["enough"]),
            }
        )
    for planted, profile in recorded:
        if planted.predicted_for:
            rows += _compared(planted, [profile, *(None for _ in range(PREDICTIONS - 1))])
    return [*rows, _cost(0.0001), _cost_of_fetch(0.0001)]


def _loader(planted: Planted, workers: int, batch_size: int = 8) -> Any:
    from torch.utils.data import DataLoader

    warnings.filterwarnings("ignore", message="This DataLoader will create")
    context = "fork" if workers else None
    return DataLoader(
        planted.dataset(),
        batch_size=batch_size,
        num_workers=workers,
        multiprocessing_context=context,
        **dict(planted.options),
    )


def _record(planted: Planted) -> Any:
    import notebook_prof as nbp

    with nbp.profile("torch") as profile:
        for _ in nbp.steps(_loader(planted, planted.workers)):
            time.sleep(planted.loop_s)
    return profile


def _compared(planted: Planted, profiles: list[Any]) -> list[dict[str, Any]]:
    ratios: dict[int, list[float]] = {workers: [] for workers in planted.predicted_for}
    for profile in profiles:
        rates = (profile or _record(planted)).input.throughput().set_index("workers")["rate"]
        for workers, each in ratios.items():
            each.append(float(rates[min(workers, int(rates.index.max()))]) / _measured(planted, workers))
    return [
        {
            "loop": planted.what,
            "recorded with workers": planted.workers,
            "predicted for": workers,
            "predicted ÷ measured": f"{statistics.median(each):.2f}",
            "rounds": ", ".join(f"{ratio:.2f}" for ratio in sorted(each)),
            "within 15 %": "yes" if abs(statistics.median(each) - 1) <= LIMIT else "**no**",
        }
        for workers, each in ratios.items()
    ]


def _measured(planted: Planted, workers: int) -> float:
    """Return batches a second of the loop without a recording."""
    ends = []
    for _ in _loader(planted, workers):
        time.sleep(planted.loop_s)
        ends.append(time.perf_counter())
    ahead = min(len(ends) // 3, max(2 * workers, 1))
    return (len(ends) - 1 - ahead) / (ends[-1] - ends[ahead])


class _FixedWork(Items):
    """The same work for each item, however long it takes; an item is the CPU time of its worker so far."""

    def __getitem__(self, index: int) -> Any:
        total = 0
        for number in range(int(self.busy_s)):
            total += number
        return time.thread_time()


def _cost(item_s: float) -> dict[str, Any]:
    """Compare the CPU time of 10,000 items of the same work with and without the hook."""
    from notebook_prof.collectors.torch.loader.watch import LoaderWatch

    loops = _loops(item_s)
    ratios, both = [], []
    for number in range(ROUNDS):
        spent = [0.0, 0.0]
        for watched in (False, True) if number % 2 else (True, False):
            watch = LoaderWatch()
            if watched:
                watch.watch()
            try:
                loader = _loader(Planted("", "", lambda: _FixedWork(10_000, 0, loops), 0.0), 1, 32)
                cpu_s = [float(batch[0]) for batch in loader]
            finally:
                watch.unwatch()
            spent[watched] = cpu_s[-1] - cpu_s[0]
        ratios.append(spent[1] / spent[0])
        both.append(spent)
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "10,000 items of": f"{item_s * 1e6:.0f} µs",
        "CPU of the worker ×": f"{middle:.3f}",
        "of the fastest rounds ×": f"{min(pair[1] for pair in both) / min(pair[0] for pair in both):.3f}",
        "quartiles": f"{low:.3f}–{high:.3f}",
        "rounds": ROUNDS,
    }


def _cost_of_fetch(item_s: float) -> dict[str, Any]:
    """Compare the CPU time of batches of the same work whose fetch is timed with that of others, in pairs."""
    from torch.utils.data import default_collate
    from torch.utils.data._utils import fetch

    from notebook_prof.collectors.torch.loader.fetching import FetchHook
    from notebook_prof.collectors.torch.loader.ring import Ring

    dataset, indices, ring = _FixedWork(32, 0, _loops(item_s)), list(range(32)), Ring()
    fetchers = [fetch._MapDatasetFetcher(dataset, True, default_collate, False) for _ in range(2)]
    functions = [fetch._MapDatasetFetcher.fetch]
    hook = FetchHook(lambda fetcher: (ring, 0))
    hook.install()
    try:
        functions.append(fetch._MapDatasetFetcher.fetch)
    finally:
        hook.patches.restore()
    ratios = []
    for number in range(PAIRS + 10):
        spent = [0, 0]
        for watched in (False, True) if number % 2 else (True, False):
            begun = time.thread_time_ns()
            functions[watched](fetchers[watched], indices)
            spent[watched] = time.thread_time_ns() - begun
        ratios.append(spent[1] / spent[0])
    low, middle, high = statistics.quantiles(ratios[10:], n=4)
    return {
        "batches of 32 items of": f"{item_s * 1e6:.0f} µs",
        "CPU of the fetch ×": f"{middle:.3f}",
        "quartiles": f"{low:.3f}–{high:.3f}",
        "one item in so many timed": _stride(ring),
        "pairs": PAIRS,
    }


def _loops(item_s: float) -> int:
    """Return how many additions take so long."""
    begun = time.thread_time()
    _FixedWork(1, 0, 100_000)[0]
    return int(100_000 * item_s / (time.thread_time() - begun))


def _stride(ring: Any) -> int:
    made, timed = ring.made()
    return round(made / max(timed, 1))
