"""Real runs of PyTorch with a planted cause: the verdict names it, and advice says what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof import Profile, read_trace

from ..properties.test_verdict_claims import value_of
from .test_what_if_recorded import one_thread

__all__ = ["one_thread"]

torch = pytest.importorskip("torch")

BUSY = pytest.mark.clock("what a real run took is chance on a machine with other jobs")


def record(batches: Any, body: Callable[[Any], None], steps: tuple[int, int] = (2, 7)) -> Profile:
    with nbp.profile("torch", steps=steps) as profile:
        for batch in nbp.steps(batches):
            body(batch)
    return profile


def undisturbed(kind: str, body: Callable[[Any], None]) -> Profile:
    """The first of some recordings in which no other job took more time than the cause does."""
    for _ in range(30):
        profile = record(range(10), body)
        if profile.verdict.kind == kind:
            break
    return profile


def rules(profile: Profile) -> list[str]:
    return profile.advice()["rule"].tolist()


@BUSY
def test_many_tiny_operators():
    x = torch.ones(8)

    def body(_: Any) -> None:
        y = x
        for _ in range(300):
            y = y + 1.0

    profile = undisturbed("overhead-bound", body)
    assert profile.verdict.kind == "overhead-bound"
    table = profile.advice()  # no rule is on small operators: at most it is told that they were not judged
    assert set(table["rule"]) <= {"uneven-steps"}, "steps are uneven where the machine has other work"
    assert set(table.attrs["withheld"]) <= {"small-operators"}


@BUSY
def test_one_huge_product():
    x = torch.randn(700, 700)
    profile = undisturbed("compute-bound", lambda _: torch.mm(x, x))
    assert profile.verdict.kind == "compute-bound"
    assert profile.verdict.select == {"name": "aten::mm"}
    assert not {"small-operators", "input-bound", "memory-growth", "sync-points"} & set(rules(profile))


@BUSY
def test_an_optimizer_in_pieces():
    # of smaller ones recording takes a fifth: then the rule says that it cannot judge
    model = torch.nn.Sequential(*(torch.nn.Linear(600, 600) for _ in range(20)))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    fused = torch.optim.Adam(model.parameters(), fused=True)

    def body(which: Any) -> Callable[[Any], None]:
        def train(_: Any) -> None:
            which.zero_grad()
            model(torch.ones(4, 600)).sum().backward()
            which.step()

        return train

    assert "unfused-optimizer" in rules(record(range(10), body(optimizer)))
    assert "unfused-optimizer" not in rules(record(range(10), body(fused)))


@BUSY
def test_a_sound_step_gets_no_advice_on_what_it_does_not_do():
    x = torch.randn(700, 700)
    table = record(range(10), lambda _: torch.mm(x, x)).advice(min_share=0.2)
    assert table.empty


def test_resnet50_with_four_workers(shared_traces: Path):
    name = "resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz"
    profile = Profile(read_trace(shared_traces / "kineto_2021" / name))
    # busy for 72 % of the time, as the plugin says, but nobody waits for it: see test_what_would_help
    assert profile.verdict.kind == "launch-bound"
    assert value_of(profile.verdict, "busy_ns") == pytest.approx(0.724, abs=0.001)
    advice = profile.advice().set_index("rule")
    withheld = profile.advice().attrs["withheld"]
    # the TensorBoard plugin recommends tensor cores for this run; the steps would not be shorter
    assert "shorter by" in withheld["tensor-cores-unused"]
    assert {"launch-bound", "pageable-copies"} <= set(advice.index)
    assert not {"input-bound", "dataloader-workers"} & set(advice.index)
    assert advice["gain_ns"].is_monotonic_decreasing
    assert advice.loc["pageable-copies", "count"] == 12
    assert set(advice.loc["pageable-copies", "select"]["name"]) == {"Memcpy HtoD (Pageable -> Device)"}


def test_resnet50_without_workers(shared_traces: Path):
    files = sorted((shared_traces / "kineto_2021").glob("resnet50_num_workers_0*.json.gz"))
    if not files:
        pytest.skip("the recording with 0 workers is not among the shared ones")
    profile = Profile(read_trace(files[0]))
    assert profile.verdict.kind == "input-bound"
    assert rules(profile)[0] == "dataloader-workers"
