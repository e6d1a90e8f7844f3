"""Recordings on a real card: what they cost, and how many kernels each route sees.

Run where there is a card: ``python -m benchmarks.gpu --save tests/data/gpu`` records every scene of
``tests/gpu/scenes.py``, keeps small recordings as native files with the machine's figures, and writes
``performance.json``. Everywhere else the figures of that file are shown again, so that this table survives.
Every scene runs in a process of its own: CUPTI has one client a process, and JAX takes the card's memory.
Ratios are medians over rounds, recorded and bare in turn, of wall time with the device idle at both ends.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import notebook_prof as nbp
from notebook_prof.collectors.nvml import NvmlCollector
from notebook_prof.trace.clocks import Clock

TITLE: Final = "On a GPU"
KEPT: Final = Path(__file__).parents[1] / "tests" / "data" / "gpu"
LARGEST_BYTES: Final = 400_000
_ROUNDS: Final = 11


def run() -> list[dict[str, Any]]:
    """Rows of the table: measured on the card of this machine, else those that were kept; [] without any."""
    state = NvmlCollector.availability()
    if state.ok:
        return measure(None)
    known = KEPT / "performance.json"
    if known.is_file():
        rows: list[dict[str, Any]] = json.loads(known.read_text(encoding="utf-8"))
        return rows
    print(f"nothing was measured on a GPU yet, and there is none here: {state.reason}", file=sys.stderr)
    return []


def measure(folder: Path | None) -> list[dict[str, Any]]:
    """Record every scene that this machine can run; with `folder`, keep what is small."""
    from tests.gpu.scenes import SCENES

    rows = []
    for scene in SCENES:
        if reason := scene.missing():
            print(f"{scene.name}: {reason}", file=sys.stderr)
            continue
        rows += _in_a_process(scene.name, folder)
    rows.append(_counters())
    return rows


def _in_a_process(name: str, folder: Path | None) -> list[dict[str, Any]]:
    """The row of a scene; none, and its error on stderr, if it fails: the others are worth their time."""
    kept = [] if folder is None else ["--save", str(folder.resolve())]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--scene", name, *kept],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )
    if done.returncode:
        print(f"{name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
        return []
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return [row]


def _counters(seconds: float = 5.0) -> dict[str, Any]:
    """What the thread of the `nvml` collector takes of one core, while the process does nothing else."""
    collector = NvmlCollector()
    collector.start(Clock())
    begun = time.process_time()
    time.sleep(seconds)
    spent = time.process_time() - begun
    collector.stop()
    return {"collector": "nvml", "CPU % of one core": round(100 * spent / seconds, 3)}


def _row(scene: Any, folder: Path | None) -> dict[str, Any]:
    body = scene.make("cuda")
    ratios = []
    for _ in range(_ROUNDS):
        bare = _wall(body)
        with nbp.profile(*scene.collectors) as recording:
            recorded = _wall(body)
        ratios.append(recorded / bare)
    profile = recording
    table = profile.kernels()
    if folder is not None:
        _keep(profile, folder / f"{scene.name}.nbprof.zip")
    return {
        "card": ", ".join(profile.trace.metadata.get("devices", [])) or platform.node(),
        "scene": scene.name,
        "route": profile.trace.metadata.get("cuda_route", "kineto" if "torch" in scene.collectors else ""),
        "slices": len(profile.trace.slices),
        "device work": int(table["count"].sum()),
        "device ms": round(float(table["total_ns"].sum()) / 1e6, 3),
        "wall ×": round(statistics.median(ratios), 3),
        "trust": " ".join(profile.trust.loc[profile.trust["severity"] != "info", "code"]) or "clean",
    }


def _wall(body: Any) -> float:
    begun = time.perf_counter()
    body()
    return time.perf_counter() - begun


def _keep(profile: nbp.Profile, path: Path) -> None:
    profile.save(path)
    if path.stat().st_size > LARGEST_BYTES:
        print(f"{path.name} has {path.stat().st_size:,} bytes and is not kept", file=sys.stderr)
        path.unlink()


def main() -> int:
    """Measure, print, and keep where asked."""
    from .__main__ import as_markdown, machine

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="keep recordings and performance.json here"
    )
    parser.add_argument("--scene", metavar="NAME", help="measure this one here, and print its row as JSON")
    asked = parser.parse_args()
    state = NvmlCollector.availability()
    if not state.ok:
        print(f"needs an NVIDIA GPU: {state.reason}", file=sys.stderr)
        return 1
    if asked.save is not None:
        asked.save.mkdir(parents=True, exist_ok=True)
    if asked.scene is not None:
        from tests.gpu.scenes import BY_NAME

        print(json.dumps(_row(BY_NAME[asked.scene], asked.save), ensure_ascii=False))
        return 0
    rows = measure(asked.save)
    print(f"{machine()}; {state.reason}\n\n{as_markdown(rows)}")
    if asked.save is not None:
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        (asked.save / "performance.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
