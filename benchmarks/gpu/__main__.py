"""Everything that a card can tell, in one call."""

from __future__ import annotations

import argparse
import json
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from notebook_prof.collectors.nvml.collector import NvmlCollector

from ..__main__ import as_markdown, machine
from . import __doc__ as about
from . import machine as card
from . import ncu, outcomes, plan, runner
from .outcomes import FACTS, LACKS, ROWS, Outcome
from .scene import measure


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for, print tables, keep what is small."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=about)
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="keep recordings, figures and outcomes here"
    )
    parser.add_argument(
        "--only", metavar="PATTERN", action="append", help="jobs, as in 'scene/*' or 'test/*'"
    )
    parser.add_argument("--minutes", type=float, help="start nothing that would end later")
    parser.add_argument("--again", action="store_true", help="also what FOLDER says was done already")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs")
    parser.add_argument("--inside", metavar="JOB", help="do this one here, in this process")
    options = parser.parse_args(arguments)
    if options.inside is not None:
        return inside(options.inside, options.save)
    state = NvmlCollector.availability()
    if not state.ok and not options.list:
        print(f"needs an NVIDIA GPU: {state.reason}", file=sys.stderr)
        return 1
    jobs = [*plan.JOBS, *plan.tests(runner.collect())]
    jobs = [job for job in jobs if not options.only or any(fnmatch(job.name, one) for one in options.only)]
    if options.list:
        print("\n".join(job.name for job in jobs))
        return 0
    return _all(jobs, options.save, options.minutes, options.again, state.reason)


def inside(name: str, folder: Path | None) -> int:
    """One job in this process; its rows go out as one line of JSON."""
    kind, _, what = name.partition("/")
    if kind == "machine":
        rows: Any = getattr(card, what)()
        _give([rows] if isinstance(rows, dict) else rows)
    elif kind == "ncu":
        if lacking := ncu.missing():
            print(f"{LACKS}{lacking}")
            return 0
        _give(ncu.rows())
    else:
        from tests.gpu.scenes import BY_NAME

        scene, _, route = what.partition(":")
        if lacking := BY_NAME[scene].missing():
            print(f"{LACKS}{lacking}")
            return 0
        _give([measure(BY_NAME[scene], folder, route or None)])
    return 0


def _give(rows: list[dict[str, Any]]) -> None:
    print(ROWS + json.dumps(rows, ensure_ascii=False), flush=True)


def _all(jobs: list[plan.Job], folder: Path | None, minutes: float | None, again: bool, card_: str) -> int:
    outcome_of: dict[str, Outcome] = {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        outcome_of = outcomes.read(folder / "outcomes.json")
        done = () if again else [name for name, one in outcome_of.items() if one.outcome in ("ok", "skipped")]
        jobs = [job for job in jobs if job.name not in done]

    def save(one: Outcome) -> None:
        print(f"{one.outcome:>11}  {one.seconds:6.1f} s  {one.name}  {one.reason[:160]}", flush=True)
        outcome_of[one.name] = one
        if folder is not None:
            outcomes.write(folder / "outcomes.json", outcome_of.values())

    print(f"{machine()}; {card_}; {len(jobs)} jobs", flush=True)
    runner.run_all(jobs, folder, minutes, save)
    for name, value in next(
        (one.rows[0] for one in outcome_of.values() if one.name == FACTS and one.rows), {}
    ).items():
        print(f"{name}: {value}")
    rows = outcomes.figures(outcome_of.values())
    print(f"\n{as_markdown(rows)}\n\n{as_markdown(outcomes.table(outcome_of.values()))}")
    if folder is not None:
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        (folder / "performance.json").write_text(text + "\n", encoding="utf-8")
    return int(any(one.outcome not in ("ok", "skipped") for one in outcome_of.values()))


if __name__ == "__main__":
    sys.exit(main())
