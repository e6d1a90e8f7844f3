"""Reading a large Kineto file, against ``json.load`` without the garbage collector, and HTA where installed.

Every measurement runs in a fresh process, in turn, and the best of the repetitions counts. The file is a
recording of PyTorch 2.13 (a small convolutional network with shapes, memory and Python calls), its events
repeated with later times until it has 200 MB. ``columns`` ends with numpy columns of all events, ``trace``
with the sealed, nested and linked Trace that `read_trace` gives, ``json.load`` with lists and dicts.
Memory is the peak of the resident set of the process, with Python and all imports in it.

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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TITLE = "Reading a Kineto file"
SOURCE = Path(__file__).parents[1] / "tests" / "data" / "torch213_cpu" / "cnn_adam.pt.trace.json.gz"
MEGABYTES = 200
SIDES = ("json.load", "columns", "trace", "hta")

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
    from notebook_prof.readers.stream import in_pieces
    from notebook_prof.trace import ImportReport

    pieces = in_pieces(path, ImportReport())
    return len(parse(pieces or (), ImportReport()).columns)


def _trace(path: Path) -> int:
    from notebook_prof.readers import read_trace

    return len(read_trace(path).slices)


def _hta(path: Path) -> int:
    from hta.common.trace_parser import parse_trace_dataframe
    from hta.configs.parser_config import ParserConfig

    _, frame, _ = parse_trace_dataframe(str(path), ParserConfig.get_default_cfg())
    return len(frame)


WORK: dict[str, Callable[[Path], int]] = {
    "json.load": _json_load,
    "columns": _columns,
    "trace": _trace,
    "hta": _hta,
}


def measure(side: str, path: Path) -> dict[str, Any]:
    """One measurement, in this process; imports are not timed."""
    if side in ("columns", "trace"):
        import notebook_prof.readers.registry  # noqa: F401
    if side == "hta":
        import hta.common.trace_parser  # noqa: F401
    begin, cpu = time.perf_counter(), time.process_time()
    rows = WORK[side](path)
    return {
        "rows": rows,
        "s": round(time.perf_counter() - begin, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }


def hta_python() -> str | None:
    """An interpreter that can import HTA: that of ``HTA_PYTHON``, or this one; None if there is none."""
    if named := os.environ.get("HTA_PYTHON"):
        return named
    return sys.executable if find_spec("hta") is not None else None


def compare(path: Path, repeat: int) -> list[dict[str, Any]]:
    """All sides in turn; for each the repetition with the least CPU time."""
    pythons = {side: sys.executable for side in SIDES if side != "hta"} | {"hta": hta_python()}
    best: dict[str, dict[str, Any]] = {}
    for turn in range(repeat):
        for side, python in pythons.items():
            if python is None or (side == "hta" and turn):
                continue
            command = [python, "-m", "benchmarks.read_kineto", "--side", side, "--file", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            if side not in best or found["cpu_s"] < best[side]["cpu_s"]:
                best[side] = found
    size = path.stat().st_size
    base = best["json.load"]["cpu_s"]
    return [
        {
            "side": side,
            "file MB": round(size / 1e6),
            "rows": found["rows"],
            "wall s": found["s"],
            "CPU s": found["cpu_s"],
            "times faster than json.load": round(base / found["cpu_s"], 2),
            "times faster than HTA": _times_faster(best.get("hta"), found),
            "peak MB": found["peak_mb"],
            "peak / file": round(found["peak_mb"] * 1e6 / size, 2),
        }
        for side, found in best.items()
    ]


def _times_faster(hta: dict[str, Any] | None, found: dict[str, Any]) -> str | float:
    return "not installed" if hta is None else round(hta["cpu_s"] / found["cpu_s"], 1)


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
