"""Times the fetches of a DataLoader, in its workers or, without workers, in this process.

Dataset, ``collate_fn`` and samplers remain the user's objects: torch's
fetcher iterates over the indices of a batch, and the time between two indices is that of an item.
"""

from __future__ import annotations

import multiprocessing.queues
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from ...patches import Patches, drop_frame
from ..tracing import compilations
from . import ring as rings
from .ring import DONE, ENDED, FAILED, ITEM, Ring, clock
from .transforms import active, time_transforms, untime

_STATE: Final = "_notebook_prof_fetches"
_TRIED: Final = 64
_RECORD_NS: Final = 2_500
_COST: Final = 0.01
"""Largest share of an item's time that timing may take. Above it, only every n-th item is timed."""
_SHORT_NS: Final = 5_000
"""Items with a shorter mean duration are not timed individually."""
_BATCHED: Final = {"__getitems__", "__getattr__", "__getattribute__"}
"""A class with one of these methods may return whole batches: an object with dynamic attributes may have
``__getitems__``."""
_WIDTH: Final = 64
_cpu: Final = time.thread_time_ns


class TimedItems:
    """The indices of a batch, passed to torch's fetcher."""

    __slots__ = ("_fetches", "_indices")

    def __init__(self, indices: Any, fetches: Fetches) -> None:
        self._indices, self._fetches = indices, fetches

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[Any]:
        fetches = self._fetches
        return fetches.each(self._indices) if fetches.stride else fetches.untimed(self._indices)


class Fetches:
    """Times the batches of one torch fetcher, which exists for one epoch."""

    def __init__(self, fetcher: Any, ring: Ring, epoch: int) -> None:
        self.ring, self.epoch, self.thread = ring, epoch, threading.get_ident()
        self.stride, self.count, self.items, self._timed_items = 1, 0, 0, 0
        self._before = ring.made()  # a persistent worker has a fetcher for each epoch, and one ring
        self.one_by_one = one_by_one(fetcher)
        self._single = not fetcher.auto_collation
        self._begin_ns = self._collate_at = 0
        self._collate: Any = None
        if not self.one_by_one:
            self._wrap_collate(fetcher)

    def restore(self, fetcher: Any) -> None:
        if self._collate is not None:
            fetcher.collate_fn = self._collate
        fetcher.__dict__.pop(_STATE, None)

    def begin(self, index: Any) -> Any:
        """Begin a batch. Returns the index to pass to torch's fetch."""
        self._begin_ns = clock()
        self._collate_at, self.thread = 0, threading.get_ident()
        if self.one_by_one:
            return TimedItems(index, self)
        if self.stride and self.count % self.stride == 0:
            active[0] = self
        return index

    def end(self, status: int, begin_ns: int, cpu_ns: int, delay_ns: int) -> None:
        """End a batch. All arguments except `status` are readings from its begin."""
        end_ns, cpu_end = clock(), _cpu()
        active[0] = None
        made, timed = self._before
        self.ring.put(rings.ITEM_INDEX, -1)
        self.ring.put(rings.ITEMS_MADE, made + self.items)
        self.ring.put(rings.ITEMS_TIMED, timed + self._timed_items)
        times = begin_ns, self._collate_at or end_ns, end_ns, cpu_end - cpu_ns, delay_ns
        self.ring.batch(status, self.epoch, self.count, *times)
        self.count += 1

    def each(self, indices: Any) -> Iterator[Any]:
        """Yield the indices, and time the work on every n-th of them."""
        ring, stride, making = self.ring, self.stride, active
        put, item, at = ring.put, ring.item, rings.ITEM_INDEX  # which remains if the worker is killed
        number = self.items
        for index in indices:
            number += 1
            if stride > 1 and number % stride:
                yield index
                continue
            position = index if type(index) is int else -1
            begin = clock()
            put(at, position)
            making[0] = self
            yield index
            end = clock()
            making[0] = None
            item(ITEM, position, begin, end)
            self._timed_items += 1
            if stride > 1:
                put(at, -1)
            elif self._timed_items == _TRIED:
                self._choose_stride()
        self.items = number
        self._collate_at = clock()

    def untimed(self, indices: Any) -> Iterator[Any]:
        """Yield the indices, and note when the work on the last one ends."""
        yield from indices
        self.items += len(indices)
        self._collate_at = clock()

    def _choose_stride(self) -> None:
        """Choose which items to time, so that timing takes at most 1 % of their time."""
        count, spent = self.ring.totals[ITEM]
        records = self.ring.item_count / max(count, 1)
        mean = spent / max(count, 1)
        self.stride = 1
        while self.stride * mean * _COST < records * _RECORD_NS and self.stride < 1024:
            self.stride = 2 * self.stride + 1  # odd, so all positions in a batch of even size get timed
        if mean < _SHORT_NS:
            self.stride = 0

    def _wrap_collate(self, fetcher: Any) -> None:
        """Time ``collate_fn`` if items do not come one by one."""
        collate = self._collate = fetcher.collate_fn

        def collate_fn(batch: Any) -> Any:
            self._items_are_made(batch)
            try:
                return collate(batch)
            except BaseException as error:
                drop_frame(error)
                raise

        fetcher.collate_fn = collate_fn

    def _items_are_made(self, batch: Any) -> None:
        timed, active[0] = active[0] is self, None
        self._collate_at = clock()
        made = 1 if self._single else len(batch) if isinstance(batch, list | tuple) else 0
        self.items += made
        if not timed:
            return
        if self._single:
            self.ring.item(ITEM, -1, self._begin_ns, self._collate_at)
        self._timed_items += made
        if self.stride == 1 and self._timed_items >= _TRIED and self.ring.totals[ITEM][0]:
            self._choose_stride()


def innermost(dataset: Any) -> Any:
    """Return the dataset under a Subset (or a Subset of a Subset)."""
    subset = getattr(sys.modules.get("torch.utils.data.dataset"), "Subset", None)
    for _ in range(_WIDTH):
        if type(dataset) is not subset:
            break
        dataset = vars(dataset).get("dataset")
    return dataset


def one_by_one(fetcher: Any) -> bool:
    """Return whether torch's fetch iterates over the indices of a batch, without calling the dataset."""
    if not fetcher.auto_collation:
        return False
    if hasattr(fetcher, "dataset_iter"):
        return True
    dataset = innermost(fetcher.dataset)
    fields = vars(dataset) if type(getattr(dataset, "__dict__", None)) is dict else {}
    own = [base for base in type(dataset).__mro__[:-1] if base.__name__ not in ("Dataset", "Generic")]
    return "__getitems__" not in fields and not any(_BATCHED & vars(base).keys() for base in own)


def restore_fetcher(fetcher: Any) -> None:
    """Restore a fetcher that was timed."""
    fetches = fetcher.__dict__.get(_STATE)
    if isinstance(fetches, Fetches):
        fetches.restore(fetcher)


class FetchHook:
    """Times ``fetch`` of torch's fetchers, which makes a batch."""

    def __init__(
        self, ring_of: Callable[[Any], tuple[Ring, int] | None], over: Callable[[], None] = lambda: None
    ) -> None:
        self._ring_of, self._over = ring_of, over
        self.patches = Patches()
        self._timed_children: list[Callable[[], Any]] = []
        self._schedstat: dict[int, int] = {}

    def install(self) -> None:
        from torch.utils.data._utils import fetch

        for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            self.patches.replace(kind, "fetch", self._timed)

    def restore(self) -> None:
        """End. A second call does nothing."""
        self.patches.restore()
        self._untime()
        while self._schedstat:
            with suppress(OSError):
                os.close(self._schedstat.popitem()[1])

    def _untime(self) -> None:
        compilations.drop(self)
        while self._timed_children:
            untime(self._timed_children.pop()())

    def _timed(self, original: Any) -> Any:
        def fetch(self_: Any, possibly_batched_index: Any) -> Any:
            fetches = self._fetches(self_)
            if fetches is None:
                try:
                    return original(self_, possibly_batched_index)
                except BaseException as error:
                    drop_frame(error)
                    raise
            status, waited, begin, cpu = FAILED, self._delay_ns(), clock(), _cpu()
            try:
                batch = original(self_, fetches.begin(possibly_batched_index))
                status = DONE
                return batch
            except BaseException as error:
                status = ENDED if isinstance(error, StopIteration) else FAILED
                drop_frame(error)
                raise
            finally:
                fetches.end(status, begin, cpu, max(self._delay_ns() - waited, 0))

        return fetch

    def _fetches(self, fetcher: Any) -> Fetches | None:
        """Return the `Fetches` of this fetcher; None if it should not or no longer be timed."""
        try:
            fetches = fetcher.__dict__.get(_STATE)
            if fetches is None:
                ring_of_fetcher = self._ring_of(fetcher)
                if ring_of_fetcher is None:
                    return None
                ring, epoch = ring_of_fetcher
                if ring.recording:
                    self._timed_children += time_transforms(fetcher.dataset)
                    if self._timed_children:  # TorchDynamo would compile them as user code
                        compilations.add(self, self._untime, lambda: None)
                    fetches = fetcher.__dict__[_STATE] = Fetches(fetcher, ring, epoch)
                    return fetches
            elif fetches.ring.recording:
                return fetches  # type: ignore[no-any-return]
            else:
                fetches.restore(fetcher)
            self.restore()
            self._over()
        except Exception:  # the user's loop must go on
            with suppress(Exception):
                self.restore()
        return None

    def _delay_ns(self) -> int:
        """Return how long this thread was ready but had no core, from Linux's schedstat; 0 elsewhere."""
        me = threading.get_ident()
        if me not in self._schedstat:
            try:
                self._schedstat[me] = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
            except OSError:
                self._schedstat[me] = -1
        try:
            return int(os.pread(self._schedstat[me], 64, 0).split()[1])
        except (OSError, IndexError, ValueError, AttributeError):
            return 0


inherited: list[Patches] = []
"""Patches made by the main process. A forked worker restores the originals."""


class WorkerInit:
    """A ``worker_init_fn`` that opens the worker's ring and then calls the user's function `inner`."""

    # pickled by its import path, so it works with every start method
    def __init__(self, pattern: str, inner: Any) -> None:
        self.pattern, self.inner = pattern, inner

    def __call__(self, worker: int) -> None:
        ring = None
        with suppress(Exception):  # a failure of ours must not affect the user's code
            ring = _arm(self.pattern.format(worker), worker)
        if self.inner is not None:
            try:
                self.inner(worker)
            except BaseException as error:
                drop_frame(error)
                raise
        if ring is not None:
            ring.put(rings.INIT_END, clock())


def _arm(path: str, worker: int) -> Ring:
    opened = clock()
    for patches in inherited:
        patches.restore()
    ring = Ring(path)
    for field, value in ((rings.PID, os.getpid()), (rings.WORKER, worker), (rings.OPENED, opened)):
        ring.put(field, value)
    epochs = iter(range(sys.maxsize))
    pickling = _time_pickling(ring)

    def over() -> None:
        pickling()
        ring.close()

    FetchHook(lambda fetcher: (ring, next(epochs)), over).install()
    return ring


def _time_pickling(ring: Ring) -> Callable[[], None]:
    """Time how long the sending thread pickles batches. Call the returned function to stop."""
    epoch = sender = 0

    def make(original: Any) -> Any:
        class _ForkingPickler(original):  # type: ignore[misc]
            @classmethod
            def dumps(cls, obj: Any, protocol: Any = None) -> Any:
                nonlocal epoch, sender
                begin = clock()
                try:
                    data = original.dumps(obj, protocol)
                except BaseException as error:
                    drop_frame(error)
                    raise
                if type(obj) is tuple and len(obj) == 2 and ring.recording:
                    if type(obj[0]) is int:
                        if not sender:
                            sender = threading.get_native_id()
                            ring.put(rings.SENDER, sender)
                        ring.send(epoch, obj[0], begin, clock(), len(data))
                    elif type(obj[0]).__name__ == "_ResumeIteration":
                        epoch += 1
                return data

        return _ForkingPickler

    patches = Patches()
    patches.replace(multiprocessing.queues, "_ForkingPickler", make)
    return patches.restore
