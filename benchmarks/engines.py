"""Engines of the python collector: what they cost, how far they agree with a stopwatch, and where they fail.

Costs are ratios within a round, bare code and every engine in turn; *beside* is the CPU time of py-spy's own
process, in cores. Agreement is the share of a line by `time.perf_counter` in the cell's own code against its
share in the trace, in points. What happens without ptrace (a process that is not dumpable, and no
capability), to children that end at once and when the process is killed is tried in processes of their own.

The figures of a quiet machine are in ``benchmarks/results/performance.md``. In a notebook's kernel with its
ten threads py-spy took 0.6 to 0.9 of a core at 400 looks a second and 0.2 at 100: hence its `FRAMES_PER_S`.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np

import notebook_prof as nbp
from notebook_prof.collectors.python import py_spy_attachment as py_spy

from .overhead import training

TITLE = "Engines that sample Python"
ENGINES: Final = ("py-spy", "thread")

_NO_PTRACE: Final = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE
libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
import notebook_prof as nbp
import notebook_prof.session.recorder
took = []
for _ in range(2):
    began = time.perf_counter()
    with nbp.profile("python") as p:
        took.append(time.perf_counter() - began)
        sum(i * i for i in range(3_000_000))
print(p.trace.metadata["python_engine"], "|", p.trace.metadata["python_engine_reason"], "|", *took, sep=" ")
"""

_CHILDREN: Final = """
import subprocess, sys
import notebook_prof as nbp
for seconds in (0, 0.1, 0.5):
    with nbp.profile("python", engine="py-spy") as p:
        for _ in range(5):
            subprocess.run([sys.executable, "-Ic", f"import time; time.sleep({seconds})"])
    names = p.trace.tracks["name"]
    print(seconds, int(names.str.contains(r"^process \\d+:").sum()))
"""

_KILLED: Final = """
import time
from notebook_prof.collectors.python.py_spy_attachment import Attachment
one = Attachment(100)
while not one.is_sampling():
    time.sleep(0.001)
print(one.pid, flush=True)
time.sleep(60)
"""


def attaching(times: int) -> dict[str, Any]:
    """How long it takes from the start of py-spy until it looks."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        one = py_spy.Attachment(100)
        while not one.is_sampling():
            time.sleep(0.001)
        took.append(time.perf_counter() - began)
        one.kill()
    return {
        "time to attach": f"median of {times}",
        "ms": round(1000 * statistics.median(took)),
        "worst ms": round(1000 * max(took)),
    }


def python_loop() -> int:
    """Half a second of Python without a call."""
    total = 0
    for i in range(6_000_000):
        total += i * i
    return total


def costs(rounds: int) -> Iterator[dict[str, Any]]:
    """What recording with each engine costs; torch is recorded beside the CNN."""
    bodies = {
        "Python loop": (python_loop, ("python",)),
        "CNN, 25 training steps": (training(), ("torch", "python")),
    }
    for name, (body, collectors) in bodies.items():
        body()
        bare: list[tuple[float, float]] = []
        ratios_of: dict[str, list[tuple[float, float, float]]] = {engine: [] for engine in ENGINES}
        for _ in range(rounds):
            bare.append(_timed(body)[:2])
            for engine in ENGINES:
                with nbp.profile(*collectors, engine=engine) as p:  # type: ignore[arg-type]
                    cpu, wall, beside = _timed(body)
                if p.trace.metadata["python_engine"] == engine:
                    ratios_of[engine].append((cpu / bare[-1][0], wall / bare[-1][1], beside / wall))
        for engine, ratios in ratios_of.items():
            if ratios:
                cpu, wall, beside = (statistics.median(column) for column in zip(*ratios, strict=True))
                yield {
                    "code": name,
                    "recorded by": f"{' + '.join(collectors)} ({engine})",
                    "CPU ×": round(cpu, 3),
                    "wall ×": round(wall, 3),
                    "beside, cores": round(beside, 2),
                    "rounds": len(ratios),
                }


def agreement(rounds: int) -> Iterator[dict[str, Any]]:
    """Shares of two lines by the stopwatch and by each engine, for codes of several lengths.

    In the last code pieces of Python take less than the switch interval of 5 ms, so that a thread gets the
    GIL when they end and never within them.
    """
    codes = {f"{seconds:g} s": (seconds, 8, 1.0) for seconds in (0.2, 0.5, 2.0)}
    codes["0.5 s, pieces of 2 and 0.5 ms"] = (0.5, 200, 0.25)
    for code, given in codes.items():
        for engine in ENGINES:
            errors, spread = [], []
            for _ in range(rounds):
                with nbp.profile("python", engine=engine) as p:  # type: ignore[arg-type]
                    truth = two_parts(*given)
                slices = p.trace.slices
                own = slices.groupby(slices["name"].astype(str))["dur"].sum()
                first, second = (own.filter(like=part).max() for part in ("first_part", "second_part"))
                errors.append(100 * abs(np.nan_to_num(first) / np.nansum([first, second]) - truth))
                spread.append("sampler-starved" in p.trace.report)
            yield {
                "code of": code,
                "engine": engine,
                "error, points (median)": round(float(np.median(errors)), 1),
                "worst": round(float(max(errors)), 1),
                "starved": f"{sum(spread)} of {rounds}",
            }


def first_part(seconds: float) -> None:
    """Python code."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def second_part(seconds: float) -> None:
    """Code in C that gives up the GIL."""
    time.sleep(seconds)


def two_parts(seconds: float, pieces: int = 8, ratio: float = 1.0) -> float:
    """Pieces of both parts in turn, the second `ratio` times as long; the true share of the first."""
    took = 0.0
    each = seconds / pieces / (1 + ratio)
    began = time.perf_counter()
    for i in range(pieces):
        start = time.perf_counter()
        first_part(each * (0.5 + i / pieces))
        took += time.perf_counter() - start
        second_part(each * ratio)
    return took / (time.perf_counter() - began)


def failing() -> Iterator[dict[str, Any]]:
    """Where py-spy may not look, what it does not see, and when it goes."""
    refused = _run(_NO_PTRACE).split("|")
    first, second = (float(word) for word in refused[-1].split())
    yield {
        "without": "ptrace",
        "engine": refused[0].strip(),
        "told": refused[1].strip(),
        "first start, ms": round(1000 * first),
        "next start, ms": round(1000 * second),
    }
    for line in _run(_CHILDREN).splitlines():
        seconds, count = line.split()
        yield {"five children that sleep": f"{seconds} s", "have a track": int(count)}
    with _process(_KILLED) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        killed = time.perf_counter()
        process.kill()
        process.wait()
        while os.path.exists(f"/proc/{pid}") and time.perf_counter() - killed < 30:
            if "\nState:\tZ" in _status(pid):
                break
            time.sleep(0.005)
        yield {
            "the process is killed": "py-spy ends after",
            "ms": round(1000 * (time.perf_counter() - killed)),
        }


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Rows of several tables: attaching, costs, agreement, failures."""
    rounds = 3 if quick else 9
    return [attaching(2 * rounds + 1), *costs(rounds), *agreement(rounds), *failing()]


def _timed(body: Callable[[], object]) -> tuple[float, float, float]:
    spies = [one.pid for one in py_spy._alive]
    beside = sum(map(_cpu_s, spies))
    cpu, wall = time.process_time(), time.perf_counter()
    body()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu, wall, sum(map(_cpu_s, spies)) - beside


def _cpu_s(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def _status(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as stream:
        return stream.read()
    return ""


@contextmanager
def _process(program: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()


def _run(program: str) -> str:
    with _process(program) as process:
        return process.communicate(timeout=300)[0]
