"""Everything that a card can tell, in one call."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from ..__main__ import as_markdown, machine
from . import KEPT, archive, outcomes, plan, runner, wheels
from . import __doc__ as about
from .outcomes import FACTS, LACKS, ROWS, Outcome

MINUTES: Final = 8.0


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for, print tables, keep what is small."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=about)
    parser.add_argument("--archive", type=Path, metavar="FILE", default=KEPT, help="what comes back")
    parser.add_argument(
        "--onto",
        type=Path,
        metavar="FILE",
        default=KEPT,
        help="go on from this archive, where ARCHIVE is new",
    )
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="take from here what this Python lacks")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for all of it")
    parser.add_argument("--only", metavar="PATTERN", action="append", help="jobs, as in 'scene/*'")
    parser.add_argument("--again", action="store_true", help="also what the archive says was done")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs")
    parser.add_argument(
        "--rehearse", action="store_true", help="on the CPU, without a card: nothing counts as done"
    )
    parser.add_argument("--make-wheels", type=Path, metavar="FOLDER", help="fetch the wheels, with a network")
    parser.add_argument("--without", metavar="NAMES", default="", help="packages that the machine has")
    parser.add_argument("--inside", metavar="JOB", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside is not None:
        return inside(options.inside, options.folder, options.device)
    if options.make_wheels is not None:
        size = wheels.make(options.make_wheels, without=filter(None, options.without.split(",")))
        print(f"{size / 1e6:.1f} MB of wheels in {options.make_wheels}")
        return 0
    end_s = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="nbp_gpu_") as temporary:
        return _all(options, Path(temporary), end_s)


def inside(name: str, folder: Path, device: str) -> int:
    """One job in this process; its rows go out as one line of JSON."""
    if lacking := _lacks(name, device):
        print(f"{LACKS}{lacking}")
        return 0
    print(ROWS + json.dumps(_rows(name, folder, device), ensure_ascii=False), flush=True)
    return 0


def _lacks(name: str, device: str) -> str:
    from notebook_prof.collectors.nvml.collector import NvmlCollector
    from notebook_prof.optional import installed
    from tests.gpu.scenes import BY_NAME

    kind, _, what = name.partition("/")
    if kind in ("machine", "nvml"):
        state = NvmlCollector.availability()
        return "" if state.ok or (kind == "machine" and device == "cpu") else state.reason
    scene, _, route = what.partition(":")
    needs = set(BY_NAME[scene].needs) if scene in BY_NAME else {"torch"}
    if route == "kineto":
        needs.add("torch")
    if kind == "kernel":
        needs |= {"ipykernel", "jupyter_client"}
    if absent := sorted(need for need in needs if not installed(need)):
        return f"{', '.join(absent)} not installed"
    if device == "cpu":
        return "" if needs <= {"torch", "ipykernel", "jupyter_client"} else "a rehearsal has torch only"
    if "torch" in needs:
        import torch

        if not torch.cuda.is_available():
            return "torch cannot use a GPU here"
    return ""


def _rows(name: str, folder: Path, device: str) -> list[dict[str, Any]]:
    from tests.gpu.scenes import BY_NAME

    from . import kineto, machine, scene

    kind, _, what = name.partition("/")
    if name == FACTS:
        return machine.facts()
    if kind == "nvml":
        return machine.counters()
    if kind == "kernel":
        return kineto.beside(what, folder, device)
    if name == "kineto/launches":
        return kineto.launches(folder, device)
    if name == "kineto/reasons":
        return kineto.reasons(device)
    of_scene, _, route = what.partition(":")
    if kind == "sessions":
        return scene.sessions(BY_NAME[of_scene], folder, device)
    return scene.measure(BY_NAME[of_scene], folder, route or None, device)


def _all(options: argparse.Namespace, temporary: Path, end_s: float) -> int:
    site, recordings = temporary / "site", temporary / "recordings"
    recordings.mkdir()
    if options.wheels is not None:
        print(f"unpacked: {' '.join(wheels.unpack(options.wheels, site)) or 'nothing'}", flush=True)
    environment = runner.environment_with(site)
    jobs = list(plan.JOBS)
    wants_tests = not options.only or any(one.startswith(("test/", "*")) for one in options.only)
    if wants_tests and not options.rehearse:
        jobs += plan.tests(runner.collect(environment))
    jobs = [job for job in jobs if not options.only or any(fnmatch(job.name, one) for one in options.only)]
    if options.list:
        print("\n".join(job.name for job in jobs))
        return 0
    before = archive.read(options.archive if options.archive.is_file() else options.onto)
    outcome_of = dict(before.outcomes)
    done = [name for name, one in outcome_of.items() if one.outcome == "ok" and not options.again]
    jobs = [job for job in jobs if job.name not in done]

    def save(one: Outcome) -> None:
        if options.rehearse and one.outcome == "ok":
            one = replace(one, outcome="rehearsed")
        print(f"{one.outcome:>14}  {one.seconds:6.1f} s  {one.name}  {one.reason[:160]}", flush=True)
        outcome_of[one.name] = one
        now = {path.name: path.read_bytes() for path in sorted(recordings.iterdir(), key=_age)}
        for name in archive.write(options.archive, outcome_of.values(), before.files | now):
            print(f"no room in the archive for {name}", flush=True)

    print(f"{machine()}; {len(jobs)} jobs, {len(done)} done before", flush=True)
    device = "cpu" if options.rehearse else "cuda"
    ran = runner.run_all(jobs, recordings, environment, device=device, end_s=end_s, on_outcome=save)
    for name, value in next(
        (one.rows[0] for one in outcome_of.values() if one.name == FACTS and one.rows), {}
    ).items():
        print(f"{name}: {value}")
    print(f"\n{as_markdown(outcomes.figures(outcome_of.values()))}\n")
    print(as_markdown(outcomes.table(outcome_of.values())))
    return int(any(one.outcome != "ok" for one in ran))


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


if __name__ == "__main__":
    sys.exit(main())
