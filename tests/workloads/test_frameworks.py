"""Trainers of other libraries: where they train, evaluate and generate is told as what it is.

``make test-workloads`` makes the environments; elsewhere what is missing is skipped.
"""

import re

import pytest

from .conftest import Play, compared, needs
from .laws import check_laws, check_statements


@needs("torch", "pytorch_lightning")
def test_lightning(play: Play) -> None:
    run = play("lightning")
    assert len(run.steps) == 40
    shares = run.phase_shares()
    # Lightning runs forward and backward in a closure inside of optimizer.step
    assert shares["backward"] >= 0.05, shares
    assert shares["forward"] >= 0.02, shares
    assert all(gain <= shares["optimizer"] for words, gain in run.advised if "fused" in words), run.advised
    backward = run.phases[run.phases["phase"] == "backward"]
    assert (backward["host_ns"] > 0).sum() == 40, "backward runs in each of the 40 steps"
    check_laws(run)


@needs("torch", "transformers", "accelerate")
def test_hugging_face_trainer(play: Play) -> None:
    run = play("hf_trainer")
    assert run.printed.strip().splitlines()[-1] == "30"
    # 240 rows in batches of 8, two batches an update, two epochs: 60 micro-batches, 30 updates
    assert len(run.steps) in (30, 60)
    text = " ".join([run.verdict, *run.account["part"]])
    assert re.search(r"\b30\b", text), text
    # the evaluation between the epochs is 60 batches of forward
    evaluated = run.phase_shares()["evaluation"] * float(run.steps["dur"].sum()) / 1e9
    outside = run.account.loc[run.account["part"].str.contains("evaluation"), "dur"].sum() / 1e9
    ours = run.account.loc[run.account["kind"] == "profiler", "dur"].sum() / 1e9
    assert evaluated + outside >= 0.05 * (run.cell_s - ours)
    check_laws(run)


@compared
@needs("torch", "transformers")
def test_generating_text(play: Play) -> None:
    run = play("hf_generate")
    assert len(run.steps) == 0, "generating trains nothing"
    assert run.part_s(3) >= 0.8 * (run.cell_s - run.kind_s("profiler"))
    check_statements(run)
    check_laws(run)


@pytest.mark.parametrize(
    ("workload", "printed"),
    [
        pytest.param("keras_torch", None, marks=needs("torch", "keras")),
        # an evaluation of 20 batches after each epoch
        pytest.param("ignite", ["40", "20"], marks=needs("torch", "ignite")),
        pytest.param("fastai", ["40"], marks=needs("torch", "fastai")),
    ],
)
def test_two_epochs_of_20_batches(play: Play, workload: str, printed: list[str] | None) -> None:
    run = play(workload)
    assert printed is None or run.printed.split() == printed
    assert len(run.steps) == 40
    shares = run.phase_shares()
    assert shares["backward"] > 0.02, shares
    check_laws(run)


@needs("torch", "accelerate")
def test_accelerate_accumulates(play: Play) -> None:
    run = play("accumulate")
    assert run.printed.split() == ["10"]
    assert len(run.steps) in (10, 40)
    text = " ".join([run.verdict, *run.account["part"]])
    assert re.search(r"\b40\b", text), text
    assert re.search(r"\b10\b", text), text
    check_laws(run)
