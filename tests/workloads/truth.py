"""Writes docs/truth.md: what is true of every workload, what was said before, and what is said now.

``python -m tests.workloads.truth RESULTS…`` writes it from what ``python -m tests.workloads --json`` kept;
so do tests/workloads with a file in ``NBP_TRUTH``. Rows of workloads that no file holds stay.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from .runner import Run

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "truth.md"

HEAD = """# The truth about any cell

Cells that nobody wrote to please a profiler (`tests/workloads/cells`), what is true of each, measured
independently (`perf_counter` around the parts, every top-level statement of a bare run, the system's books of
CPU time and of the highest resident memory), and what the Profile says. `tests/workloads` asserts each row
on `p.account()`, `p.lines()`, `p.steps()`, `p.phases()`, `p.memory.peak()` and `p.verdict.claims`.

```console
$ make truth          # run the workloads, and write this page from what they say
```

- *Before*: version 0.1.0, on the day when the cells were collected.
- *Now*: the first two lines of the verdict of one run each; {machine}. Its times are those of that run, which
  other programs may have slowed down; `python -m tests.workloads.truth` writes the table.

| workload | true | before | now |
|---|---|---|---|
"""

NEW = "not tried"
ROWS: dict[str, tuple[str, str]] = {
    "torchimp_pandas": (
        "a pandas cell, torch imported earlier in the session",
        '"Nothing was recorded: the trace has no slices"',
    ),
    "torchimp_trainprep": (
        "most of each step is `augment()` in Python, one line of the cell",
        '"97.8 % is Python and framework overhead around 81 small operators"; advice: torch.compile',
    ),
    "rss_peak": ("peak 754 MiB (`ru_maxrss`)", "145 MiB"),
    "matmul_next_call": ("nearly all in `X.T @ g`", '"One line takes 100.0 %: `def move(x): return x`"'),
    "eval_outside_steps": (
        "1.55 of 1.95 s is evaluation, outside the steps",
        "the verdict discusses the other 20 %",
    ),
    "three_models": ("60 optimizer steps over three models", "20 steps, of the smallest"),
    "lightning": (
        "40 steps; backward runs 40 times, in a closure inside of `optimizer.step`",
        'backward 0 %, optimizer 44 %; advice: `fused=True`, "37 %"',
    ),
    "lbfgs": ("closures evaluate forward and backward", "optimizer 99.9 %"),
    "rl": ("`env.step` takes most of the loop, the model's forward a fifth of that", "forward 66 %"),
    "torch_leak_acts": (
        "`acts` keeps 256 KiB a step: 32 tensors, 8 MiB at the end",
        '"nll_loss_forward leaves 4 B"',
    ),
    "dataset_loop": ("1 M rows in 0.058 s", "1.70 s (29 ×), 1,000,000 steps"),
    "plain_steps_window": ("`--steps 3:14` on a plain loop of 40 equal steps", "no slices"),
    "subproc": ("a child computes, then sleeps", '"Python-bound: Popen._try_wait"'),
    "http": ("ten requests of 0.15 s", '"Python-bound: SocketIO.readinto"'),
    "threads": ("two threads compute, one sleeps", '`crunch` nowhere; "Wait-bound … Condition.wait"'),
    "cf_thread": ("two threads hash on two cores", '"Wait-bound … Condition.wait", no line of the cell'),
    "slowdata": (
        "`time.sleep` in `Slow.__getitem__`; two workers would save 55 %",
        "data 85 %, no word of `__getitem__`; advice claims 14 %",
    ),
    "rf": ("`fit` on two cores", '"98.9 % in joblib, `Parallel._retrieve`"'),
    "gradaccum": ("32 micro-batches, 8 updates", "32 steps, not told apart"),
    "ddp": ("two child processes train", '"Nothing was recorded"'),
    "keras_torch": (
        "20 batches an epoch, two epochs, through keras' trainer",
        "no steps; advice speaks of steps",
    ),
    "hf_trainer": ("30 updates of two batches, evaluation in between", "evaluation counted as forward"),
    "hf_generate": ("text is generated, nothing trained", "15 × slower by the clock"),
    "nanogpt": ("20 updates of two batches, evaluation every tenth", "2.8 to 7.7 × slower by the clock"),
    "checkpoint_customfn": ("`Sq.backward` sleeps 2 ms in each of 32 steps", "fair"),
    "python_backward": ("a `backward` in plain Python: two sleeps, and a loop between them", NEW),
    "func_vmap": ("five gradients, no optimizer", "fair"),
    "sleep": ("asleep for 1.0 s and 0.5 s, a loop in between", "fair"),
    "jax": ("the first call compiles", "fair"),
    "flax": ("40 updates, the first compiles", "fair"),
    "one": ("`x = 1 + 1`", NEW),
    "orders": ("`apply(axis=1)` takes nearly all of it", NEW),
    "gzipio": ("writing, reading and searching text, as the cell prints", NEW),
    "gather": ("twenty tasks sleep 0.3 s together, then hash", NEW),
    "topawait": ("asleep for 0.4 s, then thirty sleeps of 10 ms in two tasks", NEW),
    "closures": ("eighty misses of a cache sleep 5 ms each", NEW),
    "raises": ("matrix products and 0.2 s of sleep before a KeyError", NEW),
    "pool": ("two processes count primes", NEW),
    "gan": ("40 batches, two optimizers", NEW),
    "transformer_fn": ("30 steps in a function, evaluation after every tenth", NEW),
    "trainer_class": ("96 steps of a trainer class", NEW),
    "bgtrain": ("100 steps in a thread", NEW),
    "ignite": ("40 steps, two evaluations of 20 batches", NEW),
    "fastai": ("40 steps, two validations of 20 batches", NEW),
    "epochs": ("train() and validate() of an earlier cell, 48 steps in two epochs", NEW),
    "magics": ("`!sleep 0.3`, then `%run` of a loop", NEW),
    "accumulate": ("40 micro-batches, 10 updates", NEW),
}


def keep(run: Run, file: Path) -> None:
    """Add a run to a file of results."""
    results = json.loads(file.read_text()) if file.exists() else {}
    versions = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}"
    results[run.workload.name] = {
        "machine": versions,
        "verdict": run.verdict,
        "kind": run.kind,
        "bare_s": run.bare_s,
        "wall_s": run.wall_s,
        "statements_s": run.statements_s,
        "printed": run.printed,
        "high_water_bytes": run.high_water_bytes,
        "steps": len(run.said.get("steps", ())),
    }
    file.write_text(json.dumps(results, indent=1))


def said(document: str) -> dict[str, str]:
    """What the last column says by workload."""
    return {
        match[1]: match[2].strip()
        for match in re.finditer(r"(?m)^\| `(\w+)` \|.*\| ((?:[^|\\]|\\.)*) \|$", document)
    }


def cell(text: str) -> str:
    """Text as a cell of a table."""
    return text.replace("|", "\\|").replace("\n", "<br>")


def render(results: dict[str, dict[str, Any]], before: str) -> str:
    """The document, from results by workload and the document as it was."""
    now = said(before)
    machines = [result["machine"] for result in results.values()]
    match = re.search(r"of one run each; (.*?)\. Its times", before)
    machine = machines[0] if machines else match[1] if match else "not run yet"
    for name, result in results.items():
        now[name] = cell("\n".join(result["verdict"].splitlines()[:2]))
    rows = [
        f"| `{name}` | {cell(true)} | {cell(was)} | {now.get(name, '')} |"
        for name, (true, was) in ROWS.items()
    ]
    return HEAD.format(machine=machine) + "\n".join(rows) + "\n"


def main(files: list[str]) -> int:
    """Write the document from the results in these files."""
    results: dict[str, dict[str, Any]] = {}
    for file in files:
        results.update(json.loads(Path(file).read_text()))
    before = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    DOCUMENT.write_text(render(results, before))
    print(f"{len(results)} rows written to {DOCUMENT.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
