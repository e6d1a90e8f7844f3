"""Run workloads and print what was measured beside the profiler and what the Profile says.

``python -m tests.workloads NAME…``, ``--all``, or the path of a file with a cell of your own. ``--json FILE``
adds the runs to a file, for `tests.workloads.truth`.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd

from .runner import CELLS, Notebook, Run, load
from .truth import keep


def show(run: Run) -> None:
    pd.set_option("display.width", 200, "display.max_columns", 30, "display.max_colwidth", 60)
    print("=" * 100, f"\n{run.workload.name}")
    ratio = f"bare {run.bare_s:.2f} s, profiled {run.wall_s:.2f} s: {run.wall_s / run.bare_s:.2f} x"
    print(ratio, "| printed:", run.printed.strip()[-300:].replace("\n", " / "))
    if run.error:
        print("error:", run.error.splitlines()[0])
    for took in run.statements_s:
        total = sum(took.values()) or 1
        print(f"truth: statements of a bare run, {total:.3f} s:")
        print(" ", ", ".join(f"line {n} {s:.3f} s = {s / total:.0%}" for n, s in took.items()))
    print(
        "  used", {k: round(v, 2) for k, v in run.used.items()}, "high water MiB", run.high_water_bytes >> 20
    )
    print("VERDICT\n" + run.verdict)
    for name, rows in {"account": 30, "lines": 12, "memory_peak": 9, "hotspots": 6}.items():
        if name in run.said:
            table = run.said[name].head(rows).drop(columns=["ts", "first"], errors="ignore")
            print(f"-- {name}\n{table.to_string()}")
    shares = run.phase_shares() if "phases" in run.said else ""
    print("-- steps", len(run.said.get("steps", ())), "phases", shares)
    print("-- claims", [(c["text"], c["table"], c["holds"]) for c in run.claims])
    print("-- report", run.report)
    print("-- advice", *run.advised, sep="\n   ")
    print("-- failures", run.failures)


def main(arguments: list[str]) -> int:
    """Run what is asked, each in a kernel of its own."""
    file = None
    if "--json" in arguments:
        at = arguments.index("--json")
        file = Path(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2 :]
    every = sorted(f.stem for f in CELLS.glob("*.py") if f.stem != "mytrain")
    names = every if arguments == ["--all"] else arguments
    for name in names:
        path = Path(name)
        workload = load(path.stem, path.resolve().parent) if path.suffix == ".py" else load(name)
        with tempfile.TemporaryDirectory() as folder:
            notebook = Notebook(Path(folder))
            try:
                fails = "# raises" in workload.setup
                run = notebook.play(workload, bare=name != "rss_peak", fails=fails)
                show(run)
                if file is not None:
                    keep(run, file)
            except AssertionError as error:
                print("=" * 100, f"\n{name}\nDID NOT RUN: {error}")
            finally:
                notebook.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
