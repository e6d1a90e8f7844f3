"""Reading a report of Nsight Systems, against ``pandas.read_sql`` of the same tables and the same joins.

The report is made: kernels, calls that launched them, copies, and NVTX ranges with their text, in the tables
and columns of release 2025.1, numbers drawn so that rows differ as those of a real run do. ``read_sql`` ends
with a frame a table, names joined and each kernel with its call; ``columns`` with the same as
columns; ``builder`` with all that the report tells in a TraceBuilder, ranges split into names, numbers and
shapes; ``trace`` with the sealed, nested and linked Trace that `read_trace` gives. Every measurement
runs in a fresh process, in turn; imports are not timed. Time is that of the processor, memory the peak of the
resident set, with Python and all imports in it.

Run ``python -m benchmarks.read_nsys [--kernels 300000] [--repeat 5] [--file FILE]``.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TITLE = "Reading a report of Nsight Systems"
KERNELS = 300_000
SIDES = ("read_sql", "columns", "builder", "trace")
TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName "
        "shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY "
        "blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId "
        "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig graphId"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start end eventClass globalTid correlationId nameId returnValue callchainId"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start end deviceId contextId streamId correlationId globalPid bytes copyKind srcKind dstKind "
        "graphNodeId"
    ),
    "NVTX_EVENTS": (
        "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value"
    ),
}
USED = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start end deviceId streamId correlationId globalPid demangledName registersPerThread "
        "gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory graphNodeId graphId"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind graphNodeId"
    ),
    "NVTX_EVENTS": "start end eventType globalTid textId domainId text",
}


def make(path: Path, kernels: int) -> None:
    """Write a report with so many kernels, twice as many calls and ranges, and a tenth as many copies."""
    import numpy as np

    random = np.random.default_rng(0)
    pid = 281_474_976_710_656 + (4_321 << 24)
    thread = pid + 4_321
    gaps = random.integers(1_000, 60_000, 2 * kernels)
    start = 2_000_000_000 + np.cumsum(gaps)
    length = random.integers(800, 900_000, 2 * kernels)
    number = np.arange(2 * kernels)
    grid = 2 ** random.integers(0, 16, 2 * kernels)
    database = sqlite3.connect(path)
    database.execute("pragma synchronous = off")
    database.execute("pragma journal_mode = off")
    for table, columns in TABLES.items():
        declared = (f"{name} {'TEXT' if name == 'text' else 'INTEGER'}" for name in columns.split())
        database.execute(f"create table {table} ({', '.join(declared)})")
    database.execute("create table StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
    names = [f"void kernel_{i}<float, {i % 7}>(float*, int)" for i in range(400)]
    names += ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaEventRecord_v3020"]
    database.executemany("insert into StringIds values (?, ?)", enumerate(names, 1))
    values: dict[str, Any] = {
        "start": start,
        "end": start + 4_000,
        "correlationId": number,
        "globalTid": thread,
        "globalPid": pid,
        "eventClass": number % 2,
        "nameId": 401 + number % 3,
        "demangledName": 1 + random.integers(0, 400, 2 * kernels),
        "deviceId": 0,
        "streamId": 7 + number % 2,
        "contextId": 1,
        "registersPerThread": random.integers(16, 255, 2 * kernels),
        **dict.fromkeys(("gridX", "blockX"), grid),
        **dict.fromkeys(("gridY", "gridZ", "blockY", "blockZ"), 1),
        **dict.fromkeys(("staticSharedMemory", "dynamicSharedMemory", "returnValue", "domainId"), 0),
        "bytes": grid * 1_024,
        "copyKind": 1 + number % 2,
        "srcKind": 1,
        "dstKind": 2,
        "eventType": 59,
        "text": [f"aten::operator_{i % 90}, op_id = {i}" for i in range(2 * kernels)],
    }
    counts = dict(zip(TABLES, (kernels, 2 * kernels, kernels // 10, 2 * kernels), strict=True))
    for table, columns in TABLES.items():
        rows = [_plain(values.get(name), counts[table]) for name in columns.split()]
        if "KERNEL" in table or "MEMCPY" in table:
            rows[0] = _plain(start + 9_000, counts[table])
            rows[1] = _plain(start + 9_000 + length, counts[table])
        marks = ", ".join("?" * len(rows))
        database.executemany(f"insert into {table} values ({marks})", zip(*rows, strict=True))
    database.commit()
    database.close()


def _plain(column: Any, count: int) -> list[Any]:
    if isinstance(column, list):
        return column[:count]
    return column[:count].tolist() if hasattr(column, "tolist") else [column] * count


def by_read_sql(path: Path) -> Callable[[], int]:
    """What does it with pandas."""
    import pandas as pd

    def work() -> int:
        database = sqlite3.connect(path)
        strings = pd.read_sql("select id, value from StringIds", database)
        frames = {}
        for table, columns in USED.items():
            chosen = ", ".join(f'"{name}"' for name in columns.split())
            frames[table] = pd.read_sql(f"select {chosen} from {table}", database)
        kernels, calls, copies, _ranges = frames.values()
        kernels = kernels.merge(strings, left_on="demangledName", right_on="id", how="left")
        calls = calls.merge(strings, left_on="nameId", right_on="id", how="left")
        calls["pid"] = (calls["globalTid"] // 2**24) % 2**24
        count = 0
        for events in (kernels, copies):
            events["pid"] = (events["globalPid"] // 2**24) % 2**24
            count += len(events.merge(calls, on=["pid", "correlationId"], how="left", suffixes=("", "_call")))
        return count

    return work


def by_reader(path: Path, side: str) -> Callable[[], int]:
    """What does it with the reader."""
    from notebook_prof.formats.nsys import NsysReader
    from notebook_prof.formats.nsys.samples import launching_calls
    from notebook_prof.formats.nsys.session import NsysSession, NsysWork, pid_of
    from notebook_prof.readers import read_trace
    from notebook_prof.readers.codec.columns import INTS, TEXTS
    from notebook_prof.readers.codec.sqlite import Database
    from notebook_prof.trace import TraceBuilder

    def columns() -> int:
        session = NsysSession(Database(path), TraceBuilder())
        kernels, calls, copies, _ranges = (
            session.rows(table, {name: TEXTS if name == "text" else INTS for name in names.split()})
            for table, names in USED.items()
        )
        session.names(kernels.ints("demangledName"))
        session.names(calls.ints("nameId"))
        pid = pid_of(calls.ints("globalTid"))
        count = 0
        for events in (kernels, copies):
            number = events.ints("correlationId")
            work = NsysWork(pid_of(events.ints("globalPid")), number, number)
            count += len(launching_calls(calls, pid, work)[0])
        return count

    def builder() -> int:
        result = TraceBuilder()
        NsysReader().read_database(Database(path), result)
        return 1

    return {"columns": columns, "builder": builder}.get(side) or (lambda: len(read_trace(path).slices))


def _side(side: str, path: Path) -> None:
    import pyarrow.compute  # noqa: F401

    work = by_read_sql(path) if side == "read_sql" else by_reader(path, side)
    begin = time.process_time()
    work()
    seconds = time.process_time() - begin
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def run(kernels: int = KERNELS, repeat: int = 5, file: Path | None = None) -> list[dict[str, Any]]:
    """Measure every side in turn, each in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        path = file or Path(folder) / "report.sqlite"
        if file is None:
            make(path, kernels)
        results: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
        for _ in range(repeat):
            for side in SIDES:
                command = [sys.executable, "-m", "benchmarks.read_nsys", "--side", side, "--file", str(path)]
                text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                seconds, megabytes = map(float, text.split())
                results[side].append((seconds, megabytes))
        base = statistics.median(seconds for seconds, _ in results["read_sql"])
        size = path.stat().st_size / 1e6
    rows = []
    for side, pairs in results.items():
        seconds = statistics.median(second for second, _ in pairs)
        rows.append(
            {
                "side": side,
                "file": f"{size:,.0f} MB",
                "time": f"{seconds:.2f} s",
                "times faster": f"{base / seconds:.1f}",
                "peak memory": f"{statistics.median(mb for _, mb in pairs):,.0f} MB",
            }
        )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=KERNELS)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    if options.side:
        _side(options.side, options.file)
    else:
        from benchmarks.__main__ import as_markdown

        print(as_markdown(run(options.kernels, options.repeat, options.file)))
