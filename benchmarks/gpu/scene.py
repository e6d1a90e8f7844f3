"""One scene in this process: recorded and bare in turn."""

from __future__ import annotations

import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import notebook_prof as nbp

LARGEST_BYTES: Final = 400_000
_ROUNDS: Final = 11


def measure(scene: Any, folder: Path | None, route: str | None = None) -> dict[str, Any]:
    """The row of a scene; with `folder`, a small recording is kept there.

    Parameters
    ----------
    scene : tests.gpu.scenes.Scene
    folder : Path or None
    route : str, optional
        Of the collector `cuda`, in place of the scene's own collectors.
    """
    body = scene.make("cuda")
    ratios = []
    for _ in range(_ROUNDS):
        bare = _wall(body)
        with nbp.profile(*_collectors(scene, route)) as recording:
            recorded = _wall(body)
        ratios.append(recorded / bare)
    profile = recording
    table = profile.kernels()
    if folder is not None:
        _keep(profile, folder / f"{scene.name}{f'-{route}' if route else ''}.nbprof.zip")
    recorded_route = profile.trace.metadata.get("cuda_route", "kineto" if "torch" in scene.collectors else "")
    return {
        "card": ", ".join(profile.trace.metadata.get("devices", [])) or platform.node(),
        "scene": scene.name,
        "route": recorded_route,
        "slices": len(profile.trace.slices),
        "device work": int(table["count"].sum()),
        "device ms": round(float(table["total_ns"].sum()) / 1e6, 3),
        "wall ×": round(statistics.median(ratios), 3),
        "trust": " ".join(profile.trust.loc[profile.trust["severity"] != "info", "code"]) or "clean",
        "report": " ".join(sorted({issue.code for issue in profile.trace.report})) or "clean",
    }


def _collectors(scene: Any, route: str | None) -> tuple[Any, ...]:
    if route is None:
        return tuple(scene.collectors)
    from notebook_prof.collectors.cuda import CudaCollector

    return (CudaCollector(route=route),)


def _wall(body: Any) -> float:
    begun = time.perf_counter()
    body()
    return time.perf_counter() - begun


def _keep(profile: nbp.Profile, path: Path) -> None:
    profile.save(path)
    if path.stat().st_size > LARGEST_BYTES:
        print(f"{path.name} has {path.stat().st_size:,} bytes and is not kept", file=sys.stderr)
        path.unlink()
