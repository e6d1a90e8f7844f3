"""Drawn ranks: small files with known figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

START_US = 1_700_000_000_000_000


def rank_events(
    late_us: int = 0, steps: range = range(3), operation: str = "AllReduce"
) -> list[dict[str, Any]]:
    """Steps of 100 µs: a kernel of 40 + `late_us` µs, then a collective that ends after 90 µs."""
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
    events: list[dict[str, Any]] = []
    for number in steps:
        at = START_US + 100 * number
        step = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1}
        events.append({**step, "ts": at, "dur": 100})
        on = {"device": 0, "stream": 7, "correlation": 10 * number}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        for i, (name, start, dur) in enumerate(
            (("gemm", 5, 40 + late_us), (f"ncclDevKernel_{operation}_Sum", 45 + late_us, 45 - late_us))
        ):
            correlation = 10 * number + i + 1
            events.append({**launch, "ts": at + 1 + i, "dur": 1, "args": {"correlation": correlation}})
            args = {**on, "correlation": correlation}
            events.append({**kernel, "name": name, "ts": at + start, "dur": dur, "args": args})
    return events


def write_rank(
    path: Path,
    rank: int | None,
    world: int = 4,
    *,
    late_us: int = 0,
    shift_us: int = 0,
    steps: range = range(3),
    operation: str = "AllReduce",
    drift_ppm: float = 0.0,
    **top: Any,
) -> Path:
    """Write a rank's file; `shift_us` sets its clock wrong, `drift_ppm` lets it run fast."""
    events = rank_events(late_us, steps, operation)
    content: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [], **top}
    if rank is not None:
        content["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    fast = 1 + drift_ppm / 1e6
    content["traceEvents"] = [_shifted(event, shift_us, fast) for event in events]
    data = json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def _shifted(event: dict[str, Any], shift_us: int, fast: float) -> dict[str, Any]:
    if fast == 1:
        return {**event, "ts": event["ts"] + shift_us}
    start = round((event["ts"] - START_US) * fast, 3)
    end = round((event["ts"] + event["dur"] - START_US) * fast, 3)
    return {**event, "ts": START_US + start, "dur": round(end - start, 3)}


def write_run(folder: Path, world: int = 4, **options: Any) -> Path:
    """Ranks 0 to `world` − 1, of which the last one is 20 µs late."""
    for rank in range(world):
        late = 20 if rank == world - 1 else 0
        write_rank(folder / f"rank{rank}.json.gz", rank, world, late_us=late, **options)
    return folder
