"""``notebook-prof run``: runs a notebook or a script, and reports its times and memory."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from ..errors import OptionError
from ..expectations.language import Expectation
from .expect import add_expect_option
from .run_outcome import FAILED


def add_run(commands: Any) -> None:
    """Add the command to a parser."""
    description = (
        "Run a notebook in a fresh kernel with every cell watched, or a script under the profiler; then "
        "print times and memory. Options precede a script, whose arguments follow it; for a notebook they "
        "may follow. Exit code: that of the script; 1 if a cell or an expectation failed."
    )
    parser = commands.add_parser("run", help="run a notebook or a script, profiled", description=description)
    _add_options(parser)
    parser.add_argument("-m", dest="module", action="store_true", help="FILE is a module, as for python -m")
    parser.add_argument("file", metavar="FILE", help="a notebook (.ipynb), or a Python script")
    parser.add_argument("arguments", metavar="…", nargs=argparse.REMAINDER, help="of the script")
    parser.set_defaults(run=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", metavar="OUT.ipynb", help="write the executed notebook")
    add("--report", metavar="REPORT.html", help="write a report that needs neither network nor kernel")
    add("--save", metavar="RUN.nbprof", help="save the recording, for `notebook-prof diff` and the others")
    add("--no-source", action="store_true",
        help="leave source, file names and values of strings out of the report and of --save")  # fmt: skip
    add("-p", "--parameter", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="set a name after the cell tagged `parameters`, as papermill does; may be repeated")  # fmt: skip
    add("--full", metavar="CELL", action="append", default=[],
        help="also record this cell with %%%%profile: its number, as in 'cell 7', or a text in it; "
        "its recording is saved beside --save or --output")  # fmt: skip
    add("--kernel", metavar="NAME", help="kernel to use (default: the notebook's)")
    add("--timeout", metavar="SECONDS", type=int, help="time limit of a cell (default: none)")
    add("--steps", metavar="STEPS", help="record only these steps of a script, such as 3:14")
    add_expect_option(parser, "'notebook < 5min', 'cell 7 < 30s', 'peak < 8GiB'")


def run(options: argparse.Namespace) -> int:
    """Run the file; returns the exit code."""
    if options.file.endswith(".ipynb"):
        parser = argparse.ArgumentParser(prog="notebook-prof run FILE.ipynb")
        _add_options(parser)
        options = parser.parse_args(options.arguments, options)
        _check(options)
        if options.steps:
            raise OptionError("--steps is for scripts: --full records a cell of a notebook")
        try:
            from .run_notebook import run_notebook

            return run_notebook(options)
        except KeyboardInterrupt:  # before the first cell, or a second Ctrl-C
            sys.stderr.write("notebook-prof: interrupted\n")
            return FAILED
    if any((options.output, options.parameter, options.full, options.kernel, options.timeout)):
        raise OptionError(
            "-o, -p, --full, --kernel and --timeout are for notebooks: a script's arguments follow its name"
        )
    from .run_script import run_script

    _check(options)
    return run_script(options)


def _check(options: argparse.Namespace) -> None:
    """Check expectations and paths before the run, which may take hours and change the folder."""
    for text in options.expect:
        Expectation.parse(text)
    for name in ("output", "report", "save"):
        if path := getattr(options, name):
            setattr(options, name, os.path.abspath(path))
            _check_writable(os.path.abspath(path))


def _check_writable(path: str) -> None:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise OptionError(f"there is no folder {folder!r} to write {os.path.basename(path)!r} to")
    if not os.access(folder, os.W_OK):
        raise OptionError(
            f"the folder {folder!r} is not writable, so {os.path.basename(path)!r} cannot be written"
        )
