"""Reading a large Kineto file, against ``json.load`` without the garbage collector, and HTA where installed.

The file is the recording of a real training run of the asked length: a small convolutional network with a
transformer behind it learns from sequences of different lengths, with shapes, memory and Python calls
recorded. A short recording repeated would flatter every cache. ``columns`` ends with NumPy columns of all
events, ``trace`` with the sealed, nested and linked Trace that `read_trace` gives, ``json.load`` with lists
and dicts. Every measurement runs in a fresh process, in turn; imports are not timed. Memory is the peak of
the resident set, with Python and all imports in it.

HolisticTraceAnalysis pins other versions of libraries, so it may live elsewhere: the environment variable
``HTA_PYTHON`` names an interpreter that has it. Its side parses the file into its data frame, once or twice.

Run ``python -m benchmarks.read_kineto [--megabytes 200] [--repeat 5] [--file FILE]``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TITLE = "Reading a Kineto file"
MEGABYTES = 200
SIDES = ("json.load", "columns", "trace", "hta")

_FIRST_STEPS = 10
_BATCH = 8


def record(path: Path, megabytes: int) -> None:
    """Write the recording of a training run of about so many megabytes."""
    _train(path, _FIRST_STEPS)
    size = path.stat().st_size
    _train(path, max(1, round(_FIRST_STEPS * megabytes * 1e6 / size)))


def _train(path: Path, steps: int) -> None:
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front = nn.Sequential(
                nn.Conv1d(8, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2)
            )
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.head = nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.encoder(self.front(x).transpose(1, 2)).mean(1))

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = [(torch.randn(8, n), n % 10) for n in torch.randint(16, 128, (4096,)).tolist()]

    def together(batch: list[tuple[Any, int]]) -> tuple[Any, Any]:
        longest = max(x.shape[1] for x, _ in batch)
        padded = [nn.functional.pad(x, (0, longest - x.shape[1])) for x, _ in batch]
        return torch.stack(padded), torch.tensor([y for _, y in batch])

    def batches() -> Iterator[tuple[Any, Any]]:
        while True:
            yield from torch.utils.data.DataLoader(rows, _BATCH, shuffle=True, collate_fn=together)

    data = batches()
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as recording:
        for _ in range(steps):
            x, y = next(data)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            recording.step()
    recording.export_chrome_trace(str(path))


def _json_load(path: Path) -> int:
    gc.disable()
    with path.open() as file:
        return len(json.load(file)["traceEvents"])


def _columns(path: Path) -> int:
    from notebook_prof.readers.codec.stream import in_pieces
    from notebook_prof.readers.kineto.reader import parse
    from notebook_prof.trace import ImportReport

    return len(parse(in_pieces(path, ImportReport()), ImportReport()).columns)


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
    """Measure one side, in this process; imports are not timed."""
    if side in ("columns", "trace"):
        from notebook_prof.readers.registry import readers

        readers()  # imports them
    if side == "hta":
        import hta.common.trace_parser  # noqa: F401
    begin, cpu = time.perf_counter(), time.process_time()
    rows = WORK[side](path)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"rows": rows, "s": seconds, "cpu_s": cpu_seconds, "peak_mb": peak * 1024 / 1e6}


def hta_python() -> str | None:
    """Return an interpreter that can import HTA: that of ``HTA_PYTHON``, this one, or None."""
    if named := os.environ.get("HTA_PYTHON"):
        return named
    return sys.executable if find_spec("hta") is not None else None


def compare(path: Path, repeat: int) -> list[dict[str, Any]]:
    """Measure all sides in turn; HTA, which takes long, twice at most."""
    pythons = {side: sys.executable for side in SIDES if side != "hta"} | {"hta": hta_python()}
    runs_of: dict[str, list[dict[str, Any]]] = {}
    for turn in range(repeat):
        for side, python in pythons.items():
            if python is None or (side == "hta" and turn > 1):
                continue
            command = [python, "-m", "benchmarks.read_kineto", "--side", side, "--file", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            runs_of.setdefault(side, []).append(json.loads(done.stdout.splitlines()[-1]))
    megabytes = path.stat().st_size / 1e6
    table = []
    for side, runs in runs_of.items():
        wall, cpu = ([run[key] for run in runs] for key in ("s", "cpu_s"))
        peak = max(run["peak_mb"] for run in runs)
        table.append(
            {
                "side": side,
                "file MB": round(megabytes),
                "rows": runs[0]["rows"],
                "by the clock, s, median": round(statistics.median(wall), 2),
                "least": round(min(wall), 2),
                "CPU s, median": round(statistics.median(cpu), 2),
                "least ": round(min(cpu), 2),
                "MB/s of CPU, at best": round(megabytes / min(cpu)),
                "× json.load": _ratio(runs_of, "json.load", side),
                "× HTA": _ratio(runs_of, "hta", side),
                "peak MB": round(peak),
                "peak / file": round(peak / megabytes, 2),
            }
        )
    return table


def _ratio(runs_of: dict[str, list[dict[str, Any]]], other: str, side: str) -> str:
    """Return how many times faster than another side, by the least CPU time."""
    if other not in runs_of:
        return "not installed"
    theirs, ours = (min(run["cpu_s"] for run in runs_of[each]) for each in (other, side))
    return f"{theirs / ours:.1f}"


def run(megabytes: int = MEGABYTES, repeat: int = 5, file: Path | None = None) -> list[dict[str, Any]]:
    """Record, measure, and return a row a side."""
    with tempfile.TemporaryDirectory() as folder:
        path = file or Path(folder) / "training.pt.trace.json"
        if file is None:
            command = [sys.executable, "-m", "benchmarks.read_kineto", "--record", str(path)]
            subprocess.run([*command, "--megabytes", str(megabytes)], capture_output=True, check=True)
        return compare(path, repeat)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, help="a recording to read instead of making one")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="how long the training run is")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--record", type=Path, help="only write the recording to this file")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.record:
        record(options.record, options.megabytes)
        return
    if options.side:
        print(json.dumps(measure(options.side, options.file)))
        return
    rows = run(options.megabytes, options.repeat, options.file)
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")


if __name__ == "__main__":
    main()
