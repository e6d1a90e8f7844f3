"""Repeats a step of an optimizer, with new parameters and gradients."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final

from .calls import CannotReplayError, Prepared, dtype_named

WAYS: Final = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
"""Arguments of an optimizer that select each of PyTorch's implementations of the update."""


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step of an optimizer; see `analysis.work.optimizer_steps`."""

    name: str  # of the range
    optimizer: str  # name of the class
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    way: str  # one of `WAYS`
    count: int
    device: str

    @property
    def title(self) -> str:
        """Name and number of parameters."""
        return f"{self.name} of {len(self.shapes)} parameters"


def prepare_step(torch: Any, step: RecordedStep, limit: int, way: str = "") -> Prepared:
    """Make parameters and gradients of the recorded shapes, and an optimizer after its first step."""
    # Learning rate, momentum and so on are not recorded, so the defaults apply. `way` is one of `WAYS`, ""
    # for the recorded one; `limit` is in bytes. The user's hooks on all optimizers are not called.
    kind: Any = getattr(torch.optim, step.optimizer, None)
    if not callable(getattr(kind, "step", None)):
        raise CannotReplayError(f"torch.optim has no {step.optimizer}: the optimizer is of another package")
    arguments: dict[str, Any] = WAYS[way or step.way]
    if way and not set(arguments) <= set(inspect.signature(kind).parameters):
        raise CannotReplayError(f"torch.optim.{step.optimizer} has no argument {next(iter(arguments))!r}")
    generator = torch.Generator(device=step.device)
    generator.manual_seed(0)
    parameters, size = [], 0
    for shape, dtype in zip(step.shapes, step.dtypes, strict=True):
        element = dtype_named(torch, dtype, step.name)
        values = [
            torch.randn(shape, dtype=torch.float32, device=step.device, generator=generator).to(element)
            for _ in range(2)
        ]
        size += 4 * values[0].nbytes  # the parameter, its gradient, and about two numbers of state
        if size > limit:
            raise CannotReplayError(f"{step.title} take over {limit:,} bytes: allow more with memory=")
        values[0].requires_grad_(True)
        values[0].grad = values[1]
        parameters.append(values[0])
    try:
        optimizer = kind(parameters, **arguments)
    except (RuntimeError, TypeError, ValueError) as error:
        raise CannotReplayError(f"torch.optim.{step.optimizer} does not take {arguments}: {error}") from error
    update = inspect.unwrap(kind.step)  # without hooks, which are the user's

    def run(tensors: list[Any]) -> list[Any]:
        update(optimizer)
        return tensors[: len(parameters)]

    run(parameters)
    states = [optimizer.state[one] for one in parameters]
    state = [value for one in states for value in one.values() if hasattr(value, "is_floating_point")]
    return Prepared(
        run, ([*parameters, *state],), {}, (0,), lambda other: _other_way(torch, step, limit, other)
    )


def _other_way(torch: Any, step: RecordedStep, limit: int, way: str) -> Prepared:
    if way not in WAYS:
        raise CannotReplayError("it is a step of an optimizer: try 'fused', 'foreach' or threads")
    if way == step.way:
        raise CannotReplayError(f"it was {way} when it was recorded")
    return prepare_step(torch, step, limit, way)
