"""Batches, workers and transforms of PyTorch's DataLoaders, as recorded by the workers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.schema import Table
from ...trace.taxonomy import LOADER_MISSING as MISSING
from ..scope import once, recorded_table

BATCHES: Final = Table.of(
    "loader_batches",
    "loader:int64 iterator:int64 epoch:int64 batch:int64 worker:Int64 pid:Int64 ts:Int64 items_ns:Int64 "
    "collate_ns:Int64 cpu_ns:Int64 delay_ns:Int64 send_ns:Int64 send_bytes:Int64 receive_ns:Int64 "
    "receive_cpu_ns:Int64 wait_ns:Int64 next_ts:Int64 loop_ns:Int64 failed:bool",
)
WORKERS: Final = Table.of(
    "loader_workers",
    "loader:int64 iterator:Int64 worker:Int64 pid:Int64 start_ns:Int64 init_ns:Int64 batches:int64 "
    "items:int64 items_ns:int64 collate_ns:int64 send_ns:int64 cpu_ns:int64 delay_ns:int64 "
    "busy_share:float64 exit:Int64 in_item:Int64",
)
TRANSFORMS: Final = Table.of(
    "loader_transforms",
    "loader:int64 part:str name:str items:int64 timed:int64 total_ns:int64 mean_ns:float64 share:float64",
)


def loader_batches(trace: Trace) -> pd.DataFrame:
    """List the batches of PyTorch's DataLoaders: who made each, and how long its parts took.

    Returns
    -------
    DataFrame
        By iterator, epoch and batch; at most the last 8,192 of each worker. Empty if none was recorded.

        - ``loader`` int64: row of `loaders`; ``iterator``, ``epoch``, ``batch`` int64: from 0;
        - ``worker`` Int64: missing if the process itself made the batch; ``pid`` Int64;
        - ``ts`` Int64: start of its first item; missing if the workers are older than the recording;
        - ``items_ns``, ``collate_ns`` Int64: time to make the items and to collate them; ``cpu_ns``: CPU time
          of both; ``delay_ns``: time that the worker waited for a core (Linux);
        - ``send_ns``, ``send_bytes`` Int64: time to pickle it, and its size in the pipe: tensors use shared
          memory;
        - ``receive_ns`` Int64: from sending or request, whichever is later, to arrival; ``receive_cpu_ns``:
          CPU time that this takes the process;
        - ``wait_ns`` Int64: duration of the ``next`` that returned it; ``next_ts``: its start; ``loop_ns``:
          time from its end to the following ``next``;
        - ``failed`` bool: making it raised an exception.
    """
    return once(trace, "loader batches", lambda: _batches(trace))


def _batches(trace: Trace) -> pd.DataFrame:
    table = recorded_table(trace, "loader_batches")
    if table is None:
        return BATCHES.empty()
    table = table.sort_values(["iterator", "epoch", "batch"], kind="stable").reset_index(drop=True)
    known = table.astype("Int64")
    known = known.mask(known == MISSING)
    requested = known[["arrive_begin", "send_end"]].max(axis="columns")
    begins, ends = (known["sent"] + known[name] for name in ("next_begin", "next_end"))
    after = begins.groupby([table["iterator"], table["epoch"]]).shift(-1)
    columns = {
        **{name: table[name] for name in ("loader", "iterator", "epoch", "batch")},
        "worker": known["worker"].mask(known["worker"] < 0),
        "pid": known["pid"].mask(known["pid"] <= 0),
        "ts": known["sent"] + known["begin"],
        "items_ns": known["collate"] - known["begin"],
        "collate_ns": known["end"] - known["collate"],
        **{name: known[name] for name in ("cpu_ns", "delay_ns", "send_bytes", "receive_cpu_ns")},
        "send_ns": known["send_end"] - known["send_begin"],
        "receive_ns": (known["arrive_end"] - requested).mask(known["send_end"].isna()).clip(lower=0),
        "wait_ns": known["next_end"] - known["next_begin"],
        "next_ts": begins,
        "loop_ns": (after - ends).clip(lower=0),
        "failed": table["status"] == 1,
    }
    return BATCHES.frame(columns)


def loader_workers(trace: Trace) -> pd.DataFrame:
    """List the worker processes of PyTorch's DataLoaders and their work.

    Returns
    -------
    DataFrame
        One row per process, by iterator and worker; no rows if none was recorded.

        - ``loader`` int64: row of `loaders`; ``iterator`` Int64; ``worker`` Int64, missing (as ``iterator``)
          for the process itself, which makes the batches of a loader without workers; ``pid`` Int64;
        - ``start_ns`` Int64: from the start of the iterator to that of the worker; ``init_ns``: time in its
          ``worker_init_fn``;
        - ``batches``, ``items`` int64: numbers made;
        - ``items_ns``, ``collate_ns``, ``send_ns``, ``cpu_ns``, ``delay_ns`` int64: sums of `loader_batches`;
        - ``busy_share`` float64: share of the time from its first batch to its last in which it made batches;
        - ``exit`` Int64: its exit status if it ended by itself, -9 if it was killed;
        - ``in_item`` Int64: index of the item in progress when the recording or the worker ended.
    """
    table = recorded_table(trace, "loader_workers")
    if table is None:
        return WORKERS.empty()
    batches = loader_batches(trace)
    spent = batches[["items_ns", "collate_ns"]].sum(axis="columns", min_count=2)
    own = batches.assign(worker=batches["worker"].fillna(-1), end=batches["ts"] + spent, busy=spent)
    own.loc[own["worker"] < 0, "iterator"] = MISSING
    keys = ["loader", "iterator", "worker"]
    groups = own.groupby(keys)
    sums = groups[["items_ns", "collate_ns", "send_ns", "cpu_ns", "delay_ns", "busy"]].sum()
    sums = sums.assign(first=groups["ts"].min(), last=groups["end"].max())
    table = table.merge(sums.reset_index(), on=keys, how="left")
    missing = table.where(table != MISSING)
    alive = (missing["last"] - missing["first"]).astype("float64")
    table = missing.assign(
        worker=missing["worker"].where(missing["worker"] >= 0),
        pid=missing["pid"].where(missing["pid"] > 0),
        start_ns=missing["opened"],
        init_ns=missing["init_end"] - missing["opened"],
        busy_share=(missing["busy"].astype("float64") / alive.where(alive > 0)).clip(upper=1.0),
        in_item=missing["item_index"].where(missing["item_index"] >= 0),
    )
    counted = [column.name for column in WORKERS.columns if column.dtype == "int64"]
    table[counted] = table[counted].fillna(0)
    table = table.sort_values(keys, kind="stable", na_position="first")
    return WORKERS.frame({name: table[name].reset_index(drop=True) for name in WORKERS.names})


def loader_transforms(trace: Trace) -> pd.DataFrame:
    """Divide the time to make batches among transforms, the rest of an item, collating and sending.

    Returns
    -------
    DataFrame
        By loader: transforms in their order, the rest of the item, collate, send; no rows if no batch was
        recorded.

        - ``loader`` int64: row of `loaders`;
        - ``part`` str: ``transform`` (of a ``Compose`` in a field of the dataset), ``item`` (the rest of it:
          reading, decoding, transforms of another kind), ``collate``, ``send`` (pickling; copies into shared
          memory are collate's);
        - ``name`` str: class or function of a transform, else empty;
        - ``items`` int64: number made; ``timed`` int64: number timed: short ones are sampled, and the total
          is scaled by ``items / timed``;
        - ``total_ns`` int64; ``mean_ns`` float64: by item; ``share`` float64: of all parts of the loader.
    """
    items = recorded_table(trace, "loader_items")
    if items is None:
        return TRANSFORMS.empty()
    batches = loader_batches(trace)
    rows: list[tuple[Any, ...]] = []
    for loader, own in items.groupby("loader", sort=True):
        made, parts = _parts(own, batches[batches["loader"] == loader])
        whole = sum(total for *_, total in parts)
        for part, name, timed, total in parts:
            mean, share = total / (made or np.nan), total / (whole or np.nan)
            rows.append((loader, part, name, made, timed, round(total), mean, share))
    return TRANSFORMS.of_tuples(rows)


def _parts(items: pd.DataFrame, batches: pd.DataFrame) -> tuple[int, list[tuple[str, str, int, float]]]:
    """Return the items made and, of each part of making batches: kind, name, items timed, and ns."""
    totals = items[items["kind"] == 0]
    made = int(totals["items"].sum())
    per_timed = items["items"] / items["items_timed"].where(items["items_timed"] > 0)
    estimate = (items["timed_ns"] * per_timed).fillna(0.0)
    transforms = items.assign(estimate=estimate)[items["kind"] > 0]
    by_kind = transforms.groupby("kind", sort=True).agg(
        name=("name", "first"), timed=("timed", "sum"), total=("estimate", "sum")
    )
    spent = {name: int(batches[name].sum()) for name in ("items_ns", "collate_ns", "send_ns")}
    parts = [("transform", str(row["name"]), int(row["timed"]), float(row["total"]))
             for row in by_kind.to_dict("records")]  # fmt: skip
    in_transforms = sum(part[3] for part in parts)
    parts += [
        ("item", "", int(totals["timed"].sum()), max(spent["items_ns"] - in_transforms, 0.0)),
        ("collate", "", made, float(spent["collate_ns"])),
    ]
    if spent["send_ns"]:
        parts.append(("send", "", made, float(spent["send_ns"])))
    return made, parts
