"""What if a line of the cell took less: the answer is what the cell takes without it."""

import pytest

from tests.notebook.conftest import Kernel

LOADER = """
import time
import torch

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(ITEM)
        return torch.full((16,), float(index))
"""
LOOP = """%%profile {name} --quiet --steps 2:10
for x in torch.utils.data.DataLoader(Slow(), batch_size=4):
    {line}
    time.sleep(0.04)
"""
PLANTED = {"p.what_if(data=0)": (16, 0, "time.sleep(0.03)"), "p.what_if(line={3: 0})": (30, 0.004, "pass")}
"""Questions; ms a step that they take out; seconds of an item, and the line, of the cell that has none."""


@pytest.mark.clock("a sleep lasts longer on a machine with other jobs")
def test_a_sleep_in_a_loader_and_a_slow_line(torch_kernel: Kernel) -> None:
    """A step sleeps 16 ms in the loader, 30 in one line and 40 in another; a sleep is never shorter."""
    torch_kernel.must(LOADER)
    torch_kernel.must("ITEM = 0.004")
    torch_kernel.must(LOOP.format(name="p", line="time.sleep(0.03)"))
    for question, (slept_ms, item, line) in PLANTED.items():
        torch_kernel.must(f"answer = {question}")
        assert torch_kernel.value("[answer.refused, len(answer.steps)]") == [False, 8]
        assert torch_kernel.value("answer.gain / 1e6") >= slept_ms
        assert torch_kernel.value("answer.after / 1e6") >= 86 - slept_ms
        torch_kernel.must(f"ITEM = {item}")
        torch_kernel.must(LOOP.format(name="again", line=line))
        assert torch_kernel.value("answer.after / again.trace.steps['dur'].mean()") == pytest.approx(
            1, abs=0.1
        )
