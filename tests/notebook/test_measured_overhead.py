"""What recording costs, measured in a cell: from the option of the magic to interval and trust report."""

from notebook_prof.session.sources import PAIR
from notebook_prof.statistics import overhead_ratio
from tests.notebook.conftest import Kernel

BODY = "optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()"
PAIRS = 5


def test_a_cell_tells_its_own_overhead(torch_kernel: Kernel) -> None:
    cell = f"for _ in range({3 + PAIR * PAIRS}):\n    x = torch.ones(4, 8)\n    {BODY}"
    torch_kernel.must(f"%%profile p --steps 1:3 --measure-overhead\n{cell}")
    measured = torch_kernel.value("p.trace.metadata['overhead']")
    assert measured["pairs"] == len(measured["recorded_ns"]) == len(measured["unrecorded_ns"]) == PAIRS
    assert min(measured["recorded_ns"] + measured["unrecorded_ns"]) > 0
    expected = overhead_ratio(measured["recorded_ns"], measured["unrecorded_ns"])
    assert (measured["ratio"], measured["low"], measured["high"]) == expected  # same seed, same interval
    assert measured["low"] <= measured["ratio"] <= measured["high"]
    assert torch_kernel.value("p.trace.steps['step'].tolist()") == [1, 2]  # the window alone
    assert torch_kernel.value("p.steps.overhead()['ratio'].tolist()") == [measured["ratio"]]
    costly = torch_kernel.value("'costly-recording' in set(p.trust['code'])")
    assert costly == (measured["low"] > 1.1)


def test_too_few_steps_are_said_in_the_cell(torch_kernel: Kernel) -> None:
    cell = f"for _ in range(4):\n    x = torch.ones(4, 8)\n    {BODY}"
    torch_kernel.must(f"%%profile p --steps 1:3 --measure-overhead\n{cell}")
    assert torch_kernel.value("'overhead' in p.trace.metadata") is False
    assert torch_kernel.value("'overhead-not-measured' in p.trace.report") is True
