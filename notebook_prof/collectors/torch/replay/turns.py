"""Runs calls and steps of optimizers as recorded and in other ways, in turns; compares times and results."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ....errors import OptionError
from ....optional import require
from ....statistics import FloatArray
from .calls import CannotReplayError, Prepared, RecordedCall, dtype_named, prepare, tensors_in
from .isolation import changed, first_line, isolated, threads_of

WAYS: Final = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
"""Arguments of an optimizer that select each of PyTorch's implementations of the update."""


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step of an optimizer; see `analysis.work.arguments`."""

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


LEAST_ROUNDS: Final = 3
MOST_ROUNDS: Final = 24
_TURN_NS: Final = 4e6
"""Target duration for a call's turn, if time allows. It is far longer than the clock's resolution."""
_MOST_REPEATS: Final = 2000


@dataclass(frozen=True, eq=False)
class MeasuredTurn:
    """The measurement of one way to run the calls."""

    name: str  # name of the try; empty for the calls as recorded
    # ns for all calls once, weighted by how often each was recorded; shape (rounds, 2)
    times: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    # largest difference from the results of the calls as recorded, absolute and as a share of their largest
    # number
    difference: float = math.nan
    relative: float = math.nan
    ready_ns: int = 0  # conversion of the inputs, or compilation; not in `times`
    reason: str = ""  # why it was not run; empty if it was


def replay(
    calls: Sequence[RecordedCall | RecordedStep], tries: Sequence[str], seconds: float, memory: int
) -> tuple[list[MeasuredTurn], list[RecordedCall | RecordedStep]]:
    """Run calls in turns: as recorded, with each try, and back again, A B C C B A."""
    # `seconds` is roughly how long the turns may take, without conversions and compilation. `memory` limits
    # the bytes of all inputs. Returns the measurements, those of the calls as recorded first, and the calls
    # that could be made. Raises OptionError if none could be made, or if one takes too long.
    torch: Any = require("torch", extra="torch", purpose="to replay operators")
    with isolated(torch):
        bases, replayed, reason = [], [], ""
        for call in calls:
            try:
                bases.append(_Runner(torch, _base(torch, call, memory), call))
                replayed.append(call)
            except CannotReplayError as error:
                reason = reason or str(error)
        if not bases:
            raise OptionError(f"replay cannot run {calls[0].title}: {reason}")
        ways = [_Way(bases, torch.get_num_threads())]
        spare = memory - sum(runner.bytes for runner in bases)
        for name in tries:
            ways.append(_way(torch, name, ways[0], spare))
            spare -= sum(runner.bytes for runner in ways[-1].runners)
        measured = [way.measured for way in ways]
        running = [way for way in ways if not way.measured.reason]
        times = _turns(torch, running, seconds)
        for way, rounds in zip(running, times, strict=True):
            measured[ways.index(way)] = replace(way.measured, times=rounds)
    return measured, replayed


class _Runner:
    """Repeats a call, each time with its initial inputs."""

    def __init__(self, torch: Any, prepared: Prepared, call: RecordedCall | RecordedStep) -> None:
        self.prepared, self.call = prepared, call
        self._wait = torch.cuda.synchronize if call.device == "cuda" else lambda: None
        written = [prepared.args[i] for i in prepared.written]
        self.written = [(one, one.clone()) for one in tensors_in(written)]  # each with its initial content
        self.once_ns, self.repeats = 0.0, 1

    @property
    def bytes(self) -> int:
        return self.prepared.bytes() + sum(int(one.nbytes) for one, _ in self.written)

    def once(self) -> Any:
        """Run the call once and return its result."""
        self._restore()
        result = self.prepared()
        self._wait()
        return result

    def time_ns(self) -> float:
        """Return the mean duration of several calls, timed one by one if they write into their inputs."""
        clock, call, repeats = time.perf_counter_ns, self.prepared, self.repeats
        if not self.written:
            self._wait()
            begin = clock()
            for _ in range(repeats):
                call()
            self._wait()
            return (clock() - begin) / repeats
        total = 0
        for _ in range(repeats):
            self._restore()
            self._wait()
            begin = clock()
            call()
            self._wait()
            total += clock() - begin
        return total / repeats

    def _restore(self) -> None:
        for one, before in self.written:
            one.copy_(before)


@dataclass(frozen=True, eq=False)
class _Way:
    """One way to run all calls."""

    runners: list[_Runner]
    threads: int
    measured: MeasuredTurn = field(default_factory=lambda: MeasuredTurn("", difference=0.0, relative=0.0))

    def turn(self, torch: Any) -> float:
        """Return the time of all calls in ns. Each runs once beforehand, to set up threads and caches."""
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        total = 0.0
        for runner in self.runners:
            runner.once()
            total += runner.call.count * runner.time_ns()
        return total


def _base(torch: Any, call: RecordedCall | RecordedStep, memory: int) -> Prepared:
    """Return a call as recorded, with inputs for which its results are finite, if possible."""
    if call.device == "cuda" and not torch.cuda.is_available():
        raise CannotReplayError(
            "it ran on a GPU, and PyTorch finds none here: replay it on the machine that recorded it"
        )
    if isinstance(call, RecordedStep):
        return prepare_step(torch, call, memory)
    prepared = prepare(torch, call, memory)
    _, result = _results(torch, _Runner(torch, prepared, call))
    if all(bool(one.isfinite().all()) for one in result):
        return prepare(torch, call, memory) if prepared.written else prepared
    return prepare(torch, call, memory, positive=True)


def _way(torch: Any, name: str, recorded: _Way, memory: int) -> _Way:
    """Return a try that is ready to run, or the reason why it cannot."""
    threads, reasons, runners = recorded.threads, [], []
    difference = relative = 0.0
    begin = time.perf_counter_ns()
    if "threads=" in name:
        on_host = all(runner.call.device == "cpu" for runner in recorded.runners)
        threads = threads_of(name, threads)
        if threads == recorded.threads or not on_host:
            why = f"it runs with {threads} now" if on_host else "the GPU does its work"
            return _refused(name, recorded, why)
    try:
        torch.set_num_threads(threads)
        for runner in recorded.runners:
            runner.once()  # its inputs are in their initial state
            runner._restore()
            try:
                other = _Runner(torch, changed(torch, runner.prepared, name), runner.call)
                memory -= other.bytes
                if memory < 0:
                    raise CannotReplayError("its inputs take too much memory: allow more with memory=")
                one, share = _largest_difference(torch, runner, other)
                difference, relative = max(difference, one), max(relative, share)
                runners.append(other)
            except CannotReplayError as error:
                reasons.append(str(error))
                runners.append(runner)
    finally:
        torch.set_num_threads(recorded.threads)
    if len(reasons) == len(runners):
        return _refused(name, recorded, reasons[0])
    took = time.perf_counter_ns() - begin
    measured = MeasuredTurn(name, difference=difference, relative=relative, ready_ns=took)
    return _Way(runners, threads, measured)


def _refused(name: str, recorded: _Way, reason: str) -> _Way:
    return _Way([], recorded.threads, MeasuredTurn(name, reason=reason))


def _turns(torch: Any, ways: list[_Way], seconds: float) -> list[FloatArray]:
    """Run all ways forwards and backwards, as often as time allows, and at least three times."""
    begin = time.perf_counter()
    every = [runner for way in ways for runner in way.runners]
    for runner in every:  # the shortest of three, since the first may include setup
        runner.once_ns = min(runner.time_ns() for _ in range(3))
    for recorded, *others in zip(*(way.runners for way in ways), strict=True):
        repeats = int(np.clip(_TURN_NS / max(recorded.once_ns, 1), 1, _MOST_REPEATS))
        for runner in (recorded, *others):
            runner.repeats = repeats

    def round_ns() -> float:
        return 2 * sum(runner.once_ns * (1 + runner.repeats) for runner in every)

    while round_ns() * 2 * LEAST_ROUNDS > seconds * 1e9 and any(r.repeats > 1 for r in every):
        for runner in every:
            runner.repeats = max(1, runner.repeats // 2)
    if round_ns() * LEAST_ROUNDS > 2 * seconds * 1e9:
        needed = math.ceil(round_ns() * LEAST_ROUNDS / 1e9)
        raise OptionError(
            f"replay needs about {needed} s for {LEAST_ROUNDS} rounds, and has {seconds:g}: allow more with "
            f"seconds={needed}, or try less at once"
        )
    rounds = int(np.clip(seconds * 1e9 / round_ns(), LEAST_ROUNDS, MOST_ROUNDS))
    times = np.zeros((len(ways), rounds, 2))
    for number in range(rounds):
        for w, way in enumerate(ways):
            times[w, number, 0] = way.turn(torch)
        for w, way in reversed(list(enumerate(ways))):
            times[w, number, 1] = way.turn(torch)
        if number + 1 >= LEAST_ROUNDS and time.perf_counter() - begin > seconds:
            return list(times[:, : number + 1])  # out of time, since the machine has become slower
    return list(times)


def _largest_difference(torch: Any, a: _Runner, b: _Runner) -> tuple[float, float]:
    """Return the largest difference of two results, absolute and as a share of the first's largest number."""
    (count_a, results_a), (count_b, results_b) = _results(torch, a), _results(torch, b)
    if count_a != count_b:
        raise CannotReplayError(f"it gives {count_b} results instead of {count_a}")
    largest, scale = 0.0, 0.0
    for x, y in zip(results_a, results_b, strict=True):
        if x.shape != y.shape:
            raise CannotReplayError(f"it gives a result of {list(y.shape)} instead of {list(x.shape)}")
        if not x.numel():
            continue
        off = (y - x).abs()
        off = off.where(~(x.isnan() & y.isnan()), off.new_zeros(()))
        largest = max(largest, float(off.max()))
        scale = max(scale, float(x.abs().nan_to_num(0.0).max()))
    return largest, largest / scale if scale else (0.0 if largest == 0 else math.inf)


def _results(torch: Any, runner: _Runner) -> tuple[int, list[Any]]:
    """Return the number of results of a call, and copies of the numeric ones on the host."""
    torch.manual_seed(0)
    try:
        every = list(tensors_in(runner.once()))
    except Exception as error:  # an operator may raise anything about its inputs
        raise CannotReplayError(f"PyTorch cannot run it this way: {first_line(error)}") from error
    if any(one.shape != before.shape for one, before in runner.written):
        raise CannotReplayError("it changes the shape of its input, so it cannot run twice")
    wide = [one.detach().to("cpu") for one in every]
    return len(every), [
        one.to(torch.complex128 if one.is_complex() else torch.float64, copy=True) for one in wide
    ]
