"""Prints and writes the result of ``notebook-prof run``."""

from __future__ import annotations

import argparse
from typing import Final

from ..profiles.profile import Profile
from .expect import exit_code
from .output import say

FAILED: Final = 1
"""Exit code of a run with a cell or a script that failed."""


def finish(profile: Profile, options: argparse.Namespace) -> int:
    """Print and write the requested results; returns 1 or 2 if an expectation did not pass."""
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
