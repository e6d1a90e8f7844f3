"""Ticks of optimizers and data loaders."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from notebook_prof.collectors.torch.hooks import dataloader_ticks, optimizer_ticks  # noqa: E402


def make_optimizer() -> torch.optim.Optimizer:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    return torch.optim.SGD([weight], lr=0.1)


def test_every_step_of_every_optimizer_is_reported() -> None:
    optimizers: list[object] = []
    remove = optimizer_ticks(optimizers.append)
    first, second = make_optimizer(), make_optimizer()
    for _ in range(2):
        first.step()
        second.step()
    remove()
    remove()
    first.step()
    assert optimizers == [first, second] * 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_ticks_when_a_batch_was_used(workers: int) -> None:
    original = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    loader = torch.utils.data.DataLoader(list(range(6)), batch_size=2, num_workers=workers)
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
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__next__ is original
