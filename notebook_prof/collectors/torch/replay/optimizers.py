"""A step of an optimizer made again, with parameters and gradients of our own."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final

from .calls import CannotReplayError, Prepared, dtype_named

WAYS: Final = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
"""Arguments of an optimizer for each of PyTorch's ways to update parameters."""


@dataclass(frozen=True)
class RecordedStep:
    """A step of an optimizer as it was recorded; see `analysis.work.optimizer_steps`.

    Attributes
    ----------
    name, optimizer : str
        Of the range, and of the class.
    shapes : tuple of tuple of int
    dtypes : tuple of str
    way : str
        One of `WAYS`.
    count : int
    device : str
    """

    name: str
    optimizer: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    way: str
    count: int
    device: str

    @property
    def title(self) -> str:
        """Name and number of parameters."""
        return f"{self.name} of {len(self.shapes)} parameters"


def prepare_step(torch: Any, step: RecordedStep, limit: int, way: str = "") -> Prepared:
    """Make parameters and gradients of the recorded shapes, and an optimizer that has done its first step.

    Parameters
    ----------
    torch : module
    step : RecordedStep
    limit : int
        Bytes.
    way : str
        One of `WAYS`; as it was recorded unless given.

    Raises
    ------
    CannotReplayError
        If PyTorch has no such optimizer, or not in that way.

    Notes
    -----
    Its arguments are the defaults: learning rate, momentum and the like are not on record. Hooks that the
    user has registered for all optimizers are not called.
    """
    kind: Any = getattr(torch.optim, step.optimizer, None)
    if not callable(getattr(kind, "step", None)):
        raise CannotReplayError(f"torch.optim has no {step.optimizer}: an optimizer of another package")
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
        size += 4 * values[0].nbytes  # with its gradient, and about two numbers of state
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
