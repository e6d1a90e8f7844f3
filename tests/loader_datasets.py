"""Datasets for tests of DataLoaders, in a module of their own: workers that are spawned import it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset[Any]):
    """Item i is a tensor of i; what `at` says happens at one item."""

    def __init__(self, count: int = 24, at: int = -1, what: str = "", seconds: float = 0.0) -> None:
        self.count, self.at, self.what, self.seconds = count, at, what, seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        if info is not None and type(info.dataset) is type(self):
            assert info.dataset is self, "the worker's dataset is not this one"
        if self.seconds:
            time.sleep(self.seconds)
        if index == self.at:
            if self.what == "raise":
                raise KeyError("mine")
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((3,), index) + torch.rand(1)


class ManyNumbers(Numbers):
    """Gives whole batches; they have to be asked for with a list."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        assert type(indices) is list
        return [self[index] for index in indices]


class AnswersAll(Numbers):
    """Has whatever attribute it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return 7


class Slotted:
    """No Dataset, and without a dict."""

    __slots__ = ("count",)

    def __init__(self, count: int = 9) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[Any]):
    """Sharded by `shard`, through ``worker_info.dataset``."""

    def __init__(self, count: int = 22) -> None:
        self.begin, self.end = 0, count

    def __iter__(self) -> Any:
        info = get_worker_info()
        assert info is None or info.dataset is self
        for number in range(self.begin, self.end):
            yield torch.tensor(number)


def shard(worker: int) -> None:
    """Give each worker its part of a `Stream`."""
    info = get_worker_info()
    assert info is not None
    assert type(info.dataset) is Stream
    size = -(-info.dataset.end // info.num_workers)
    info.dataset.begin, info.dataset.end = worker * size, min((worker + 1) * size, info.dataset.end)


def fail(worker: int) -> None:
    """Fail as an init function."""
    raise ValueError("init of mine")


class Compose:
    """As torchvision's."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, item: Any) -> Any:
        for transform in self.transforms:
            item = transform(item)
        return item


def double(item: Any) -> Any:
    """Transform."""
    return item * 2


class Sleep:
    """Take a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, item: Any) -> Any:
        time.sleep(self.seconds)
        return item


class Transformed(Dataset[Any]):
    """With a Compose."""

    def __init__(self, count: int = 24, seconds: float = 0.0) -> None:
        self.count, self.transform = count, Compose([double, Sleep(seconds), double])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.tensor(index))


def in_two(items: list[Any]) -> list[Any]:
    """Collate into two tensors."""
    return [torch.stack(items), torch.stack(items)]


def as_lists(items: list[Any]) -> list[Any]:
    """Collate without stacking."""
    return [float(torch.as_tensor(item, dtype=torch.float32).sum()) for item in items]
