"""The prompt comes back before the Trace is there; who asks for it waits."""

import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty

import pytest

from .conftest import PATIENCE_S, SETUP, Kernel, silent_kernel

HOLD = """
import threading
from notebook_prof.session import engine
go, _build = threading.Event(), engine.Session._build
def _held(self, cycle):
    go.wait()
    return _build(self, cycle)
engine.Session._build = _held
"""
LET_GO = "engine.Session._build = _build; go.set()"
TRAIN = """
for batch in loader:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
COUNT = "(len(p.steps()), int(p.operators().set_index('name')['count']['aten::addmm']), p.pending is None)"


@pytest.fixture
def paused_kernel(torch_kernel: Kernel) -> Iterator[Kernel]:
    """A kernel in which no Trace is made until ``LET_GO``."""
    torch_kernel.must(HOLD)
    yield torch_kernel
    torch_kernel.must(LET_GO)


def test_the_prompt_is_back_before_the_trace_is_there(paused_kernel: Kernel) -> None:
    paused_kernel.must(f"%%profile p --quiet\n{TRAIN}\nlast = 7")
    bound = paused_kernel.value("(p.pending is not None, last, nbp.last is p, _profile is p)")
    assert bound == [True, 7, True, True]
    paused_kernel.must("import gc; x = [n * n for n in range(100_000)]; assert gc.isenabled()")
    paused_kernel.must(LET_GO)
    assert paused_kernel.value(COUNT) == [10, 20, True]


def test_an_interrupt_of_who_waits_loses_nothing(paused_kernel: Kernel) -> None:
    paused_kernel.must(f"%%profile p --quiet\n{TRAIN}")
    for _ in range(2):
        stopped = paused_kernel.run("print('waits', flush=True); p.trace", interrupt_after=0.3)
        assert stopped.error == "KeyboardInterrupt"
    paused_kernel.must(LET_GO)
    assert paused_kernel.value(COUNT) == [10, 20, True]


def test_two_profiled_cells_in_a_row(paused_kernel: Kernel) -> None:
    paused_kernel.must(f"%%profile first --quiet\n{TRAIN}")
    paused_kernel.must(f"%%profile p --quiet\n{TRAIN}")
    failing = paused_kernel.run(
        "%%profile third --quiet\nmodel(loader.dataset[:4])\nraise ValueError('mine')"
    )
    assert failing.error == "ValueError"
    paused_kernel.must(LET_GO)
    assert paused_kernel.value(COUNT) == [10, 20, True]
    assert paused_kernel.value("[len(first.steps()), len(third.steps())]") == [10, 0]
    assert paused_kernel.value("'aten::addmm' in third.operators()['name'].tolist()")


def test_what_cannot_be_put_together_is_reported(torch_kernel: Kernel) -> None:
    torch_kernel.must(
        """
        from notebook_prof.session import engine
        _build = engine.Session._build
        def _failing(self, cycle):
            if cycle is not None:
                raise MemoryError("no room")
            return _build(self, cycle)
        engine.Session._build = _failing
        """
    )
    torch_kernel.must(f"%%profile p --quiet\n{TRAIN}")
    torch_kernel.must("p.trace\nengine.Session._build = _build")
    assert torch_kernel.value("p.trace.report['profile-failed'].example") == "MemoryError: no room"


def test_a_file_is_there_when_the_cell_has_ended(torch_kernel: Kernel, tmp_path: Path) -> None:
    torch_kernel.must(f"%%profile p --quiet --save {tmp_path / 'run.json'}\n{TRAIN}")
    assert (tmp_path / "run.json").stat().st_size > 1000


def test_the_views_go_out_before_the_trace_is_there(paused_kernel: Kernel) -> None:
    msg_id = paused_kernel.rerun(f"%%profile p\n{TRAIN}", "a-cell")
    shown = _heard(paused_kernel, msg_id, 2)
    assert "being assembled" in shown[0]["data"]["text/plain"]
    assert set(shown[1]["data"]) == {"application/vnd.jupyter.widget-view+json"}
    paused_kernel.must("assert p.pending is not None")
    paused_kernel.must(LET_GO)
    (static,) = _heard(paused_kernel, msg_id, 1)
    assert static["transient"] == shown[0]["transient"]
    assert "data:image/png" in static["data"]["text/html"]


def _heard(kernel: Kernel, msg_id: str, count: int) -> list[dict[str, dict[str, str]]]:
    """The next outputs of a cell that has perhaps ended."""
    until, outputs = time.monotonic() + PATIENCE_S, []
    while len(outputs) < count and time.monotonic() < until:
        try:
            message = kernel.client.get_iopub_msg(timeout=1)
        except Empty:
            continue
        is_answer = message["parent_header"].get("msg_id") == msg_id
        if is_answer and message["msg_type"] in ("display_data", "update_display_data"):
            outputs.append(message["content"])
    assert len(outputs) == count, outputs
    return outputs


def test_a_kernel_may_end_while_it_is_made(tmp_path: Path) -> None:
    """By a restart, and then for good."""
    pytest.importorskip("torch")
    with silent_kernel(tmp_path) as kernel:
        _begin_to_make(kernel)
        kernel.manager.restart_kernel()
        kernel.client.wait_for_ready(timeout=PATIENCE_S)
        _begin_to_make(kernel)
        kernel.manager.shutdown_kernel()
        assert not kernel.manager.is_alive()


def _begin_to_make(kernel: Kernel) -> None:
    """Profile a cell whose Trace is not made when this returns."""
    kernel.must(SETUP)
    kernel.must("%%profile first --quiet\nx = 1")
    assert kernel.value("first.trace is not None"), "a new kernel records"
    kernel.must(HOLD)
    kernel.must("import torch; torch.set_num_threads(1); small = torch.randn(8, 8)")
    kernel.must("%%profile p --quiet\nfor _ in range(20_000):\n    small = (small @ small).tanh()")
    assert kernel.value("p.pending is not None")
    kernel.must("go.set()")  # making 60,000 slices takes longer than a question
