"""How long each step waited for its data, and the DataLoaders' settings."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace, Window, subtract
from ...trace.arrays import IntArray
from ...trace.schema import Table
from ..scope import (
    Numbers,
    WindowLike,
    bounds,
    checked_numbers,
    length_within,
    on_host,
    recorded_table,
    step_spans,
)
from ..time.phases import stepping_track

LOADERS: Final = Table.of(
    "loaders",
    "dataset:str method:str file:str line:int64 in_memory:bool batched:bool batch_size:int64 "
    "num_workers:int64 prefetch_factor:int64 pin_memory:bool persistent_workers:bool iterators:int64",
)


def loaders(trace: Trace) -> pd.DataFrame:
    """List the DataLoaders that were iterated during the recording.

    Returns
    -------
    DataFrame
        One row per configuration, in order of first use; empty if none was seen, as in files of other
        profilers.

        - ``dataset method file line``: the code that makes items;
        - ``in_memory``, ``batched`` bool; ``batch_size``, ``num_workers``, ``prefetch_factor`` int64;
          ``pin_memory``, ``persistent_workers`` bool: the loader's settings;
        - ``iterators`` int64: number of iterators started.
    """
    rows = trace.metadata.get("loaders")
    usable = [row for row in rows if set(LOADERS.names) <= set(row)] if isinstance(rows, list) else []
    return LOADERS.frame({name: [row[name] for row in usable] for name in LOADERS.names})


LOADER_PREFIXES: Final = ("enumerate(DataLoader)#", "_DataLoaderIter")
"""Prefixes of the names of slices in which PyTorch's or Paddle's DataLoader fetches a batch."""
_MULTIPLE: Final = "MultiProcess"
_LOADERS: Final = ("none", "in-process", "workers", "pipeline")
_COLUMNS: Final = Table.of(
    "input_pipeline",
    "step:int64 rank:Int32 dur:int64 loader:category fetches:int64 fetch_ns:int64 wait_ns:int64 "
    "push_ns:int64 worker_ns:int64 workers:int64 queue_size:Int64 queue_capacity:Int64 empty:boolean "
    "full:boolean share:float64",
)


def input_pipeline(trace: Trace, *, window: WindowLike = None, step: Numbers = None) -> pd.DataFrame:
    """Return the fetch time of every step, and the wait in it.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; steps are cut at its edges, steps outside are left out.
    step : int or iterable of int, optional
        Keep these steps.

    Returns
    -------
    DataFrame
        By rank and step; no rows without steps. Times int64 ns.

        - ``step`` int64; ``rank`` Int32, missing if unknown; ``dur``: length of the step, 0 if only the
          pipeline was recorded;
        - ``loader`` category: ``in-process`` (PyTorch with 0 workers: the thread of the steps makes its
          batches), ``workers`` (it takes them from other processes), ``pipeline`` (MindData), ``none``;
        - ``fetches``: number of requested batches;
        - ``fetch_ns``: time with a slice of phase data open on the thread of the steps; for MindData the
          total of the batch;
        - ``wait_ns``: the part of it spent waiting: for ``workers`` the fetch without the operators that ran
          in it; for MindData the time to get the batch out of the pipeline; 0 in-process;
        - ``push_ns``: MindData's time to put the batch into the queue of the device, else 0;
        - ``worker_ns``, ``workers``: time with data work on any other thread or process, and how many there
          were; 0 if none was recorded;
        - ``queue_size``, ``queue_capacity`` Int64: of the queue before the device, missing without one;
          ``empty``, ``full`` boolean, missing without one;
        - ``share`` float64: `fetch_ns` of `dur`; NaN where `dur` is 0.

    See Also
    --------
    input_queues, input_operators : MindData's queues and operators, with its bottleneck rules.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw('''
    ... steps: [0                  ]
    ... main:  [enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__/data]
    ... ''')
    >>> input_pipeline(trace)[["loader", "fetches", "fetch_ns", "wait_ns"]].values.tolist()
    [['workers', 1, 21, 21]]
    """
    queue = recorded_table(trace, "minddata_queue")
    if queue is not None:
        return _ordered(_minddata(trace, queue, window, step))
    return _ordered(_torch(trace, step_spans(trace, window, step)))


def _torch(trace: Trace, spans: pd.DataFrame) -> pd.DataFrame:
    host = on_host(trace)
    stepping = host.ints("track") == stepping_track(trace)
    data = host.among("phase", ("data",))
    start, end = bounds(spans)
    fetching = host.open(stepping & data)
    loads = stepping & host.named(lambda name: name.startswith(LOADER_PREFIXES))
    multiple = loads & host.named(lambda name: _MULTIPLE in name)
    from_workers = subtract(
        host.open(multiple), host.open(stepping & data & host.among("category", ("operator",)) & ~loads)
    )
    begins = host.ts[loads]
    count = np.searchsorted(begins, end, side="left") - np.searchsorted(begins, start, side="left")
    fetch = length_within(fetching, start, end)
    kind = _LOADERS.index("workers" if multiple.any() else "in-process")
    loader = np.where((count > 0) | (fetch > 0), kind, 0)
    work = data & ~stepping
    process = _processes(trace, host.ints("track"))
    active = np.zeros(len(start), dtype=np.int64)
    for number in np.unique(process[work]):
        active += length_within(host.open(work & (process == number)), start, end) > 0
    rank = trace.metadata.get("rank")
    return pd.DataFrame(
        {
            "step": spans["step"].to_numpy(dtype=np.int64),
            "rank": pd.array([rank if isinstance(rank, int) else None] * len(spans), dtype="Int32"),
            "dur": end - start,
            "loader": pd.Categorical.from_codes(loader, categories=list(_LOADERS)),
            "fetches": count,
            "fetch_ns": fetch,
            "wait_ns": length_within(from_workers, start, end),
            "push_ns": 0,
            "worker_ns": length_within(host.open(work), start, end),
            "workers": active,
            **dict.fromkeys(("queue_size", "queue_capacity"), pd.array([pd.NA] * len(spans), dtype="Int64")),
        }
    )


def _processes(trace: Trace, track: IntArray) -> IntArray:
    """Return a number for each track: one per thread of the steps' process, one per other process."""
    if not len(track):
        return track
    tracks = trace.tracks.set_index("track")
    pid = tracks["pid"].reindex([stepping_track(trace)]).iloc[0]
    elsewhere = (tracks["pid"].notna() & (tracks["pid"] != pid)).fillna(False)
    number = tracks.index.to_series().where(~elsewhere.astype(bool), -2 - tracks["pid"].fillna(0))
    keys: IntArray = number.reindex(track).to_numpy(dtype=np.int64)
    return keys


def _minddata(trace: Trace, queue: pd.DataFrame, window: WindowLike, step: Numbers) -> pd.DataFrame:
    at = queue["time_ns"] - int(trace.metadata.get("start_unix_ns", 0))
    keep = np.ones(len(queue), dtype=bool)
    if step is not None:
        keep &= queue["step"].isin(checked_numbers("step", step)).to_numpy()
    if window is not None:
        cut = Window.of(window)
        keep &= ((queue["time_ns"] >= 0) & (at >= cut.start) & (at < cut.end)).to_numpy()
    queue = queue[keep]
    dur = trace.steps.drop_duplicates("step").set_index("step")["dur"].reindex(queue["step"])
    times = ["total_ns", "get_ns", "push_ns"]
    table = queue[["step", "rank", *times]].fillna(dict.fromkeys(times, 0))
    return table.rename(columns={"total_ns": "fetch_ns", "get_ns": "wait_ns"}).assign(
        dur=dur.fillna(0).to_numpy(np.int64),
        loader=pd.Categorical(["pipeline"] * len(queue), categories=list(_LOADERS)),
        fetches=1,
        worker_ns=0,
        workers=0,
        queue_size=queue["size"].astype("Int64"),
        queue_capacity=queue["capacity"].astype("Int64"),
    )


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    table["empty"] = table["queue_size"] == 0
    table["full"] = table["queue_size"] >= table["queue_capacity"]
    table["share"] = table["fetch_ns"] / table["dur"].where(table["dur"] > 0)
    table = _COLUMNS.frame({str(name): column for name, column in table.items()})
    return table.sort_values(["rank", "step"], kind="stable").reset_index(drop=True)
