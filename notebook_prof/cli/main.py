"""The entry point of ``notebook-prof``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from ..errors import NotebookProfError
from .analyze import add_analyze
from .diff import add_diff
from .expect import add_expect
from .files import add_convert, add_formats, add_report
from .run import add_run
from .summary import add_brief, add_sql, add_summary

FAILED: Final = 2
"""Exit code for refused requests, as for argparse's errors."""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="notebook-prof", description="Where did the time and the memory of a recorded run go?"
    )
    top.add_argument("--version", action="version", version=f"notebook-prof {version('notebook-prof')}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    asking = (add_analyze, add_summary, add_brief, add_diff, add_expect, add_sql)
    for add in (add_run, *asking, add_report, add_convert, add_formats):
        add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0, 1 if an expectation failed, or 2 with a sentence on standard error."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except FileNotFoundError as error:
        sys.stderr.write(f"notebook-prof: there is no file or folder {error.filename!r} here\n")
        return FAILED
    except (NotebookProfError, OSError) as error:
        sys.stderr.write(f"notebook-prof: {' '.join(str(error).split())}\n")
        return FAILED
