"""Every Python block of the README, the first page and the guide runs in a kernel, page by page."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.conftest import Kernel, new_kernel

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDE = "docs/guide.md"
LATER = ("docs/views.md", "docs/tables.md", "docs/files.md")
READER = """
import torch
torch.set_num_threads(1)
layers = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1568, 10)
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_function = torch.nn.CrossEntropyLoss()
data = torch.utils.data.TensorDataset(torch.randn(320, 3, 16, 16), torch.randint(0, 10, (320,)))
loader = torch.utils.data.DataLoader(data, batch_size=16)
def train(batch):
    optimizer.zero_grad()
    loss_function(model(batch[0]), batch[1]).backward()
    optimizer.step()
"""
"""What a reader has: a model, a loader and a function that trains."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel in a folder that has the recordings that the pages open."""
    pytest.importorskip("torch")
    recordings = ROOT / "tests" / "data" / "torch213_cpu"
    folder = tmp_path_factory.mktemp("reader")
    (folder / "run").mkdir()
    shutil.copy(recordings / "cnn_sgd.pt.trace.json.gz", folder / "worker0.pt.trace.json.gz")
    for path in recordings.glob("ddp_gloo_rank*.json.gz"):
        shutil.copy(path, folder / "run")
    yield from new_kernel(tmp_path_factory.mktemp("ipython"), cwd=str(folder))


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", GUIDE, *LATER])
def test_the_blocks_of_a_page_run_in_order(reader: Kernel, page: str) -> None:
    """The guide's later pages go on with its first recording."""
    shown = blocks(page)
    assert shown
    begun = blocks(GUIDE)[:2] if page in LATER else []
    reader.must("%reset -f")
    for block in (READER, *begun, *shown):
        reply = reader.run(block)  # torch may warn of memory that it did not see allocated
        assert reply.ok, (block, reply.traceback)
