"""Scenes of ``tests/gpu/scenes.py``, alternately bare and recorded."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import notebook_prof as nbp
from notebook_prof.collectors.cuda import CudaCollector
from tests.gpu.scenes import BY_NAME, Scene

from .outcomes import WORK

LARGEST_BYTES: Final = 700_000
"""Of a recording that is kept; a longer one is cut to its last part."""
_SESSIONS: Final = 5
_IDLE_S: Final = 0.5


def measure(name: str, folder: Path, route: str | None = None, device: str = "cuda") -> list[dict[str, Any]]:
    """Return a row per recording of a scene in this process: CUPTI's known faults show in later ones.

    Record with the scene's own collectors, or by a route of `cuda`; keep the first and the last recording.
    """
    scene = BY_NAME[name]
    body = scene.make(device)

    def ranged() -> None:
        with nbp.annotate("scene"):  # timed with CUDA events
            body()

    rows = []
    for session in range(1, _SESSIONS + 1):
        bare = _wall(body)
        with nbp.profile(*([CudaCollector(route=route)] if route else scene.collectors)) as recording:
            recorded = _wall(ranged if route == "counters" else body)
        rows.append({"session": session, **row_of(recording, scene), "wall ×": round(recorded / bare, 3)})
        if session in (1, _SESSIONS):
            keep(recording, folder / f"{name}{f'-{route}' if route else ''}-{session}.nbprof.zip")
        time.sleep(_IDLE_S)
    return rows


def row_of(recording: nbp.Profile, scene: Scene) -> dict[str, Any]:
    """Return the figures that a recording shows for a scene."""
    metadata = recording.trace.metadata
    route = metadata.get("cuda_route", "kineto" if "torch" in scene.collectors else "")
    kernels = recording.kernels()
    work, total_ns = int(kernels["count"].sum()), int(kernels["total_ns"].sum())
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
        "graph nodes": len(recording.device.graph_nodes()),
        "trust": " ".join(serious) or "clean",
        "report": " ".join(sorted({issue.code for issue in recording.trace.report})) or "clean",
    }


def keep(recording: nbp.Profile, path: Path) -> None:
    """Save a recording; cut a large one to the last tenth of its time."""
    recording.save(path)
    if path.stat().st_size > LARGEST_BYTES:
        slices = recording.trace.slices
        first, last = int(slices["ts"].min()), int((slices["ts"] + slices["dur"]).max())
        nbp.Profile(recording.trace.sel(window=(last - (last - first) // 10, last + 1))).save(path)
    if path.stat().st_size > LARGEST_BYTES:
        print(f"{path.name} has {path.stat().st_size:,} bytes and is not kept", file=sys.stderr)
        path.unlink()


def _wall(body: Callable[[], object]) -> float:
    begun = time.perf_counter()
    body()
    return time.perf_counter() - begun
