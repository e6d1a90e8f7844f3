"""Critical path and what-if: their cost, how far they explain recordings, and simulated programs.

Seconds are CPU time of the process, memory is the largest of what NumPy and Python held during the call.
Replay error is that of `what_if`: of an unchanged replay in which every start and wait has the usual lag of
its kind. `NBP_RECORDINGS=FILE:FILE` measures recordings of one's own; the first is repeated
to a million slices and to ten. `python -m benchmarks.why` measures each sample of the tests and writes the
table of benchmarks/results/every_sample.md.
"""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import notebook_prof as nbp
from notebook_prof.analysis import critical_path, device_idle, what_if
from notebook_prof.analysis.critical_path.dependences import _dependences, dependences
from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.units import format_share
from tests import samples
from tests.programs import Costs, Run, elsewhere, joined, program

TITLE = "Why, and what if"
DATA = Path(__file__).parents[1] / "tests" / "data"
RECORDINGS = sorted((DATA / "torch213_cpu").glob("*.pt.trace.json.gz"))
SIZES = (1_000_000, 10_000_000)
PROGRAMS = 60
TRIES = 5


def repeated(trace: Trace, slices: int) -> Trace:
    """The recording again and again, one after another, up to so many slices."""
    table, tracks, flows = trace.slices, trace.tracks, trace.flows[trace.flows["kind"] == "launch"]
    builder = TraceBuilder(metadata=dict(trace.metadata, tables={}))
    keys: dict[int, int] = {}
    for row in tracks.to_dict("records"):
        numbers: dict[str, Any] = {
            name: int(row[name]) for name in ("pid", "tid", "device", "stream") if not pd.isna(row[name])
        }
        keys[int(row["track"])] = builder.track(str(row["name"]), str(row["kind"]), **numbers)
    track = table["track"].map(keys).to_numpy(np.int64)
    columns: dict[str, Any] = {name: table[name].astype(object).to_numpy() for name in ("name", "category")}
    columns |= {name: table[name].to_numpy(np.int64, na_value=-1) for name in ("device", "stream")}
    phase = table["phase"].astype(object).where(table["phase"].notna(), None).to_numpy()
    source, target = flows["src"].to_numpy(), flows["dst"].to_numpy()
    for number in range(max(round(slices / len(table)), 1)):
        shift = number * (trace.span.end + 1_000)
        at = table["ts"].to_numpy() + shift
        own = builder.slices(ts=at, dur=table["dur"].to_numpy(), track=track, phase=phase, **columns)
        builder.flows("launch", own[source], own[target])
    return builder.seal()


def cost(call: Callable[[], Any]) -> tuple[float, float]:
    """CPU seconds, the least of some tries, and MB at the peak."""
    seconds = []
    for _ in range(TRIES):
        gc.collect()
        before = time.process_time()
        call()
        seconds.append(time.process_time() - before)
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(seconds), peak / 1e6


def costs(name: str, trace: Trace) -> dict[str, Any]:
    """What each question costs, and what the replay is off by."""
    calls: dict[str, Callable[[], Any]] = {
        "dependences": lambda: _dependences(trace, None, None),
        "path by class": lambda: critical_path(trace, by="class"),
        "pieces": lambda: critical_path(trace),
        "what if": lambda: what_if(trace, scale={"*": 0.9}),
        "idle": lambda: device_idle(trace),
    }
    dependences(trace)
    spent = {key: cost(call) for key, call in calls.items()}
    error = what_if(trace, scale={"*": 0.9}).replay_error
    row: dict[str, Any] = {"recording": name, "slices": len(trace.slices)}
    row |= {f"{key} s": round(seconds, 3) for key, (seconds, _) in spent.items()}
    return {
        **row,
        "MB": round(max(peak for _, peak in spent.values()), 1),
        "replay error %": round(100 * error, 2),
    }


def sample_row(sample: str, trace: Trace) -> dict[str, str]:
    """What the table *Every sample* says of a recording; the test of all samples holds error and answer.

    CPU seconds and MB are of both questions on a Trace that was just read: path and what if.
    """
    row = {"recording": f"`{sample}`", "slices": f"{len(trace.slices):,}"}
    tracemalloc.start()
    before = time.process_time()
    critical_path(trace, by="class")
    answer = what_if(trace, scale={"/^/": 0.9})
    seconds, peak = time.process_time() - before, tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    row |= {"CPU s": f"{seconds:.2f}", "MB": f"{peak:.1f}"}
    if not np.isfinite(answer.replay_error):
        return row | {"replay error": "–", "answer": "refused: nothing to replay"}
    return row | {
        "replay error": format_share(answer.replay_error, 2),
        "answer": "refused" if answer.refused else "given",
    }


MARK = "<!-- every sample: python -m benchmarks.why -->\n"
DOCS = Path(__file__).parent / "results" / "every_sample.md"


def write_samples() -> None:
    """Measure all samples that have slices, and put their table into its file behind the mark."""
    rows = []
    for sample in samples.expected():
        if samples.path_of(sample).exists() and len((trace := read_trace(samples.path_of(sample))).slices):
            rows.append(sample_row(sample, trace))
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    DOCS.write_text(DOCS.read_text().partition(MARK)[0] + MARK + table)


CASES: dict[str, Any] = {
    "file tells what waits are for": {},
    "not told": {"waits_told": False},
    "helper thread beside it": {"helper": True},
    "latencies up to 4 µs late": {"noise": 4_000},
    "latencies up to 4 µs late, not told": {"noise": 4_000, "waits_told": False},
}


def programs(name: str, *, waits_told: bool = True, helper: bool = False, noise: int = 0) -> dict[str, Any]:
    """How often the walk finds the true path of simulated programs, and how much it charges otherwise."""
    equal, off = [], []
    for seed in range(PROGRAMS):
        beside = elsewhere(program(seed + 1_000, length=12, threads=False)) if helper else []
        run = Run(program(seed), Costs(noise=noise, seed=seed), helper=beside)
        pieces = critical_path(run.trace(waits_told=waits_told))
        names = pieces["name"].astype(object).fillna("")
        resource = pieces["resource"].astype(str).str.rsplit(" ", n=1).str[-1]
        walked = joined(list(zip(pieces["start_ns"], pieces["end_ns"], resource, names, strict=True)))
        true = joined(run.path())
        equal.append(walked == true)
        off.append(difference(true, walked) / run.end)
    shares = (np.mean(equal), np.mean(off), np.max(off))
    return {
        "programs": name,
        **{key: round(100 * float(x), 2) for key, x in zip(_SHARES, shares, strict=True)},
    }


_SHARES = ("equal %", "charged otherwise %", "worst %")


def difference(one: list[Any], other: list[Any]) -> int:
    """Time that two paths charge to different resources or slices."""
    cuts = np.unique([instant for piece in [*one, *other] for instant in piece[:2]])
    whose = [
        [path[k][2:] for k in np.searchsorted([piece[0] for piece in path], cuts[:-1], side="right") - 1]
        for path in (one, other)
    ]
    unlike = np.array([a != b for a, b in zip(*whose, strict=True)])
    return int(np.diff(cuts)[unlike].sum())


def recorded_again() -> Iterator[dict[str, Any]]:
    """Planted cases: what is predicted from one recording, and what another with the change measures."""
    import torch

    torch.set_num_threads(1)

    def record(load: float = 0.0, body: float = 0.01, wait: float = 0.0) -> Any:
        layer = torch.nn.Linear(64, 64)
        with nbp.profile("torch", steps=(4, 20)) as profile:
            for _ in nbp.steps(range(26)):
                with nbp.annotate("next", phase="data"):
                    time.sleep(load)
                with nbp.annotate("work"):
                    time.sleep(body)
                    layer(torch.ones(64, 64)).sum().backward()
                with nbp.annotate("wait for it"):
                    time.sleep(wait)
        return profile

    planted: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
        "sleep in the loader": ({"load": 0.012}, {"data": 0}),
        "wait in the loop": ({"wait": 0.015}, {"scale": {"wait for it": 0}}),
        "loader half as slow": ({"load": 0.012}, {"data": 0.5}),
    }
    then = {"loader half as slow": {"load": 0.006}}
    for name, (now, change) in planted.items():
        answers, again = [], []
        for _ in range(TRIES):  # in turns, so that what else runs meanwhile is the same for both
            answers.append(record(**now).what_if(**change))
            again.append(float(record(**then.get(name, {})).trace.steps["dur"].mean()))
        before, after = (
            float(np.median([getattr(one, key) for one in answers])) for key in ("before", "after")
        )
        measured = float(np.median(again))
        yield {
            "planted": name,
            "recorded ms": round(before / 1e6, 2),
            "predicted ms": round(after / 1e6, 2),
            "recorded again ms": round(measured / 1e6, 2),
            "off by %": round(100 * abs(after / measured - 1), 1),
        }


def run() -> Iterator[dict[str, Any]]:
    """Rows: cost and replay error of recordings; of large ones; simulated programs; planted cases."""
    files = list(map(Path, filter(None, os.environ.get("NBP_RECORDINGS", "").split(":")))) or RECORDINGS
    traces = {path.name: nbp.open_profile(path).trace for path in files}
    for name, trace in traces.items():
        yield costs(name, trace)
    name, first = next(iter(traces.items()))
    for slices in SIZES:
        yield costs(f"{name}, repeated", repeated(first, slices))
    for case, options in CASES.items():
        yield programs(case, **options)
    yield from recorded_again()


if __name__ == "__main__":
    write_samples()
