"""The torch collector: what it records, and that nothing of it stays."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof.collectors.base import Recording
from notebook_prof.collectors.options import CollectorOptions
from notebook_prof.collectors.torch.collector import TorchCollector
from notebook_prof.collectors.torch.hooks import ModuleRanges
from notebook_prof.collectors.torch.session import PublicSession, fast_session_works
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace
from tests.frames import differences
from tests.new_process import run_python
from tests.recorded import in_threads, sealed

torch = pytest.importorskip("torch")

from tests.training import Net, train  # noqa: E402

TABLES = ("slices", "flows", "allocations", "steps")


def record(options: CollectorOptions | None = None, keep: Path | None = None, cell: Any = None) -> Trace:
    """Record a training; with `keep` the raw result is also written there as torch itself writes it."""
    # the first optimizer imports torch._dynamo: three seconds, or twenty where all calls are looked at
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    collector = TorchCollector(options)
    recording = Recording([collector])
    recording.warm()
    recording.start()
    (cell or (lambda: train(Net())))()
    recording.stop()
    if keep is not None:
        collector._session._profiler.kineto_results.save(str(keep))  # type: ignore[union-attr]
    return sealed(recording)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return record()


def test_this_torch_has_the_fast_way() -> None:
    assert fast_session_works(torch)


@pytest.mark.parametrize(
    "options", [{}, {"stack": True}, dict.fromkeys(("shapes", "memory", "modules"), False)]
)
def test_a_recording_and_its_file_are_the_same_table(
    options: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notebook_prof.collectors.torch.collector.users_only", lambda columns: columns)
    path = tmp_path / "trace.json"
    live = record(CollectorOptions(**options), keep=path)
    read = read_trace(path)
    assert len(live.slices) > 900
    for table in TABLES:
        different = differences(getattr(live, table), getattr(read, table))
        assert different.empty, f"{table}:\n{different.head(10)}"
    places = ["track", "kind", "pid", "tid"]
    assert differences(live.tracks[places], read.tracks[places]).empty


def test_the_public_way_gives_the_same_kinds_of_rows(monkeypatch: pytest.MonkeyPatch, trace: Trace) -> None:
    monkeypatch.setattr(
        "notebook_prof.collectors.torch.collector.open_session", lambda t, options: PublicSession(t, options)
    )
    public = record()
    assert {issue.severity for issue in public.report} <= {"info"}  # a CUDA build has no driver here
    counts = [t.slices.groupby("category", observed=True).size().to_dict() for t in (trace, public)]
    assert counts[0] == counts[1]
    assert len(public.allocations) == pytest.approx(len(trace.allocations), abs=6)
    assert len(public.flows) == len(trace.flows)


def test_phases_are_found_without_marks(trace: Trace) -> None:
    slices = trace.slices
    phase = dict(zip(slices["name"].astype(str), slices["phase"].astype(object), strict=True))
    assert phase["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == "data"
    assert phase["aten::mkldnn_convolution"] == "forward"
    assert phase["ConvolutionBackward0"] == "backward"
    assert phase["Optimizer.step#Adam.step"] == "optimizer"
    assert phase["Optimizer.zero_grad#Adam.zero_grad"] == "optimizer"
    inside = slices[slices["parent"].notna()]
    above = slices["phase"].astype(object).to_numpy()[inside["parent"].to_numpy(np.int64)]
    in_backward = inside["phase"].astype(object).to_numpy()[above == "backward"]
    assert set(in_backward) == {"backward"}


def test_modules_are_named_by_their_attributes(trace: Trace) -> None:
    slices = trace.slices
    calls = slices.loc[slices["category"] == "module", "name"].value_counts()
    names = ["Net", "features", "features.0", "features.1", "features.2", "head", "CrossEntropyLoss"]
    assert {name: calls[name] for name in names} == dict.fromkeys(names, 3)
    convolution = slices[slices["name"] == "aten::conv2d"]
    assert set(convolution["module"].astype(object)) == {"features.0"}


def test_every_backward_node_knows_its_module(trace: Trace) -> None:
    slices = trace.slices
    nodes = slices[slices["name"].astype(str).str.startswith("autograd::engine::evaluate_function: ")]
    assert len(nodes) >= 39
    assert nodes["module"].notna().all()
    kind = nodes["name"].astype(str).str.partition(": ")[2]
    of = {name: set(modules) for name, modules in nodes["module"].astype(str).groupby(kind)}
    assert of["ConvolutionBackward0"] == {"features.0"}
    assert of["AddmmBackward0"] == {"head"}
    assert of["NllLossBackward0"] == {"CrossEntropyLoss"}
    assert of["torch::autograd::AccumulateGrad"] == {"features.0", "features.1", "head"}


def test_times_are_unix_nanoseconds() -> None:
    before = time.time_ns()
    trace = record()
    start = trace.metadata["start_unix_ns"]
    second = 10**9  # Kineto reads another clock and converts
    assert before - second < start < start + trace.span.end < time.time_ns() + second


def test_a_running_profiler_is_respected() -> None:
    with torch.autograd.profiler.profile(use_kineto=True) as theirs:
        trace = record()
    assert len(trace.slices) == 0
    assert trace.report["profiler-busy"].count == 1
    assert len(theirs.key_averages()) > 10


def test_a_profiler_inside_the_cell_wins_and_is_reported() -> None:
    theirs = []

    def cell() -> None:
        with torch.profiler.profile() as profiler:
            train(Net())
        theirs.append(profiler)

    trace = record(cell=cell)
    assert "profiler-overtaken" in trace.report
    assert len(theirs[0].key_averages()) > 10


def test_a_profiler_left_running_by_the_cell_keeps_running() -> None:
    profiler = torch.profiler.profile()
    trace = record(cell=profiler.start)
    train(Net())
    profiler.stop()
    assert "profiler-overtaken" in trace.report
    assert len(profiler.key_averages()) > 10


def test_stopped_by_another_thread_it_is_reported_and_the_next_recording_works() -> None:
    recording = Recording([TorchCollector()])
    recording.start()
    train(Net())
    in_threads(recording.stop)
    assert "stopped-elsewhere" in sealed(recording).report
    assert len(record().slices) > 900


def test_without_memory_other_threads_are_seen_and_may_stop() -> None:
    recording = Recording([TorchCollector(CollectorOptions(memory=False))])
    recording.start()
    in_threads(lambda: train(Net()))
    in_threads(recording.stop)
    assert len(sealed(recording).slices) > 900


def test_a_thread_that_ends_behind_the_recording_keeps_its_name() -> None:
    trained, over = threading.Event(), threading.Event()

    def work() -> None:
        try:
            train(Net())
        finally:
            trained.set()
        over.wait()

    recording = Recording([TorchCollector(CollectorOptions(memory=False))])
    recording.start()
    thread = threading.Thread(target=work, name="elsewhere")
    thread.start()
    trained.wait()
    recording.stop()
    over.set()
    thread.join()
    assert "elsewhere" in set(sealed(recording).tracks["name"])


@pytest.mark.parametrize("reached", ["made", "warm", "started", "stopped"])
def test_abandoned_in_every_state_leaves_nothing(reached: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = fingerprint()
    recording = Recording([TorchCollector()])
    if reached != "made":
        recording.warm()
    if reached in ("started", "stopped"):
        recording.start()
        train(Net())
    if reached == "stopped":
        recording.stop()
    recording.abandon()
    assert fingerprint() == before
    assert len(record().slices) > 900
    said = capfd.readouterr().err.splitlines()
    # Kineto reports each recording of a process in which another profiler was the first to start it
    said = [line for line in said if not line.startswith(("USDT:", "STAGE:"))]
    assert said == [], "torch warned of a preparation that was never used"


def test_an_exception_in_a_module_closes_its_range() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("broken on purpose")

    def cell() -> None:
        with pytest.raises(ValueError, match="on purpose"):
            torch.nn.Sequential(torch.nn.Identity(), Broken())(torch.ones(1))
        torch.nn.Identity()(torch.ones(1))

    modules = record(cell=cell).slices.query("category == 'module'")
    assert list(modules["name"]) == ["Sequential", "0", "1", "Identity"]
    assert list(modules["depth"]) == [0, 1, 1, 0]


@pytest.mark.parametrize("when", ["_begin", "_end"])
def test_an_error_of_a_hook_is_none_of_the_cell(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("another version of torch")

    monkeypatch.setattr(ModuleRanges, when, broken)
    trace = record(cell=lambda: train(Net()))
    assert "another version of torch" in trace.report["modules-not-named"].example
    assert len(trace.slices.query("category == 'operator'")) > 500


def test_two_outermost_modules_are_told_apart() -> None:
    class Generator(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main = torch.nn.Sequential(torch.nn.Linear(2, 2))

        def forward(self, x: Any) -> Any:
            return self.main(x)

    class Discriminator(Generator):
        pass

    def cell() -> None:
        Discriminator()(Generator()(torch.ones(1, 2)))

    names = list(record(cell=cell).slices.query("category == 'module'")["name"])
    assert names[:3] == ["Generator", "main", "main.0"]
    assert names[3:] == ["Discriminator", "Discriminator.main", "Discriminator.main.0"]


def test_a_part_called_by_itself_keeps_its_path() -> None:
    model = Net()

    def cell() -> None:
        model(torch.ones(2, 3, 16, 16))
        model.features(torch.ones(2, 3, 16, 16))

    names = list(record(cell=cell).slices.query("category == 'module' and depth == 0")["name"])
    assert names == ["Net", "features"]


def fingerprint() -> tuple[Any, ...]:
    """What a collector might leave behind in torch."""
    hooks = torch.nn.modules.module
    return (
        len(hooks._global_forward_hooks),
        len(hooks._global_forward_pre_hooks),
        torch.autograd.profiler._run_on_profiler_start,
        torch.profiler.profiler._enable_execution_trace_observer,
        hooks._has_any_global_hook,
        len(sys.meta_path),
        torch.autograd._profiler_enabled(),
        torch.autograd.profiler._is_profiler_enabled,
        len(warnings.filters),
    )


def test_kineto_keeps_quiet_and_children_do_not_hear_of_it() -> None:
    ran = run_python(
        """
        import os, torch
        from notebook_prof.collectors.options import CollectorOptions
        from tests.training import Net, train
        from tests.unit.test_torch_collector import record
        blocks = []
        for stack in (False, True, False):
            record(CollectorOptions(stack=stack), cell=lambda: (train(Net()), blocks.clear()))
            blocks.extend(torch.empty(64) for _ in range(600))
        os.write(2, b"theirs\\n")
        print("KINETO_LOG_LEVEL" in os.environ)
        """
    )
    said = [line for line in ran.stderr.splitlines() if "Memory block of unknown size" not in line]
    assert said == ["theirs"]
    assert ran.stdout == "False\n"


def phases_of(cell: Callable[[], object]) -> dict[str, set[str]]:
    """Phases of the names of slices."""
    slices = record(cell=cell).slices
    in_phases = slices[slices["phase"].notna()]
    return {str(name): set(rows) for name, rows in in_phases.groupby("name", observed=True)["phase"]}


def test_evaluation_is_told_from_training() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    x = torch.ones(2, 4)

    def evaluated() -> None:
        with torch.no_grad():
            model(x)

    def in_eval_mode() -> None:
        model.eval()(x)
        model.train()

    def frozen_statistics() -> None:
        model.eval()(x).sum().backward()
        model.train()

    def checkpointed() -> None:
        from torch.utils.checkpoint import checkpoint

        checkpoint(model, x.clone().requires_grad_(), use_reentrant=True).sum().backward()

    assert phases_of(evaluated)["Sequential"] == {"evaluation"}
    phases = phases_of(in_eval_mode)
    assert phases["Sequential"] == phases["0"] == phases["aten::addmm"] == {"evaluation"}
    assert phases_of(frozen_statistics)["Sequential"] == {"forward"}
    assert "evaluation" not in set().union(*phases_of(checkpointed).values())
    assert phases_of(lambda: model(x))["Sequential"] == {"forward"}


def test_slices_of_a_container_keep_the_names_of_their_parts() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))

    def cell() -> None:
        for _ in range(5):
            model[2:](model[:2](torch.ones(2, 4)))

    modules = record(cell=cell).slices.query("category == 'module'")
    names = list(modules["name"])
    assert len(names) == 25
    assert len(set(names)) == 5
    assert names[:5] == names[5:10] == names[20:]
