"""The hook in DataLoaders: batches, errors and objects are as without it, and nothing is left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import re
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import (  # noqa: E402
    BatchSampler,
    ConcatDataset,
    DataLoader,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
    dataloader,
)
from torch.utils.data._utils import fetch  # noqa: E402

import notebook_prof  # noqa: E402
from notebook_prof.collectors.torch.hooks import dataloader_ticks  # noqa: E402
from notebook_prof.collectors.torch.loader import fetching as inside  # noqa: E402
from notebook_prof.collectors.torch.loader import ring as rings  # noqa: E402
from notebook_prof.collectors.torch.loader import watch as watching  # noqa: E402
from notebook_prof.collectors.torch.loader.tables import RingRecords, parse  # noqa: E402
from notebook_prof.collectors.torch.loader.watch import LoaderWatch  # noqa: E402
from tests import loader_datasets as datasets  # noqa: E402

PATCHED = (
    (dataloader.DataLoader, "_get_iterator"),
    *((dataloader._MultiProcessingDataLoaderIter, name) for name in ("_reset", "_try_put_index")),
    *((dataloader._MultiProcessingDataLoaderIter, name) for name in ("_try_get_data", "_next_data")),
    (fetch._MapDatasetFetcher, "fetch"),
    (fetch._IterableDatasetFetcher, "fetch"),
)
forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")


def originals() -> list[Any]:
    return [vars(owner)[name] for owner, name in PATCHED]


def batches(make: Callable[[], Any], epochs: int = 1, stop: int = -1) -> list[Any]:
    torch.manual_seed(3)
    loader, rows = make(), []
    for _ in range(epochs):
        for number, batch in enumerate(loader):
            rows.append(batch)
            if number == stop:
                break
    return rows


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


@contextmanager
def watched_loaders() -> Iterator[LoaderWatch]:
    watch = LoaderWatch()
    watch.watch()
    try:
        yield watch
    finally:
        watch.unwatch()


def watched(make: Callable[[], Any], epochs: int = 1, stop: int = -1) -> tuple[list[Any], LoaderWatch]:
    """Batches, and what watched them; functions and files are as they were afterwards."""
    before = originals()
    with watched_loaders() as watch:
        assert originals() != before
        rows = batches(make, epochs, stop)
        folder = watch._folder
    assert originals() == before
    assert not inside.inherited
    assert not folder or not os.path.exists(folder)
    return rows, watch


def records(watch: LoaderWatch) -> list[RingRecords]:
    return [parse(data) for state in watch.iterators for data in state.rings.values()]


MADE: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "items": (datasets.Numbers, {"batch_size": 5, "shuffle": True}),
    "many": (datasets.ManyNumbers, {"batch_size": 5, "shuffle": True}),
    "answers all": (datasets.AnswersAll, {"batch_size": 5}),
    "slots": (datasets.Slotted, {"batch_size": 4}),
    "subset": (
        lambda: Subset(ConcatDataset([datasets.Numbers(9), datasets.Numbers(8)]), [16, 0, 4, 9, 3]),
        {"batch_size": 2},
    ),
    "subset of many": (lambda: Subset(datasets.ManyNumbers(), [1, 5, 7]), {"batch_size": 2}),
    "stream": (datasets.Stream, {"batch_size": 4, "worker_init_fn": datasets.shard}),
    "stream, last batch dropped": (datasets.Stream, {"batch_size": 4, "drop_last": True}),
    "batch sampler": (
        datasets.Numbers,
        {"batch_sampler": BatchSampler(SequentialSampler(range(24)), 5, drop_last=True)},
    ),
    "weighted": (datasets.Numbers, {"batch_size": 5, "sampler": WeightedRandomSampler([1.0] * 24, 17)}),
    "no batches": (lambda: datasets.Numbers(7), {"batch_size": None}),
    "own collate": (datasets.Numbers, {"batch_size": 5, "collate_fn": datasets.as_lists}),
    "pinned": (datasets.Numbers, {"batch_size": 5, "pin_memory": True}),
    "compose": (datasets.Transformed, {"batch_size": 5}),
}


@forks
@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", MADE)
def test_batches_are_the_same(kind: str, workers: int) -> None:
    data, options = MADE[kind]
    make = lambda: DataLoader(data(), num_workers=workers, **options)  # noqa: E731
    plain = batches(make)
    timed, watch = watched(make)
    assert same(plain, timed)
    assert len(plain) > 1
    (state,) = watch.iterators
    made = records(watch) if workers else [parse(watch.in_process[0])]
    done = sum(int((one.batches["status"] == rings.DONE).sum()) for one in made)
    assert done == len(plain)
    assert sum(one.header[rings.ITEMS_MADE] for one in made) >= len(plain)
    if workers:
        assert len(state.taken) == len(plain)
        assert sum(len(one.sends) for one in made) >= len(plain)
        assert {one.header[rings.WORKER] for one in made} == set(range(workers))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")

    def make(how: str | None = method) -> Any:
        return DataLoader(
            datasets.Stream(), 4, num_workers=1, worker_init_fn=datasets.shard, multiprocessing_context=how
        )

    plain = batches(lambda: make(None))  # as this system starts them, which is quicker
    timed, watch = watched(make)
    assert same(plain, timed)
    assert sum(len(one.batches) for one in records(watch)) >= len(plain)


@forks
def test_persistent_workers_take_themselves_apart() -> None:
    loader = DataLoader(datasets.Numbers(), 4, num_workers=2, persistent_workers=True)
    plain = batches(lambda: DataLoader(datasets.Numbers(), 4, num_workers=2), 3)
    timed, watch = watched(lambda: loader, 3)
    assert [batch[:, 0].long().tolist() for batch in plain] == [b[:, 0].long().tolist() for b in timed]
    (state,) = watch.iterators
    assert state.epoch == 2
    assert sorted(records(watch)[0].batches["epoch"].unique()) == [0, 1, 2]
    made = [records(watch)[worker].header[rings.ITEMS_MADE] for worker in (0, 1)]
    assert sum(made) == sum(len(batch) for batch in timed), "of all epochs, not of the last"
    pids = [process.pid for process in loader._iterator._workers]  # type: ignore[union-attr]
    list(loader)  # the next fetch of each worker sees that the recording is over
    for pid in pids:
        assert "notebook-prof-loader" not in Path(f"/proc/{pid}/maps").read_text()
    with_late, late = watched(lambda: loader)
    assert len(with_late) == 6
    assert [one.late for one in late.iterators] == [True]
    assert len(late.iterators[0].arrived) == 6


@forks
def test_a_loop_that_is_left_leaves_nothing() -> None:
    _, watch = watched(lambda: DataLoader(datasets.Numbers(), 4, num_workers=2), stop=1)
    assert len(watch.iterators[0].taken) == 2


@forks
@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_and_datasets_die_with_their_last_reference(workers: int) -> None:
    with watched_loaders():
        gc.collect()
        gc.disable()
        try:
            dataset = datasets.Numbers()
            loader = DataLoader(dataset, 4, num_workers=workers)
            iterator = iter(loader)
            next(iterator)
            dead = [weakref.ref(dataset), weakref.ref(iterator)]
            del dataset, loader, iterator
            assert [one() for one in dead] == [None, None]
        finally:
            gc.enable()


@forks
@pytest.mark.parametrize("workers", [0, 1])
def test_errors_are_as_without(workers: int) -> None:
    def failure() -> str:
        try:
            list(DataLoader(datasets.Numbers(at=13, what="raise"), 4, num_workers=workers))
        except KeyError:
            return re.sub(r"line \d+, in failure", "", traceback.format_exc())
        raise AssertionError("it did not fail")

    plain = failure()
    with watched_loaders() as watch:
        timed = failure()
    assert "mine" in timed
    if sys.version_info >= (3, 11):  # 3.10 keeps a frame of ours, which IPython hides
        assert timed == plain
    (one,) = records(watch) if workers else [parse(watch.in_process[0])]
    assert one.batches["status"].tolist()[:4] == [rings.DONE] * 3 + [rings.FAILED]


@forks
def test_an_init_function_that_fails() -> None:
    with pytest.raises(ValueError, match="init of mine") as failed:
        watched(lambda: DataLoader(datasets.Numbers(), 4, num_workers=1, worker_init_fn=datasets.fail))
    assert os.path.dirname(notebook_prof.__file__) not in str(failed.value)


def test_what_cannot_be_pickled_fails_as_it_did() -> None:
    if "spawn" not in multiprocessing.get_all_start_methods():
        pytest.skip("no spawn here")

    class Local(datasets.Numbers):
        pass

    make = lambda: DataLoader(Local(), 4, num_workers=1, multiprocessing_context="spawn")  # noqa: E731
    said = []
    for how in (batches, watched):
        with (
            pytest.raises((AttributeError, TypeError, ValueError, pickle.PicklingError)) as failed,
            pytest.warns(UserWarning, match="pickle") as warned,
        ):
            how(make)
        said.append((str(failed.value), [(w.filename, w.lineno, str(w.message)) for w in warned]))
        assert not inside.inherited
    assert said[0] == said[1]


@forks
def test_a_killed_worker_leaves_its_events() -> None:
    # if the parent is slow, the worker's shared memory is already gone: OSError or EOFError
    with watched_loaders() as watch, pytest.raises((RuntimeError, OSError, EOFError)):
        list(DataLoader(datasets.Numbers(at=13, what="kill", seconds=0.002), 4, num_workers=1))
    (one,) = records(watch)
    assert len(one.batches) == 3
    assert one.items["index"].tolist() == list(range(13))
    assert one.header[rings.ITEM_INDEX] == 13
    assert watch.iterators[0].exits.get(0, -9) == -9


def test_transforms_are_timed_and_stay_the_users() -> None:
    dataset = datasets.Transformed(seconds=0.0005)
    transforms = dataset.transform.transforms
    with watched_loaders() as watch:
        iterator = iter(DataLoader(dataset, 4))
        next(iterator)
        assert isinstance(dataset.transform.transforms, list)
        assert dataset.transform.transforms == transforms
        dataset.transform.transforms.append(datasets.double)
        assert len(transforms) == 4
        assert next(iterator)[0] == 4 * 8
        del iterator
    assert dataset.transform.transforms is transforms
    one = parse(watch.in_process[0])
    assert one.names[1:] == ["double", "Sleep", "double", "double", "Sleep", "double", "double"]
    assert [count for count, _ in one.totals] == [8, 4, 4, 4, 4, 4, 4, 4]
    assert one.totals[2][1] >= 4 * 500_000


@forks
def test_no_room_for_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watching.Ring, "create", full)
    rows, watch = watched(lambda: DataLoader(datasets.Numbers(), 5, num_workers=1))
    assert len(rows) == 5
    assert "loader-workers-unwatched" in watch.report
    assert len(watch.iterators[0].arrived) == 5


def test_a_ring_that_is_full_keeps_the_last_records_and_all_totals() -> None:
    ring = rings.Ring()
    for number in range(rings.ITEMS + 3):
        ring.item(rings.ITEM, number, number, number + 2)
    ring.batch(rings.DONE, 0, 0, 0, 1, 2, 0, 0)
    one = parse(ring.read())
    assert one.items["index"].tolist() == list(range(3, rings.ITEMS + 3))
    assert one.totals[0] == (rings.ITEMS + 3, 2 * (rings.ITEMS + 3))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_ticks_when_a_batch_was_used(workers: int) -> None:
    original = dataloader._BaseDataLoaderIter.__next__
    loader = DataLoader(list(range(6)), batch_size=2, num_workers=workers)
    ticks: list[int] = []
    remove = dataloader_ticks(lambda: ticks.append(1))
    batches = []
    for _ in range(2):
        for batch in loader:
            batches.append((batch.tolist(), len(ticks)))
    remove()
    remove()
    assert [count for _, count in batches] == [0, 1, 2, 3, 4, 5]
    assert len(ticks) == 6
    assert dataloader._BaseDataLoaderIter.__next__ is original
