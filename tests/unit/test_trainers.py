"""Steps of trainers that have optimizers of their own."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from notebook_prof.session.sources import trainer_ticks


class Optimizer:
    def step(self, by: int = 1) -> int:
        return by


@pytest.fixture
def fastai(monkeypatch: pytest.MonkeyPatch) -> type[Optimizer]:
    module = ModuleType("fastai.optimizer")
    module.Optimizer = Optimizer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastai.optimizer", module)
    return Optimizer


def test_a_step_is_reported_with_its_optimizer(fastai: type[Optimizer]) -> None:
    optimizers: list[object] = []
    original, optimizer = fastai.__dict__["step"], fastai()
    remove = trainer_ticks(optimizers.append)
    assert optimizer.step(by=3) == 3
    remove()
    remove()
    optimizer.step()
    assert (optimizers, fastai.__dict__["step"]) == ([optimizer], original)


def test_what_was_replaced_since_stays(fastai: type[Optimizer], monkeypatch: pytest.MonkeyPatch) -> None:
    remove = trainer_ticks(lambda _: None)
    theirs = lambda self: 7  # noqa: E731
    before = fastai.__dict__["step"]
    fastai.step = theirs  # type: ignore[method-assign, assignment]
    remove()
    assert fastai().step() == 7
    fastai.step = before.__wrapped__  # type: ignore[attr-defined, method-assign]
