"""Turns the recorded work of DataLoaders into tables, slices, flows and counters of a trace."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ....background import checkpoint
from ....trace import taxonomy
from ....trace.arrays import IntArray
from ....trace.builder import TraceBuilder
from ....trace.clocks import Clock
from ....trace.strings import Coded, readable
from ....trace.taxonomy import LOADER_MISSING as MISSING
from . import ring as rings
from .watch import LoaderIterator, LoaderWatch

_COUNTS: Final = [rings.BATCH_COUNT, rings.ITEMS_MADE, rings.ITEMS_TIMED]


@dataclass(frozen=True, slots=True)
class RingRecords:
    """The content of one ring. Its tables are sorted by time and keep the rows that fitted into it."""

    header: list[int]
    totals: list[tuple[int, int]]  # count and ns by kind
    names: list[str]  # name of each kind; ``""`` for items
    batches: pd.DataFrame
    items: pd.DataFrame
    sends: pd.DataFrame

    def since(self, instant: int) -> RingRecords:
        """Return the records that end at `instant` or later, with the same header and totals."""
        batches, items, sends = (
            rows[rows["end"] >= instant].reset_index(drop=True)
            for rows in (self.batches, self.items, self.sends)
        )
        return replace(self, batches=batches, items=items, sends=sends)


def parse(data: Any, before: Any = None) -> RingRecords:
    """Parse the content of a ring, less the counts of an earlier one."""
    header, totals = data["header"].copy(), data["totals"]
    names = ["", *map(readable, json.loads(data["names"] or b"[]"))]
    counts = header[[rings.BATCH_COUNT, rings.ITEM_COUNT, rings.SEND_COUNT]].tolist()
    records = map(_records, (data["batches"], data["items"], data["sends"]), counts)
    if before is not None:
        header[_COUNTS] -= before["header"][_COUNTS]
        totals = totals - before["totals"]
    return RingRecords(header.tolist(), list(map(tuple, totals[: len(names)].tolist())), names, *records)


def _records(rows: Any, count: int) -> pd.DataFrame:
    rows = rows[:count] if count <= len(rows) else np.roll(rows, -(count % len(rows)))
    return pd.DataFrame({name: rows[name] for name in rows.dtype.names})


_IN_PROCESS: Final = -1
_MOMENTS: Final = (
    "begin", "collate", "end", "send_begin", "send_end", "arrive_begin", "arrive_end", "next_begin",
    "next_end",
)  # fmt: skip
_NUMBERS: Final = ("status", "cpu_ns", "delay_ns", "send_bytes", "receive_cpu_ns")
_KEY: Final = ["epoch", "batch"]


def put(watch: LoaderWatch, builder: TraceBuilder, clock: Clock) -> None:
    """Add the loaders, their batches and the tracks of their workers to `builder`."""
    builder.report.extend(watch.report)
    if watch.loaders:
        builder.metadata["loaders"] = watch.loaders
    if not watch.iterators:
        return
    parts = _Parts(builder, clock, watch.start_ns)
    iterators = []
    for state in watch.iterators:
        checkpoint()
        if not state.workers or parts.add_workers(state):
            iterators.append(state)
    in_process = {
        loader: parse(data, watch.in_process_before.get(loader)) for loader, data in watch.in_process.items()
    }
    for loader, records in in_process.items():
        checkpoint()
        parts.add_in_process(loader, records)
    parts.finish(iterators)


class _Parts:
    """The tables of several iterators, concatenated."""

    def __init__(self, builder: TraceBuilder, clock: Clock, start_ns: int) -> None:
        self._builder, self._clock, self._start_ns = builder, clock, start_ns
        self._batches: list[pd.DataFrame] = []
        self._workers: list[dict[str, Any]] = []
        self._items: list[dict[str, Any]] = []
        self._overwritten = self._untimed = 0

    def add_workers(self, state: LoaderIterator) -> bool:
        """Add an iterator with workers. Returns whether it was used in the window."""
        batches = _main_side(state)
        records = {
            number: parse(data, state.rings_before.get(number)) for number, data in state.rings.items()
        }
        made = [
            _of_worker(number, one, batches[batches["worker"] == number]) for number, one in records.items()
        ]
        if made:
            batches = batches.merge(pd.concat(made), on=[*_KEY, "worker"], how="left")
        batches = _complete(batches)
        inside = batches[["sent", *_MOMENTS]].max(axis=1) >= self._start_ns
        if not inside.any() and state.created_ns < self._start_ns:
            return False
        on_its_way = batches["next_end"] == MISSING
        batches = batches[inside | on_its_way].reset_index(drop=True)
        pids = {number: one.header[rings.PID] for number, one in records.items()}
        batches["pid"] = batches["worker"].map(pids).fillna(0).astype(np.int64)
        batches = batches.assign(loader=state.loader, iterator=state.number)
        self._batches.append(batches)
        for number, one in records.items():
            place = {"loader": state.loader, "iterator": state.number, "worker": number}
            self._note(one, state.created_ns, state.exits, **place)
        self._draw(state, batches, records)
        return True

    def add_in_process(self, loader: int, records: RingRecords) -> None:
        """Add the batches that this process made itself, but no slices, since torch records those."""
        rows = records.since(self._start_ns).batches.rename(columns={"epoch": "iterator", "seq": "batch"})
        rows = rows.assign(loader=loader, epoch=0, worker=_IN_PROCESS, pid=os.getpid(), sent=rows["begin"])
        rows = rows.assign(next_begin=rows["begin"], next_end=rows["end"])
        self._batches.append(_complete(rows))
        created = int(records.batches["begin"].iloc[0]) if len(records.batches) else rings.clock()
        self._note(records, created, {}, loader=loader, iterator=MISSING, worker=_IN_PROCESS)

    def finish(self, iterators: list[LoaderIterator]) -> None:
        """Add the tables, and report what is missing from them."""
        builder = self._builder
        if self._batches:
            table = pd.concat(self._batches, ignore_index=True)
            order = ["loader", "iterator", "epoch", "batch", "worker", "pid", "sent"]
            table = table[[*order, *_MOMENTS, *_NUMBERS]].astype(np.int64)
            for name in _MOMENTS:
                table[name] = np.where(table[name] == MISSING, MISSING, table[name] - table["sent"])
            table["sent"] = self._clock.from_monotonic(table["sent"].to_numpy())
            builder.table("loader_batches", table, times=("sent",))
        if self._workers:
            builder.table("loader_workers", pd.DataFrame(self._workers), times=())
        if self._items:
            builder.table("loader_items", pd.DataFrame(self._items), times=())
        orders = {name: [getattr(state, name) for state in iterators] for name in ("loader", "in_order")}
        builder.table("loader_iterators", pd.DataFrame(orders), times=())
        late = sum(state.late for state in iterators)
        builder.report.add(
            "loader-workers-older",
            "info",
            late,
            effect="workers of a DataLoader that started before the recording have no tracks: they cannot be "
            "instrumented",
            advice="record the cell that makes the iterator",
        )
        effect = f"the last {rings.BATCHES:,} batches of each worker are kept; totals count all"
        builder.report.add("loader-batches-overwritten", "loss", self._overwritten, effect=effect)
        effect = "one short item in several is timed, so that timing takes at most 1 % of their time"
        builder.report.add("loader-items-untimed", "info", self._untimed, effect=effect)

    def _note(self, records: RingRecords, created: int, exits: Mapping[int, int], **place: int) -> None:
        header, worker = records.header, place["worker"]
        opened, init_end = (
            header[at] - created if header[at] else MISSING for at in (rings.OPENED, rings.INIT_END)
        )
        made = {"items": header[rings.ITEMS_MADE], "items_timed": header[rings.ITEMS_TIMED]}
        self._overwritten += max(header[rings.BATCH_COUNT] - rings.BATCHES, 0)
        self._untimed += made["items"] - made["items_timed"]
        of_worker = {
            "pid": header[rings.PID] or (os.getpid() if worker == _IN_PROCESS else 0),
            "opened": opened,
            "init_end": init_end,
            "batches": header[rings.BATCH_COUNT],
            "item_index": header[rings.ITEM_INDEX],
            "exit": exits.get(worker, MISSING),
        }
        self._workers.append(place | made | of_worker)
        for kind, (name, (count, spent)) in enumerate(zip(records.names, records.totals, strict=True)):
            self._items.append(
                {**place, **made, "kind": kind, "name": name, "timed": count, "timed_ns": spent}
            )

    def _draw(self, state: LoaderIterator, batches: pd.DataFrame, records: dict[int, RingRecords]) -> None:
        """Add the workers' tracks, the main process's waits, flows between them, and the ready batches."""
        sources: list[pd.DataFrame] = []
        for number, one in records.items():
            if not one.header[rings.PID]:
                continue
            own = batches[(batches["worker"] == number) & (batches["begin"] != MISSING)]
            handles = self._track(number, one, self._dataset(state))
            sources.append(own[[*_KEY, "seq"]].merge(handles, on=["epoch", "seq"]))
        waited = batches[batches["arrive_begin"] != MISSING]
        waited = waited[waited["waited"].astype(bool)]
        if len(waited):
            tid, name = state.thread
            track = self._builder.track(name, pid=os.getpid(), tid=tid)
            begin = waited["next_begin"].to_numpy(np.int64)
            targets = self._slices(begin, waited["next_end"].to_numpy(np.int64), track, taxonomy.LOADER_WAIT)
            if sources:
                arrows = waited[_KEY].assign(target=targets).merge(pd.concat(sources), on=_KEY)
                self._builder.flows("link", arrows["handle"], arrows["target"])
        self._depth(state, batches)

    def _track(self, number: int, records: RingRecords, dataset: str) -> pd.DataFrame:
        """Add a worker's track. Returns ``epoch seq handle`` of the slices of batches."""
        pid = records.header[rings.PID]
        track = self._builder.track(f"loader {number}", pid=pid, tid=pid)
        header, records = records.header, records.since(self._start_ns)
        if header[rings.INIT_END] > self._start_ns:
            begin, end = [header[rings.OPENED]], [header[rings.INIT_END]]
            self._slices(begin, end, track, taxonomy.LOADER_START)
        rows = records.batches
        handles = self._slices(rows["begin"], rows["end"], track, taxonomy.LOADER_FETCH)
        collated = rows[rows["end"] > rows["collate"]]
        self._slices(collated["collate"], collated["end"], track, taxonomy.LOADER_COLLATE, "python")
        items = records.items
        names = Coded(items["kind"].to_numpy(np.int32), [dataset, *records.names[1:]])
        self._slices(items["begin"], items["end"], track, names, "python")
        if len(records.sends):
            queue = self._builder.track(f"loader {number} sends", pid=pid, tid=header[rings.SENDER])
            self._slices(records.sends["begin"], records.sends["end"], queue, taxonomy.LOADER_SEND, "io")
        return rows[["epoch", "seq"]].assign(handle=handles)

    def _dataset(self, state: LoaderIterator) -> str:
        rows = self._builder.metadata.get("loaders", [])
        row = rows[state.loader] if 0 <= state.loader < len(rows) else {}
        return f"{row.get('dataset', 'dataset')}.{row.get('method', '__getitem__')}".replace(
            "__iter__", "__next__"
        )

    def _slices(self, begin: Any, end: Any, track: int, name: Any, category: str = "annotation") -> IntArray:
        begin = np.maximum(np.asarray(begin, np.int64), self._start_ns)
        start = self._clock.from_monotonic(begin)
        dur = np.asarray(end, np.int64) - begin
        return self._builder.slices(
            ts=start, dur=dur, track=track, name=name, category=category, phase="data"
        )

    def _depth(self, state: LoaderIterator, batches: pd.DataFrame) -> None:
        """Add the number of ready batches: sent by a worker and not yet returned by ``next``."""
        ready = batches[batches["send_end"] != MISSING]
        returned = ready[ready["next_end"] != MISSING]
        if ready.empty:
            return
        times = pd.concat([ready["send_end"], returned["next_end"]]).clip(lower=self._start_ns).to_numpy()
        change = pd.Series(np.repeat([1, -1], [len(ready), len(returned)]), times).groupby(level=0).sum()
        name = "DataLoader: ready batches" + (f" {state.loader}" if state.loader else "")
        track = self._builder.track(name, "counter", unit="1")
        at = self._clock.from_monotonic(change.index.to_numpy(np.int64))
        self._builder.counter(track, at, change.cumsum().clip(lower=0).to_numpy())


def _main_side(state: LoaderIterator) -> pd.DataFrame:
    """Return one row per task, with its times in the main process."""
    sent = _events(state.sent, ("epoch", "batch", "worker", "sent"))
    arrived = _events(state.arrived, ("epoch", "batch", "arrive_begin", "arrive_end", "receive_cpu_ns"))
    returned = _events(state.taken, ("epoch", "due", "next_begin", "next_end"))
    returned["batch"] = _batch_taken(returned, arrived, state.in_order)
    if not len(sent):  # for workers that started before the recording, earlier tasks are unknown
        sent = arrived[_KEY].assign(worker=MISSING, sent=arrived["arrive_begin"])
    batches = sent.merge(arrived.drop_duplicates(_KEY), on=_KEY, how="left")
    batches = batches.merge(returned.drop_duplicates(_KEY), on=_KEY, how="left")
    batches = batches.fillna(MISSING).astype(np.int64)
    inside = np.searchsorted(np.sort(arrived["arrive_begin"].to_numpy()), batches["next_begin"].to_numpy())
    until = np.searchsorted(np.sort(arrived["arrive_begin"].to_numpy()), batches["next_end"].to_numpy())
    batches["waited"] = (until > inside).astype(np.int64)
    batches = batches.sort_values([*_KEY], kind="stable").reset_index(drop=True)
    batches["seq"] = batches.groupby(["epoch", "worker"]).cumcount().astype(np.int64)
    return batches


def _batch_taken(returned: pd.DataFrame, arrived: pd.DataFrame, in_order: bool) -> npt.NDArray[np.int64]:
    """Return each ``next``'s batch: in order, the one that was due; otherwise the one that arrived."""
    if not in_order and len(arrived):
        ends = arrived["arrive_end"].to_numpy()
        last = np.searchsorted(ends, returned["next_end"].to_numpy(), side="right") - 1
        return np.asarray(arrived["batch"].to_numpy()[np.maximum(last, 0)], np.int64)
    # with ordered batches, it is the first one due or later that arrived: a worker whose IterableDataset has
    # ended leaves its tasks unanswered
    batch = np.asarray(returned["due"].to_numpy(), np.int64).copy()
    for epoch in returned["epoch"].unique():
        own = (returned["epoch"] == epoch).to_numpy()
        numbers = np.sort(arrived.loc[arrived["epoch"] == epoch, "batch"].to_numpy())
        if len(numbers):
            at = np.minimum(np.searchsorted(numbers, batch[own]), len(numbers) - 1)
            batch[own] = numbers[at]
    return batch


def _events(rows: list[tuple[int, ...]], names: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(np.array(rows, np.int64).reshape(-1, len(names)), columns=list(names))


def _of_worker(number: int, records: RingRecords, tasks: pd.DataFrame) -> pd.DataFrame:
    """Return a worker's records by task. The n-th fetch of an epoch is the worker's n-th task."""
    rows = records.batches[records.batches["status"] != rings.ENDED]
    rows = rows.merge(tasks[[*_KEY, "seq"]], on=["epoch", "seq"], how="inner")
    sends = records.sends.rename(columns={"begin": "send_begin", "end": "send_end"})
    rows = rows.merge(sends.drop_duplicates(_KEY), on=_KEY, how="left").drop(columns="seq")
    return rows.assign(worker=number)


def _complete(batches: pd.DataFrame) -> pd.DataFrame:
    missing = [name for name in (*_MOMENTS, *_NUMBERS, "waited", "seq") if name not in batches]
    return batches.assign(**dict.fromkeys(missing, MISSING)).fillna(MISSING).astype(np.int64)
