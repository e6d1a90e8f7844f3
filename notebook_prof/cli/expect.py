"""``notebook-prof expect`` checks a recording against limits, as ``notebook-prof run`` does at its end."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..expectations.outcomes import FAIL, PASS, Expectations
from ..profiles.files import open_profile
from ..profiles.profile import Profile
from .output import data_text, say


def add_expect(commands: Any) -> None:
    description = (
        "Check expectations of a recording, of any format: 'step p50 < 120ms', 'phase data < 5%', "
        "'device idle < 10%', 'peak < 8GiB', 'sync == 0', 'operator aten::copy_ < 2%', 'line 12 < 5%'. "
        "Exit code 0: all passed; 1: one failed; 2: one could not be decided."
    )
    parser = commands.add_parser(
        "expect", help="check a recording against limits, for CI", description=description
    )
    parser.add_argument("file", metavar="FILE", help="the recording")
    parser.add_argument("expectations", metavar="EXPECTATION", nargs="+", help="quantity, operator, limit")
    parser.add_argument("--json", action="store_true", help="print the table as JSON instead")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the outcomes; returns the exit code."""
    results = open_profile(options.file).expect(*options.expectations, check=False)
    say(data_text("json", results.table) if options.json else str(results))
    return exit_code(results)


def add_expect_option(parser: argparse.ArgumentParser, examples: str) -> None:
    parser.add_argument(
        "--expect",
        metavar="EXPECTATION",
        action="append",
        default=[],
        help=f"an expectation: {examples}; may be repeated. Exit code 1: one failed; 2: not decided",
    )


FAILED: Final = 1
"""Exit code of a run with a cell or a script that failed."""


def finish(profile: Profile, options: argparse.Namespace) -> int:
    """Print and write the results of ``run``; returns 1 or 2 if an expectation did not pass."""
    say(profile.headline)
    if options.save:
        profile.save(options.save, source=not options.no_source)
    if options.report:
        profile.export.html(options.report, source=not options.no_source)
    if not options.expect:
        return 0
    results = profile.expect(*options.expect, check=False)
    say(str(results))
    return exit_code(results)


def exit_code(results: Expectations) -> int:
    """Return 0 if all passed, 1 if one failed, 2 if one could not be decided."""
    return {PASS: 0, FAIL: 1}.get(results.outcome, 2)
