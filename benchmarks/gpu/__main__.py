"""Everything that a card can tell, in one call."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from ..__main__ import as_markdown, machine
from . import KEPT, jobs, outcomes, runner, wheels
from . import __doc__ as about
from .outcomes import FACTS

MINUTES: Final = 7.8
_RAN: Final = ("rehearsed", "no device work", "skipped")
"""How jobs of a successful rehearsal end; the archive has the reasons for the last two."""


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for, print tables, keep what is small."""
    options = _options(arguments)
    if options.inside is not None:
        return jobs.inside(options.inside, options.folder, options.device)
    if options.make_wheels is not None:
        without = filter(None, options.without.split(","))
        size = wheels.make(options.make_wheels, options.python, options.driver, without)
        print(f"{size / 1e6:.1f} MB of wheels in {options.make_wheels}")
        return 0
    end_s = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="nbp_gpu_") as temporary:
        return _all(options, Path(temporary), end_s)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=about)
    add = parser.add_argument
    add("--archive", type=Path, metavar="FILE", default=KEPT, help="what comes back")
    add("--wheels", type=Path, metavar="FOLDER", help="take from here what this Python lacks")
    add("--minutes", type=float, default=MINUTES, help="for all of it")
    add("--only", metavar="PATTERN", action="append", help="jobs, as in 'scene/*'")
    add("--again", action="store_true", help="also what the archive says was done")
    add("--list", action="store_true", help="print the names of the jobs")
    add("--rehearse", action="store_true", help="on the host with a played card; nothing is done by it")
    add("--make-wheels", type=Path, metavar="FOLDER", help="fetch the wheels, with a network")
    add("--python", default="3.12", help="the machine's, for --make-wheels")
    add("--driver", default="13.0", help="the CUDA that the machine's driver is for, for --make-wheels")
    add("--without", metavar="NAMES", default="", help="packages that the machine has, for --make-wheels")
    add("--inside", metavar="JOB", help=argparse.SUPPRESS)
    add("--folder", type=Path, help=argparse.SUPPRESS)
    add("--device", default="cuda", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rehearse and options.archive == KEPT:
        parser.error("a rehearsal needs an --archive of its own")
    return options


def _all(options: argparse.Namespace, temporary: Path, end_s: float) -> int:
    site, recordings = temporary / "site", temporary / "recordings"
    site.mkdir()
    recordings.mkdir()
    if options.wheels is not None:
        print(f"unpacked: {' '.join(wheels.unpack(options.wheels, site)) or 'nothing'}", flush=True)
    environment = runner.environment_of(site, options.rehearse)
    known = [*jobs.JOBS, *jobs.tests(runner.collect(environment))]
    chosen = [name for name in known if not options.only or any(fnmatch(name, one) for one in options.only)]
    if options.list:
        print("\n".join(chosen))
        return 0
    outcome_of, files = outcomes.read(options.archive if options.archive.is_file() else KEPT)
    done = {name for name, one in outcome_of.items() if one.outcome == "ok" and not options.again}
    chosen = [name for name in chosen if name not in done]
    print(f"{machine()}; {len(chosen)} jobs, {len(done)} done before", flush=True)
    failed = False
    for one in runner.run_all(chosen, recordings, environment, end_s, "cpu" if options.rehearse else "cuda"):
        if options.rehearse and one.outcome == "ok":
            one = replace(one, outcome="rehearsed")
        failed |= one.outcome not in (_RAN if options.rehearse else ("ok",))
        print(f"{one.outcome:>14}  {one.seconds:6.1f} s  {one.name}  {one.reason[:160]}", flush=True)
        outcome_of[one.name] = one
        for path in sorted(recordings.iterdir(), key=lambda path: path.stat().st_mtime_ns):
            files[path.name] = path.read_bytes()
        for name in outcomes.write(options.archive, outcome_of.values(), files):
            print(f"no room in the archive for {name}", flush=True)
    facts = outcome_of[FACTS].rows if FACTS in outcome_of else []
    print("\n".join(f"{name}: {value}" for row in facts for name, value in row.items()))
    print(f"\n{as_markdown(outcomes.figures(outcome_of.values()))}\n")
    columns = ("name", "outcome", "seconds", "reason")
    print(as_markdown({name: getattr(one, name) for name in columns} for one in outcome_of.values()))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
