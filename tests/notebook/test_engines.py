"""An engine that computes in another process, and its trace."""

from pathlib import Path

import pytest

from tests.notebook.conftest import Kernel

ENGINE = """
import time
def serve(channel, folder):
    import torch
    from torch.profiler import profile, tensorboard_trace_handler
    torch.set_num_threads(1)
    x = torch.ones(64, 64)
    profiler = profile(activities=[torch.profiler.ProfilerActivity.CPU],
                       on_trace_ready=tensorboard_trace_handler(folder))
    channel.send(True)
    while (word := channel.recv()) != "quit":
        if word == "generate":
            until = time.time() + 1.5
            while time.time() < until:
                torch.mm(x, x)
        else:
            getattr(profiler, word)()
        channel.send(True)
"""


def test_a_cell_that_waits_for_an_engine(kernel: Kernel, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "engine_of_ours.py").write_text(ENGINE)
    kernel.must(
        f"""
        import sys, multiprocessing
        sys.path.insert(0, {str(tmp_path)!r})
        from engine_of_ours import serve
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        engine = context.Process(target=serve, args=(there, {str(tmp_path)!r}), name="EngineCore")
        engine.start()
        def ask(word):
            here.send(word)
            return here.recv()
        here.recv()
        """
    )
    kernel.must("%%profile alone --quiet\nask('generate')")
    sentence = kernel.value("alone.verdict.sentence")
    assert f"waits for process {kernel.value('engine.pid')} `EngineCore`, whose kernels are not" in sentence
    assert "--children FOLDER" in sentence
    assert kernel.value("all(claim.holds(alone.trace) for claim in alone.verdict.claims)")
    kernel.must(f"%%profile both --quiet --children {tmp_path}\nask('start')\nask('generate')\nask('stop')")
    operators = kernel.value("both.operators().set_index('name')['count'].to_dict()")
    assert operators["aten::mm"] > 10
    assert "whose kernels are not" not in kernel.value("both.verdict.sentence")
    kernel.must("here.send('quit')\nengine.join()")
