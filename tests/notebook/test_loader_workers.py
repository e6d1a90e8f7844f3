"""Workers of a DataLoader whose dataset is a class of the notebook, in a real kernel."""

import re

import pytest

from tests.notebook.conftest import Kernel

SETUP = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 256
    def __getitem__(self, index):
        time.sleep(0.003)
        return torch.full((4,), float(index))
tiny = torch.nn.Linear(4, 1); tiny_optimizer = torch.optim.SGD(tiny.parameters(), 1e-3)
"""
LOOP = """
total = 0.0
for batch in DataLoader(Slow(), batch_size=4, num_workers={workers}, multiprocessing_context={context!r}):
    total += float(batch.sum())
    tiny_optimizer.zero_grad(); tiny(batch).sum().backward(); tiny_optimizer.step()
total
"""


def test_workers_of_a_cell(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    reply = torch_kernel.must("%%profile p --quiet" + LOOP.format(workers=2, context="fork"))
    assert reply.results == ["130560.0"]
    assert reply.stdout == ""
    assert torch_kernel.value("p.input.workers()['items'].tolist()") == [128, 128]
    assert torch_kernel.value("p.input.batches()['batch'].tolist()") == list(range(64))
    assert torch_kernel.value("p.input.bounds()['dataset'].tolist()") == ["Slow"]
    tracks = torch_kernel.value("p.trace.tracks['name'].tolist()")
    assert {"loader 0", "loader 1", "DataLoader: ready batches"} <= set(tracks)


@pytest.mark.clock("one batch that other jobs hold up makes others wait, and the bound is order")
@pytest.mark.parametrize(("magic", "workers"), [("", 2), ("", 0), ("--steps 20:40", 2), ("--steps 20:40", 0)])
def test_sleeps_of_a_dataset_are_its_storage(torch_kernel: Kernel, magic: str, workers: int) -> None:
    torch_kernel.must(SETUP)
    torch_kernel.must(
        f"%%profile p --quiet {magic}" + LOOP.format(workers=workers, context="fork" if workers else None)
    )
    assert torch_kernel.value("p.input.bounds()[['dataset', 'bound']].values.tolist()") == [
        ["Slow", "storage"]
    ]
    if not magic and workers:
        assert "the batches of `Slow` are bound by storage" in torch_kernel.value("str(p.verdict)")
    if not magic and not workers:
        assert "time.sleep(0.003)" in torch_kernel.value("str(p.verdict) + ' '.join(p.advice()['finding'])")


def test_a_window_shows_the_workers_of_an_iterator_that_is_older(torch_kernel: Kernel) -> None:
    """The loop begins, and makes its iterator, before the first step that is recorded."""
    torch_kernel.must(SETUP)
    reply = torch_kernel.must("%%profile p --quiet --steps 20:40" + LOOP.format(workers=2, context="fork"))
    assert reply.results == ["130560.0"]
    batches = torch_kernel.value("p.input.batches()['batch'].tolist()")
    assert batches == list(range(batches[0], batches[-1] + 1))
    assert set(range(20, 40)) <= set(batches) <= set(range(15, 50))
    items = torch_kernel.value("p.input.workers()['items'].tolist()")
    assert 60 <= sum(items) <= 120, "of the window, not of the cell"
    first = "p.input.batches()['ts'].min() - p.trace.slices.query('phase == \"data\"')['ts'].min()"
    assert torch_kernel.value(f"int({first})") <= 0, "what was before the window is left out"
    tracks = torch_kernel.value("p.trace.tracks['name'].tolist()")
    assert {"loader 0", "loader 1", "DataLoader: ready batches"} <= set(tracks)
    assert torch_kernel.value("p.trace.metadata['loaders'][0]['dataset']") == "Slow"
    never = torch_kernel.must("%%profile p --quiet --steps 900:910" + LOOP.format(workers=2, context="fork"))
    assert never.results == ["130560.0"], "its window never comes"
    patched = "torch.utils.data.DataLoader._get_iterator.__module__"
    assert torch_kernel.value(patched) == "torch.utils.data.dataloader"


def test_without_workers_the_cell_makes_all_items(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    torch_kernel.must("%%profile p --quiet --steps 20:40" + LOOP.format(workers=0, context=None))
    assert torch_kernel.value("p.input.workers()['items'].tolist()")[0] in range(76, 85)
    torch_kernel.must(SETUP)
    torch_kernel.must("%%profile p --quiet" + LOOP.format(workers=0, context=None))
    assert torch_kernel.value("p.input.workers()['items'].tolist()") == [256]


def test_a_cell_that_fails_in_a_worker(torch_kernel: Kernel) -> None:
    torch_kernel.must(SETUP)
    torch_kernel.must("class Bad(Slow):\n    def __getitem__(self, index): raise KeyError('mine')")
    cell = "for batch in DataLoader(Bad(), batch_size=4, num_workers=1, multiprocessing_context='fork'): pass"
    plain, timed = torch_kernel.run(cell), torch_kernel.run(f"%%profile p --quiet\n{cell}")
    assert plain.error == timed.error == "KeyError"
    ours = re.compile("ipykernel_.*?\\.py|, line \\d+")
    assert ours.sub("", plain.message) == ours.sub("", timed.message)
    assert torch_kernel.value("p.input.batches()['failed'].tolist()")[0] is True
