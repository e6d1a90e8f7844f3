"""What limits a DataLoader, and its speed with another number of workers, by torch's schedule."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Table
from ..scope import once, recorded_table
from ..time.cpu import whole_cores
from .loader_batches import loader_batches, loader_transforms
from .pipeline import loaders

ENOUGH: Final = 1.05
"""Workers suffice if a batch takes at most this many times as long as it would without waits."""
_MOST_WORKERS: Final = 32


@dataclass(frozen=True, slots=True)
class LoaderSchedule:
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
    """Return the mean time per batch of torch's own schedule in steady state."""
    # Workers get tasks in turn and do one after another. ``prefetch`` tasks per worker are sent ahead; after
    # that, each batch that is taken sends a new task.
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
        ready.append((free[worker], worker))

    waiting = iter(times)
    for time in itertools.islice(waiting, workers * prefetch):
        send(time)
    while ready:
        at, worker = ready.pop(0 if in_order else ready.index(min(ready)))
        now, tasks[worker] = max(now, at), tasks[worker] - 1
        returned.append(now)
        for time in itertools.islice(waiting, 1):  # torch sends the next task before it returns the batch
            send(time)
        now += target_ns
    skip = min(len(returned) // 3, workers * prefetch)  # those that were made ahead
    return (returned[-1] - returned[skip]) / max(1, len(returned) - 1 - skip)


NOT_THE_LOADER: Final = "not the loader"
TOO_FEW: Final = "too few batches"
_FEWEST: Final = 6
_WAITS: Final = 0.1
"""A loop that waits for a smaller share of its time is not bound by its loader."""
_ORDER_GAIN, _SPREAD = 0.15, 0.5
_PIPE: Final = 2.0
"""Maximum time to receive a batch, as a multiple of its CPU time: the worker writes while the process reads.
A batch may arrive later if the worker's Python delays its sending thread, but nothing waits for that.
"""
_MOST_BATCHES: Final = 1000
BOUNDS: Final = Table.of(
    "loader_bounds",
    "loader:int64 dataset:str workers:int64 batches:int64 bound:str wait_share:float64 loop_ns:int64 "
    "batch_ns:int64 transform_ns:int64 storage_ns:int64 collate_ns:int64 transport_ns:Int64 cpu_ns:int64 "
    "spread:float64 order_gain:float64 enough:Int64 best:Int64 rate:float64 best_rate:float64",
)
THROUGHPUT: Final = Table.of("loader_throughput", "loader:int64 workers:int64 rate:float64 measured:float64")


def loader_bounds(trace: Trace) -> pd.DataFrame:
    """List what limits each of PyTorch's DataLoaders, and how many workers suffice.

    Returns
    -------
    DataFrame
        One row per loader, as in `loaders`; empty if no batch was recorded. Times are means per batch,
        excluding the batches that workers make ahead.

        - ``loader`` int64; ``dataset`` str; ``workers``, ``batches`` int64;
        - ``bound`` str: ``not the loader``, ``order``, ``transform``, ``storage``, ``collate``,
          ``transport``, or ``too few batches``;
        - ``wait_share`` float64: share of the loop's time in ``next``; ``loop_ns`` int64: the loop's other
          time;
        - ``batch_ns`` int64: of a worker, including sending; its parts ``transform_ns``, ``storage_ns``
          (blocked), ``collate_ns`` int64; ``transport_ns`` Int64: sending and receiving, missing without
          workers;
        - ``cpu_ns`` int64: CPU time of a batch in its worker;
        - ``spread`` float64: standard deviation of the workers' times by their mean; ``order_gain`` float64:
          how much faster ``in_order=False`` would be;
        - ``enough`` Int64: the smallest number of workers for which the loop does not wait, missing if none
          suffices; ``best`` Int64: that number, or the smallest that is as good as any;
        - ``rate``, ``best_rate`` float64: batches per second, measured and with `best` workers.

    Notes
    -----
    A loop that waits less than a tenth of its time is not bound by the loader. *Order*: taking batches as
    they are ready would be over 15 % faster, and the workers' times spread by over half. With enough workers,
    batches are ready: *transport* if receiving is most of the wait, else not the loader. Else the largest of:
    the transforms (without a ``Compose``: CPU time and the time ready without a core, less collate), storage
    (the rest of the items), collate and transport. Torch's schedule is simulated with the recorded times, and
    all processes share the cores, which limits the rate of batches that take CPU time.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> loader_bounds(draw("main: [mm ]")).empty
    True
    """
    rows = [_bound(trace, *one) for one in _steady(trace)]
    return BOUNDS.of_rows(rows)


def loader_throughput(trace: Trace) -> pd.DataFrame:
    """Predict the batches per second of PyTorch's DataLoaders by the number of workers.

    Returns
    -------
    DataFrame
        By loader and number of workers, from 0 to past the best one; no rows for too few batches.

        - ``loader``, ``workers`` int64;
        - ``rate`` float64: batches per second, by simulation; see `loader_bounds`. Without workers the cost
          of sending is unknown, so the rates with workers exclude it;
        - ``measured`` float64: the recording's own rate, NaN for other numbers of workers.
    """
    rows: list[dict[str, Any]] = []
    for loader, steady in _steady(trace):
        schedule = _schedule(trace, loader, steady)
        if schedule is None:
            continue
        measured = 1e9 / _measured_ns(steady)
        for workers in range(max(schedule.best() + 3, schedule.workers + 1)):
            own = measured if workers == schedule.workers else np.nan
            rate = 1e9 / schedule.batch_ns(workers)
            rows.append({"loader": loader, "workers": workers, "rate": rate, "measured": own})
    return THROUGHPUT.of_rows(rows)


def schedules(trace: Trace) -> list[tuple[int, LoaderSchedule]]:
    """Return each loader's row of `loaders` and its schedule, if enough of its batches were recorded."""
    every = [(loader, _schedule(trace, loader, steady)) for loader, steady in _steady(trace)]
    return [(loader, schedule) for loader, schedule in every if schedule is not None]


def _steady(trace: Trace) -> list[tuple[int, pd.DataFrame]]:
    """Return each loader's row of `loaders` and its batches, without those made ahead."""

    def chosen() -> list[tuple[int, pd.DataFrame]]:
        batches, facts, out = loader_batches(trace), loaders(trace), []
        batches = batches[~batches["failed"] & batches["wait_ns"].notna()]
        for number, own in batches.groupby("loader", sort=True):
            loader = int(str(number))
            row = facts.iloc[loader] if 0 <= loader < len(facts) else None
            ahead = 0 if row is None else int(row["num_workers"]) * int(row["prefetch_factor"])
            epochs = own.groupby(["iterator", "epoch"])
            position, length = epochs.cumcount(), epochs["batch"].transform("size")
            out.append((loader, own[position >= np.minimum(max(ahead, 1), length // 3)]))
        return out

    return once(trace, "loader steady", chosen)


def _measured_ns(steady: pd.DataFrame) -> float:
    whole = steady[steady["loop_ns"].notna()]
    return max(float((whole["wait_ns"] + whole["loop_ns"]).mean()), 1.0)


def _schedule(trace: Trace, loader: int, steady: pd.DataFrame) -> LoaderSchedule | None:
    made = steady[steady["items_ns"].notna()]
    if len(steady) < _FEWEST or len(made) < _FEWEST or not steady["loop_ns"].notna().any():
        return None
    facts, iterators = loaders(trace), recorded_table(trace, "loader_iterators")
    row: Mapping[str, Any] = facts.iloc[loader].to_dict() if 0 <= loader < len(facts) else {}
    fetch = (made["items_ns"] + made["collate_ns"]).to_numpy(np.float64)
    send = made["send_ns"].fillna(0).to_numpy(np.float64)
    repeats = 1 + 64 // len(made)
    workers = int(row.get("num_workers", 0))
    received = made["receive_ns"].clip(upper=_PIPE * made["receive_cpu_ns"].astype("Float64")).dropna()
    return LoaderSchedule(
        times=((fetch + send).tolist() * repeats)[:_MOST_BATCHES],
        fetch_ns=float(fetch.mean()),
        loop_ns=max(float(steady["loop_ns"].dropna().mean()), 1.0),
        receive_ns=float(received.median()) if len(received) and workers else 0.0,
        cpu_ns=float(made["cpu_ns"].fillna(0).mean()),
        workers=workers,
        prefetch=max(int(row.get("prefetch_factor", 0)), 2 if not workers else 1),
        cores=whole_cores(trace),
        in_order=iterators is None or bool(iterators.loc[iterators["loader"] == loader, "in_order"].all()),
    )


def _bound(trace: Trace, loader: int, steady: pd.DataFrame) -> dict[str, Any]:
    facts = loaders(trace)
    in_table = 0 <= loader < len(facts)
    wait, loop = float(steady["wait_ns"].mean()), float(steady["loop_ns"].dropna().mean() or 0.0)
    row: dict[str, Any] = {
        "loader": loader,
        "dataset": str(facts["dataset"].iloc[loader]) if in_table else "",
        "workers": int(facts["num_workers"].iloc[loader]) if in_table else 0,
        "batches": len(steady),
        "bound": TOO_FEW,
        **dict.fromkeys(("loop_ns", "batch_ns", "transform_ns", "storage_ns", "collate_ns", "cpu_ns"), 0),
        "transport_ns": pd.NA,
        "enough": pd.NA,
        "best": pd.NA,
        **dict.fromkeys(("wait_share", "spread", "order_gain", "rate", "best_rate"), np.nan),
    }
    schedule = _schedule(trace, loader, steady)
    if schedule is None:
        return row
    parts = _mean_parts(trace, loader, steady, schedule)
    share = wait / max(wait + loop, 1.0)
    gain = 0.0
    if schedule.workers > 1 and schedule.in_order:
        gain = schedule.batch_ns(schedule.workers) / schedule.batch_ns(schedule.workers, in_order=False) - 1
    spread = float(np.std(schedule.times) / np.mean(schedule.times))
    best = schedule.best()
    best_ns = schedule.batch_ns(best)
    kind = max(parts, key=lambda name: parts[name])
    if share < _WAITS:
        kind = NOT_THE_LOADER
    elif gain > _ORDER_GAIN and spread > _SPREAD:
        kind = "order"
    elif schedule.workers and schedule.batch_ns(schedule.workers) <= ENOUGH * schedule.target_ns:
        # batches are ready, so the loop waits to receive them, or for a core
        kind = "transport" if schedule.receive_ns > wait / 2 else NOT_THE_LOADER
    return row | {
        "bound": kind,
        "wait_share": share,
        "loop_ns": round(schedule.loop_ns),
        "batch_ns": round(float(np.mean(schedule.times))),
        **{f"{name}_ns": round(spent) for name, spent in parts.items()},
        "transport_ns": round(parts["transport"]) if schedule.workers else pd.NA,
        "cpu_ns": round(schedule.cpu_ns),
        "spread": spread,
        "order_gain": gain,
        "enough": best if best_ns <= ENOUGH * schedule.target_ns else pd.NA,
        "best": best,
        "rate": 1e9 / _measured_ns(steady),
        "best_rate": 1e9 / best_ns,
    }


def _mean_parts(
    trace: Trace, loader: int, steady: pd.DataFrame, schedule: LoaderSchedule
) -> dict[str, float]:
    """Return the mean ns per batch of each part."""
    made = steady[steady["items_ns"].notna()]
    items, collate = float(made["items_ns"].mean()), float(made["collate_ns"].mean())
    table = loader_transforms(trace)
    table = table[table["loader"] == loader]
    in_items = table[table["part"].isin(["transform", "item"])]
    transforms = in_items.loc[in_items["part"] == "transform", "total_ns"].sum()
    if transforms:
        transform = items * float(transforms) / max(float(in_items["total_ns"].sum()), 1.0)
    else:  # time in which items kept a core busy, or would have if one had been free
        busy = schedule.cpu_ns + float(made["delay_ns"].fillna(0).mean())
        transform = min(items, max(0.0, busy - collate))
    send = float(made["send_ns"].fillna(0).mean())
    return {
        "transform": transform,
        "storage": max(items - transform, 0.0),
        "collate": collate,
        "transport": send + schedule.receive_ns,
    }
