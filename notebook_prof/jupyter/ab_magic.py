"""``%%profile_ab``: two versions of a cell, recorded alternately and compared."""

from __future__ import annotations

import ast
import copy
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand
from IPython.display import display
from IPython.utils.capture import capture_output

from ..collectors.torch.replay.isolation import random_states
from ..errors import OptionError
from ..interrupts import CountedInterrupts
from ..session import current
from ..statistics import LEAST_RUNS
from ..units import parse_share
from . import options
from .magics import ShownAlready

if TYPE_CHECKING:
    from ..comparison.comparison import Comparison
    from ..profiles.profile import Profile

MAGIC: Final = "%%profile_ab"
ROUNDS: Final = 4
MOST_ROUNDS: Final = 12
_SEPARATOR: Final = re.compile(r"^%% *b[ \t]*$", re.MULTILINE)
_HELP: Final = f"""Record two versions of a cell alternately, a b b a a b, and compare them.

    {MAGIC} [NAME] [--rounds {ROUNDS}] [--until 2%] [--restore model,optimizer] [options of %%profile]
    the first version
    %% b
    the second version

NAME is bound to the Comparison. Each run starts with the same random state; --restore also resets objects
with a ``state_dict`` to their initial state before each run. --rounds is the number of rounds; --until ends
when the change of a step is known to this share, after at most {MOST_ROUNDS} rounds. Output of the first
round is shown. An error or an interrupt ends the rounds; the complete rounds until then are compared.
"""


@dataclass(frozen=True)
class Turns:
    """The parsed magic."""

    a: str  # bodies of the two versions
    b: str
    name: str | None  # variable for the Comparison
    rounds: int
    until: float | None  # relative half-width of the interval at which to stop
    restore: tuple[str, ...]  # variables
    line: str  # options passed on to ``%%profile``


def parse(line: str, cell: str) -> Turns:
    """Parse the magic's line, and split the cell; OptionError without valid options and two bodies."""
    parser = options.OptionParser(prog=MAGIC, add_help=False, allow_abbrev=False)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--until")
    parser.add_argument("--restore", default="")
    try:
        own, others = parser.parse_known_args(shlex.split(line))
        name = options.parse(shlex.join(others)).name
    except OptionError as error:
        raise OptionError(str(error).replace(options.MAGIC + ":", f"{MAGIC}:")) from None
    except ValueError as error:
        raise OptionError(f"{MAGIC}: {line!r} cannot be split into words: {error}") from None
    bodies = _SEPARATOR.split(cell)
    if len(bodies) != 2 or not all(body.strip() for body in bodies):
        raise OptionError(
            f"{MAGIC}: two bodies are needed, divided by one line '%% b'; "
            f"there are {len(bodies) - 1} such lines"
        )
    rounds = own.rounds if own.rounds is not None else ROUNDS if own.until is None else MOST_ROUNDS
    if rounds < 1:
        raise OptionError(f"{MAGIC}: --rounds must be at least 1, not {rounds}")
    until = None if own.until is None else parse_share(own.until, f"{MAGIC}: --until")
    restore = tuple(part.strip() for part in own.restore.split(",") if part.strip())
    words = [word for word in others if word != name]
    # no history: it would compare a version with the last run of the cell, which was the other version
    inner = shlex.join([*words, *(one for one in ("--quiet", "--no-history") if one not in words)])
    return Turns(bodies[0], bodies[1].lstrip("\n"), name, rounds, until, restore, inner)


def kept_state(namespace: Mapping[str, Any], names: Iterable[str]) -> Callable[[], None]:
    """Return a function that restores the current state of random generators and of named objects."""
    objects: list[tuple[Any, Any]] = []
    for name in names:
        kept = namespace.get(name)
        if kept is None or not restorable(kept):
            lacks = f"a {type(kept).__name__} has no state_dict"
            what = "there is no such variable" if kept is None else lacks
            raise OptionError(f"{MAGIC}: {name!r} cannot be restored: {what}")
        objects.append((kept, copy.deepcopy(kept.state_dict())))
    restore_random = random_states()

    def restore() -> None:
        for kept, state in objects:
            kept.load_state_dict(copy.deepcopy(state))  # an optimizer keeps a reference to its argument
            if callable(getattr(kept, "zero_grad", None)):  # no ``state_dict`` contains gradients
                kept.zero_grad(set_to_none=True)
        restore_random()

    return restore


def restorable(value: Any) -> bool:
    """Return whether a value's class has methods to save and load its state."""
    kind = type(value)
    return callable(getattr(kind, "state_dict", None)) and callable(getattr(kind, "load_state_dict", None))


@magics_class
class TurnsMagics(Magics):  # type: ignore[misc]
    """``%%profile_ab``."""

    @no_var_expand  # type: ignore[untyped-decorator]
    @cell_magic  # type: ignore[untyped-decorator]
    def profile_ab(self, line: str, cell: str) -> None:
        """Record two versions of a cell alternately, and compare them. Replaced below by the help text."""
        if line.strip() in ("-h", "--help"):
            print(_HELP)  # noqa: T201  (the user asked for it)
            return
        try:
            turns = parse(line, cell)
            restore = kept_state(self.shell.user_ns, turns.restore)
        except OptionError as error:
            raise UsageError(str(error)) from None
        recorded: dict[str, list[Profile]] = {"a": [], "b": []}
        values: dict[str, Any] = {}
        streams = sys.stdout, sys.stderr, sys.displayhook, self.shell.display_pub
        failed: BaseException | None = None
        try:
            with CountedInterrupts() as interrupts:
                self._run_all(turns, restore, recorded, values, interrupts)
        except ShownAlready as error:
            failed = error
        except KeyboardInterrupt as error:  # between two runs; one within a run was shown by its cell
            # it may have come while `capture_output` began or ended
            sys.stdout, sys.stderr, sys.displayhook, self.shell.display_pub = streams
            sys.stderr.write(f"{MAGIC}: interrupted\n")
            failed = ShownAlready.of(error)
        if all(recorded.values()):
            self._show(turns, _compared(recorded), values)
        if failed is not None:
            raise failed

    def _run_all(
        self,
        turns: Turns,
        restore: Callable[[], None],
        recorded: dict[str, list[Profile]],
        values: dict[str, Any],
        interrupts: CountedInterrupts,
    ) -> None:
        """Run all rounds; ShownAlready if a run failed."""
        for number in range(turns.rounds):
            for side in "ab" if number % 2 == 0 else "ba":
                restore()
                self._record(turns, side, number, recorded, values)
                if interrupts.count:  # the run caught it, or Python dropped it in a finalizer
                    recorded[side].pop()
                    raise KeyboardInterrupt
            if _known_well(recorded, turns.until):
                break

    def _record(
        self, turns: Turns, side: str, number: int, recorded: dict[str, list[Profile]], values: dict[str, Any]
    ) -> None:
        """Run one body once; ShownAlready if it did not run to its end."""
        before = current.last()
        with capture_output() if number else nullcontext() as output:
            source = f"{options.MAGIC} {turns.line}\n{turns.a if side == 'a' else turns.b}"
            result = self.shell.run_cell(source, store_history=False)
        if not result.success:
            if output is not None:
                output.show()
            raise ShownAlready.of(result.error_in_exec or result.error_before_exec)
        profile = current.last()
        if profile is None or profile is before:
            raise ShownAlready
        recorded[side].append(profile)
        if not number:  # later values are not shown; IPython keeps what it shows
            values[side] = result.result

    def _show(self, turns: Turns, compared: Comparison, values: dict[str, Any]) -> None:
        self.shell.user_ns[turns.name or "_comparison"] = compared
        display(compared)
        for text in (_difference(values), _left_out(turns, self.shell.user_ns)):
            if text:
                print(text)  # noqa: T201  (what the magic is for)


TurnsMagics.profile_ab.__doc__ = _HELP


def _compared(recorded: dict[str, list[Profile]]) -> Comparison:
    """Compare the two versions, using the rounds in which both ran."""
    from ..comparison.comparison import compare

    whole = min(map(len, recorded.values()))
    return compare(recorded["a"][:whole], recorded["b"][:whole], paired=True)


def _known_well(recorded: dict[str, list[Profile]], until: float | None) -> bool:
    if until is None or min(map(len, recorded.values())) < LEAST_RUNS:
        return False
    compared = _compared(recorded)
    low, high = compared.interval
    return max(compared.change - low, high - compared.change) <= until


def _difference(values: dict[str, Any]) -> str:
    """Compare the last values of both sides, if they are numbers, arrays or tensors."""
    if values.get("a") is None or values.get("b") is None:
        return ""
    with suppress(Exception):  # some user objects cannot be subtracted
        a, b = (_numbers(values[side]) for side in "ab")
        if a.shape != b.shape:
            return f"The last values have different shapes: {a.shape} and {b.shape}."
        largest = float(np.max(np.abs(a - b))) if a.size else 0.0
        how = "are equal" if largest == 0 else f"differ by {largest:.3g} at most"
        return f"The last values {how}."
    return ""


def _numbers(value: Any) -> Any:
    detach = getattr(value, "detach", None)
    return np.asarray(detach().cpu() if callable(detach) else value, np.float64)


def _left_out(turns: Turns, namespace: Mapping[str, Any]) -> str:
    """Name the objects that both versions change and that carried their state over from run to run."""
    with suppress(SyntaxError):
        words = {
            node.id
            for body in (turns.a, turns.b)
            for node in ast.walk(ast.parse(body))
            if isinstance(node, ast.Name)
        }
        names = sorted(
            name for name in words - set(turns.restore) if name in namespace and restorable(namespace[name])
        )
        if names:
            listed = ",".join(names)
            return f"These change from run to run; --restore {listed} gives each run the same state."
    return ""
