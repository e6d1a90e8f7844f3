"""Many ranks in bounded memory: time a rank, peak memory, a Dask cluster of two workers, and what that means.

The ranks are replicas of one synthetic training rank in Kineto's dialect (operators, launches, kernels,
three all-reduces a step), each with its clock set wrong by up to a second, and some of them planted
stragglers, which come late to every all-reduce. Each measurement runs in a fresh process; memory is the
peak of the resident sets of that process and all that it started, sampled every 50 ms. Found means that the
latest ranks are exactly the planted ones, and that all clocks were found to the microsecond.

CPU is that of all processes from the question to the answer, without what was started before. *Two warm
processes* read and reduce with no Dask at all: what the two cores give. *As typed* is
``LocalCluster(n_workers=2, threads_per_worker=1)``; *quiet* is one whose own chores are turned down
(`QUIET`). Clusters and warm processes are there before the question; our own two processes are started by
it. The longest path is the CPU time of the busiest worker and of the notebook's process together: what the
clock would show on an idle machine, whatever else runs meanwhile.

``python -m benchmarks.ranks`` takes about two minutes; ``--full`` takes 256 ranks of 30 MB (8 GB of disk,
about 25 minutes).
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import numpy as np
import psutil

import notebook_prof as nbp
from notebook_prof.ranks import rankset
from notebook_prof.ranks.analysis.tables import STANDARD
from notebook_prof.ranks.files import inspected
from notebook_prof.ranks.one_rank import reduce_rank

TITLE = "Many ranks"
BASE_NS = 1_790_000_000_000_000_000
OPERATORS = 300
LATE_US = 400
STRAGGLERS = 3
ROUNDS = 2
SCALED = {"counts": (8, 32), "megabytes": 6}
FULL = {"counts": (8, 64, 256), "megabytes": 30}
FAR_RANKS, FAR_WORKERS = 4096, 64
LINK_BYTES_PER_S = 100e6
TASK_S = 1e-3
WAYS = {
    "1": "one process",
    "2": "two processes, started for it",
    "warm": "two warm processes, no Dask",
    "cluster": "LocalCluster of 2, as typed",
    "quiet": "LocalCluster of 2, quiet",
}
QUIET = {
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.monitor-interval": "10s",
}
"""What Dask's processes do besides our work, turned down."""


def step_events(number: int, late: int) -> list[dict[str, Any]]:
    """One step: operators that launch kernels, with an all-reduce after each third of them."""
    events: list[dict[str, Any]] = []
    start = number * 20_000.0
    span = {"ph": "X", "cat": "user_annotation", "pid": 100, "tid": 100}
    events.append({**span, "name": f"ProfilerStep#{number}", "ts": start, "dur": 19_999.0})
    for i in range(OPERATORS):
        at, link = start + 10 + i * 55, (number * OPERATORS + i) * 2
        ends_third = i % (OPERATORS // 3) == OPERATORS // 3 - 1
        dims = {"Input Dims": [[64, 128 + i], [128 + i, 64]], "Input type": ["float", "float"]}
        operator = {"ph": "X", "cat": "cpu_op", "name": f"aten::op_{i % 60}", "pid": 100, "tid": 100}
        events.append(
            {**operator, "ts": at, "dur": 40.0, "args": {"External id": link, **dims, "Ev Idx": link}}
        )
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100}
        events.append({**call, "ts": at + 20, "dur": 6.0, "args": {"correlation": link, "cbid": 211}})
        device = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
        args = {"device": 0, "stream": 7, "correlation": link, "grid": [64, 1, 1], "block": [256, 1, 1]}
        if ends_third:
            args |= {"Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20}
            args |= {"dtype": "Float", "Process Group Name": "0", "Group size": 8}
            name, begin, dur = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 100 + late, 900.0 - late
        else:
            name, begin, dur = f"kernel_{i % 40}<float, {i % 40}>", at + 30, 25.0
        events.append({**device, "name": name, "ts": begin, "dur": dur, "args": args})
    return events


def body(megabytes: float, late: int) -> bytes:
    """The events of a rank, as the text between the brackets, of about this size."""
    parts, size, number = [], 0, 0
    while size < megabytes * 1e6:
        text = json.dumps(step_events(number, late), indent=1)[1:-1].encode()
        parts.append(text)
        size, number = size + len(text), number + 1
    return b",".join(parts)


def write_ranks(folder: Path, count: int, megabytes: float) -> dict[int, int]:
    """Replicas with clocks set wrong and the last `STRAGGLERS` ranks late; clock errors in ns by rank."""
    bodies = [body(megabytes, late) for late in (0, LATE_US)]
    shifts = (np.random.default_rng(0).integers(-1_000_000, 1_000_000, count) * 1000).tolist()
    for rank, shift in enumerate(shifts):
        top = {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": count},
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS + shift,
        }
        text = json.dumps(top)[:-1].encode() + b', "traceEvents": ['
        (folder / f"rank{rank}.json").write_bytes(text + bodies[rank >= count - STRAGGLERS] + b"]}")
    return dict(enumerate(shifts))


def measured(folder: Path, count: int, how: str) -> dict[str, Any]:
    """What a fresh process says of itself, and the peak of its and its children's memory."""
    command = [sys.executable, "-m", "benchmarks.ranks", "--one", str(folder), str(count), how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watched, peak = psutil.Process(process.pid), 0
    while process.poll() is None:
        peak = max(peak, _resident(watched))
        time.sleep(0.05)
    text = process.stdout.read() if process.stdout is not None else ""
    if process.returncode:
        raise RuntimeError(f"the measurement {how!r} of {count} ranks failed with {process.returncode}")
    figures: dict[str, Any] = json.loads(text.splitlines()[-1])
    return {**figures, "peak_mb": round(peak / 1e6)}


def _resident(process: psutil.Process) -> int:
    """Resident bytes of a process and all below it."""
    try:
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0


def one(folder: Path, count: int, how: str) -> None:
    """Read and reduce `count` ranks in one way; prints a line of JSON."""
    paths = [folder / f"rank{rank}.json" for rank in range(count)]
    if how in ("cluster", "quiet"):
        import dask
        import distributed

        options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
        with (
            dask.config.set(QUIET if how == "quiet" else {}),
            distributed.LocalCluster(**options, silence_logs=50) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.run(_warm, str(paths[0]))
            _answer(
                partial(nbp.read_ranks, paths, client), lambda: list(client.run(time.process_time).values())
            )
    elif how == "warm":
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(_warm_long, [str(paths[0])] * 2))
            rankset.run_here = lambda files, work, processes, report: pool.map(work, files)  # type: ignore[assignment]
            children = [psutil.Process(number) for number in pool._processes]
            _answer(partial(nbp.read_ranks, paths), lambda: [sum(each.cpu_times()[:2]) for each in children])
    else:
        _warm(str(paths[0]))
        _answer(partial(nbp.read_ranks, paths, processes=int(how)), _ended)


def _warm(path: str) -> None:
    """Read a rank before the clock starts, so that no import is measured."""
    reduce_rank(inspected(path), STANDARD)


def _warm_long(path: str) -> None:
    _warm(path)
    time.sleep(3)  # so that the other process gets the other call


def _ended() -> list[float]:
    """CPU seconds of the processes that were started and have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return [used.ru_utime + used.ru_stime]


def _answer(find: Callable[..., Any], elsewhere: Callable[[], list[float]]) -> None:
    """Ask, and print a line of JSON; `elsewhere` tells CPU seconds of the other processes, in their order."""
    before = elsewhere()
    started, own = time.perf_counter(), time.process_time()
    ranks = find(progress=False)
    late = ranks.stragglers()["rank"].head(STRAGGLERS).tolist()
    seconds, own = time.perf_counter() - started, time.process_time() - own
    others = [after - then for then, after in zip(before, elsewhere(), strict=True)]
    clocks = {
        int(r): int(o) for r, o in zip(*(ranks.clocks()[c] for c in ("rank", "offset_ns")), strict=True)
    }
    figures = {"seconds": seconds, "own_s": own, "others_s": others, "late": late, "clocks": clocks}
    print(json.dumps({**figures, "report": repr(ranks.report)}))


def run(full: bool = False) -> list[dict[str, Any]]:
    """A table of measurements, one of the comparison, and one of the extrapolation."""
    counts, megabytes = (FULL if full else SCALED).values()
    most = max(counts)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as temporary:
        folder = Path(temporary)
        shifts = write_ranks(folder, most, megabytes)
        rows = []
        planned = [(count, "1") for count in counts[:-1]]
        # in turn, since other work on the machine comes and goes
        planned += [(most, how) for _ in range(ROUNDS) for how in WAYS]
        for count, how in planned:
            # the stragglers are the last ranks of the largest run
            figures = measured(folder, count, how)
            rows.append(_row(count, how, megabytes, figures, shifts, most))
        first = inspected(str(folder / "rank0.json"))
        travels = len(pickle.dumps(reduce_rank(first, STANDARD)))
    return [*rows, *_compared(rows), *_far(rows, megabytes, travels)]


def _row(
    count: int, how: str, megabytes: float, figures: dict[str, Any], shifts: dict[int, int], most: int
) -> dict[str, Any]:
    planted = set(range(most - STRAGGLERS, most)) & set(range(count))
    clocks = {int(rank): offset for rank, offset in figures["clocks"].items()}
    apart = [clocks[rank] - shifts[rank] for rank in clocks]
    right = set(figures["late"]) >= planted and max(apart) - min(apart) <= 1000
    own, others = figures["own_s"], figures["others_s"]
    return {
        "ranks": count,
        "MB a rank": megabytes,
        "how": WAYS[how],
        "seconds": round(figures["seconds"], 1),
        "s a rank": round(figures["seconds"] / count, 3),
        "CPU s": round(own + sum(others), 1),
        "of that own": round(own, 1),
        "longest path s": round(own + max(others), 1) if how != "2" else "–",
        "peak MB": figures["peak_mb"],
        "found": "yes" if right else f"no: {figures['late']}, {figures['report']}",
    }


def _compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best of the rounds against each other."""
    most = max(row["ranks"] for row in rows)
    best: dict[str, float] = {}
    for row in rows:
        if row["ranks"] == most:
            best[row["how"]] = min(row["seconds"], best.get(row["how"], row["seconds"]))
    alone = best.pop(WAYS["1"])
    load = f"best of {ROUNDS}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    flat = alone / most / rows[0]["s a rank"]
    path = {
        how: min(row["longest path s"] for row in rows if (row["ranks"], row["how"]) == (most, WAYS[how]))
        for how in ("1", "warm", "cluster", "quiet")
    }
    warm = best[WAYS["warm"]]
    shares = ", ".join(
        f"{how} {best[WAYS[key]] / warm:.2f} of the time"
        for key, how in (("cluster", "as typed"), ("quiet", "quiet"))
    )
    paths = ", ".join(f"{WAYS[how]} {path['1'] / path[how]:.2f} ×" for how in list(path)[1:])
    return [
        {"question": f"time a rank, {most} ranks ÷ {rows[0]['ranks']}", "answer": f"{flat:.2f}"},
        *(
            {"question": f"{how}, against one process", "answer": f"{alone / seconds:.2f} × ({load})"}
            for how, seconds in best.items()
        ),
        {
            "question": "LocalCluster of 2 against two warm processes: what Dask takes",
            "answer": shares,
        },
        {"question": "by the longest path's CPU time, against one process", "answer": paths},
    ]


def _far(rows: list[dict[str, Any]], megabytes: float, travels: int) -> list[dict[str, Any]]:
    each = min(row["s a rank"] for row in rows if row["how"] == "one process")
    reading = each * FAR_RANKS / FAR_WORKERS
    moving, scheduling = FAR_RANKS * travels / LINK_BYTES_PER_S, FAR_RANKS * TASK_S
    assumptions = [
        f"{each} s a rank as measured, a core a worker and files as near as here ({reading:.0f} s)",
        f"{travels / 1e3:.0f} kB a reduction at {LINK_BYTES_PER_S / 1e6:.0f} MB/s ({moving:.0f} s)",
        f"1 ms a task in the scheduler, as Dask documents ({scheduling:.0f} s)",
        "nothing overlaps",
    ]
    return [
        {
            "extrapolated": f"{FAR_RANKS:,} ranks of {megabytes} MB on {FAR_WORKERS} workers",
            "minutes": round((reading + moving + scheduling) / 60, 1),
            "assuming": "; ".join(assumptions),
        }
    ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="256 ranks of 30 MB")
    parser.add_argument("--one", nargs=3, metavar=("FOLDER", "COUNT", "HOW"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(Path(options.one[0]), int(options.one[1]), options.one[2])
        return
    from benchmarks.__main__ import as_markdown

    print(as_markdown(run(options.full)))


if __name__ == "__main__":
    main()
