"""The options of ``%%profile`` and ``%profile``: one declaration for parser, help text and documentation."""

from __future__ import annotations

import argparse
import functools
import keyword
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn, get_args

from ..collectors.options import CollectorOptions, EngineName
from ..errors import OptionError, nearest
from ..session.plan import Plan, recording_text
from ..session.schedule import StepRange, WholeRun, step_range
from ..session.sources import STEP_BY
from ..units import parse_ns, parse_share

MAGIC = "%%profile"


@dataclass(frozen=True)
class MagicOptions(Plan):
    """The parsed options of a ``%%profile`` line: the plan of its recording, and what becomes of that."""

    name: str | None = None
    loop_line: int | None = None
    quiet: bool = False
    save: Path | None = None
    run_name: str = ""
    keep: bool = False
    history: bool = True

    @property
    def steps(self) -> StepRange | None:
        """The requested steps; None for the whole cell."""
        return self.schedule if isinstance(self.schedule, StepRange) else None

    @property
    def takes_any_loop(self) -> bool:
        """Whether a loop without a sign of training counts steps, too."""
        return self.steps is not None or self.step_by == "loop"

    @property
    def recording(self) -> str:
        """The options that affect a recording's times, as text."""
        return recording_text(self.collectors, self.steps, self.step_by, self.options)


class OptionParser(argparse.ArgumentParser):
    """A parser whose errors are OptionErrors that name the magic."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of ending the process, as argparse would."""
        raise OptionError(f"{self.prog}: {message}")


def parse(line: str, *, named: bool = True) -> MagicOptions:
    """Parse the options after ``%%profile``; for an unknown one, OptionError names the most similar."""
    parser = build_parser(named)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise OptionError(f"{parser.prog}: {line!r} cannot be split into words: {error}") from None
    namespace, unknown = parser.parse_known_args(words)
    if unknown:
        raise OptionError(_unknown(parser, unknown[0]))
    if namespace.help:
        raise OptionError(f"{parser.prog}: --help takes no other options")
    return _checked(namespace, parser.prog)


@functools.cache  # parsers are reference cycles
def build_parser(named: bool = True) -> argparse.ArgumentParser:
    """Declare every option, once."""
    parser = OptionParser(
        prog=MAGIC if named else MAGIC[1:],
        add_help=False,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=24, width=100),
    )
    if named:
        parser.add_argument("name", nargs="?", metavar="NAME", help="variable for the Profile")
    add = parser.add_argument
    add("--steps", metavar="A:B", help="record steps A to B-1 only, as in a slice; default: everything")
    add(
        "--with",
        dest="collectors",
        metavar="LIST",
        help="collectors, separated by commas; default: python, torch if it is imported, and system",
    )
    add(
        "--step-by",
        choices=STEP_BY,
        default="auto",
        help="what counts steps: nbp.step() marks, the training loop of the cell, optimizer.step(), "
        "or batches of a DataLoader; auto takes the first of these that exists (except DataLoader)",
    )
    add(
        "--loop",
        type=int,
        metavar="LINE",
        help="count steps by the loop that starts on this line of the cell",
    )
    add(
        "--shapes",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="record input shapes of operators (default: yes, unless an earlier recording of the same "
        "cell took longer to stop than the cell to run)",
    )
    _switch(parser, "--memory", "allocations of memory")
    add(
        "--heap",
        action="store_true",
        help="record which code allocated the host's heap at its peak, by memray; slows down code of many "
        "small calls",
    )
    _switch(parser, "--modules", "the module of each operator")
    add("--stack", action="store_true", help="record Python frames beside operators; up to twice as slow")
    add(
        "--python",
        choices=("sample", "calls"),
        help="how Python code is recorded: sample lines (default), or trace calls",
    )
    add(
        "--engine",
        default="auto",
        metavar=f"{{{','.join(get_args(EngineName))}}}",
        help="sampler of stacks: py-spy from outside the process, or a thread in it",
    )
    add("--warmup", type=int, default=1, metavar="N", help="steps before A that warm up and are dropped (1)")
    add("--stop-after", action="store_true", help="leave the loop after the last requested step")
    add(
        "--until",
        metavar="SHARE",
        help="end the recording when the median step is known to this share of itself, as in 2%%",
    )
    add("--min-duration", default="0", metavar="TIME", help="drop Python calls shorter than this, as in 5us")
    add("--devices", metavar="LIST", help="keep work, memory and counters of these GPUs only, as in 0,1")
    add("--pcie", action="store_true", help="also record PCIe throughput, with the other counters")
    add(
        "--children",
        default="",
        metavar="FOLDER",
        help="import traces that child processes write there with torch.profiler, such as an inference "
        "engine's",
    )
    add("--quiet", action="store_true", help="do not display the Profile")
    add("--save", metavar="FILE", help="also save the Profile to this file")
    add("--name", dest="run_name", metavar="WORD", help="name of this run in the history, for nbp.load(WORD)")
    add("--keep", action="store_true", help="keep the recording in the history, not only its totals")
    add(
        "--history",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="add a row to the project's history (default: yes, unless NOTEBOOK_PROF_HISTORY=off)",
    )
    add("-h", "--help", action="store_true", help="show this text")
    return parser


def help_text(named: bool = True) -> str:
    """Return the usage and options as text of at most 100 columns."""
    return build_parser(named).format_help()


def flags(named: bool = True) -> dict[str, bool]:
    """Return every option string, and whether it takes a value."""
    actions = build_parser(named)._actions
    return {flag: action.nargs != 0 for action in actions for flag in action.option_strings}


def _switch(parser: argparse.ArgumentParser, flag: str, meaning: str) -> None:
    parser.add_argument(
        flag, action=argparse.BooleanOptionalAction, default=True, help=f"record {meaning} (default: yes)"
    )


def _checked(namespace: argparse.Namespace, prog: str) -> MagicOptions:
    name = getattr(namespace, "name", None)
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise OptionError(f"{prog}: NAME must be the name of a variable, {name!r} is not one")
    try:
        steps = None if namespace.steps is None else step_range(namespace.steps, namespace.warmup)
        until = None if namespace.until is None else parse_share(namespace.until, "--until")
        namespace.min_duration_ns = parse_ns(namespace.min_duration)
        namespace.devices = _devices(namespace.devices)
        recorded = CollectorOptions(
            **{field.name: getattr(namespace, field.name) for field in fields(CollectorOptions)}
        )
    except OptionError as error:
        raise OptionError(f"{prog}: {error}") from None
    run_name = namespace.run_name or ""
    if run_name.isdecimal():
        raise OptionError(f"{prog}: --name {run_name!r} is the number of a run; use a word")
    if not namespace.history and (run_name or namespace.keep):
        raise OptionError(f"{prog}: --no-history contradicts --name and --keep; leave one out")
    if namespace.loop is not None and namespace.step_by not in ("auto", "loop"):
        raise OptionError(f"{prog}: --loop and --step-by {namespace.step_by} contradict each other; give one")
    return MagicOptions(
        name=name,
        schedule=steps or WholeRun(),
        collectors=_names(namespace.collectors),
        step_by="loop" if namespace.loop is not None else namespace.step_by,
        loop_line=namespace.loop,
        options=recorded,
        title="a profiled cell that has not ended",
        stop_after=namespace.stop_after,
        until=until,
        quiet=namespace.quiet,
        save=None if namespace.save is None else Path(namespace.save).expanduser(),
        run_name=run_name,
        keep=namespace.keep,
        history=namespace.history,
    )


def _devices(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    words = _names(text)
    if not all(word.isdecimal() for word in words):
        raise OptionError(f"--devices {text!r} is not a list of numbers, as in 0,1")
    return tuple(map(int, words))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _unknown(parser: argparse.ArgumentParser, word: str) -> str:
    if not word.startswith("-"):
        return f"{parser.prog}: at most one NAME, then options; {word!r} is too much"
    names: Sequence[str] = sorted(flags())
    return f"{parser.prog}: no option {word.partition('=')[0]}; {nearest(word.partition('=')[0], names)}"
