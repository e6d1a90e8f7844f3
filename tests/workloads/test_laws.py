"""Laws that the Profile of every workload keeps."""

import pytest

from .conftest import Play
from .laws import check_laws, check_lengths
from .runner import CELLS

FRAMEWORKS = {"lightning", "hf_trainer", "hf_generate", "keras_torch", "ignite", "fastai", "accumulate"}
FRAMEWORKS |= {"jax", "flax"}
"""Packages that `make test` does not install; test_frameworks checks the laws there."""

STEPS = {
    "checkpoint_customfn": {32},
    "dataset_loop": {0},
    "epochs": {48},
    "eval_outside_steps": {64},
    "lbfgs": {6},
    "slowdata": {10},
    "three_models": {60},
    "torch_leak_acts": {32},
    "torchimp_trainprep": {10},
    "trainer_class": {96},
    "transformer_fn": {30},
    "rl": {3, 60},  # updates, or rounds of the loop
    "gan": {40, 80},  # 40 batches; each updates one network, then the other
}
"""How many steps a workload has; two numbers where either is right."""

OWN = sorted(file.stem for file in CELLS.glob("*.py") if file.stem not in FRAMEWORKS | {"mytrain"})


@pytest.fixture(params=OWN)
def name(request: pytest.FixtureRequest) -> str:
    """A workload of this environment."""
    if request.param == "rf":
        pytest.importorskip("sklearn")
    return str(request.param)


def test_laws(name: str, play: Play) -> None:
    check_laws(play(name))


def test_steps(play: Play) -> None:
    steps_of = {name: len(play(name).steps) for name in STEPS}
    assert not {name: count for name, count in steps_of.items() if count not in STEPS[name]}


@pytest.mark.clock("what nobody recorded of a cell is at most 0.05 s, or a twentieth of it")
def test_lengths(name: str, play: Play) -> None:
    check_lengths(play(name))
