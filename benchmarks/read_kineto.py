"""Reading a large Kineto file, against ``json.load`` without the garbage collector, and HTA where installed.

Every measurement runs in a fresh process, in turn; of the repetitions the least disturbed counts, and the
median stands beside it. The file is a recording of PyTorch 2.13 (a small convolutional network with shapes,
memory and Python calls), its events repeated with later times until it has 200 MB. ``columns`` ends with
numpy columns of all events, ``trace`` with the sealed, nested and linked Trace that `read_trace` gives,
``json.load`` with lists and dicts. Both of ours use further processes where there are CPUs for them, ``one
process`` does not. The longest path is the CPU time of the first process, or of a further one if that needed
more: what the clock would show on idle cores. Memory is the sum of the peaks of the resident sets of all
processes, with Python and all imports in them.

HolisticTraceAnalysis pins other versions of libraries, so it may live elsewhere: the environment variable
``HTA_PYTHON`` names an interpreter that has it. Its side parses the file into its data frame, once.

Run ``python -m benchmarks.read_kineto [--file FILE] [--megabytes 200] [--repeat 3]``.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TITLE = "Reading a Kineto file"
SOURCE = Path(__file__).parents[1] / "tests" / "data" / "torch213_cpu" / "cnn_adam.pt.trace.json.gz"
MEGABYTES = 200
SIDES = ("json.load", "columns", "columns, one process", "trace", "trace, one process", "hta")

_TIMES = re.compile(rb'("ts":\s*)(\d+)')
_LATER_US = 2_000_000


def write_large(source: Path, target: Path, size: int) -> None:
    """Repeat the events of a recording, each time two seconds later, until the file has `size` bytes."""
    text = source.read_bytes()
    text = gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
    start = text.index(b"[", text.index(b'"traceEvents"')) + 1
    events, tail = text[start:].rsplit(b"]", 1)
    between = text[start : start + len(events) - len(events.lstrip())]
    events = events.strip()
    pieces = _TIMES.split(events)
    with target.open("wb") as file:
        written = file.write(text[:start] + between)
        for turn in range(1 + size // len(events)):
            if turn:
                written += file.write(b",\n  ")
            pieces[2::3] = [str(int(at) + _LATER_US * (turn > 0)).encode() for at in pieces[2::3]]
            written += file.write(b"".join(pieces))
            if written >= size:
                break
        file.write(b"\n  ]" + tail)


def _json_load(path: Path) -> int:
    gc.disable()
    with path.open() as file:
        return len(json.load(file)["traceEvents"])


def _columns(path: Path) -> int:
    from notebook_prof.readers.kineto.parser import parse
    from notebook_prof.readers.processes import further_processes
    from notebook_prof.readers.stream import in_pieces
    from notebook_prof.trace import ImportReport

    pieces = in_pieces(path, ImportReport())
    processes = further_processes(path.stat().st_size)
    return len(parse(pieces or (), ImportReport(), processes=processes).columns)


def _trace(path: Path) -> int:
    from notebook_prof.readers import read_trace

    return len(read_trace(path).slices)


def _hta(path: Path) -> int:
    from hta.common.trace_parser import parse_trace_dataframe
    from hta.configs.parser_config import ParserConfig

    _, frame, _ = parse_trace_dataframe(str(path), ParserConfig.get_default_cfg())
    return len(frame)


def _alone(work: Callable[[Path], int], path: Path) -> int:
    from notebook_prof.readers.processes import one_process

    with one_process():
        return work(path)


WORK: dict[str, Callable[[Path], int]] = {
    "json.load": _json_load,
    "columns": _columns,
    "columns, one process": partial(_alone, _columns),
    "trace": _trace,
    "trace, one process": partial(_alone, _trace),
    "hta": _hta,
}


def measure(side: str, path: Path) -> dict[str, Any]:
    """One measurement, in this process; imports are not timed."""
    if side.startswith(("columns", "trace")):
        import notebook_prof.readers.registry  # noqa: F401
    if side == "hta":
        import hta.common.trace_parser  # noqa: F401
    begin, cpu = time.perf_counter(), time.process_time()
    rows = WORK[side](path)
    seconds, own = time.perf_counter() - begin, time.process_time() - cpu
    others, further = resource.getrusage(resource.RUSAGE_CHILDREN), _further(side, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + further * others.ru_maxrss
    return {
        "rows": rows,
        "s": round(seconds, 3),
        "path_s": round(max(own, (others.ru_utime + others.ru_stime) / max(further, 1)), 3),
        "peak_mb": round(peak / 1e3),
        "processes": 1 + further,
    }


def _further(side: str, path: Path) -> int:
    if side not in ("columns", "trace"):
        return 0
    from notebook_prof.readers.processes import further_processes

    return further_processes(path.stat().st_size)


def hta_python() -> str | None:
    """An interpreter that can import HTA: that of ``HTA_PYTHON``, or this one; None if there is none."""
    if named := os.environ.get("HTA_PYTHON"):
        return named
    return sys.executable if find_spec("hta") is not None else None


def compare(path: Path, repeat: int) -> list[dict[str, Any]]:
    """All sides in turn; HTA, which takes long, twice at most."""
    pythons = {side: sys.executable for side in SIDES if side != "hta"} | {"hta": hta_python()}
    found: dict[str, list[dict[str, Any]]] = {}
    for turn in range(repeat):
        for side, python in pythons.items():
            if python is None or (side == "hta" and turn > 1):
                continue
            command = [python, "-m", "benchmarks.read_kineto", "--side", side, "--file", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found.setdefault(side, []).append(json.loads(done.stdout.splitlines()[-1]))
    best = {side: {key: min(one[key] for one in runs) for key in runs[0]} for side, runs in found.items()}
    size = path.stat().st_size
    return [
        {
            "side": side,
            "processes": best[side]["processes"],
            "file MB": round(size / 1e6),
            "wall s, least": best[side]["s"],
            "median": round(statistics.median(one["s"] for one in runs), 3),
            "longest path, CPU s, least": best[side]["path_s"],
            "median ": round(statistics.median(one["path_s"] for one in runs), 3),
            "× json.load": _times(best, "json.load", side),
            "× HTA": _times(best, "hta", side),
            "peak MB": best[side]["peak_mb"],
            "peak / file": round(best[side]["peak_mb"] * 1e6 / size, 2),
        }
        for side, runs in found.items()
    ]


def _times(best: dict[str, dict[str, Any]], other: str, side: str) -> str:
    """By the clock, and by the longest path."""
    if other not in best:
        return "not installed"
    return ", ".join(f"{best[other][key] / best[side][key]:.1f}" for key in ("s", "path_s"))


def run(source: Path = SOURCE, megabytes: int = MEGABYTES, repeat: int = 3) -> list[dict[str, Any]]:
    """A row a side."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        write_large(source, path, megabytes * 1_000_000)
        return compare(path, repeat)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=SOURCE, help="recording to repeat")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.side:
        print(json.dumps(measure(asked.side, asked.file)))
        return
    rows = run(asked.file, asked.megabytes, asked.repeat)
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")


if __name__ == "__main__":
    main()
