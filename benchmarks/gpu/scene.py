"""Scenes of ``tests/gpu/scenes.py``: recorded and bare in turn, and in one session after the other."""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import notebook_prof as nbp

from .outcomes import WORK

LARGEST_BYTES: Final = 700_000
"""Of a recording that is kept; a longer one is cut to its last part."""
_ROUNDS: Final = 7
_SESSIONS: Final = 4
Body = Callable[[], object]


def measure(scene: Any, folder: Path, route: str | None = None, device: str = "cuda") -> list[dict[str, Any]]:
    """The row of a scene; a small recording is kept in `folder`.

    Parameters
    ----------
    scene : tests.gpu.scenes.Scene
    folder : Path
    route : str, optional
        Of the collector `cuda`, in place of the scene's own collectors.
    device : str
        torch's name of it.
    """
    body = scene.make(device)
    ratios = []
    for _ in range(_ROUNDS):
        bare = _wall(body)
        with nbp.profile(*_collectors(scene, route)) as recording:
            recorded = _recorded(body, route)
        ratios.append(recorded / bare)
    keep(recording, folder / f"{scene.name}{f'-{route}' if route else ''}.nbprof.zip")
    return [{**row_of(recording, scene), "wall ×": round(statistics.median(ratios), 3)}]


def sessions(scene: Any, folder: Path, device: str = "cuda") -> list[dict[str, Any]]:
    """A row a recording of the same in one process: later ones of some versions of CUPTI are wrong."""
    body = scene.make(device)
    rows = []
    for number in range(_SESSIONS):
        with nbp.profile(*scene.collectors) as recording:
            body()
        row = row_of(recording, scene)
        nodes = recording.device.graph_nodes()
        rows.append({"session": number + 1, **row, "graph nodes": len(nodes)})
        keep(recording, folder / f"{scene.name}-session{number + 1}.nbprof.zip")
        time.sleep(1)
    return rows


def row_of(recording: nbp.Profile, scene: Any) -> dict[str, Any]:
    """What a recording tells of a scene."""
    table = recording.kernels()
    metadata = recording.trace.metadata
    route = metadata.get("cuda_route", "kineto" if "torch" in scene.collectors else "")
    work, total_ns = int(table["count"].sum()), int(table["total_ns"].sum())
    if route == "counters":  # ranges in the place of kernels
        tracks = recording.trace.tracks
        streams = tracks.loc[tracks["kind"] == "stream", "track"]
        ranges = recording.trace.slices[recording.trace.slices["track"].isin(streams)]
        work, total_ns = len(ranges), int(ranges["dur"].sum())
    serious = recording.trust.loc[recording.trust["severity"] != "info", "code"]
    return {
        "card": ", ".join(metadata.get("devices", [])) or platform.node(),
        "scene": scene.name,
        "route": route,
        "cupti": metadata.get("cupti_version", ""),
        "slices": len(recording.trace.slices),
        WORK: work,
        "device ms": round(total_ns / 1e6, 3),
        "trust": " ".join(serious) or "clean",
        "report": " ".join(sorted({issue.code for issue in recording.trace.report})) or "clean",
    }


def keep(recording: nbp.Profile, path: Path) -> None:
    """Save a recording; one that is large is cut to its last step, or to the last tenth of its time."""
    recording.save(path)
    if path.stat().st_size > LARGEST_BYTES:
        trace = recording.trace
        if len(trace.steps):
            part = trace.sel(step=int(trace.steps["step"].iloc[-1]))
        else:
            ends = trace.slices["ts"] + trace.slices["dur"]
            first, last = int(trace.slices["ts"].min()), int(ends.max())
            part = trace.sel(window=(last - (last - first) // 10, last + 1))
        nbp.Profile(part).save(path)
    if path.stat().st_size > LARGEST_BYTES:
        print(f"{path.name} has {path.stat().st_size:,} bytes and is not kept", file=sys.stderr)
        path.unlink()


def _collectors(scene: Any, route: str | None) -> tuple[Any, ...]:
    if route is None:
        return tuple(scene.collectors)
    from notebook_prof.collectors.cuda import CudaCollector

    return (CudaCollector(route=route),)


def _recorded(body: Body, route: str | None) -> float:
    if route != "counters":
        return _wall(body)
    with nbp.annotate("scene"):  # events time ranges
        return _wall(body)


def _wall(body: Body) -> float:
    begun = time.perf_counter()
    body()
    return time.perf_counter() - begun
